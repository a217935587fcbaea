// provides: node:stream, stream
"use strict";

const EventEmitter = require("events");
const { Buffer } = require("buffer");

function coded(Type, code, message) { return Object.assign(new Type(message), { code }); }
const abortError = (signal) => Object.assign(new Error("The operation was aborted", { cause: signal?.reason }), { name: "AbortError", code: "ABORT_ERR" });

function Stream(options) { EventEmitter.call(this, options); }
Object.setPrototypeOf(Stream.prototype, EventEmitter.prototype);
Object.setPrototypeOf(Stream, EventEmitter);
Stream.prototype.pipe = function (dest, { end = true } = {}) {
  this.on("data", (chunk) => { if (dest.write(chunk) === false) this.pause?.(); });
  dest.on("drain", () => this.resume?.());
  if (end && dest !== require("process").stdout) this.on("end", () => dest.end());
  dest.emit("pipe", this);
  return dest;
};

// Both is what every stream has: how it ends before its time.
const Both = {
  destroy(err, callback) {
    if (this.destroyed) {
      callback?.();
      return this;
    }
    this.destroyed = true;
    this.errored = err ?? null;
    const done = (e) => {
      e ??= err;
      if (e) this.errored = e;
      callback?.(e);
      queueMicrotask(() => {
        if (e && !callback) this.emit("error", e);
        this.closed = true;
        if (this._emitClose !== false) this.emit("close");
      });
    };
    this._destroy(err ?? null, done);
    return this;
  },
  _destroy(err, done) { done(err); },
};

const emptyRead = { buffer: [], length: 0, flowing: null, ended: false, endEmitted: false, reading: false, decoder: null, waiting: false };

function initReadable(s, o = {}) {
  s._readableState = { ...emptyRead, buffer: [], objectMode: !!(o.objectMode || o.readableObjectMode), highWaterMark: o.readableHighWaterMark ?? o.highWaterMark ?? (o.objectMode || o.readableObjectMode ? 16 : 65536) };
  if (o.encoding) s.setEncoding(o.encoding);
  if (typeof o.read === "function") s._read = o.read;
}
function initBoth(s, o = {}) {
  s.destroyed = s.closed = false;
  s.errored = null;
  s._emitClose = o.emitClose;
  s._autoDestroy = o.autoDestroy !== false;
  if (typeof o.destroy === "function") s._destroy = o.destroy;
  if (typeof o.construct === "function") {
    s._constructing = true;
    queueMicrotask(() => o.construct.call(s, (err) => {
      s._constructing = false;
      if (err) s.destroy(err);
      else {
        if (s._writableState?.waiting.length) next(s);
        if (s._readableState?.wanted) fill(s);
      }
    }));
  }
  if (o.signal) {
    if (o.signal.aborted) queueMicrotask(() => s.destroy(abortError(o.signal)));
    else o.signal.addEventListener("abort", () => s.destroy(abortError(o.signal)), { once: true });
  }
}

function Readable(o) {
  if (!(this instanceof Readable)) return new Readable(o);
  Stream.call(this);
  initBoth(this, o);
  initReadable(this, o);
}
Object.setPrototypeOf(Readable.prototype, Stream.prototype);
Object.setPrototypeOf(Readable, Stream);

const sizeOf = (r, chunk) => r.objectMode ? 1 : chunk.length;

function fill(s) {
  const r = s._readableState;
  if (s._constructing) r.wanted = true;
  if (r.reading || r.ended || s.destroyed || s._constructing || r.length >= Math.max(r.highWaterMark, 1) && r.length > 0) return;
  r.reading = true;
  try {
    s._read(r.highWaterMark);
  } catch (e) {
    s.destroy(e);
  }
}

function flow(s) {
  const r = s._readableState;
  if (r.scheduled) return;
  r.scheduled = true;
  queueMicrotask(() => {
    r.scheduled = false;
    if (r.flowing) {
      while (r.flowing && r.buffer.length && !s.destroyed) s.emit("data", take(r));
      if (r.flowing && !r.ended) fill(s);
    } else if (r.buffer.length || r.ended) {
      if (s.listenerCount("readable") && !r.endEmitted) s.emit("readable");
    } else if (s.listenerCount("readable")) {
      fill(s);
    }
    finish(s);
  });
}

