// provides: node:stream/web, stream/web
const web = require("troupe:web");
module.exports = Object.fromEntries(["ReadableStream", "WritableStream", "TransformStream", "ReadableStreamDefaultReader", "WritableStreamDefaultWriter", "ByteLengthQueuingStrategy", "CountQueuingStrategy", "TextDecoderStream", "TextEncoderStream"].map((k) => [k, web[k]]));
