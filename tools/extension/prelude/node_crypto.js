// provides: node:crypto, crypto
"use strict";

const { Buffer } = require("buffer");
const buf = (u8) => Buffer.from(u8.buffer, u8.byteOffset, u8.byteLength);

function bytes(v, enc, name = "data") {
  if (typeof v === "string") return Uint8Array.from(Buffer.from(v, enc));
  if (v instanceof KeyObject) return v.raw;
  if (ArrayBuffer.isView(v)) return new Uint8Array(v.buffer, v.byteOffset, v.byteLength);
  if (v instanceof ArrayBuffer) return new Uint8Array(v);
  throw Object.assign(new TypeError(`The "${name}" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${v === null ? "null" : typeof v}`), { code: "ERR_INVALID_ARG_TYPE" });
}
const shown = (u8, enc) => enc && enc !== "buffer" ? buf(u8).toString(enc) : buf(u8);
const joined = (parts) => parts.length === 1 ? parts[0] : Uint8Array.from(Buffer.concat(parts));

const names = { md5: "md5", sha1: "sha1", sha224: "sha224", sha256: "sha256", sha384: "sha384", sha512: "sha512" };
function algorithm(name) {
  const plain = names[String(name).toLowerCase().replace(/^rsa-/, "").replace("sha-", "sha")];
  if (!plain) throw Object.assign(new Error("Digest method not supported"), { code: "ERR_CRYPTO_INVALID_DIGEST" });
  return plain;
}

const { Transform } = require("stream");

// Summed is what hash and hmac have in common: data first, one result, then nothing.
class Summed extends Transform {
  constructor() {
    super();
    this.parts = [];
    this.over = false;
  }
  update(data, enc) {
    if (this.over) throw Object.assign(new Error("Digest already called"), { code: "ERR_CRYPTO_HASH_FINALIZED" });
    const b = bytes(data, enc);
    this.parts.push(typeof data === "string" ? b : b.slice());
    return this;
  }
  digest(enc) {
    if (this.over) throw Object.assign(new Error("Digest already called"), { code: "ERR_CRYPTO_HASH_FINALIZED" });
    this.over = true;
    return shown(this.sum(joined(this.parts.length ? this.parts : [new Uint8Array(0)])), enc);
  }
  _transform(chunk, enc, done) {
    this.update(chunk, enc);
    done();
  }
  _flush(done) {
    this.push(this.digest());
    done();
  }
}
class Hash extends Summed {
  constructor(name) {
    super();
    this.name = algorithm(name);
  }
  sum(data) { return host.op("crypto.hash", this.name, data); }
  copy() {
    const h = new Hash(this.name);
    h.parts = [...this.parts];
    return h;
  }
}
class Hmac extends Summed {
  constructor(name, key) {
    super();
    this.name = algorithm(name);
    this.key = bytes(key, "utf8", "key");
  }
  sum(data) { return host.op("crypto.hmac", this.name, this.key, data); }
}

class KeyObject {
  constructor(raw) {
    this.raw = raw;
    this.type = "secret";
    this.symmetricKeySize = raw.length;
  }
  export() { return buf(this.raw); }
}

function randomBytes(n, callback) {
  if (!callback) return buf(host.op("crypto.randomBytes", n));
  host.start("crypto.randomBytes", n).then((b) => callback(null, buf(b)), callback);
}
function randomFillSync(b, offset = 0, size = b.byteLength - offset) {
  new Uint8Array(b.buffer ?? b, b.byteOffset ?? 0, b.byteLength).set(host.op("crypto.randomBytes", size), offset);
  return b;
}
function randomInt(min, max, callback) {
  if (max === undefined || typeof max === "function") [min, max, callback] = [0, min, max];
  const range = max - min;
  if (!(range > 0 && range < 2 ** 48)) throw Object.assign(new RangeError(`The value of "max" is out of range. It must be greater than the value of "min" (${min}). Received ${max}`), { code: "ERR_OUT_OF_RANGE" });
  const limit = 2 ** 48 - 2 ** 48 % range;
  let x;
  do x = randomBytes(6).readUIntBE(0, 6); while (x >= limit);
  const n = min + x % range;
  if (callback) queueMicrotask(() => callback(null, n));
  return n;
}