function take(r, n) {
  if (n === undefined || r.objectMode || n >= r.length) {
    if (n !== undefined && !r.objectMode && r.buffer.length > 1) {
      const all = typeof r.buffer[0] === "string" ? r.buffer.join("") : Buffer.concat(r.buffer);
      r.buffer = [];
      r.length = 0;
      return all;
    }
    const chunk = r.buffer.shift();
    r.length -= sizeOf(r, chunk);
    return chunk;
  }
  const all = typeof r.buffer[0] === "string" ? r.buffer.join("") : Buffer.concat(r.buffer);
  r.buffer = [all.slice(n)];
  r.length = r.buffer[0].length;
  return all.slice(0, n);
}

function finish(s) {
  const r = s._readableState;
  if (!r.ended || r.buffer.length || r.endEmitted || s.destroyed) return;
  if (r.flowing === null && !s.listenerCount("readable") && !r.readToEnd) return;
  r.endEmitted = true;
  queueMicrotask(() => {
    s.readable = false;
    s.readableEnded = true;
    s.emit("end");
    if (s._autoDestroy && (!s._writableState || s._writableState.finished)) s.destroy();
    else if (s._writableState && s.allowHalfOpen === false) s.end();
  });
}

function push(s, chunk, encoding, front) {
  const r = s._readableState;
  r.reading = false;
  if (chunk === null) {
    if (r.decoder) {
      const rest = r.decoder.end();
      if (rest) r.buffer.push(rest), r.length += rest.length;
    }
    r.ended = true;
    flow(s);
    return false;
  }
  if (r.ended && !front) {
    s.destroy(coded(Error, "ERR_STREAM_PUSH_AFTER_EOF", "stream.push() after EOF"));
    return false;
  }
  if (!r.objectMode) {
    if (typeof chunk === "string") chunk = Buffer.from(chunk, encoding);
    else if (chunk instanceof Uint8Array && !Buffer.isBuffer(chunk)) chunk = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    else if (!(chunk instanceof Uint8Array)) {
      s.destroy(coded(TypeError, "ERR_INVALID_ARG_TYPE", 'The "chunk" argument must be of type string or an instance of Buffer or Uint8Array.'));
      return false;
    }
    if (r.decoder) chunk = r.decoder.write(chunk);
    if (chunk.length === 0) {
      if (r.flowing) flow(s);
      return r.length < r.highWaterMark;
    }
  }
  front ? r.buffer.unshift(chunk) : r.buffer.push(chunk);
  r.length += sizeOf(r, chunk);
  flow(s);
  return r.length < r.highWaterMark;
}

