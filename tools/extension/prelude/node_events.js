// provides: node:events, events
"use strict";

const kCapture = Symbol("kCapture");

function coded(Type, code, message) {
  const e = new Type(message);
  e.code = code;
  return e;
}

function checkListener(f) {
  if (typeof f !== "function") {
    throw coded(TypeError, "ERR_INVALID_ARG_TYPE", `The "listener" argument must be of type function. Received ${f === null ? "null" : typeof f}`);
  }
}

// EventEmitter is a function and no class: old code calls it on objects of its own.
function EventEmitter(options) { EventEmitter.init.call(this, options); }

EventEmitter.init = function () {
  if (this._events === undefined || this._events === Object.getPrototypeOf(this)._events) {
    this._events = Object.create(null);
    this._eventsCount = 0;
  }
  this._maxListeners ??= undefined;
};
EventEmitter.prototype._events = undefined;
EventEmitter.prototype._maxListeners = undefined;

const listOf = (e, name) => {
  const l = e._events?.[name];
  return l === undefined ? [] : Array.isArray(l) ? l : [l];
};

function add(emitter, name, listener, first) {
  checkListener(listener);
  if (emitter._events === undefined) EventEmitter.init.call(emitter);
  if (emitter._events.newListener !== undefined) emitter.emit("newListener", name, listener.listener ?? listener);
  const old = emitter._events[name];
  if (old === undefined) {
    emitter._events[name] = listener;
    emitter._eventsCount++;
  } else {
    const list = Array.isArray(old) ? old : (emitter._events[name] = [old]);
    first ? list.unshift(listener) : list.push(listener);
    const max = emitter.getMaxListeners();
    if (max > 0 && list.length > max && !list.warned) {
      list.warned = true;
      host.log("warn", `Possible EventEmitter memory leak detected. ${list.length} ${String(name)} listeners added`);
    }
  }
  return emitter;
}

function wrapOnce(emitter, name, listener) {
  checkListener(listener);
  let fired = false;
  const once = function (...args) {
    if (fired) return;
    emitter.removeListener(name, once);
    fired = true;
    return listener.apply(emitter, args);
  };
  once.listener = listener;
  return once;
}

Object.assign(EventEmitter.prototype, {
  setMaxListeners(n) {
    this._maxListeners = n;
    return this;
  },
  getMaxListeners() { return this._maxListeners ?? EventEmitter.defaultMaxListeners; },
  emit(name, ...args) {
    if (name === "error" && this._events?.[EventEmitter.errorMonitor] !== undefined) this.emit(EventEmitter.errorMonitor, ...args);
    const l = this._events?.[name];
    if (l === undefined) {
      if (name !== "error") return false;
      const [err] = args;
      if (err instanceof Error) throw err;
      const e = coded(Error, "ERR_UNHANDLED_ERROR", `Unhandled error. (${typeof err === "string" ? `'${err}'` : require("util").inspect(err)})`);
      e.context = err;
      throw e;
    }
    if (typeof l === "function") l.apply(this, args);
    else for (const f of [...l]) f.apply(this, args);
    return true;
  },
  addListener(name, f) { return add(this, name, f, false); },
  on(name, f) { return add(this, name, f, false); },
  prependListener(name, f) { return add(this, name, f, true); },
  once(name, f) { return this.on(name, wrapOnce(this, name, f)); },
  prependOnceListener(name, f) { return this.prependListener(name, wrapOnce(this, name, f)); },
  removeListener(name, f) {
    checkListener(f);
    const list = listOf(this, name), i = list.findLastIndex((x) => x === f || x.listener === f);
    if (i < 0) return this;
    const [gone] = list.length === 1 ? list : [list[i]];
    if (list.length === 1) {
      delete this._events[name];
      this._eventsCount--;
    } else {
      list.splice(i, 1);
      if (list.length === 1) this._events[name] = list[0];
    }
    if (this._events.removeListener !== undefined) this.emit("removeListener", name, gone.listener ?? f);
    return this;
  },
  removeAllListeners(name) {
    if (this._events === undefined) return this;
    if (arguments.length > 0) {
      for (const f of [...listOf(this, name)].reverse()) this.removeListener(name, f);
      return this;
    }
    for (const key of Reflect.ownKeys(this._events)) if (key !== "removeListener") this.removeAllListeners(key);
    this.removeAllListeners("removeListener");
    this._events = Object.create(null);
    this._eventsCount = 0;
    return this;
  },
  listeners(name) { return listOf(this, name).map((f) => f.listener ?? f); },
  rawListeners(name) { return [...listOf(this, name)]; },
  listenerCount(name, f) { return f ? listOf(this, name).filter((x) => x === f || x.listener === f).length : listOf(this, name).length; },
  eventNames() { return this._events ? Reflect.ownKeys(this._events) : []; },
});
EventEmitter.prototype.off = EventEmitter.prototype.removeListener;
for (const name of Object.keys(EventEmitter.prototype)) {
  if (!name.startsWith("_")) Object.defineProperty(EventEmitter.prototype, name, { enumerable: false });
}