function timingSafeEqual(a, b) {
  a = bytes(a);
  b = bytes(b);
  if (a.length !== b.length) throw Object.assign(new RangeError("Input buffers must have the same byte length"), { code: "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH" });
  return host.op("crypto.equal", a, b);
}

const withCallback = (words, callback, wrap = buf) => { host.start(...words).then((v) => callback(null, wrap(v)), callback); };
const pbkdf2Words = (p, salt, n, len, digest) => ["crypto.pbkdf2", bytes(p), bytes(salt), n, len, algorithm(digest)];
const hkdfWords = (digest, key, salt, info, len) => ["crypto.hkdf", algorithm(digest), bytes(key), bytes(salt), bytes(info), len];
const scryptWords = (p, salt, len, o = {}) => ["crypto.scrypt", bytes(p), bytes(salt), len, { N: o.N ?? o.cost ?? 16384, r: o.r ?? o.blockSize ?? 8, p: o.p ?? o.parallelization ?? 1 }];
const asBuffer = (u8) => u8.buffer.slice(u8.byteOffset, u8.byteOffset + u8.length);

// A cipher gives all it has at its end: nobody may have text before its tag was right.
class Cipher extends Transform {
  constructor(name, encrypt, key, iv) {
    super();
    Object.assign(this, { name: name.toLowerCase(), encrypt, key: bytes(key), iv: iv === null ? new Uint8Array(0) : bytes(iv), parts: [], aad: undefined, tag: undefined, padding: true });
  }
  update(data, inEnc, outEnc) {
    const b = bytes(data, inEnc);
    this.parts.push(typeof data === "string" ? b : b.slice());
    return shown(new Uint8Array(0), outEnc);
  }
  final(outEnc) {
    const words = ["crypto.cipher", this.name, this.encrypt, this.key, this.iv, joined(this.parts.length ? this.parts : [new Uint8Array(0)]), this.aad ?? null, this.tag ?? null, this.padding];
    const r = host.op(...words);
    if (this.encrypt) this.tag = r.tag;
    return shown(r.data, outEnc);
  }
  setAAD(b) {
    this.aad = bytes(b);
    return this;
  }
  setAuthTag(b) {
    this.tag = bytes(b);
    return this;
  }
  getAuthTag() { return buf(this.tag); }
  setAutoPadding(on = true) {
    this.padding = on;
    return this;
  }
  _transform(chunk, enc, done) {
    this.update(chunk, enc);
    done();
  }
  _flush(done) {
    try {
      this.push(this.final());
      done();
    } catch (e) {
      done(e);
    }
  }
}