Object.assign(Readable.prototype, Both, {
  readable: true, readableEnded: false, readableAborted: false,
  _read() { throw coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _read() method is not implemented"); },
  push(chunk, encoding) { return push(this, chunk, encoding, false); },
  unshift(chunk, encoding) { return push(this, chunk, encoding, true); },
  read(n) {
    const r = this._readableState;
    if (!r.buffer.length) {
      if (r.ended) {
        r.readToEnd = true;
        finish(this);
      } else fill(this);
      if (!r.buffer.length) return null;
    }
    if (n > r.length && !r.ended) {
      fill(this);
      return null;
    }
    const chunk = take(r, n ?? (r.objectMode ? undefined : r.length));
    this.emit("data", chunk);
    if (!r.ended) fill(this);
    else r.readToEnd = true, finish(this);
    return chunk;
  },
  on(name, f) {
    EventEmitter.prototype.on.call(this, name, f);
    if (name === "data" && this._readableState.flowing !== false) this.resume();
    else if (name === "readable") {
      this._readableState.flowing = false;
      flow(this);
    }
    return this;
  },
  setEncoding(encoding) {
    const { StringDecoder } = require("string_decoder");
    const r = this._readableState;
    r.decoder = new StringDecoder(encoding);
    r.buffer = r.buffer.map((b) => r.decoder.write(b));
    this.readableEncoding = encoding;
    return this;
  },
  resume() {
    this._readableState.flowing = true;
    flow(this);
    return this;
  },
  pause() {
    this._readableState.flowing = false;
    this.emit("pause");
    return this;
  },
  isPaused() { return this._readableState.flowing === false; },
  pipe(dest, { end = true } = {}) {
    const write = (chunk) => { if (dest.write(chunk) === false) this.pause(), dest.once("drain", () => this.resume()); };
    this.on("data", write);
    const last = () => dest.end();
    if (end && !dest._isStdio) this.once("end", last);
    (this._pipes ??= []).push({ dest, write, last });
    dest.emit("pipe", this);
    return dest;
  },
  unpipe(dest) {
    for (const p of this._pipes ?? []) {
      if (dest && p.dest !== dest) continue;
      this.off("data", p.write);
      this.off("end", p.last);
      p.dest.emit("unpipe", this);
    }
    this._pipes = (this._pipes ?? []).filter((p) => dest && p.dest !== dest);
    return this;
  },
  wrap(old) {
    old.on("data", (c) => { if (!this.push(c)) old.pause?.(); });
    old.on("end", () => this.push(null));
    old.on("error", (e) => this.destroy(e));
    this._read = () => old.resume?.();
    return this;
  },
  [Symbol.asyncIterator]() {
    const s = this, r = s._readableState;
    let wake = () => {}, failed = null, over = false;
    const on = { end: () => { over = true; wake(); }, error: (e) => { failed = e; wake(); }, close: () => { over = true; wake(); }, readable: () => wake() };
    for (const k of Object.keys(on)) s.on(k, on[k]);
    const finish = () => {
      for (const k of Object.keys(on)) s.off(k, on[k]);
      s.on("error", () => {}); // of its end nobody is left to hear
      s.destroy();
      return { value: undefined, done: true };
    };
    return {
      async next() {
        for (;;) {
          const chunk = s.destroyed && !r.buffer.length ? null : s.read();
          if (chunk !== null) return { value: chunk, done: false };
          if (failed) {
            finish();
            throw failed;
          }
          if (over || s.readableEnded) {
            const whole = s.readableEnded || r.ended;
            finish();
            if (!whole) throw coded(Error, "ERR_STREAM_PREMATURE_CLOSE", "Premature close");
            return { value: undefined, done: true };
          }
          await new Promise((resolve) => { wake = resolve; });
        }
      },
      async return() { return finish(); },
      async throw(e) {
        finish();
        throw e;
      },
      [Symbol.asyncIterator]() { return this; },
    };
  },
  iterator() { return this[Symbol.asyncIterator](); },
  async toArray() {
    const out = [];
    for await (const c of this) out.push(c);
    return out;
  },
  async forEach(f) { for await (const c of this) await f(c); },
  map(f) { return Readable.from(async function* (s) { for await (const c of s) yield await f(c); }(this)); },
  filter(f) { return Readable.from(async function* (s) { for await (const c of s) if (await f(c)) yield c; }(this)); },
});
Readable.prototype.addListener = Readable.prototype.on;
for (const [name, get] of Object.entries({
  readableFlowing: (s) => s._readableState.flowing, readableLength: (s) => s._readableState.length, readableHighWaterMark: (s) => s._readableState.highWaterMark,
  readableObjectMode: (s) => s._readableState.objectMode, readableDidRead: (s) => s._readableState.endEmitted || s._readableState.flowing !== null,
})) Object.defineProperty(Readable.prototype, name, { configurable: true, get() { return get(this); }, set(v) { if (name === "readableFlowing") this._readableState.flowing = v; } });

Readable.from = function (source, options) {
  if (typeof source === "string" || source instanceof Uint8Array) {
    return new Readable({ objectMode: true, ...options, read() { this.push(source); this.push(null); } });
  }
  const it = source[Symbol.asyncIterator]?.() ?? source[Symbol.iterator]();
  return new Readable({
    objectMode: true, highWaterMark: 1, ...options,
    async read() {
      try {
        const { value, done } = await it.next();
        if (!this.destroyed) this.push(done ? null : await value);
      } catch (e) {
        this.destroy(e);
      }
    },
    destroy(err, done) { Promise.resolve(it.return?.()).then(() => done(err), done); },
  });
};
Readable.fromWeb = (web, options) => Readable.from(async function* () {
  const reader = web.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel?.().catch(() => {});
  }
}(), { objectMode: false, ...options });
Readable.toWeb = (s) => {
  const { ReadableStream } = require("troupe:web");
  const it = s[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(c) {
      const { value, done } = await it.next();
      done ? c.close() : c.enqueue(value);
    },
    cancel(reason) { s.destroy(reason); },
  });
};

