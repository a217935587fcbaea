// provides: troupe:web
"use strict";

// What browsers and Node have for the network, over the host's client.

const { Buffer } = require("buffer");
const encoder = () => new TextEncoder();
const view = (v) => ArrayBuffer.isView(v) ? new Uint8Array(v.buffer, v.byteOffset, v.byteLength) : new Uint8Array(v);
const later = () => {
  let resolve, reject;
  const promise = new Promise((a, b) => { resolve = a; reject = b; });
  return { promise, resolve, reject };
};

// ---- streams ----

class ReadableStreamDefaultController {
  constructor(stream) { this.stream = stream; }
  get desiredSize() { return this.stream._ended ? 0 : this.stream._high - this.stream._queue.length; }
  enqueue(chunk) {
    const s = this.stream;
    if (s._ended) throw new TypeError("The stream is closed");
    const next = s._reads.shift();
    if (next) next.resolve({ value: chunk, done: false });
    else s._queue.push(chunk);
  }
  close() { this.stream._end(); }
  error(e) { this.stream._fail(e); }
  get byobRequest() { return null; }
}

class ReadableStream {
  constructor(source = {}, { highWaterMark = 1 } = {}) {
    Object.assign(this, { _queue: [], _reads: [], _ended: false, _error: undefined, _failed: false, _reader: null, _high: highWaterMark, _source: source, _pulling: false, _closed: later() });
    this._closed.promise.catch(() => {});
    this._controller = new ReadableStreamDefaultController(this);
    this._started = Promise.resolve().then(() => source.start?.(this._controller)).catch((e) => this._fail(e));
    this._started.then(() => this._pull());
  }
  static from(it) {
    const i = it[Symbol.asyncIterator]?.() ?? it[Symbol.iterator]();
    return new ReadableStream({
      async pull(c) {
        const { value, done } = await i.next();
        done ? c.close() : c.enqueue(value);
      },
      cancel: (r) => i.return?.(r),
    });
  }
  get locked() { return this._reader !== null; }
  _pull() {
    if (this._pulling || this._ended || this._failed || !this._source.pull || this._queue.length >= this._high && !this._reads.length) return;
    this._pulling = true;
    Promise.resolve().then(() => this._source.pull(this._controller)).then(() => {
      this._pulling = false;
      if (this._reads.length || this._queue.length < this._high) this._pull();
    }, (e) => this._fail(e));
  }
  _end() {
    if (this._ended || this._failed) return;
    this._ended = true;
    if (!this._queue.length) this._finish();
  }
  _finish() {
    for (const r of this._reads.splice(0)) r.resolve({ value: undefined, done: true });
    this._closed.resolve();
  }
  _fail(e) {
    if (this._failed) return;
    this._failed = true;
    this._error = e;
    for (const r of this._reads.splice(0)) r.reject(e);
    this._closed.reject(e);
  }
  async _read() {
    if (this._queue.length) {
      const value = this._queue.shift();
      if (this._ended && !this._queue.length) this._finish();
      else this._pull();
      return { value, done: false };
    }
    if (this._failed) throw this._error;
    if (this._ended) return { value: undefined, done: true };
    const r = later();
    this._reads.push(r);
    await this._started;
    this._pull();
    return r.promise;
  }
  async _cancel(reason) {
    if (this._ended || this._failed) return;
    this._queue = [];
    this._ended = true;
    this._finish();
    await this._source.cancel?.(reason);
  }
  getReader() { return new ReadableStreamDefaultReader(this); }
  cancel(reason) { return this.locked ? Promise.reject(new TypeError("The stream is locked")) : this._cancel(reason); }
  async *values({ preventCancel = false } = {}) {
    const reader = this.getReader();
    let over = false;
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) {
          over = true;
          return;
        }
        yield value;
      }
    } finally {
      if (!over && !preventCancel) await reader.cancel();
      reader.releaseLock();
    }
  }
  [Symbol.asyncIterator](o) { return this.values(o); }
  async pipeTo(dest, { preventClose = false, preventAbort = false, preventCancel = false, signal } = {}) {
    const reader = this.getReader(), writer = dest.getWriter();
    const stop = () => reader.cancel(signal.reason);
    signal?.addEventListener("abort", stop, { once: true });
    try {
      for (;;) {
        signal?.throwIfAborted();
        let r;
        try {
          r = await reader.read();
        } catch (e) {
          if (!preventAbort) await writer.abort(e).catch(() => {});
          throw e;
        }
        if (r.done) break;
        try {
          await writer.ready;
          await writer.write(r.value);
        } catch (e) {
          if (!preventCancel) await reader.cancel(e).catch(() => {});
          throw e;
        }
      }
      if (!preventClose) await writer.close();
    } finally {
      signal?.removeEventListener("abort", stop);
      reader.releaseLock();
      writer.releaseLock();
    }
  }
  pipeThrough({ readable, writable }, options) {
    this.pipeTo(writable, options).catch(() => {});
    return readable;
  }
  tee() {
    const reader = this.getReader(), sides = [];
    let reading = false;
    const pull = async () => {
      if (reading) return;
      reading = true;
      try {
        const { value, done } = await reader.read();
        for (const c of sides) {
          if (c.stream._ended) continue;
          if (done) c.close();
          else c.enqueue(value);
        }
      } catch (e) {
        for (const c of sides) c.error(e);
      }
      reading = false;
    };
    return [0, 1].map(() => new ReadableStream({ start(c) { sides.push(c); }, pull }));
  }
  get [Symbol.toStringTag]() { return "ReadableStream"; }
}

