// provides: node:buffer, buffer
"use strict";

const kMaxLength = 2 ** 31 - 1;

const encodings = {
  utf8: "utf8", "utf-8": "utf8", hex: "hex", base64: "base64", base64url: "base64url", latin1: "latin1", binary: "latin1",
  ascii: "ascii", ucs2: "utf16le", "ucs-2": "utf16le", utf16le: "utf16le", "utf-16le": "utf16le",
};

function encodingOf(name) {
  if (name === undefined || name === null || name === "") return "utf8";
  const found = encodings[String(name).toLowerCase()];
  if (!found) throw coded(TypeError, "ERR_UNKNOWN_ENCODING", `Unknown encoding: ${name}`);
  return found;
}

function coded(Type, code, message) {
  const e = new Type(message);
  e.code = code;
  return e;
}

const b64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const b64url = b64.slice(0, 62) + "-_";
const fromB64 = new Int16Array(256).fill(-1);
for (let i = 0; i < 64; i++) fromB64[b64.charCodeAt(i)] = fromB64[b64url.charCodeAt(i)] = i;

function encodeBase64(bytes, url) {
  const digits = url ? b64url : b64, parts = [];
  let out = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const left = bytes.length - i, n = bytes[i] << 16 | (left > 1 ? bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
    out += digits[n >> 18] + digits[n >> 12 & 63] + (left > 1 ? digits[n >> 6 & 63] : url ? "" : "=") + (left > 2 ? digits[n & 63] : url ? "" : "=");
    if (out.length > 4096) {
      parts.push(out);
      out = "";
    }
  }
  return parts.join("") + out;
}

function decodeBase64(text) {
  const out = new Uint8Array((text.length * 3 >> 2) + 3);
  let n = 0, acc = 0, bits = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 61) break; // what is behind = is not of it
    const v = c < 256 ? fromB64[c] : -1;
    if (v < 0) continue;
    acc = (acc << 6 | v) & 0xffffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out[n++] = acc >> bits & 255;
    }
  }
  return out.subarray(0, n);
}

const hexDigits = "0123456789abcdef";

// encode makes bytes of text.
function encode(text, encoding) {
  switch (encodingOf(encoding)) {
    case "utf8":
      return new TextEncoder().encode(text);
    case "hex": {
      const out = new Uint8Array(text.length >> 1);
      for (let i = 0; i < out.length; i++) {
        const pair = text.slice(2 * i, 2 * i + 2);
        if (!/^[0-9a-fA-F]{2}$/.test(pair)) return out.subarray(0, i);
        out[i] = parseInt(pair, 16);
      }
      return out;
    }
    case "base64":
    case "base64url":
      return decodeBase64(text);
    case "utf16le": {
      const out = new Uint8Array(text.length * 2);
      for (let i = 0; i < text.length; i++) {
        const c = text.charCodeAt(i);
        out[2 * i] = c & 255;
        out[2 * i + 1] = c >> 8;
      }
      return out;
    }
    default: {
      const out = new Uint8Array(text.length);
      for (let i = 0; i < text.length; i++) out[i] = text.charCodeAt(i);
      return out;
    }
  }
}

function codes(bytes, mask, step) {
  const parts = [];
  for (let i = 0; i < bytes.length; i += 4096) {
    const chunk = [];
    for (let j = i; j < Math.min(i + 4096, bytes.length - step + 1); j += step) {
      chunk.push(step === 2 ? bytes[j] | bytes[j + 1] << 8 : bytes[j] & mask);
    }
    parts.push(String.fromCharCode(...chunk));
  }
  return parts.join("");
}

// decode makes text of bytes.
function decode(bytes, encoding) {
  switch (encodingOf(encoding)) {
    case "utf8":
      return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    case "hex": {
      let out = "";
      for (const b of bytes) out += hexDigits[b >> 4] + hexDigits[b & 15];
      return out;
    }
    case "base64":
      return encodeBase64(bytes, false);
    case "base64url":
      return encodeBase64(bytes, true);
    case "utf16le":
      return codes(bytes, 0xffff, 2);
    case "ascii":
      return codes(bytes, 0x7f, 1);
    default:
      return codes(bytes, 0xff, 1);
  }
}

const view = (b) => new DataView(b.buffer, b.byteOffset, b.byteLength);

