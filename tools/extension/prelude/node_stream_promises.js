// provides: node:stream/promises, stream/promises
module.exports = require("stream").promises;
