// provides: troupe:globals
"use strict";

// What every environment has and the engine has not: events, abort signals, text codings.

class DOMException extends Error {
  constructor(message = "", name = "Error") {
    super(message);
    Object.defineProperty(this, "name", { value: name, configurable: true });
    this.code = { AbortError: 20, TimeoutError: 23, DataCloneError: 25, InvalidCharacterError: 5, SyntaxError: 12, NotSupportedError: 9 }[name] ?? 0;
  }
}

class Event {
  #stopped = false;
  constructor(type, init = {}) {
    this.type = String(type);
    this.bubbles = !!init.bubbles;
    this.cancelable = !!init.cancelable;
    this.composed = !!init.composed;
    this.defaultPrevented = false;
    this.target = null;
    this.currentTarget = null;
    this.timeStamp = performance.now();
  }
  preventDefault() { if (this.cancelable) this.defaultPrevented = true; }
  stopPropagation() {}
  stopImmediatePropagation() { this.#stopped = true; }
  composedPath() { return this.target ? [this.target] : []; }
  static stopped(e) { return e.#stopped; }
}
const stopped = Event.stopped;
delete Event.stopped;

class CustomEvent extends Event {
  constructor(type, init = {}) {
    super(type, init);
    this.detail = init.detail ?? null;
  }
}

class EventTarget {
  #list = [];
  addEventListener(type, f, options) {
    if (f === null || f === undefined) return;
    const { once = false, signal } = typeof options === "object" && options ? options : {};
    if (signal?.aborted || this.#list.some((l) => l.type === type && l.f === f)) return;
    this.#list = [...this.#list, { type, f, once }];
    signal?.addEventListener("abort", () => this.removeEventListener(type, f), { once: true });
  }
  removeEventListener(type, f) { this.#list = this.#list.filter((l) => l.type !== type || l.f !== f); }
  dispatchEvent(event) {
    event.target ??= this;
    event.currentTarget = this;
    const call = (f) => {
      try {
        if (typeof f === "function") f.call(this, event); else f.handleEvent(event);
      } catch (e) { queueMicrotask(() => { throw e; }); } // as a listener's failure is nobody's
    };
    if (typeof this["on" + event.type] === "function") call(this["on" + event.type]);
    for (const l of this.#list) {
      if (l.type !== event.type) continue;
      if (l.once) this.removeEventListener(l.type, l.f);
      call(l.f);
      if (stopped(event)) break;
    }
    event.currentTarget = null;
    return !event.defaultPrevented;
  }
}

const abort = Symbol("abort");
const key = Symbol("key");

class AbortSignal extends EventTarget {
  #reason;
  #aborted = false;
  onabort = null;
  constructor(k) {
    if (k !== key) throw new TypeError("Illegal constructor");
    super();
  }
  get aborted() { return this.#aborted; }
  get reason() { return this.#reason; }
  throwIfAborted() { if (this.#aborted) throw this.#reason; }
  [abort](reason = new DOMException("This operation was aborted", "AbortError")) {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    this.dispatchEvent(new Event("abort"));
  }
  static abort(reason) {
    const s = new AbortSignal(key);
    s[abort](reason);
    return s;
  }
  static timeout(ms) {
    const s = new AbortSignal(key);
    setTimeout(() => s[abort](new DOMException("The operation was aborted due to timeout", "TimeoutError")), ms);
    return s;
  }
  static any(signals) {
    const s = new AbortSignal(key);
    for (const one of signals) {
      if (one.aborted) { s[abort](one.reason); break; }
      one.addEventListener("abort", () => s[abort](one.reason), { once: true });
    }
    return s;
  }
  get [Symbol.toStringTag]() { return "AbortSignal"; }
}

class AbortController {
  signal = new AbortSignal(key);
  abort(reason) { this.signal[abort](reason); }
  get [Symbol.toStringTag]() { return "AbortController"; }
}

class TextEncoder {
  get encoding() { return "utf-8"; }
  encode(text = "") { return host.op("text.encode", String(text).toWellFormed()); }
  encodeInto(text, into) {
    let read = 0, written = 0;
    for (const c of String(text)) {
      const b = this.encode(c);
      if (written + b.length > into.length) break;
      into.set(b, written);
      written += b.length;
      read += c.length;
    }
    return { read, written };
  }
}

const LABELS = {
  "utf-8": "utf-8", utf8: "utf-8", "unicode-1-1-utf-8": "utf-8", "utf-16le": "utf-16le", "utf-16": "utf-16le", "utf-16be": "utf-16be", ucs2: "utf-16le", "ucs-2": "utf-16le",
  latin1: "windows-1252", ascii: "windows-1252", "us-ascii": "windows-1252", "iso-8859-1": "windows-1252", "windows-1252": "windows-1252",
};

const OWN = new Set(Object.values(LABELS));

class TextDecoder {
  #left = new Uint8Array(0);
  #begun = false;
  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    this.encoding = LABELS[String(label).trim().toLowerCase()] ?? host.op("text.encoding", String(label)); // a standard's label of another coding
    if (!this.encoding) throw Object.assign(new RangeError(`The "${label}" encoding is not supported`), { code: "ERR_ENCODING_NOT_SUPPORTED" });
    this.fatal = fatal;
    this.ignoreBOM = ignoreBOM;
  }
  decode(input, { stream = false } = {}) {
    let b = input === undefined ? new Uint8Array(0) : ArrayBuffer.isView(input) ? new Uint8Array(input.buffer, input.byteOffset, input.byteLength) : new Uint8Array(input);
    if (this.#left.length) {
      const joined = new Uint8Array(this.#left.length + b.length);
      joined.set(this.#left);
      joined.set(b, this.#left.length);
      b = joined;
      this.#left = new Uint8Array(0);
    }
    if (!OWN.has(this.encoding)) {
      const { text, left } = host.op("text.decodeLegacy", b, this.encoding, this.fatal, !stream);
      this.#left = b.slice(b.length - left);
      return text;
    }
    if (stream) { // what begins at the end goes on in the next piece
      const n = this.encoding === "utf-8" ? beginning(b) : this.encoding.startsWith("utf-16") ? b.length % 2 : 0;
      this.#left = b.slice(b.length - n);
      b = b.subarray(0, b.length - n);
    }
    if (this.encoding === "utf-16be") b = b.map((_, i) => b[i ^ 1]); // an odd one at the end is half of nothing
    let text = host.op("text.decode", b, this.encoding.replace("16be", "16le"), this.fatal);
    if (!this.#begun && text.length) {
      if (!this.ignoreBOM && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
      this.#begun = true;
    }
    if (!stream) this.#begun = false;
    return text;
  }
}

// beginning is how many bytes at the end begin a character that is not whole.
function beginning(b) {
  for (let n = 1; n <= 3 && n <= b.length; n++) {
    const c = b[b.length - n];
    if (c < 0x80) return 0;
    if (c >= 0xc0) return (c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2) > n ? n : 0;
  }
  return 0;
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function btoa(text) {
  text = String(text);
  let out = "";
  for (let i = 0; i < text.length; i += 3) {
    const c = [text.charCodeAt(i), text.charCodeAt(i + 1), text.charCodeAt(i + 2)];
    if (c.some((x) => x > 255)) throw new DOMException("Invalid character", "InvalidCharacterError");
    const n = c[0] << 16 | (c[1] || 0) << 8 | (c[2] || 0);
    out += DIGITS[n >> 18] + DIGITS[n >> 12 & 63] + (i + 1 < text.length ? DIGITS[n >> 6 & 63] : "=") + (i + 2 < text.length ? DIGITS[n & 63] : "=");
  }
  return out;
}

function atob(text) {
  text = String(text).replace(/[\t\n\f\r ]/g, "").replace(/={1,2}$/, "");
  if (text.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(text)) throw new DOMException("The string to be decoded is not correctly encoded.", "InvalidCharacterError");
  let out = "", bits = 0, n = 0;
  for (const c of text) {
    n = n << 6 | DIGITS.indexOf(c);
    bits += 6;
    if (bits >= 8) { bits -= 8; out += String.fromCharCode(n >> bits & 255); n &= (1 << bits) - 1; }
  }
  return out;
}

function structuredClone(value) {
  const seen = new Map();
  const fail = (what) => { throw new DOMException(`${what} could not be cloned.`, "DataCloneError"); };
  const copy = (v) => {
    if (typeof v === "function" || typeof v === "symbol") fail(String(v));
    if (typeof v !== "object" || v === null) return v;
    if (seen.has(v)) return seen.get(v);
    const keep = (o) => { seen.set(v, o); return o; };
    if (v instanceof Date) return keep(new Date(v.getTime()));
    if (v instanceof RegExp) return keep(new RegExp(v.source, v.flags));
    if (v instanceof Boolean || v instanceof Number || v instanceof String) return keep(Object(v.valueOf()));
    if (v instanceof ArrayBuffer) return keep(v.slice(0));
    if (v instanceof DataView) return keep(new DataView(copy(v.buffer), v.byteOffset, v.byteLength));
    if (ArrayBuffer.isView(v)) return keep(new (v instanceof Uint8Array ? Uint8Array : v.constructor)(copy(v.buffer), v.byteOffset, v.length));
    if (v instanceof Map) { const m = keep(new Map()); for (const [k, x] of v) m.set(copy(k), copy(x)); return m; }
    if (v instanceof Set) { const s = keep(new Set()); for (const x of v) s.add(copy(x)); return s; }
    if (v instanceof Error) {
      const Type = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError }[v.name] ?? Error;
      const e = keep(new Type(v.message));
      e.stack = v.stack;
      if ("cause" in v) e.cause = copy(v.cause);
      return e;
    }
    if (v instanceof Promise || v instanceof WeakMap || v instanceof WeakSet) fail("#<" + v.constructor.name + ">");
    if (Array.isArray(v)) { const a = keep(new Array(v.length)); for (const k of Object.keys(v)) a[k] = copy(v[k]); return a; }
    const o = keep({});
    for (const k of Object.keys(v)) o[k] = copy(v[k]);
    return o;
  };
  return copy(value);
}

class PerformanceEntry {
  constructor(entryType, name, startTime, duration, detail) { Object.assign(this, { name, entryType, startTime, duration, detail: detail ?? null }); }
  toJSON() { return { ...this }; }
}
class PerformanceMark extends PerformanceEntry {
  constructor(name, { startTime = performance.now(), detail } = {}) { super("mark", `${name}`, startTime, 0, detail); }
}
class PerformanceMeasure extends PerformanceEntry {}

// MOST_ENTRIES bounds the marks and measures that are kept; the oldest go first.
const MOST_ENTRIES = 10000;
let entries = [];

function record(entry) {
  if (entries.length >= MOST_ENTRIES) entries.shift();
  entries.push(entry);
  return entry;
}
// instant is the time of a mark's name, or a time itself.
function instant(mark, otherwise) {
  if (mark === undefined || typeof mark === "number") return mark ?? otherwise;
  for (let i = entries.length - 1; i >= 0; i--) if (entries[i].entryType === "mark" && entries[i].name === String(mark)) return entries[i].startTime;
  throw new DOMException(`The "${mark}" performance mark has not been set`, "SyntaxError");
}
const clear = (type, name) => { entries = entries.filter((e) => e.entryType !== type || name !== undefined && e.name !== String(name)); };
const sorted = (keep) => entries.filter(keep).sort((a, b) => a.startTime - b.startTime);

const performance = {
  now: () => host.op("now"),
  timeOrigin: Date.now() - host.op("now"),
  mark: (name, options) => record(new PerformanceMark(name, options)),
  measure(name, from, to) {
    const o = from !== null && typeof from === "object" ? from : { start: from, end: to };
    const end = o.end !== undefined ? instant(o.end) : o.duration !== undefined && o.start !== undefined ? instant(o.start) + o.duration : performance.now();
    const start = o.start !== undefined ? instant(o.start) : o.duration !== undefined ? end - o.duration : 0;
    return record(new PerformanceMeasure("measure", `${name}`, start, end - start, o.detail));
  },
  clearMarks: (name) => clear("mark", name),
  clearMeasures: (name) => clear("measure", name),
  getEntries: () => sorted(() => true),
  getEntriesByName: (name, type) => sorted((e) => e.name === String(name) && (type === undefined || e.entryType === type)),
  getEntriesByType: (type) => sorted((e) => e.entryType === type),
  toJSON() { return { timeOrigin: performance.timeOrigin }; },
};

// navigator is that of Node 21 and later.
const navigator = {
  get hardwareConcurrency() { return host.boot.cpus; },
  get language() { return "en-US"; },
  get languages() { return ["en-US"]; },
  get platform() { return { linux: "linux", darwin: "MacIntel", win32: "Win32" }[host.boot.platform] ?? host.boot.platform; },
  get userAgent() { return `Node.js/${process.versions.node.split(".")[0]}`; },
};

Object.assign(exports, {
  DOMException, Event, CustomEvent, EventTarget, AbortSignal, AbortController, TextEncoder, TextDecoder, atob, btoa, structuredClone, performance, navigator, PerformanceEntry, PerformanceMark, PerformanceMeasure,
});