function initWritable(s, o = {}) {
  s._writableState = { waiting: [], length: 0, writing: false, ending: false, finished: false, corked: 0, needDrain: false, objectMode: !!(o.objectMode || o.writableObjectMode), decodeStrings: o.decodeStrings !== false, defaultEncoding: o.defaultEncoding ?? "utf8", highWaterMark: o.writableHighWaterMark ?? o.highWaterMark ?? (o.objectMode || o.writableObjectMode ? 16 : 65536) };
  for (const k of ["write", "writev", "final"]) if (typeof o[k] === "function") s[`_${k}`] = o[k];
}

function Writable(o) {
  if (!(this instanceof Writable)) return new Writable(o);
  Stream.call(this);
  initBoth(this, o);
  initWritable(this, o);
}
Object.setPrototypeOf(Writable.prototype, Stream.prototype);
Object.setPrototypeOf(Writable, Stream);

function next(s) {
  const w = s._writableState;
  if (w.writing || w.corked || s.destroyed || s._constructing) return;
  if (!w.waiting.length) return last(s);
  w.writing = true;
  const several = s._writev && w.waiting.length > 1, list = several ? w.waiting.splice(0) : [w.waiting.shift()];
  let sync = true;
  const done = (err) => {
    w.writing = false;
    if (err) {
      for (const x of list) x.callback(err);
      s.destroy(err);
      return;
    }
    w.length -= list.reduce((n, x) => n + x.size, 0);
    const after = () => {
      for (const x of list) x.callback(null);
      if (w.needDrain && w.length === 0 && !w.ending) {
        w.needDrain = false;
        s.emit("drain");
      }
      next(s);
    };
    sync ? queueMicrotask(after) : after();
  };
  try {
    if (several) s._writev(list.map(({ chunk, encoding }) => ({ chunk, encoding })), done);
    else s._write(list[0].chunk, list[0].encoding, done);
  } catch (e) {
    done(e);
  }
  sync = false;
}

function last(s) {
  const w = s._writableState;
  if (!w.ending || w.finished || w.finishing) return;
  w.finishing = true;
  const done = (err) => {
    if (err) return s.destroy(err);
    queueMicrotask(() => {
      if (s.destroyed) return;
      w.finished = true;
      s.writableFinished = true;
      s.emit("finish");
      if (s._autoDestroy && (!s._readableState || s._readableState.endEmitted)) s.destroy();
    });
  };
  if (s._final) {
    try {
      s._final(done);
    } catch (e) {
      done(e);
    }
  } else {
    done();
  }
}