class ReadableStreamDefaultReader {
  constructor(stream) {
    if (stream.locked) throw new TypeError("ReadableStream is locked");
    this._stream = stream;
    stream._reader = this;
  }
  get closed() { return this._stream._closed.promise; }
  read() { return this._stream ? this._stream._read() : Promise.reject(new TypeError("The reader is released")); }
  cancel(reason) { return this._stream._cancel(reason); }
  releaseLock() {
    if (!this._stream) return;
    this._stream._reader = null;
    this._stream = null;
  }
}

class WritableStream {
  constructor(sink = {}) {
    Object.assign(this, { _sink: sink, _writer: null, _state: "open", _closed: later(), _last: Promise.resolve() });
    this._closed.promise.catch(() => {});
    this._controller = { error: (e) => this._fail(e), signal: new AbortController().signal };
    this._last = Promise.resolve().then(() => sink.start?.(this._controller)).catch((e) => this._fail(e));
  }
  get locked() { return this._writer !== null; }
  _fail(e) {
    if (this._state === "closed" || this._state === "failed") return;
    this._state = "failed";
    this._error = e;
    this._closed.reject(e);
  }
  _do(f) {
    const p = this._last.then(() => {
      if (this._state === "failed") throw this._error;
      return f();
    });
    this._last = p.catch((e) => this._fail(e));
    return p;
  }
  _write(chunk) { return this._state === "closing" || this._state === "closed" ? Promise.reject(new TypeError("The stream is closed")) : this._do(() => this._sink.write?.(chunk, this._controller)); }
  _close() {
    this._state = this._state === "open" ? "closing" : this._state;
    return this._do(() => this._sink.close?.()).then(() => { this._state = "closed"; this._closed.resolve(); });
  }
  async _abort(reason) {
    this._fail(reason);
    await this._sink.abort?.(reason);
  }
  getWriter() { return new WritableStreamDefaultWriter(this); }
  close() { return this._close(); }
  abort(reason) { return this._abort(reason); }
  get [Symbol.toStringTag]() { return "WritableStream"; }
}

class WritableStreamDefaultWriter {
  constructor(stream) {
    if (stream.locked) throw new TypeError("WritableStream is locked");
    this._stream = stream;
    stream._writer = this;
  }
  get closed() { return this._stream._closed.promise; }
  get ready() { return this._stream._last; }
  get desiredSize() { return 1; }
  write(chunk) { return this._stream._write(chunk); }
  close() { return this._stream._close(); }
  abort(reason) { return this._stream._abort(reason); }
  releaseLock() {
    if (!this._stream) return;
    this._stream._writer = null;
  }
}