function described(v) {
  if (v === null || v === undefined) return String(v);
  if (typeof v === "function") return `function ${v.name}`;
  if (typeof v === "object") return v.constructor?.name ? `an instance of ${v.constructor.name}` : "[Object: null prototype] {}";
  return `type ${typeof v} (${typeof v === "string" ? `'${v}'` : String(v)})`;
}

class Buffer extends Uint8Array {
  static poolSize = 8192;

  static from(value, encodingOrOffset, length) {
    if (typeof value === "string") return own(encode(value, encodingOrOffset));
    if (value instanceof ArrayBuffer || typeof SharedArrayBuffer !== "undefined" && value instanceof SharedArrayBuffer) {
      return new Buffer(value, encodingOrOffset, length);
    }
    if (ArrayBuffer.isView(value)) {
      const out = new Buffer(value.length ?? value.byteLength);
      out.set(value instanceof DataView ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength) : value);
      return out;
    }
    if (value !== null && typeof value === "object") {
      if (value.type === "Buffer" && Array.isArray(value.data)) return Buffer.from(value.data);
      if (typeof value.length === "number" || Array.isArray(value)) {
        const out = new Buffer(value.length);
        for (let i = 0; i < out.length; i++) out[i] = value[i];
        return out;
      }
      const plain = value.valueOf?.();
      if (plain != null && plain !== value) return Buffer.from(plain, encodingOrOffset, length);
      const primitive = value[Symbol.toPrimitive]?.("string");
      if (typeof primitive === "string") return Buffer.from(primitive, encodingOrOffset);
    }
    throw coded(TypeError, "ERR_INVALID_ARG_TYPE",
      `The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object. Received ${described(value)}`);
  }

  static of(...items) { return Buffer.from(items); }

  static alloc(size, fill, encoding) {
    checkSize(size);
    const b = new Buffer(size);
    return fill === undefined || fill === 0 ? b : b.fill(fill, encoding);
  }
  static allocUnsafe(size) { return Buffer.alloc(size); }
  static allocUnsafeSlow(size) { return Buffer.alloc(size); }

  static isBuffer(b) { return b instanceof Buffer; }
  static isEncoding(name) { return typeof name === "string" && name.toLowerCase() in encodings; }

  static byteLength(value, encoding) {
    if (typeof value === "string") {
      switch (Buffer.isEncoding(encoding) ? encodingOf(encoding) : "utf8") {
        case "utf8":
          return encode(value, "utf8").length;
        case "hex":
          return value.length >>> 1;
        case "base64":
        case "base64url":
          return value.replace(/={1,2}$/, "").length * 3 >>> 2; // as if all of it were digits
        case "utf16le":
          return value.length * 2;
      }
      return value.length;
    }
    if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return value.byteLength;
    throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "string" argument must be of type string or an instance of Buffer or ArrayBuffer. Received ${described(value)}`);
  }

  static concat(list, total) {
    if (!Array.isArray(list)) throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "list" argument must be an instance of Array. Received ${described(list)}`);
    total ??= list.reduce((n, b) => n + b.length, 0);
    const out = Buffer.alloc(total);
    let at = 0;
    for (const b of list) {
      if (at >= total) break;
      const part = at + b.length > total ? b.subarray(0, total - at) : b;
      out.set(part, at);
      at += part.length;
    }
    return out;
  }

  static copyBytesFrom(v, offset = 0, length) {
    return Buffer.from(v.slice(offset, length === undefined ? undefined : offset + length).buffer);
  }

  static compare(a, b) {
    const n = Math.min(a.length, b.length);
    for (let i = 0; i < n; i++) if (a[i] !== b[i]) return a[i] < b[i] ? -1 : 1;
    return Math.sign(a.length - b.length);
  }

  get parent() { return this.buffer; }
  get offset() { return this.byteOffset; }

  toString(encoding, start = 0, end = this.length) {
    start = Math.max(0, start | 0);
    end = Math.min(this.length, end === undefined ? this.length : end | 0);
    if (start >= end) return "";
    return decode(start === 0 && end === this.length ? this : super.subarray(start, end), encoding);
  }
  toLocaleString(encoding, start, end) { return this.toString(encoding, start, end); }
  toJSON() { return { type: "Buffer", data: Array.from(this) }; }
  equals(other) { return this === other || Buffer.compare(this, other) === 0; }

  compare(target, ts = 0, te = target.length, ss = 0, se = this.length) {
    return Buffer.compare(this.subarray(ss, se), target.subarray(ts, te));
  }

  write(text, offset, length, encoding) {
    if (typeof offset === "string") [encoding, offset, length] = [offset, 0, undefined];
    else if (typeof length === "string") [encoding, length] = [length, undefined];
    offset ??= 0;
    const room = Math.min(length ?? Infinity, this.length - offset);
    let bytes = encode(text, encoding);
    if (bytes.length > room) {
      let end = room;
      if (encodingOf(encoding) === "utf8") while (end > 0 && (bytes[end] & 0xc0) === 0x80) end--; // no half character
      bytes = bytes.subarray(0, end);
    }
    this.set(bytes, offset);
    return bytes.length;
  }

  copy(target, targetStart = 0, start = 0, end = this.length) {
    if (start >= end || targetStart >= target.length) return 0;
    const part = super.subarray(start, Math.min(end, start + target.length - targetStart));
    target.set(part, targetStart);
    return part.length;
  }

  subarray(start, end) {
    const part = super.subarray(start, end);
    return part instanceof Buffer ? part : own(part);
  }
  slice(start, end) { return this.subarray(start, end); }

  fill(value, offset = 0, end = this.length, encoding) {
    if (typeof offset === "string") [encoding, offset, end] = [offset, 0, this.length];
    else if (typeof end === "string") [encoding, end] = [end, this.length];
    if (typeof value === "string") value = encode(value, encoding);
    if (typeof value === "number" || typeof value === "boolean") return super.fill(value & 255, offset, end);
    if (value.length === 0) return super.fill(0, offset, end);
    for (let i = offset; i < end; i++) this[i] = value[(i - offset) % value.length];
    return this;
  }

  indexOf(value, offset, encoding) { return search(this, value, offset, encoding, false); }
  lastIndexOf(value, offset, encoding) { return search(this, value, offset, encoding, true); }
  includes(value, offset, encoding) { return this.indexOf(value, offset, encoding) >= 0; }

  readUIntBE(at, n) { return within(this, at, n, () => { let v = 0; for (let i = 0; i < n; i++) v = v * 256 + this[at + i]; return v; }); }
  readUIntLE(at, n) { return within(this, at, n, () => { let v = 0; for (let i = n; i-- > 0;) v = v * 256 + this[at + i]; return v; }); }
  readIntBE(at, n) { return signed(this.readUIntBE(at, n), n); }
  readIntLE(at, n) { return signed(this.readUIntLE(at, n), n); }
  writeUIntBE(v, at, n) { return within(this, at, n, () => { for (let i = n; i-- > 0; v = Math.floor(v / 256)) this[at + i] = v % 256; return at + n; }); }
  writeUIntLE(v, at, n) { return within(this, at, n, () => { for (let i = 0; i < n; i++, v = Math.floor(v / 256)) this[at + i] = v % 256; return at + n; }); }
  writeIntBE(v, at, n) { return this.writeUIntBE(v < 0 ? v + 256 ** n : v, at, n); }
  writeIntLE(v, at, n) { return this.writeUIntLE(v < 0 ? v + 256 ** n : v, at, n); }

  swap16() { return swap(this, 2); }
  swap32() { return swap(this, 4); }
  swap64() { return swap(this, 8); }

  [Symbol.for("nodejs.util.inspect.custom")]() {
    const shown = Array.from(super.subarray(0, 50), (b) => hexDigits[b >> 4] + hexDigits[b & 15]).join(" ");
    const more = this.length - 50;
    return `<Buffer${shown ? " " + shown : ""}${more > 0 ? ` ... ${more} more byte${more > 1 ? "s" : ""}` : ""}>`;
  }

  static get [Symbol.species]() { return Buffer; }
}