const WritableMethods = {
  writable: true, writableFinished: false, writableEnded: false,
  _write(chunk, encoding, done) {
    if (this._writev) this._writev([{ chunk, encoding }], done);
    else throw coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _write() method is not implemented");
  },
  write(chunk, encoding, callback) {
    const w = this._writableState;
    if (typeof encoding === "function") [callback, encoding] = [encoding, undefined];
    encoding ??= w.defaultEncoding;
    if (chunk === null || chunk === undefined && !w.objectMode) throw coded(TypeError, "ERR_STREAM_NULL_VALUES", "May not write null values to stream");
    if (!w.objectMode && typeof chunk !== "string" && !ArrayBuffer.isView(chunk)) throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "chunk" argument must be of type string or an instance of Buffer, TypedArray, or DataView. Received ${typeof chunk}`);
    let bad = null;
    if (w.ending) bad = coded(Error, "ERR_STREAM_WRITE_AFTER_END", "write after end");
    else if (this.destroyed) bad = coded(Error, "ERR_STREAM_DESTROYED", "Cannot call write after a stream was destroyed");
    if (bad) {
      if (callback) queueMicrotask(() => callback(bad));
      if (!this.destroyed) this.destroy(bad);
      return false;
    }
    if (!w.objectMode) {
      if (typeof chunk === "string" && w.decodeStrings) [chunk, encoding] = [Buffer.from(chunk, encoding), "buffer"];
      else if (chunk instanceof Uint8Array) [chunk, encoding] = [Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength), "buffer"];
    }
    const size = w.objectMode ? 1 : chunk.length;
    w.length += size;
    w.waiting.push({ chunk, encoding, size, callback: callback ?? (() => {}) });
    const ok = w.length < w.highWaterMark;
    if (!ok) w.needDrain = true;
    next(this);
    return ok;
  },
  end(chunk, encoding, callback) {
    if (typeof chunk === "function") [callback, chunk] = [chunk, undefined];
    else if (typeof encoding === "function") [callback, encoding] = [encoding, undefined];
    const w = this._writableState;
    if (chunk !== undefined && chunk !== null) this.write(chunk, encoding);
    w.corked = 0;
    if (callback) w.finished ? queueMicrotask(callback) : this.once("finish", callback);
    w.ending = true;
    this.writable = false;
    this.writableEnded = true;
    next(this);
    return this;
  },
  cork() { this._writableState.corked++; },
  uncork() {
    const w = this._writableState;
    if (w.corked && --w.corked === 0) next(this);
  },
  setDefaultEncoding(e) {
    this._writableState.defaultEncoding = e;
    return this;
  },
};
const writableViews = {
  writableLength: (s) => s._writableState.length, writableHighWaterMark: (s) => s._writableState.highWaterMark, writableObjectMode: (s) => s._writableState.objectMode,
  writableNeedDrain: (s) => s._writableState.needDrain, writableCorked: (s) => s._writableState.corked,
};
function asWritable(proto) {
  Object.assign(proto, WritableMethods);
  for (const [name, get] of Object.entries(writableViews)) Object.defineProperty(proto, name, { configurable: true, get() { return get(this); } });
}
Object.assign(Writable.prototype, Both);
asWritable(Writable.prototype);
Writable.fromWeb = (web) => {
  const w = web.getWriter();
  return new Writable({ write(c, _, done) { w.write(c).then(() => done(), done); }, final(done) { w.close().then(() => done(), done); } });
};
Object.defineProperty(Writable, Symbol.hasInstance, {
  value(x) { return Function.prototype[Symbol.hasInstance].call(this, x) || this === Writable && x instanceof Duplex; },
});

function Duplex(o = {}) {
  if (!(this instanceof Duplex)) return new Duplex(o);
  Stream.call(this);
  initBoth(this, o);
  initReadable(this, o);
  initWritable(this, o);
  this.allowHalfOpen = o.allowHalfOpen !== false;
  if (o.readable === false) this._readableState.ended = this._readableState.endEmitted = true;
  if (o.writable === false) this._writableState.ending = this._writableState.finished = true;
}
Object.setPrototypeOf(Duplex.prototype, Readable.prototype);
Object.setPrototypeOf(Duplex, Readable);
asWritable(Duplex.prototype);
Duplex.from = (source) => {
  if (source instanceof Stream) return source;
  const r = Readable.from(source);
  const d = new Duplex({ objectMode: true, writable: false, read() { r.resume(); } });
  r.on("data", (c) => { if (!d.push(c)) r.pause(); });
  r.on("end", () => d.push(null));
  r.on("error", (e) => d.destroy(e));
  r.pause();
  return d;
};

function Transform(o = {}) {
  if (!(this instanceof Transform)) return new Transform(o);
  Duplex.call(this, o);
  if (typeof o.transform === "function") this._transform = o.transform;
  if (typeof o.flush === "function") this._flush = o.flush;
}
Object.setPrototypeOf(Transform.prototype, Duplex.prototype);
Object.setPrototypeOf(Transform, Duplex);
Object.assign(Transform.prototype, {
  _transform() { throw coded(Error, "ERR_METHOD_NOT_IMPLEMENTED", "The _transform() method is not implemented"); },
  _write(chunk, encoding, done) {
    this._transform(chunk, encoding, (err, data) => {
      if (err) return done(err);
      if (data !== undefined && data !== null) this.push(data);
      const r = this._readableState;
      if (r.length < r.highWaterMark || r.ended) done();
      else this._resume = done;
    });
  },
  _read() {
    const go = this._resume;
    this._resume = undefined;
    this._readableState.reading = false;
    go?.();
  },
  _final(done) {
    const end = (err, data) => {
      if (err) return done(err);
      if (data !== undefined && data !== null) this.push(data);
      this.push(null);
      done();
    };
    if (this._flush) this._flush(end);
    else end();
  },
});

function PassThrough(o) {
  if (!(this instanceof PassThrough)) return new PassThrough(o);
  Transform.call(this, o);
}
Object.setPrototypeOf(PassThrough.prototype, Transform.prototype);
Object.setPrototypeOf(PassThrough, Transform);
PassThrough.prototype._transform = (chunk, _, done) => done(null, chunk);

// finished calls back when a stream is over, well or not.
function finished(s, options, callback) {
  if (typeof options === "function") [callback, options] = [options, {}];
  const reads = options?.readable !== false && !!s._readableState && !s._readableState.endEmitted, writes = options?.writable !== false && !!s._writableState && !s._writableState.finished;
  let r = !reads, w = !writes, over = false;
  const end = (err) => {
    if (over) return;
    over = true;
    callback.call(s, err);
  };
  const on = {
    end: () => { r = true; if (w) end(); }, finish: () => { w = true; if (r) end(); }, error: end,
    close: () => r && w ? end() : end(s.errored ?? coded(Error, "ERR_STREAM_PREMATURE_CLOSE", "Premature close")),
  };
  for (const [k, f] of Object.entries(on)) s.on(k, f);
  if (s.closed || r && w && s.destroyed) queueMicrotask(() => on.close());
  return () => { for (const [k, f] of Object.entries(on)) s.off(k, f); };
}

function pipeline(...streams) {
  const callback = typeof streams[streams.length - 1] === "function" && streams.length > 1 ? streams.pop() : () => {};
  if (Array.isArray(streams[0])) streams = streams[0];
  let current = streams[0], over = false, waiting = 0, result;
  const all = [];
  const done = (err) => {
    if (over) return;
    if (err) {
      over = true;
      for (const s of all) if (!s.destroyed) s.destroy(err);
      return callback(err);
    }
    if (--waiting > 0) return;
    over = true;
    callback(undefined, result);
  };
  const toStream = (x) => x instanceof Stream ? x : Readable.from(typeof x === "function" ? x() : x);
  current = toStream(current);
  const watch = (s, o) => {
    all.push(s);
    waiting++;
    s.on("error", () => {});
    finished(s, o, done);
  };
  watch(current, { writable: false });
  streams.slice(1).forEach((s, i) => {
    const isLast = i === streams.length - 2;
    if (typeof s === "function") {
      const out = s(current);
      if (isLast && typeof out?.then === "function") {
        waiting++;
        out.then((v) => { result = v; done(); }, done);
        return;
      }
      current = Readable.from(out);
      if (isLast) watch(current, {});
      return;
    }
    watch(s, { readable: !isLast });
    current = current.pipe(s);
  });
  return current;
}

const promises = {
  pipeline: (...streams) => {
    let options = streams[streams.length - 1];
    if (options && !(options instanceof Stream) && typeof options === "object" && ("signal" in options || "end" in options)) streams.pop();
    else options = {};
    return new Promise((resolve, reject) => {
      options.signal?.addEventListener("abort", () => streams.forEach((s) => s.destroy?.(abortError(options.signal))), { once: true });
      pipeline(...streams, (err, v) => err ? reject(err) : resolve(v));
    });
  },
  finished: (s, o) => new Promise((resolve, reject) => finished(s, o ?? {}, (err) => err ? reject(err) : resolve())),
};

Object.assign(Stream, {
  Stream, Readable, Writable, Duplex, Transform, PassThrough, finished, pipeline, promises,
  addAbortSignal: (signal, s) => {
    if (signal.aborted) s.destroy(abortError(signal));
    else signal.addEventListener("abort", () => s.destroy(abortError(signal)), { once: true });
    return s;
  },
  compose: (...s) => pipeline(...s), isReadable: (s) => !!s.readable && !s.destroyed, isErrored: (s) => !!s.errored, isDisturbed: (s) => !!s.readableDidRead, destroy: (s, e) => s.destroy(e),
  getDefaultHighWaterMark: (o) => o ? 16 : 65536, setDefaultHighWaterMark() {},
});
module.exports = Stream;
