// provides: node:stream/consumers, stream/consumers
"use strict";

const { Buffer } = require("buffer");
async function buffer(stream) {
  const parts = [];
  for await (const c of stream) parts.push(typeof c === "string" ? Buffer.from(c) : c);
  return Buffer.concat(parts);
}
const text = async (stream) => (await buffer(stream)).toString();
module.exports = {
  buffer, text, json: async (s) => JSON.parse(await text(s)), arrayBuffer: async (s) => { const b = await buffer(s); return b.buffer.slice(b.byteOffset, b.byteOffset + b.length); },
  blob: async (s) => new (require("troupe:web").Blob)([await buffer(s)]),
};