function abortError(signal) {
  const e = new Error("The operation was aborted", { cause: signal?.reason });
  e.name = "AbortError";
  e.code = "ABORT_ERR";
  return e;
}

function once(emitter, name, { signal } = {}) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(abortError(signal));
    if (typeof emitter.addEventListener === "function" && typeof emitter.on !== "function") {
      return emitter.addEventListener(name, (e) => resolve([e]), { once: true });
    }
    const done = (f) => (...args) => {
      emitter.removeListener(name, ok);
      emitter.removeListener("error", bad);
      signal?.removeEventListener("abort", stop);
      f(...args);
    };
    const ok = done((...args) => resolve(args)), bad = done(reject), stop = done(() => reject(abortError(signal)));
    emitter.once(name, ok);
    if (name !== "error") emitter.once("error", bad);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

function on(emitter, name, { signal, close = [] } = {}) {
  const ready = [], waiting = [];
  let failed = null, over = false;
  const handler = (...args) => waiting.length ? waiting.shift().resolve({ value: args, done: false }) : ready.push(args);
  const fail = (e) => waiting.length ? waiting.shift().reject(e) : (failed = e);
  const stop = () => fail(abortError(signal));
  const finish = () => {
    over = true;
    emitter.off(name, handler);
    emitter.off("error", fail);
    signal?.removeEventListener("abort", stop);
    for (const w of waiting.splice(0)) w.resolve({ value: undefined, done: true });
    return Promise.resolve({ value: undefined, done: true });
  };
  if (signal?.aborted) throw abortError(signal);
  emitter.on(name, handler);
  if (name !== "error") emitter.on("error", fail);
  for (const c of close) emitter.on(c, finish);
  signal?.addEventListener("abort", stop, { once: true });
  return {
    next() {
      if (ready.length) return Promise.resolve({ value: ready.shift(), done: false });
      if (failed) {
        const e = failed;
        failed = null;
        finish();
        return Promise.reject(e);
      }
      if (over) return Promise.resolve({ value: undefined, done: true });
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
    return: finish,
    throw(e) { fail(e); return finish(); },
    [Symbol.asyncIterator]() { return this; },
  };
}

Object.assign(EventEmitter, {
  EventEmitter, once, on, defaultMaxListeners: 10, captureRejections: false, usingDomains: false, kCapture,
  captureRejectionSymbol: Symbol.for("nodejs.rejection"), errorMonitor: Symbol("events.errorMonitor"),
  listenerCount: (e, name) => e.listenerCount(name),
  getEventListeners: (e, name) => e.listeners?.(name) ?? [],
  getMaxListeners: (e) => e.getMaxListeners?.() ?? EventEmitter.defaultMaxListeners,
  setMaxListeners(n, ...emitters) {
    if (!emitters.length) EventEmitter.defaultMaxListeners = n;
    for (const e of emitters) e.setMaxListeners?.(n);
  },
  addAbortListener(signal, f) {
    if (signal.aborted) queueMicrotask(() => f());
    else signal.addEventListener("abort", f, { once: true });
    const dispose = () => signal.removeEventListener("abort", f);
    return { dispose, [Symbol.dispose ?? Symbol.for("Symbol.dispose")]: dispose };
  },
  EventEmitterAsyncResource: class extends EventEmitter {},
});
module.exports = EventEmitter;