class TransformStream {
  constructor(t = {}) {
    let out;
    this.readable = new ReadableStream({ start(c) { out = c; }, cancel: (r) => this.writable._fail(r) });
    const controller = {
      enqueue: (c) => out.enqueue(c), error: (e) => { out.error(e); this.writable._fail(e); }, terminate: () => { out.close(); this.writable._fail(new TypeError("terminated")); },
      get desiredSize() { return out.desiredSize; },
    };
    this.writable = new WritableStream({
      start: () => this.readable._started.then(() => t.start?.(controller)),
      async write(chunk) {
        try {
          if (t.transform) await t.transform(chunk, controller);
          else out.enqueue(chunk);
        } catch (e) {
          out.error(e);
          throw e;
        }
      },
      async close() {
        await t.flush?.(controller);
        out.close();
      },
      abort: (e) => out.error(e),
    });
  }
  get [Symbol.toStringTag]() { return "TransformStream"; }
}

class TextDecoderStream extends TransformStream {
  constructor(label = "utf-8", options) {
    const d = new TextDecoder(label, options);
    super({
      transform(chunk, c) { const t = d.decode(chunk, { stream: true }); if (t) c.enqueue(t); },
      flush(c) { const t = d.decode(); if (t) c.enqueue(t); },
    });
    this.encoding = d.encoding;
  }
}
class TextEncoderStream extends TransformStream {
  constructor() { super({ transform(chunk, c) { c.enqueue(encoder().encode(chunk)); } }); }
  get encoding() { return "utf-8"; }
}
const packer = (pick) => class extends TransformStream {
  constructor(format) {
    const parts = [];
    super({
      transform(chunk) { parts.push(view(chunk)); },
      async flush(c) { c.enqueue(await host.start("zlib.run", pick(format), Uint8Array.from(Buffer.concat(parts)), { level: -1 })); },
    });
  }
};
const CompressionStream = packer((f) => ({ gzip: "gzip", deflate: "deflate", "deflate-raw": "deflateRaw" })[f]);
const DecompressionStream = packer((f) => ({ gzip: "gunzip", deflate: "inflate", "deflate-raw": "inflateRaw" })[f]);

// ---- bodies ----

class Blob {
  constructor(parts = [], { type = "" } = {}) {
    this._bytes = Uint8Array.from(Buffer.concat([...parts].map((p) => p instanceof Blob ? p._bytes : typeof p === "string" ? encoder().encode(p) : ArrayBuffer.isView(p) || p instanceof ArrayBuffer ? view(p) : encoder().encode(String(p)))));
    Object.defineProperty(this, "_bytes", { enumerable: false });
    this.type = /[^\x20-\x7e]/.test(type) ? "" : type.toLowerCase();
  }
  get size() { return this._bytes.length; }
  async arrayBuffer() { return this._bytes.slice().buffer; }
  async bytes() { return this._bytes.slice(); }
  async text() { return new TextDecoder().decode(this._bytes); }
  slice(start = 0, end = this.size, type = "") { return new Blob([this._bytes.slice(start, end)], { type }); }
  stream() {
    const b = this._bytes;
    return new ReadableStream({ start(c) { if (b.length) c.enqueue(b.slice()); c.close(); } });
  }
  get [Symbol.toStringTag]() { return "Blob"; }
}
class File extends Blob {
  constructor(parts, name, options = {}) {
    super(parts, options);
    this.name = String(name);
    this.lastModified = options.lastModified ?? Date.now();
  }
  get [Symbol.toStringTag]() { return "File"; }
}

class FormData {
  _list = [];
  append(k, v, name) { this._list.push([String(k), v instanceof Blob ? (v instanceof File && name === undefined ? v : new File([v], name ?? "blob", { type: v.type })) : String(v)]); }
  set(k, v, name) { this.delete(k); this.append(k, v, name); }
  get(k) { return this._list.find(([a]) => a === k)?.[1] ?? null; }
  getAll(k) { return this._list.filter(([a]) => a === k).map(([, v]) => v); }
  has(k) { return this._list.some(([a]) => a === k); }
  delete(k) { this._list = this._list.filter(([a]) => a !== k); }
  *entries() { yield* this._list; }
  *keys() { for (const [k] of this._list) yield k; }
  *values() { for (const [, v] of this._list) yield v; }
  forEach(f) { for (const [k, v] of this._list) f(v, k, this); }
  [Symbol.iterator]() { return this.entries(); }
  get [Symbol.toStringTag]() { return "FormData"; }
}