function own(bytes) { return new Buffer(bytes.buffer, bytes.byteOffset, bytes.byteLength); }

function checkSize(n) {
  if (typeof n !== "number") throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "size" argument must be of type number. Received ${described(n)}`);
  if (!(n >= 0 && n <= kMaxLength)) throw coded(RangeError, "ERR_OUT_OF_RANGE", `The value of "size" is out of range. It must be >= 0 && <= ${kMaxLength}. Received ${n}`);
}

function within(b, at, n, f) {
  if (b.length < n) throw coded(RangeError, "ERR_BUFFER_OUT_OF_BOUNDS", "Attempt to access memory outside buffer bounds");
  if (!Number.isInteger(at) || at < 0 || at + n > b.length) {
    throw coded(RangeError, "ERR_OUT_OF_RANGE", `The value of "offset" is out of range. It must be >= 0 and <= ${b.length - n}. Received ${at}`);
  }
  return f();
}

function signed(v, n) { return v >= 256 ** n / 2 ? v - 256 ** n : v; }

function swap(b, n) {
  if (b.length % n) throw coded(RangeError, "ERR_INVALID_BUFFER_SIZE", `Buffer size must be a multiple of ${n * 8}-bits`);
  for (let i = 0; i < b.length; i += n) Uint8Array.prototype.reverse.call(Uint8Array.prototype.subarray.call(b, i, i + n));
  return b;
}

function search(b, value, offset, encoding, last) {
  if (typeof offset === "string") [encoding, offset] = [offset, undefined];
  if (typeof value === "number") value = [value & 255];
  else if (typeof value === "string") value = encode(value, encoding);
  let at = offset === undefined || Number.isNaN(+offset) ? (last ? b.length : 0) : Math.trunc(+offset);
  if (at < 0) at += b.length;
  const step = last ? -1 : 1;
  at = last ? Math.min(at, b.length - value.length) : Math.max(at, 0);
  for (; at >= 0 && at + value.length <= b.length; at += step) {
    let i = 0;
    while (i < value.length && b[at + i] === value[i]) i++;
    if (i === value.length) return at;
  }
  return -1;
}

for (const [name, size, method] of [
  ["UInt8", 1, "Uint8"], ["Int8", 1, "Int8"], ["UInt16", 2, "Uint16"], ["Int16", 2, "Int16"], ["UInt32", 4, "Uint32"], ["Int32", 4, "Int32"],
  ["Float", 4, "Float32"], ["Double", 8, "Float64"], ["BigUInt64", 8, "BigUint64"], ["BigInt64", 8, "BigInt64"],
]) {
  for (const end of size === 1 ? [""] : ["LE", "BE"]) {
    const define = (method, f) => {
      for (const alias of new Set([method, method.replace("UInt", "Uint")])) {
        Object.defineProperty(Buffer.prototype, alias, { value: f, writable: true, configurable: true });
      }
    };
    define(`read${name}${end}`, function (at = 0) { return within(this, at, size, () => view(this)[`get${method}`](at, end === "LE")); });
    define(`write${name}${end}`, function (v, at = 0) {
      return within(this, at, size, () => {
        if (size < 8 && name !== "Float") checkRange(v, name, size);
        view(this)[`set${method}`](at, v, end === "LE");
        return at + size;
      });
    });
  }
}

function checkRange(v, name, size) {
  const low = name[0] === "U" ? 0 : -(2 ** (8 * size - 1)), high = name[0] === "U" ? 2 ** (8 * size) - 1 : 2 ** (8 * size - 1) - 1;
  if (v < low || v > high) throw coded(RangeError, "ERR_OUT_OF_RANGE", `The value of "value" is out of range. It must be >= ${low} and <= ${high}. Received ${v}`);
}

// Called without new, as old code does.
const Callable = new Proxy(Buffer, {
  apply(_, __, [value, encoding, length]) { return typeof value === "number" ? Buffer.alloc(value) : Buffer.from(value, encoding, length); },
  construct(target, [value, encoding, length], as) {
    if (as !== Callable) return Reflect.construct(target, [value, encoding, length], as);
    return typeof value === "number" ? Buffer.alloc(value) : Buffer.from(value, encoding, length);
  },
});
Object.defineProperty(Buffer.prototype, "constructor", { value: Callable, writable: true, configurable: true });

function lazyWeb(name) { return { enumerable: true, configurable: true, get: () => require("troupe:web")[name] }; }

module.exports = {
  Buffer: Callable, SlowBuffer: Callable, kMaxLength, kStringMaxLength: 2 ** 29 - 24, INSPECT_MAX_BYTES: 50,
  constants: { MAX_LENGTH: kMaxLength, MAX_STRING_LENGTH: 2 ** 29 - 24 },
  atob: (text) => decode(decodeBase64(String(text)), "latin1"),
  btoa: (text) => encodeBase64(encode(String(text), "latin1"), false),
  isUtf8(v) {
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(v);
      return true;
    } catch {
      return false;
    }
  },
  isAscii: (v) => new Uint8Array(v.buffer ?? v).every((b) => b < 128),
  transcode: (b, from, to) => Buffer.from(decode(b, from), to),
};
Object.defineProperties(module.exports, { Blob: lazyWeb("Blob"), File: lazyWeb("File") });
