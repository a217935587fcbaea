// provides: node:string_decoder, string_decoder
"use strict";

const { Buffer } = require("buffer");

// StringDecoder makes text of bytes that come in pieces: what is cut in the middle of a
// character waits for the rest.
class StringDecoder {
  constructor(encoding = "utf8") {
    if (!Buffer.isEncoding(encoding)) {
      const e = new TypeError(`Unknown encoding: ${encoding}`);
      e.code = "ERR_UNKNOWN_ENCODING";
      throw e;
    }
    this.encoding = { "utf-8": "utf8", ucs2: "utf16le", "ucs-2": "utf16le", "utf-16le": "utf16le", binary: "latin1" }[encoding.toLowerCase()] ?? encoding.toLowerCase();
    this.rest = Buffer.alloc(0);
  }
  write(chunk) {
    if (typeof chunk === "string") return chunk;
    const all = this.rest.length ? Buffer.concat([this.rest, chunk]) : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const keep = { utf8: partOfUTF8, utf16le: partOfUTF16, base64: (b) => b.length % 3, base64url: (b) => b.length % 3 }[this.encoding]?.(all) ?? 0;
    this.rest = Buffer.from(all.subarray(all.length - keep));
    return all.toString(this.encoding, 0, all.length - keep);
  }
  end(chunk) {
    const text = (chunk === undefined ? "" : this.write(chunk)) + (this.rest.length ? this.rest.toString(this.encoding) : "");
    this.rest = Buffer.alloc(0);
    return text;
  }
  get lastNeed() { return this.rest.length ? lengthOf(this.rest[0]) - this.rest.length : 0; }
  get lastTotal() { return this.rest.length ? lengthOf(this.rest[0]) : 0; }
}

const lengthOf = (b) => b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : b >= 0xc0 ? 2 : 1;

// partOfUTF8 is how many bytes at the end begin a character that goes on.
function partOfUTF8(b) {
  for (let back = 1; back <= Math.min(3, b.length); back++) {
    const c = b[b.length - back];
    if ((c & 0xc0) === 0x80) continue;
    if (c < 0xc2 || c > 0xf4 || lengthOf(c) <= back) return 0;
    const second = b[b.length - back + 1]; // some pairs begin nothing
    if (back > 1 && (c === 0xe0 && second < 0xa0 || c === 0xed && second > 0x9f || c === 0xf0 && second < 0x90 || c === 0xf4 && second > 0x8f)) return 0;
    return back;
  }
  return 0;
}

function partOfUTF16(b) {
  const odd = b.length % 2, last = b.length - odd - 1;
  return last > 0 && b[last] >= 0xd8 && b[last] <= 0xdb ? odd + 2 : odd;
}

module.exports = { StringDecoder };
