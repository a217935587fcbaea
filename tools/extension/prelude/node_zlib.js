// provides: node:zlib, zlib
"use strict";

const { Buffer } = require("buffer");
const { Transform } = require("stream");
const buf = (u8) => Buffer.from(u8.buffer, u8.byteOffset, u8.byteLength);
const bytes = (v) => typeof v === "string" ? new TextEncoder().encode(v) : ArrayBuffer.isView(v) ? new Uint8Array(v.buffer, v.byteOffset, v.byteLength) : new Uint8Array(v);
const level = (o) => ({ level: o?.level ?? -1 });

const constants = {
  Z_NO_FLUSH: 0, Z_PARTIAL_FLUSH: 1, Z_SYNC_FLUSH: 2, Z_FULL_FLUSH: 3, Z_FINISH: 4, Z_BLOCK: 5, Z_OK: 0, Z_STREAM_END: 1, Z_NEED_DICT: 2, Z_ERRNO: -1, Z_STREAM_ERROR: -2, Z_DATA_ERROR: -3,
  Z_MEM_ERROR: -4, Z_BUF_ERROR: -5, Z_VERSION_ERROR: -6, Z_NO_COMPRESSION: 0, Z_BEST_SPEED: 1, Z_BEST_COMPRESSION: 9, Z_DEFAULT_COMPRESSION: -1, Z_FILTERED: 1, Z_HUFFMAN_ONLY: 2, Z_RLE: 3,
  Z_FIXED: 4, Z_DEFAULT_STRATEGY: 0, Z_MIN_WINDOWBITS: 8, Z_MAX_WINDOWBITS: 15, Z_DEFAULT_WINDOWBITS: 15, Z_MIN_CHUNK: 64, Z_MAX_CHUNK: Infinity, Z_DEFAULT_CHUNK: 16384, Z_MIN_MEMLEVEL: 1,
  Z_MAX_MEMLEVEL: 9, Z_DEFAULT_MEMLEVEL: 8, Z_MIN_LEVEL: -1, Z_MAX_LEVEL: 9, Z_DEFAULT_LEVEL: -1, BROTLI_OPERATION_PROCESS: 0, BROTLI_OPERATION_FLUSH: 1, BROTLI_OPERATION_FINISH: 2,
  BROTLI_PARAM_MODE: 0, BROTLI_PARAM_QUALITY: 1, BROTLI_PARAM_LGWIN: 2, BROTLI_PARAM_SIZE_HINT: 5, BROTLI_MODE_GENERIC: 0, BROTLI_MODE_TEXT: 1, BROTLI_DEFAULT_QUALITY: 11, BROTLI_MAX_QUALITY: 11, BROTLI_MIN_QUALITY: 0,
};

class Zlib extends Transform {
  constructor(method, o) {
    super(o);
    this.method = method;
    this.options = level(o);
    this.parts = [];
    this.bytesWritten = 0;
  }
  _transform(chunk, _, done) {
    this.parts.push(chunk);
    this.bytesWritten += chunk.length;
    done();
  }
  _flush(done) {
    host.start("zlib.run", this.method, bytes(Buffer.concat(this.parts)), this.options).then((b) => done(null, buf(b)), done);
  }
  flush(kind, f) { (f ?? kind)?.(); }
  close(f) {
    f?.();
    this.destroy();
  }
}

module.exports = { constants, ...constants, codes: {}, crc32: (data, value = 0) => {
  let c = ~value;
  for (const b of bytes(data)) {
    c ^= b;
    for (let i = 0; i < 8; i++) c = c >>> 1 ^ (c & 1 ? 0xedb88320 : 0);
  }
  return ~c >>> 0;
} };
for (const method of ["gzip", "gunzip", "deflate", "inflate", "deflateRaw", "inflateRaw", "unzip", "brotliCompress", "brotliDecompress"]) {
  const name = method[0].toUpperCase() + method.slice(1), create = { brotliCompress: "createBrotliCompress", brotliDecompress: "createBrotliDecompress" }[method] ?? `create${name}`;
  module.exports[`${method}Sync`] = (data, o) => buf(host.op("zlib.run", method, bytes(data), level(o)));
  module.exports[method] = (data, o, callback) => {
    if (typeof o === "function") [callback, o] = [o, undefined];
    host.start("zlib.run", method, bytes(data), level(o)).then((b) => callback(null, buf(b)), callback);
  };
  const Class = { [name]: class extends Zlib { constructor(o) { super(method, o); } } }[name];
  module.exports[name] = Class;
  module.exports[create] = (o) => new Class(o);
}