const digestOf = async (name, data) => asBuffer(await host.start("crypto.hash", algorithm(typeof name === "string" ? name : name.name), bytes(data)));
class CryptoKey {
  constructor(raw, algorithm, usages) { Object.assign(this, { type: "secret", extractable: true, algorithm, usages }); Object.defineProperty(this, "raw", { value: raw }); }
}
const hashName = (a) => typeof a.hash === "string" ? a.hash : a.hash?.name;
const subtle = {
  digest: digestOf,
  async importKey(format, data, algorithm, extractable, usages) {
    if (format !== "raw") throw Object.assign(new Error(`Key format ${format} is not supported here`), { name: "NotSupportedError" });
    return new CryptoKey(bytes(data).slice(), typeof algorithm === "string" ? { name: algorithm } : algorithm, usages);
  },
  async exportKey(_, key) { return asBuffer(key.raw.slice()); },
  async sign(a, key, data) { return asBuffer(await host.start("crypto.hmac", algorithm(hashName(key.algorithm)), key.raw, bytes(data))); },
  async verify(a, key, sig, data) {
    const own = new Uint8Array(await subtle.sign(a, key, data)), given = bytes(sig);
    return own.length === given.length && host.op("crypto.equal", own, given);
  },
  async deriveBits(a, key, bits) {
    if (a.name === "PBKDF2") return asBuffer(await host.start(...pbkdf2Words(key.raw, a.salt, a.iterations, bits / 8, hashName(a))));
    if (a.name === "HKDF") return asBuffer(await host.start(...hkdfWords(hashName(a), key.raw, a.salt, a.info, bits / 8)));
    throw Object.assign(new Error(`${a.name} is not supported here`), { name: "NotSupportedError" });
  },
  async encrypt(a, key, data) {
    const c = new Cipher(cipherName(a, key), true, key.raw, a.iv);
    if (a.additionalData) c.setAAD(a.additionalData);
    c.update(data);
    const out = c.final();
    return asBuffer(/GCM/i.test(a.name) ? Buffer.concat([out, c.getAuthTag()]) : out);
  },
  async decrypt(a, key, data) {
    const c = new Cipher(cipherName(a, key), false, key.raw, a.iv);
    let b = bytes(data);
    if (a.additionalData) c.setAAD(a.additionalData);
    if (/GCM/i.test(a.name)) {
      c.setAuthTag(b.subarray(b.length - 16));
      b = b.subarray(0, b.length - 16);
    }
    c.update(b);
    return asBuffer(c.final());
  },
  async generateKey(a, extractable, usages) { return new CryptoKey(host.op("crypto.randomBytes", (a.length ?? 256) / 8), a, usages); },
};
const cipherName = (a, key) => `aes-${key.raw.length * 8}-${a.name.slice(4).toLowerCase()}`;

const webcrypto = {
  subtle, randomUUID: () => host.op("crypto.randomUUID"), CryptoKey,
  getRandomValues(view) {
    if (view.byteLength > 65536) throw Object.assign(new Error("The requested length exceeds 65,536 bytes"), { name: "QuotaExceededError" });
    return randomFillSync(view);
  },
};

module.exports = {
  createHash: (name) => new Hash(name), createHmac: (name, key) => new Hmac(name, key), Hash, Hmac, hash: (name, data, enc = "hex") => new Hash(name).update(data).digest(enc),
  randomUUID: () => host.op("crypto.randomUUID"), randomBytes, pseudoRandomBytes: randomBytes, randomInt, randomFillSync,
  randomFill: (b, ...rest) => { const f = rest.pop(); randomFillSync(b, ...rest); queueMicrotask(() => f(null, b)); }, timingSafeEqual,
  pbkdf2Sync: (...a) => buf(host.op(...pbkdf2Words(...a))), pbkdf2: (...a) => { const f = a.pop(); withCallback(pbkdf2Words(...a), f); },
  hkdfSync: (...a) => asBuffer(host.op(...hkdfWords(...a))), hkdf: (...a) => { const f = a.pop(); withCallback(hkdfWords(...a), f, asBuffer); },
  scryptSync: (...a) => buf(host.op(...scryptWords(...a))), scrypt: (...a) => { const f = a.pop(); withCallback(scryptWords(...a), f); },
  createCipheriv: (name, key, iv) => new Cipher(name, true, key, iv), createDecipheriv: (name, key, iv) => new Cipher(name, false, key, iv),
  createSecretKey: (key, enc) => new KeyObject(bytes(key, enc)), KeyObject, getHashes: () => Object.keys(names), getCiphers: () => ["gcm", "cbc", "ctr"].flatMap((m) => [128, 192, 256].map((n) => `aes-${n}-${m}`)),
  getRandomValues: webcrypto.getRandomValues, webcrypto, subtle, constants: {},
};