function multipart(form) {
  const boundary = `----troupe${host.op("crypto.randomUUID").replaceAll("-", "")}`, parts = [];
  const esc = (s) => s.replace(/\r?\n|\r/g, "%0D%0A").replaceAll('"', "%22");
  for (const [k, v] of form) {
    if (typeof v === "string") parts.push(`--${boundary}\r\nContent-Disposition: form-data; name="${esc(k)}"\r\n\r\n${v}\r\n`);
    else parts.push(`--${boundary}\r\nContent-Disposition: form-data; name="${esc(k)}"; filename="${esc(v.name)}"\r\nContent-Type: ${v.type || "application/octet-stream"}\r\n\r\n`, v._bytes, "\r\n");
  }
  parts.push(`--${boundary}--\r\n`);
  return [Uint8Array.from(Buffer.concat(parts.map((p) => typeof p === "string" ? Buffer.from(p) : p))), `multipart/form-data; boundary=${boundary}`];
}

class Headers {
  _map = new Map();
  constructor(init) {
    if (init === undefined || init === null) return;
    const pairs = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
    for (const [k, v] of pairs) this.append(k, v);
  }
  static #name(k) {
    k = String(k).toLowerCase();
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(k)) throw new TypeError(`Invalid header name: ${k}`);
    return k;
  }
  append(k, v) {
    k = Headers.#name(k);
    v = String(v).trim();
    if (/[\0\r\n]/.test(v)) throw new TypeError(`Invalid header value: ${v}`);
    this._map.set(k, [...(this._map.get(k) ?? []), v]);
  }
  set(k, v) { this._map.delete(Headers.#name(k)); this.append(k, v); }
  get(k) { return this._map.get(Headers.#name(k))?.join(k.toLowerCase() === "cookie" ? "; " : ", ") ?? null; }
  getSetCookie() { return [...(this._map.get("set-cookie") ?? [])]; }
  has(k) { return this._map.has(Headers.#name(k)); }
  delete(k) { this._map.delete(Headers.#name(k)); }
  *entries() { for (const k of [...this._map.keys()].sort()) if (k === "set-cookie") for (const v of this._map.get(k)) yield [k, v]; else yield [k, this.get(k)]; }
  *keys() { for (const [k] of this.entries()) yield k; }
  *values() { for (const [, v] of this.entries()) yield v; }
  forEach(f, self) { for (const [k, v] of this.entries()) f.call(self, v, k, this); }
  [Symbol.iterator]() { return this.entries(); }
  get [Symbol.toStringTag]() { return "Headers"; }
  [Symbol.for("nodejs.util.inspect.custom")](_, o, inspect) { return `Headers ${inspect(Object.fromEntries(this), o)}`; }
}

// extract gives the bytes or the stream of a body, and what kind it is.
function extract(body) {
  if (body === null || body === undefined) return [null, null];
  if (typeof body === "string") return [encoder().encode(body), "text/plain;charset=UTF-8"];
  if (body instanceof URLSearchParams) return [encoder().encode(body.toString()), "application/x-www-form-urlencoded;charset=UTF-8"];
  if (body instanceof FormData) return multipart(body);
  if (body instanceof Blob) return [body._bytes, body.type || null];
  if (ArrayBuffer.isView(body) || body instanceof ArrayBuffer) return [view(body).slice(), null];
  if (body instanceof ReadableStream) return [body, null];
  if (typeof body[Symbol.asyncIterator] === "function") return [ReadableStream.from(body), null];
  return [encoder().encode(String(body)), "text/plain;charset=UTF-8"];
}

class Body {
  _init(body, headers) {
    const [b, type] = extract(body);
    Object.defineProperty(this, "_body", { value: b, writable: true, enumerable: false });
    Object.defineProperty(this, "_used", { value: false, writable: true, enumerable: false });
    if (type && !headers.has("content-type")) headers.set("content-type", type);
  }
  get body() {
    if (this._body === null) return null;
    if (!(this._body instanceof ReadableStream)) {
      const b = this._body;
      this._body = new ReadableStream({ start(c) { if (b.length) c.enqueue(b); c.close(); } });
    }
    return this._body;
  }
  get bodyUsed() { return this._used || this._body instanceof ReadableStream && this._body._disturbed === true; }
  async bytes() {
    if (this._used || this._body instanceof ReadableStream && this._body.locked) throw new TypeError("Body is unusable: Body has already been read");
    if (this._body === null) return new Uint8Array(0);
    this._used = true;
    if (!(this._body instanceof ReadableStream)) return this._body;
    const parts = [];
    for await (const c of this._body) parts.push(typeof c === "string" ? encoder().encode(c) : view(c));
    return parts.length === 1 ? parts[0] : Uint8Array.from(Buffer.concat(parts));
  }
  async text() { return new TextDecoder().decode(await this.bytes()); }
  async json() { return JSON.parse(await this.text()); }
  async arrayBuffer() { const b = await this.bytes(); return b.buffer.slice(b.byteOffset, b.byteOffset + b.length); }
  async blob() { return new Blob([await this.bytes()], { type: this.headers.get("content-type") ?? "" }); }
  async formData() {
    const form = new FormData();
    for (const [k, v] of new URLSearchParams(await this.text())) form.append(k, v);
    return form;
  }
}

const methods = /^(delete|get|head|options|post|put|patch)$/i;
class Request extends Body {
  constructor(input, init = {}) {
    super();
    const from = input instanceof Request ? input : null;
    this.url = from ? from.url : new URL(String(input)).href;
    this.method = init.method ?? from?.method ?? "GET";
    if (methods.test(this.method)) this.method = this.method.toUpperCase();
    this.headers = new Headers(init.headers ?? from?.headers);
    this.signal = init.signal ?? from?.signal ?? new AbortController().signal;
    this.redirect = init.redirect ?? from?.redirect ?? "follow";
    Object.assign(this, { credentials: "same-origin", mode: "cors", cache: "default", referrer: "about:client", integrity: "", keepalive: false, duplex: "half" });
    const body = init.body ?? (from && init.body === undefined ? from._body : null);
    if (body !== null && /^(GET|HEAD)$/.test(this.method)) throw new TypeError("Request with GET/HEAD method cannot have body");
    this._init(body, this.headers);
  }
  clone() { return new Request(this.url, { method: this.method, headers: this.headers, signal: this.signal, redirect: this.redirect, ...(this._body !== null ? { body: split(this) } : {}) }); }
  get [Symbol.toStringTag]() { return "Request"; }
}

function split(of) {
  if (!(of._body instanceof ReadableStream)) return of._body;
  const [a, b] = of._body.tee();
  of._body = a;
  return b;
}

class Response extends Body {
  constructor(body = null, { status = 200, statusText = "", headers } = {}) {
    super();
    if (status !== 0 && (status < 200 || status > 599)) throw new RangeError("init[\"status\"] must be in the range of 200 to 599, inclusive.");
    Object.assign(this, { status, statusText, headers: new Headers(headers), url: "", redirected: false, type: "default" });
    this._init(body, this.headers);
  }
  get ok() { return this.status >= 200 && this.status < 300; }
  clone() {
    if (this.bodyUsed) throw new TypeError("Response.clone: Body has already been consumed.");
    const r = new Response(this._body === null ? null : split(this), { status: this.status, statusText: this.statusText, headers: this.headers });
    return Object.assign(r, { url: this.url, redirected: this.redirected, type: this.type });
  }
  static json(data, init = {}) {
    const headers = new Headers(init.headers);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
    return new Response(JSON.stringify(data), { ...init, headers });
  }
  static error() { return Object.assign(new Response(null), { status: 0, type: "error" }); }
  static redirect(url, status = 302) { return new Response(null, { status, headers: { location: String(url) } }); }
  get [Symbol.toStringTag]() { return "Response"; }
}

function dataResponse(url) {
  const [, type, b64, data] = /^data:([^,]*?)(;base64)?,([\s\S]*)$/i.exec(url) ?? [];
  if (data === undefined) throw Object.assign(new TypeError("fetch failed"), { cause: new Error("invalid data: URL") });
  return new Response(b64 ? Buffer.from(decodeURIComponent(data), "base64") : Buffer.from(decodeURIComponent(data)), { headers: { "content-type": type || "text/plain;charset=US-ASCII" } });
}

// fetch asks for one part of the body after the other, when somebody reads it: nothing
// piles up that nobody wants.
async function fetch(input, init) {
  const req = new Request(input, init);
  req.signal.throwIfAborted();
  if (req.url.startsWith("data:")) return dataResponse(req.url);
  const body = req._body, streams = body instanceof ReadableStream;
  const answer = later();
  let controller = null, wanted = null, over = false;
  const finish = () => {
    if (over) return;
    over = true;
    req.signal.removeEventListener("abort", stop);
    host.close(id);
  };
  const fail = (e) => {
    finish();
    answer.reject(e);
    controller?.error(e);
    wanted?.resolve();
  };
  const stop = () => fail(req.signal.reason);
  const on = (event, v) => {
    if (over) return;
    switch (event) {
      case "response": {
        const empty = req.method === "HEAD" || [101, 204, 205, 304].includes(v.status);
        const stream = empty ? null : new ReadableStream({
          start(c) { controller = c; },
          pull() {
            if (over) return undefined;
            wanted = later();
            host.send(id, "pull");
            return wanted.promise;
          },
          cancel: finish,
        }, { highWaterMark: 0 });
        const r = new Response(stream, { status: Math.max(v.status, 200), statusText: v.statusText, headers: v.headers });
        Object.assign(r, { status: v.status, url: v.url, redirected: !!v.redirected, type: "basic" });
        if (empty) finish();
        answer.resolve(r);
        break;
      }
      case "data":
        controller.enqueue(v);
        wanted?.resolve();
        break;
      case "end":
        finish();
        controller?.close();
        wanted?.resolve();
        break;
      case "error":
        fail(Object.assign(new TypeError("fetch failed"), { cause: Object.assign(new Error(v.message), v.code ? { code: v.code } : {}) }));
    }
  };
  const id = host.open("fetch", [{ url: req.url.replace(/#.*$/s, ""), method: req.method, headers: [...req.headers], redirect: req.redirect, streams }, streams ? null : body], on);
  req.signal.addEventListener("abort", stop, { once: true });
  if (streams) {
    (async () => {
      for await (const c of body) {
        if (over) return;
        host.send(id, "body", typeof c === "string" ? encoder().encode(c) : view(c));
      }
      host.send(id, "bodyEnd");
    })().catch(fail);
  }
  return answer.promise;
}

// A WebSocket hands the host one message after another: what waits is bufferedAmount.
class WebSocket extends EventTarget {
  onopen = null;
  onmessage = null;
  onerror = null;
  onclose = null;
  #state = 0;
  #id;
  #waiting = [];
  #busy = false;
  #asked; // [code, reason] of close
  binaryType = "blob";
  protocol = "";
  extensions = "";
  bufferedAmount = 0;
  constructor(url, options = []) {
    super();
    const { protocols = [], headers } = Array.isArray(options) || typeof options !== "object" ? { protocols: options } : options;
    let u;
    try { u = new URL(url); } catch { throw new DOMException(`Invalid URL: ${url}`, "SyntaxError"); }
    u.protocol = { "http:": "ws:", "https:": "wss:" }[u.protocol] ?? u.protocol;
    if (!/^wss?:$/.test(u.protocol) || u.hash) throw new DOMException(`Invalid URL of a WebSocket: ${url}`, "SyntaxError");
    this.url = u.href;
    const list = typeof protocols === "string" ? [protocols] : [...protocols];
    this.#id = host.open("websocket", [{ url: u.href, protocols: list, headers: headers ? [...new Headers(headers)] : [] }], (event, ...values) => this.#heard(event, values));
  }
  get readyState() { return this.#state; }
  #heard(event, [a, b, clean]) {
    switch (event) {
      case "open":
        this.#state = 1;
        this.protocol = a;
        this.dispatchEvent(new Event("open"));
        break;
      case "wrote":
        this.#busy = false;
        this.#next();
        break;
      case "text": case "binary":
        if (this.#state !== 1) break;
        if (event === "binary") a = this.binaryType === "blob" ? new Blob([a]) : a.slice().buffer;
        this.dispatchEvent(Object.assign(new Event("message"), { data: a, origin: new URL(this.url).origin, lastEventId: "", ports: [] }));
        break;
      case "error":
        this.#over(1006, "", false, a);
        break;
      case "close":
        this.#over(a, b, clean);
    }
  }
  #over(code, reason, wasClean, message) {
    if (this.#state === 3) return;
    this.#state = 3;
    this.#waiting = [];
    host.close(this.#id);
    if (!wasClean) this.dispatchEvent(Object.assign(new Event("error"), { message: message ?? reason ?? "", error: new Error(message || reason || "the connection was lost") }));
    this.dispatchEvent(Object.assign(new Event("close"), { code, reason, wasClean }));
  }
  #next() {
    if (this.#busy || this.#state === 3) return;
    const m = this.#waiting.shift();
    if (m) {
      this.bufferedAmount -= m.size;
      this.#busy = true;
      if (typeof m.data === "string") host.send(this.#id, "text", m.data);
      else host.send(this.#id, "binary", m.data);
    } else if (this.#asked) {
      this.#busy = true;
      host.send(this.#id, "close", ...this.#asked);
      this.#asked = undefined;
    }
  }
  send(data) {
    if (this.#state === 0) throw new DOMException("The WebSocket is not open yet", "InvalidStateError");
    const m = { data, size: 0 };
    if (data instanceof Blob) m.data = data._bytes;
    else if (ArrayBuffer.isView(data)) m.data = new Uint8Array(data.buffer, data.byteOffset, data.byteLength).slice();
    else if (data instanceof ArrayBuffer) m.data = new Uint8Array(data).slice();
    else m.data = String(data);
    m.size = typeof m.data === "string" ? encoder().encode(m.data).length : m.data.length;
    this.bufferedAmount += m.size;
    if (this.#state !== 1) return;
    this.#waiting.push(m);
    this.#next();
  }
  close(code, reason = "") {
    if (code !== undefined && code !== 1000 && !(code >= 3000 && code <= 4999)) throw new DOMException("The code has to be 1000 or from 3000 to 4999", "InvalidAccessError");
    if (encoder().encode(reason).length > 123) throw new DOMException("The reason is more than 123 bytes", "SyntaxError");
    if (this.#state > 1) return;
    if (this.#state === 0) {
      this.#state = 2;
      queueMicrotask(() => this.#over(1006, "", false, "closed before it was open"));
      return;
    }
    this.#state = 2;
    this.#asked = [code ?? 0, reason];
    this.#next();
  }
}
for (const [i, k] of ["CONNECTING", "OPEN", "CLOSING", "CLOSED"].entries()) WebSocket[k] = WebSocket.prototype[k] = i;

// A channel has two ends in the same realm: what one posts the other gets a copy of.
class MessagePort extends EventTarget {
  #started = false;
  #closed = false;
  #waiting = [];
  onmessage = null;
  static pair() {
    const a = new MessagePort(), b = new MessagePort();
    a.other = b;
    b.other = a;
    for (const p of [a, b]) Object.defineProperty(p, "other", { enumerable: false });
    return [a, b];
  }
  postMessage(data) { this.other?.deliver(structuredClone(data)); }
  deliver(data) {
    if (this.#closed) return;
    this.#waiting.push(data);
    queueMicrotask(() => {
      if (!this.#started && typeof this.onmessage !== "function") return;
      for (const d of this.#waiting.splice(0)) this.dispatchEvent(Object.assign(new Event("message"), { data: d }));
    });
  }
  on(type, f) {
    this.addEventListener(type, (e) => f(e.data));
    this.start();
    return this;
  }
  start() {
    this.#started = true;
    if (this.#waiting.length) this.deliver(this.#waiting.pop());
  }
  close() {
    this.#closed = true;
    this.other = null;
  }
  ref() {}
  unref() {}
}
class MessageChannel {
  constructor() { [this.port1, this.port2] = MessagePort.pair(); }
}

class ByteLengthQueuingStrategy {
  constructor({ highWaterMark }) { this.highWaterMark = highWaterMark; }
  size(c) { return c.byteLength; }
}
class CountQueuingStrategy {
  constructor({ highWaterMark }) { this.highWaterMark = highWaterMark; }
  size() { return 1; }
}

module.exports = {
  fetch, Headers, Request, Response, FormData, Blob, File, ReadableStream, ReadableStreamDefaultReader, WritableStream, WritableStreamDefaultWriter, TransformStream, TextDecoderStream,
  TextEncoderStream, CompressionStream, DecompressionStream, ByteLengthQueuingStrategy, CountQueuingStrategy, WebSocket, MessagePort, MessageChannel,
  get crypto() { return require("crypto").webcrypto; },
  get Intl() { return require("troupe:intl"); },
};
