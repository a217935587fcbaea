// The dispatcher: pi, ctx and what calls the handlers of extensions. It evaluates to a
// function of the host's own function and of what does not change, which gives the way in.
//
// Code that runs after an extension was loaded uses the built-in functions saved here, because an
// extension may replace Array.prototype.push or JSON.stringify. Below, no method of an array, map or
// promise is called by its name, no array is spread into a call, and for…of walks only arrays of
// inOrder. Arrays grow by add: an extension may define a setter for an index on Array.prototype.
// What the engine itself looks up (then, constructor) is locked by lock.
(function (native, boot) {
"use strict";

const { apply } = Reflect;
const { parse, stringify } = JSON;
const { create, getPrototypeOf, setPrototypeOf, defineProperty, defineProperties, getOwnPropertyDescriptor, getOwnPropertyNames, freeze, keys: keysOf, assign, preventExtensions } = Object;
const { isArray } = Array;
const { indexOf, lastIndexOf, slice, split, trim } = String.prototype;
const { iterator } = Symbol;
for (const name of ["dispose", "asyncDispose"]) { // of using declarations, which the bundler lowers
  if (!Symbol[name]) defineProperty(Symbol, name, { value: Symbol(`Symbol.${name}`) });
}
const objects = Object.prototype, arrays = Array.prototype, functions = Function.prototype;
const { then } = Promise.prototype, { resolve: resolved } = Promise;
const mapMethods = { get: Map.prototype.get, set: Map.prototype.set, has: Map.prototype.has, delete: Map.prototype.delete };
const addTo = Set.prototype.add;
const sourceOf = Function.prototype.toString;
const { exec: match } = RegExp.prototype;
const { InternalError = class {} } = globalThis; // Node has none
const NewPromise = Promise, NewError = Error, NewTypeError = TypeError, NewMap = Map, NewSet = Set, NewProxy = Proxy, NewDate = Date, String_ = String, Number_ = Number;
const { now, parse: parseDate } = Date, { toISOString } = Date.prototype;
const random = Math.random, floor = Math.floor;
const Bytes = Uint8Array;
const world = globalThis;
const node = boot.node; // what is Node's own, where the engine is Node: it has its modules and globals itself

// slot is the descriptor that add uses, one for all: its members are its own.
const slot = { __proto__: null, value: undefined, writable: true, enumerable: true, configurable: true };

// add appends v to an array.
function add(list, v) {
  slot.value = v;
  defineProperty(list, list.length, slot);
  slot.value = undefined;
}

// joined appends the elements of tail to head and returns head.
function joined(head, tail) {
  for (let i = 0; i < tail.length; i++) add(head, tail[i]);
  return head;
}

// inOrder makes for…of walk an array by index.
function inOrder(list) {
  return defineProperty(list, iterator, { __proto__: null, value: () => {
    let i = 0;
    return { next: () => i < list.length ? { done: false, value: list[i++] } : { done: true, value: undefined } };
  } });
}

const keys = (o) => inOrder(keysOf(o));

// ---- the host ----

// HostError is a failure of the host as an Error that begins where it was asked.
function hostError(text) {
  let of;
  try { of = parse(text); } catch { of = { message: String_(text) }; }
  const e = new NewError(of.message);
  for (const k of inOrder(["code", "errno", "syscall", "path", "dest", "name"])) if (of[k] !== undefined) e[k] = of[k];
  return e;
}

// made puts together what the host gives as an array: JSON, and names and bytes.
function made(v) {
  if (!isArray(v)) return v;
  const o = parse(v[0]);
  for (let i = 1; i < v.length; i += 2) o[v[i]] = v[i + 1];
  return o;
}

// call asks the host. It throws texts: an Error of ours has a stack of the caller's.
function call(...args) { return callWith(args); }

function callWith(args) {
  let r;
  try { r = apply(native, undefined, args); } catch (e) { throw typeof e === "string" ? hostError(e) : e; }
  return made(r);
}

// newMap is a map of our own, with the methods of before.
function newMap() {
  const m = new NewMap();
  for (const k of inOrder(["get", "set", "has", "delete"])) defineProperty(m, k, { value: mapMethods[k] });
  return m;
}

function deferred() {
  const d = create(null);
  d.promise = new NewPromise((resolve, reject) => { d.resolve = resolve; d.reject = reject; });
  return d;
}

const ignore = () => {};
// These are Node's timers, or ours where there are none.
const { setTimeout: NodeTimeout, setInterval: NodeInterval, clearTimeout: clearNodeTimeout } = world;
const once = (f, ms) => node ? NodeTimeout(f, ms) : timer(f, ms, false, []);
const every = (f, ms) => node ? NodeInterval(f, ms) : timer(f, ms, true, []);
const cancelOnce = (t) => node ? clearNodeTimeout(t) : untimer(t);
// chain is promise.then with the then of before.
const chain = (p, done, failed) => apply(then, p, [done, failed]);
const promised = (v) => apply(resolved, NewPromise, [v]);

let lastId = boot.lastOp; // an answer to what an earlier realm asked is none to what this one asks
const waiting = newMap(); // what the host will answer: operations and questions to the daemon
const streams = newMap();

function begin(kind, name, ...args) {
  const d = deferred(), id = ++lastId;
  callWith(joined([kind, id, name], args));
  waiting.set(id, d);
  d.promise.id = id;
  return d.promise;
}

const host = freeze({
  op: (...args) => callWith(joined(["op"], args)),
  start: (...args) => apply(begin, undefined, joined(["start"], args)),
  pid: (id) => call("pid", id) ?? undefined,
  open(name, args, on) {
    const id = ++lastId;
    streams.set(id, on);
    try { callWith(joined(["open", id, name], args)); } catch (e) { streams.delete(id); throw e; }
    return id;
  },
  send: (id, event, ...values) => { if (streams.has(id)) callWith(joined(["send", id, event], values)); },
  close: (id) => { if (streams.delete(id)) call("close", id); },
  ask: (name, payload) => begin("ask", name, stringify(payload ?? null)),
  act: (name, payload) => call("act", name, stringify(payload ?? null)),
  log: (level, text) => call("log", level, String_(text)),
  require: (name, from) => requireFrom(from)(name),
  resolve: (name, from) => requireFrom(from).resolve(name),
  context: () => context(),
  boot,
});

// ---- modules ----

const loaded = create(null);

// requireShim gives a module of the prelude, made when it is first asked for: those, too,
// that stand in for what only Node has.
function requireShim(name) {
  if (node?.isBuiltin(name)) return node.require(name);
  const id = call("shim", name, true);
  if (id === undefined) throw missing(name);
  let m = loaded[id];
  if (m) return m.exports;
  m = loaded[id] = { id, exports: {} };
  try {
    apply(call("module", id), undefined, [m.exports, requireShim, m, host]);
  } catch (e) {
    delete loaded[id];
    throw e;
  }
  namespaces.set(m.exports, undefined);
  if (USED[id]) originals[id] = USED[id](m.exports);
  return m.exports;
}

// USED picks the members of modules that the host itself calls. Extensions share the modules and may
// replace their members, so the host keeps them as they were when the module was made.
const USED = {
  __proto__: null,
  "node:util": ({ format }) => ({ format }),
  "troupe:globals": ({ AbortController: c, TextDecoder: d }) => ({ Controller: c, abort: c.prototype.abort, Decoder: d, decode: d.prototype.decode }),
  "@mariozechner/pi-coding-agent": ({ convertToLlm, readStoredCredential }) => ({ convertToLlm, readStoredCredential }),
  "@mariozechner/pi-ai": ({ complete, completeSimple, stream, streamSimple }) => ({ complete, completeSimple, stream, streamSimple }),
};
const originals = create(null);

// original returns those members of a module.
function original(id) {
  if (node?.isBuiltin(id)) return node.require(id);
  requireShim(id);
  return originals[id];
}

// namespaces are what imports of modules of the prelude give: one for all bundles. They show the
// module as it is: a copy of each would have hundreds of members, most of which nobody wants.
const namespaces = newMap();
const namespace = {
  get: (o, name) => name === "default" ? o : o[name],
  has: (o, name) => name === "default" || name in o,
  set: () => false,
  defineProperty: () => false,
  deleteProperty: () => false,
};

function namespaceOf(exports) {
  let made = namespaces.get(exports);
  if (made || !namespaces.has(exports)) return made;
  made = new NewProxy(exports, namespace);
  namespaces.set(exports, made);
  return made;
}

function missing(name) {
  const e = new NewError("Cannot find module '" + name + "'");
  e.code = "MODULE_NOT_FOUND";
  return e;
}

// requireFrom is require of a file: for names that nobody knew before the file ran.
function requireFrom(from) {
  const cache = create(null);
  function require(name) {
    if (typeof name !== "string") throw new NewTypeError('The "id" argument must be of type string');
    if (node?.isBuiltin(name)) return node.require(name);
    if (call("shim", name) !== undefined) return requireShim(name);
    const own = node?.requireFrom(name, from);
    if (own) return own.exports;
    if (name in cache) return cache[name].exports;
    const found = call("bundle", name, from), code = found[0], file = found[1];
    const m = cache[name] = { exports: {} };
    try {
      apply((0, eval)("(function (exports, require, module, __filename) {" + code + "\n})\n//# sourceURL=" + file), m.exports, [m.exports, require, m, file]);
    } catch (e) {
      delete cache[name];
      throw e;
    }
    return m.exports;
  }
  require.resolve = (name) => {
    if (call("shim", name) !== undefined) return name;
    try { return call("resolve", name, from); } catch { throw missing(name); }
  };
  require.cache = cache;
  return require;
}

// nodeOnly is a module that only Node has: it can be imported, taken apart, extended and
// made instances of, and throws when something of it is called.
function nodeOnly(name) {
  const fail = () => {
    const e = new NewError(name[0] === "@" ? name + " is not here: install the package beside the extension" : name + " needs Node.js");
    e.code = "ERR_UNKNOWN_BUILTIN_MODULE";
    throw e;
  };
  const proxy = new NewProxy(function () {}, {
    get(_, member) {
      if (typeof member === "symbol" || member === "then" || member === "__esModule" || member === "toJSON") return undefined;
      if (member === "prototype") return {};
      return member === "default" ? proxy : nodeOnly(name + "." + member);
    },
    set: () => true,
    apply: fail, construct: () => nodeOnly(name),
    getPrototypeOf: () => proxy, // a copy of the module finds what it lacks here
  });
  return proxy;
}

const troupe = {
  addon(path) {
    if (!node) throw new NewError("Native addon " + path + " needs Node.js");
    return node.require(path);
  },
  nodeOnly(name) {
    if (node?.isBuiltin(name)) return node.require(name);
    if (call("shim", name, true) === undefined) return nodeOnly(name);
    return setPrototypeOf(requireShim(name), nodeOnly(name)); // what it lacks
  },
  require: requireShim,
  namespaceOf,
  requireFrom,
  missing,
  meta(file) {
    const i = file.lastIndexOf("/");
    const url = "file://" + encodeURI(file).replace(/[?#]/g, encodeURIComponent);
    const resolve = (name) => {
      if (name.startsWith("node:")) return name;
      try {
        return "file://" + requireFrom(file).resolve(name);
      } catch (e) {
        if (!/^(\.{0,2}\/|file:)/.test(name)) throw e;
        return new (requireShim("node:url").URL)(name, url).href; // Node does not look whether there is such a file
      }
    };
    return { url, dirname: file.slice(0, i) || "/", filename: file, resolve, main: false };
  },
  loaded(path, namespace) { pendingModules[path] = namespace; },
};
const pendingModules = create(null);
defineProperty(world, "__troupe", { value: freeze(troupe) });

// ---- globals ----

function lazy(name, from, pick) {
  defineProperty(world, name, {
    configurable: true, enumerable: false,
    get() {
      const v = pick ? pick(requireShim(from)) : requireShim(from)[name];
      defineProperty(world, name, { value: v, writable: true, configurable: true, enumerable: false });
      return v;
    },
    set(v) { defineProperty(world, name, { value: v, writable: true, configurable: true, enumerable: false }); },
  });
}
if (!node) {
lazy("Buffer", "node:buffer");
lazy("process", "node:process", (m) => m.default ?? m);
for (const n of ["URL", "URLSearchParams"]) lazy(n, "node:url");
for (const n of ["Event", "EventTarget", "CustomEvent", "AbortController", "AbortSignal", "DOMException", "TextEncoder", "TextDecoder",
  "structuredClone", "atob", "btoa", "performance", "navigator", "PerformanceEntry", "PerformanceMark", "PerformanceMeasure"]) lazy(n, "troupe:globals");
for (const n of ["fetch", "Headers", "Request", "Response", "FormData", "Blob", "File", "ReadableStream", "WritableStream", "TransformStream",
  "TextDecoderStream", "TextEncoderStream", "CompressionStream", "DecompressionStream", "crypto", "WebSocket", "Intl", "MessagePort", "MessageChannel"]) lazy(n, "troupe:web");
world.global = world;

function local(proto, name, f) { defineProperty(proto, name, { value: f, writable: true, configurable: true }); }

// The engine counts references: without this, a target of a WeakRef would go in the job that made it.
if (world.WeakRef) {
  const Weak = world.WeakRef, { deref } = Weak.prototype, resolved = Promise.resolve(), then = Promise.prototype.then;
  let kept;
  const keep = (target) => {
    if (kept) { defineProperty(kept, kept.length, { value: target }); return; }
    kept = [target];
    apply(then, resolved, [() => { kept = undefined; }]);
  };
  const Kept = { WeakRef: class extends Weak {
    constructor(target) { super(target); keep(target); }
    deref() {
      const target = apply(deref, this, []);
      if (target !== undefined) keep(target);
      return target;
    }
  } }.WeakRef;
  defineProperty(world, "WeakRef", { value: Kept, writable: true, configurable: true });
}
if (!Error.captureStackTrace) {
  local(Error, "captureStackTrace", function captureStackTrace(target) {
    if (target === null || typeof target !== "object" && typeof target !== "function") throw new TypeError("Invalid argument");
    const { stack } = new Error();
    defineProperty(target, "stack", { value: stack, writable: true, configurable: true });
  });
}
if (!Array.fromAsync) {
  local(Array, "fromAsync", async function fromAsync(items, map, self) {
    if (map !== undefined && typeof map !== "function") throw new TypeError(`${typeof map} is not a function`);
    const Type = typeof this === "function" && this !== Array ? this : Array, made = new Type();
    let i = 0;
    const put = async (v) => { defineProperty(made, i, { value: map ? await apply(map, self, [v, i]) : v, writable: true, enumerable: true, configurable: true }); i++; };
    if (items[Symbol.asyncIterator] || items[Symbol.iterator]) for await (const v of items) await put(v);
    else for (let n = floor(+items.length || 0), at = 0; at < n; at++) await put(await items[at]);
    made.length = i;
    return made;
  });
}

// Texts for people are made by Intl, which the engine does not have.
const intl = () => requireShim("troupe:intl");
local(Number_.prototype, "toLocaleString", function (l, o) { return intl().NumberFormat(l, o).format(this); });
local(BigInt.prototype, "toLocaleString", function (l, o) { return intl().NumberFormat(l, o).format(this); });
for (const [name, which] of [["toLocaleString", "both"], ["toLocaleDateString", "date"], ["toLocaleTimeString", "time"]]) {
  local(Date.prototype, name, function (l, o) { return isNaN(this) ? "Invalid Date" : intl().DateTimeFormat(l, intl().shown(o, which)).format(this); });
}
// A sort compares many texts with the same options: the last collator is kept.
let collator, collatorLocale, collatorOptions;
local(String_.prototype, "localeCompare", function (other, l, o) {
  const options = o === undefined ? undefined : stringify(o);
  if (!collator || collatorLocale !== l || collatorOptions !== options) {
    collator = intl().Collator(l, o);
    collatorLocale = l;
    collatorOptions = options;
  }
  return collator.compare(this, other);
});

}

if (node && !("WebSocket" in world)) lazy("WebSocket", "troupe:web"); // until Node 22

let lastTimer = 0;
const timers = newMap();

function timer(f, ms, repeat, args) {
  if (typeof f !== "function") throw new TypeError('The "callback" argument must be of type function');
  const id = ++lastTimer;
  ms = +ms;
  ms = ms >= 1 && ms <= 2147483647 ? floor(ms) : 1;
  timers.set(id, { f, args, repeat, ms });
  call("timer", id, ms, repeat);
  return new Timeout(id);
}

function untimer(t) {
  const id = t instanceof Timeout ? t.id : Number_(t);
  if (timers.delete(id)) call("untimer", id);
}

class Timeout {
  constructor(id) { defineProperty(this, "id", { value: id }); }
  ref() { return this; }
  unref() { call("unref", this.id, true); return this; }
  hasRef() { return true; }
  refresh() { const t = timers.get(this.id); if (t) call("timer", this.id, t.ms, t.repeat); return this; }
  close() { untimer(this); return this; }
  [Symbol.toPrimitive]() { return this.id; }
  [Symbol.dispose]() { untimer(this); }
}

function fire(id) {
  const t = timers.get(id);
  if (!t) return;
  if (!t.repeat) timers.delete(id);
  try {
    const r = apply(t.f, undefined, t.args);
    if (r && typeof r.then === "function") report(r, "timer");
  } catch (e) { failed(ownerOf(), "timer", e); }
}

// report reports the failure of what nobody awaits.
function report(promise, event, ext) {
  chain(promised(promise), ignore, (e) => failed(ext, event, e));
}

if (!node) defineProperties(world, {
  setTimeout: { value: (f, ms, ...args) => timer(f, ms, false, args), writable: true, configurable: true },
  setInterval: { value: (f, ms, ...args) => timer(f, ms, true, args), writable: true, configurable: true },
  setImmediate: { value: (f, ...args) => timer(f, 0, false, args), writable: true, configurable: true },
  clearTimeout: { value: untimer, writable: true, configurable: true },
  clearInterval: { value: untimer, writable: true, configurable: true },
  clearImmediate: { value: untimer, writable: true, configurable: true },
  queueMicrotask: { value: (f) => { chain(promised(), () => { try { f(); } catch (e) { failed(undefined, "microtask", e); } }, ignore); }, writable: true, configurable: true },
});

function shown(args) {
  try {
    return apply(original("node:util").format, undefined, args);
  } catch {
    let s = "";
    for (let i = 0; i < args.length; i++) {
      let a = args[i];
      if (typeof a === "object" && a !== null && !(a instanceof NewError)) try { a = stringify(a); } catch {}
      s += (i ? " " : "") + String_(a);
    }
    return s;
  }
}
{
  const counts = create(null), times = create(null);
  const level = (name) => (...args) => call("log", name, shown(args));
  world.console = {
    ...world.console, // Node's has more
    log: level("info"), info: level("info"), debug: level("debug"), warn: level("warn"), error: level("error"),
    trace: (...a) => call("log", "info", "Trace: " + shown(a) + "\n" + new NewError().stack),
    dir: (x) => call("log", "info", shown([x])), table: (x) => call("log", "info", shown([x])),
    assert: (ok, ...a) => { if (!ok) call("log", "error", "Assertion failed" + (a.length ? ": " + shown(a) : "")); },
    count: (n = "default") => call("log", "info", n + ": " + (counts[n] = (counts[n] ?? 0) + 1)), countReset: (n = "default") => { delete counts[n]; },
    time: (n = "default") => { times[n] = now(); }, timeLog: (n = "default") => call("log", "info", n + ": " + (now() - times[n]) + "ms"),
    timeEnd: (n = "default") => { call("log", "info", n + ": " + (now() - times[n]) + "ms"); delete times[n]; },
    group: level("info"), groupCollapsed: level("info"), groupEnd: ignore,
  };
}

// ---- what extensions registered ----

let exts = [];        // in load order
let generation = 0;   // of the session: what an older one captured is stale
let bound = false;    // loading is over
let said = false;     // and what is registered was told
let dirty = false;    // registrations changed since they were told
let current;          // the extension whose factory runs
const RUNTIME = "<runtime>";

function ownerOf() { return undefined; }

function messageOf(e) {
  try {
    if (e !== null && typeof e === "object" && typeof e.message === "string") return e.message || String_(e.name || "Error");
    if (e === null && !node) return "null, or out of memory"; // where there is none for an error either
    return String_(e);
  } catch { return "an error that has no text"; }
}

function stackOf(e) {
  try {
    if (typeof e.stack !== "string") return "";
    return node ? apply(slice, e.stack, [apply(indexOf, "\n" + e.stack, ["\n    at "])]) : e.stack; // Node's begins with the message
  } catch { return ""; }
}

// failed reports. That a turn was cut short the host says itself.
function failed(ext, event, e) {
  if (e instanceof InternalError && e.message === "interrupted") return;
  call("error", typeof ext === "string" ? ext : ext ? ext.path : RUNTIME, event, messageOf(e), stackOf(e));
}

function changed() {
  handlers = create(null);
  if (!bound) return;
  if (!dirty) node ? chain(promised(), flush) : call("changed"); // and the host asks for them
  dirty = true;
}

// registrations is what the session has to know.
function registrations() {
  const listens = [], names = create(null), tools = [], commands = [], flags = [], providers = [], kinds = [];
  const uses = create(null), nth = create(null);
  for (let i = 0; i < exts.length; i++) for (const c of keys(exts[i].commands)) uses[c] = (uses[c] ?? 0) + 1;
  for (let i = 0; i < exts.length; i++) {
    const x = exts[i];
    for (const e of keys(x.handlers)) if (x.handlers[e].length && !names[e]) { names[e] = true; add(listens, e); }
    for (const n of keys(x.tools)) {
      const t = x.tools[n];
      if (toolOwner(n) !== x) continue;
      add(tools, {
        name: n, label: t.label ?? n, description: t.description ?? "", parameters: schemaOf(t.parameters), path: x.path,
        promptSnippet: t.promptSnippet, promptGuidelines: t.promptGuidelines, executionMode: t.executionMode, prepares: typeof t.prepareArguments === "function" ? true : undefined,
        defaultActive: t.defaultActive, exposure: t.exposure, annotations: t.annotations, namespace: t.namespace,
      });
    }
    for (const n of keys(x.commands)) {
      const name = uses[n] > 1 ? n + ":" + (nth[n] = (nth[n] ?? 0) + 1) : n;
      add(commands, { name, description: x.commands[n].description, path: x.path });
      commandNames[name] = [x, n];
    }
    for (const n of keys(x.flags)) if (flagOwner(n) === x) add(flags, { name: n, ...x.flags[n], path: x.path });
    for (const n of keys(x.providers)) add(providers, { name: n, config: x.providers[n], path: x.path });
    for (const n of keys(x.kinds)) add(kinds, n);
  }
  return { listens, tools, commands, flags, providers, messageKinds: kinds };
}
let commandNames = create(null);

const schemaOf = (s) => s === undefined ? undefined : parse(stringify(s));

function toolOwner(name) {
  for (let i = 0; i < exts.length; i++) if (exts[i].tools[name]) return exts[i];
}

function flagOwner(name) {
  for (let i = 0; i < exts.length; i++) if (exts[i].flags[name]) return exts[i];
}

function flush() {
  if (!dirty || !said) return;
  dirty = false;
  commandNames = create(null);
  call("regs", stringify(registrations()));
}

// ---- the mirror: what handlers read without waiting ----

let snap = create(null);
snap.cwd = boot.cwd; // factories look at it before the session says what it is
let mirror;           // entries of the session, read when first asked for
let early = [];       // entries that came before that
let growing;          // the message that message_update shows

function readMirror() {
  if (mirror) return mirror;
  mirror = { header: null, entries: [], byId: newMap(), leaf: null, labels: newMap(), guesses: [] };
  const text = call("session");
  if (typeof text === "string") {
    let at = 0;
    while (at < text.length) {
      let end = apply(indexOf, text, ["\n", at]);
      if (end < 0) end = text.length;
      const line = apply(slice, text, [at, end]);
      at = end + 1;
      if (!apply(trim, line, [])) continue;
      let e;
      try { e = parse(line); } catch { continue; } // a line that is being written
      if (e.type === "session") mirror.header = e; else addEntry(e);
    }
  }
  for (let i = 0; i < early.length; i++) addEntry(early[i]);
  early = [];
  if (snap.leafId !== undefined) mirror.leaf = snap.leafId;
  return mirror;
}

function addEntry(e) {
  if (!e || typeof e.id !== "string" || mirror.byId.has(e.id)) return;
  for (let i = 0; i < mirror.guesses.length; i++) { // what was put in by hand came back from the log
    const g = mirror.guesses[i];
    if (g.type === e.type && g.customType === e.customType && g.targetId === e.targetId) {
      dropEntry(g);
      for (let j = i; j + 1 < mirror.guesses.length; j++) mirror.guesses[j] = mirror.guesses[j + 1];
      mirror.guesses.length--;
      break;
    }
  }
  add(mirror.entries, e);
  mirror.byId.set(e.id, e);
  if (e.type === "label") {
    if (e.label === undefined) mirror.labels.delete(e.targetId); else mirror.labels.set(e.targetId, e.label);
  }
  mirror.leaf = e.id;
}

function dropEntry(g) {
  mirror.byId.delete(g.id);
  const rest = [];
  for (let i = 0; i < mirror.entries.length; i++) if (mirror.entries[i] !== g) add(rest, mirror.entries[i]);
  mirror.entries = rest;
  if (mirror.leaf === g.id) mirror.leaf = g.parentId;
}

// guess puts an entry into the mirror that an action asked for, until it comes from
// the log: what a handler wrote, it reads.
function guess(e) {
  const m = readMirror();
  let id = "";
  do { id = ""; for (let i = 0; i < 8; i++) id += "0123456789abcdef"[floor(random() * 16)]; } while (m.byId.has(id));
  const entry = { type: e.type, id, parentId: m.leaf, timestamp: apply(toISOString, new NewDate(), []), ...e };
  add(m.entries, entry);
  m.byId.set(id, entry);
  m.leaf = id;
  add(m.guesses, entry);
  if (e.type === "label") { if (e.label === undefined) m.labels.delete(e.targetId); else m.labels.set(e.targetId, e.label); }
  return entry;
}

function branchOf(id) {
  const m = readMirror(), path = [];
  let at = id === undefined ? m.leaf : id;
  while (at) {
    const e = m.byId.get(at);
    if (!e) break;
    add(path, e);
    at = e.parentId;
  }
  const out = [];
  for (let i = path.length - 1; i >= 0; i--) add(out, path[i]);
  return out;
}

function treeOf() {
  const m = readMirror(), nodes = newMap(), roots = [];
  for (let i = 0; i < m.entries.length; i++) {
    const e = m.entries[i];
    nodes.set(e.id, { entry: e, children: [], label: m.labels.get(e.id) });
  }
  for (let i = 0; i < m.entries.length; i++) {
    const e = m.entries[i], n = nodes.get(e.id);
    const up = e.parentId && e.parentId !== e.id ? nodes.get(e.parentId) : undefined;
    const list = up ? up.children : roots;
    add(list, n);
  }
  return roots;
}

// contextEntries is the part of a branch that a model is shown: from the last
// compaction on, its summary first.
function contextEntries() {
  const path = branchOf();
  let at = -1;
  for (let i = 0; i < path.length; i++) if (path[i].type === "compaction") at = i;
  if (at < 0) return path;
  const out = [path[at]], first = path[at].firstKeptEntryId;
  let keep = false;
  for (let i = 0; i < at; i++) {
    if (path[i].id === first) keep = true;
    if (keep) add(out, path[i]);
  }
  for (let i = at + 1; i < path.length; i++) add(out, path[i]);
  return out;
}

function contextMessage(e) {
  switch (e.type) {
    case "message": return e.message;
    case "custom_message": return { role: "custom", customType: e.customType, content: e.content, display: e.display, details: e.details, timestamp: parseDate(e.timestamp) };
    case "compaction": return { role: "compactionSummary", summary: e.summary, tokensBefore: e.tokensBefore, timestamp: parseDate(e.timestamp) };
    case "branch_summary": return e.summary ? { role: "branchSummary", summary: e.summary, fromId: e.fromId, timestamp: parseDate(e.timestamp) } : undefined;
  }
}

function sessionContext() {
  const list = contextEntries(), messages = [];
  let thinkingLevel = "off", model = null;
  const path = branchOf();
  for (let i = 0; i < path.length; i++) {
    const e = path[i];
    if (e.type === "thinking_level_change") thinkingLevel = e.thinkingLevel;
    else if (e.type === "model_change") model = { provider: e.provider, modelId: e.modelId };
    else if (e.type === "message" && e.message.role === "assistant") model = { provider: e.message.provider, modelId: e.message.model };
  }
  for (let i = 0; i < list.length; i++) {
    const m = contextMessage(list[i]);
    if (m) add(messages, m);
  }
  return { messages, thinkingLevel, model };
}

// projected says of each entry what of it a model is shown.
function projected() {
  const list = contextEntries(), out = [];
  for (let i = 0; i < list.length; i++) {
    const m = contextMessage(list[i]);
    add(out, { sourceEntry: list[i], messages: m ? [m] : [] });
  }
  return out;
}

const sessionManager = {
  getCwd: () => snap.cwd,
  getSessionDir: () => snap.sessionDir ?? (snap.sessionFile ? apply(slice, snap.sessionFile, [0, apply(lastIndexOf, snap.sessionFile, ["/"])]) : ""),
  getSessionId: () => snap.sessionId ?? readMirror().header?.id ?? "",
  getSessionFile: () => snap.sessionFile,
  getSessionName: () => snap.sessionName,
  getLeafId: () => readMirror().leaf ?? null,
  getLeafEntry: () => readMirror().byId.get(readMirror().leaf),
  getLeafUuid: () => readMirror().leaf ?? null,
  getEntry: (id) => readMirror().byId.get(id),
  getLabel: (id) => readMirror().labels.get(id),
  getBranch: (id) => branchOf(id),
  getPath: (id) => branchOf(id),
  getChildren: (id) => { const out = [], m = readMirror(); for (let i = 0; i < m.entries.length; i++) if (m.entries[i].parentId === id) add(out, m.entries[i]); return out; },
  getHeader: () => readMirror().header ?? { type: "session", version: 3, id: sessionManager.getSessionId(), timestamp: apply(toISOString, new NewDate(), []), cwd: snap.cwd },
  getEntries: () => { const out = [], m = readMirror(); for (let i = 0; i < m.entries.length; i++) add(out, m.entries[i]); return out; },
  getTree: treeOf,
  buildContextEntries: contextEntries,
  buildSessionContext: sessionContext,
  buildSessionProjection: () => ({ entries: projected(), ...sessionContext() }),
  getSessionContext: sessionContext,
  loadEntries: () => sessionManager.getEntries(),
  getEntryCount: () => readMirror().entries.length,
  isPersisted: () => snap.sessionFile !== undefined,
};

// ---- models ----

const modelOf = (provider, id) => {
  const list = snap.models ?? [];
  for (let i = 0; i < list.length; i++) if (list[i].provider === provider && list[i].id === id) return list[i];
  const others = knownModels(String_(provider));
  for (let i = 0; i < others.length; i++) if (others[i].id === id) return others[i];
};

// knownModels are those of providers that nobody has a key for, too: of one, or of all
// for "". The snapshot has only what can be used.
const known = create(null);
const knownModels = (provider) => known[provider] ??= host.op("models", provider);

function allModels() {
  const all = copyOf(snap.models ?? []), there = create(null), others = knownModels("");
  for (let i = 0; i < all.length; i++) there[all[i].provider + "/" + all[i].id] = true;
  for (let i = 0; i < others.length; i++) if (!there[others[i].provider + "/" + others[i].id]) add(all, others[i]);
  return all;
}

function ofProvider(list, provider) {
  if (provider === undefined) return list;
  const out = [];
  for (let i = 0; i < list.length; i++) if (list[i].provider === provider) add(out, list[i]);
  return out;
}

// registeredProvider is the configuration of a provider as an extension gave it.
function registeredProvider(id) {
  for (let i = 0; i < exts.length; i++) if (exts[i].live["provider:" + id]) return exts[i].live["provider:" + id];
}

// ownApi is pi of nobody: what is registered at the registry, and not by an extension.
function ownApi() {
  for (let i = 0; i < exts.length; i++) if (exts[i].path === RUNTIME) return apiOf(exts[i]);
  const x = extension(RUNTIME);
  add(exts, x);
  return apiOf(x);
}

const modelRegistry = {
  find: modelOf,
  findOfType: (type, provider, id) => type === "chat" || type === "llm" ? modelOf(provider, id) : undefined,
  getModelOfType: (type, provider, id) => modelRegistry.findOfType(type, provider, id), // since 1.0; other types than chat have no models here
  getModelsOfType: (type, provider) => type === "chat" ? ofProvider(allModels(), provider) : [],
  getAvailableOfType: async (type, provider) => type === "chat" ? ofProvider(modelRegistry.getAvailable(), provider) : [],
  classify: async () => { throw new NewError("There are no classifiers here"); },
  generateImages: async () => { throw new NewError("There are no models of images here"); },
  getAll: allModels,
  getAvailable: () => copyOf(snap.availableModels ?? snap.models ?? []),
  getError: () => undefined,
  getApiKey: (model) => chain(host.ask("apiKey", { provider: typeof model === "string" ? model : model?.provider }), (r) => r?.apiKey),
  getApiKeyForProvider: (provider) => chain(host.ask("apiKey", { provider: String_(provider) }), (r) => r?.apiKey),
  getApiKeyAndHeaders: (model) => chain(host.ask("apiKey", { provider: model?.provider, modelId: model?.id }),
    (r) => ({ ok: true, apiKey: r?.apiKey, headers: r?.headers })), // no key is no error, and whoever asks looks
  getProviderAuth: (provider) => host.ask("apiKey", { provider }),
  hasConfiguredAuth: (model) => {
    const provider = typeof model === "string" ? model : model?.provider, list = snap.availableModels ?? [];
    for (let i = 0; i < list.length; i++) if (list[i].provider === provider) return true;
    return false;
  },
  isUsingOAuth(model) {
    const list = snap.oauthProviders ?? [];
    for (let i = 0; i < list.length; i++) if (list[i] === model?.provider) return true;
    return false;
  },
  getProvider(id) {
    const models = ofProvider(allModels(), id);
    if (!models.length) return undefined;
    const of = (m, context, options) => modelRegistry.stream(m, context, options);
    return { id, name: modelRegistry.getProviderDisplayName(id), baseUrl: models[0].baseUrl, auth: {}, getModels: () => copyOf(models), getAllModels: () => copyOf(models), stream: of, streamSimple: of };
  },
  getProviderAuthStatus: (id) => ({ configured: modelRegistry.hasConfiguredAuth(String_(id)) }),
  getProviderDisplayName: (id) => registeredProvider(id)?.name ?? host.op("models.name", String_(id)),
  getRegisteredProviderIds() {
    const out = [];
    for (let i = 0; i < exts.length; i++) for (const n of keys(exts[i].providers)) if (!exts[i].providers[n].virtual) add(out, n);
    return out;
  },
  getRegisteredProviderConfig: (id) => registeredProvider(id),
  getRegisteredNativeProvider: (id) => registeredProvider(id)?.native,
  refresh: async () => { await refreshProviders(); },
  registerProvider: (name, config) => ownApi().registerProvider(name, config),
  unregisterProvider: (name) => ownApi().unregisterProvider(name),
  registerVirtualModel: (model) => ownApi().registerVirtualModel(model),
  unregisterVirtualModel: (provider, id) => ownApi().unregisterVirtualModel(provider, id),
  complete: (model, context, options) => original("@mariozechner/pi-ai").complete(model, context, options),
  completeSimple: (model, context, options) => original("@mariozechner/pi-ai").completeSimple(model, context, options),
  stream: (model, context, options) => original("@mariozechner/pi-ai").stream(model, context, options),
  streamSimple: (model, context, options) => original("@mariozechner/pi-ai").streamSimple(model, context, options),
  authStorage: { getApiKey: (p) => modelRegistry.getApiKeyForProvider(p), get: () => undefined, has: (p) => modelRegistry.hasConfiguredAuth(p), list: () => copyOf(snap.authProviders ?? []) },
};

function copyOf(list) {
  const out = [];
  for (let i = 0; i < list.length; i++) add(out, list[i]);
  return out;
}

// ---- ctx.ui ----

let dialogs = 0;
let crowded = false;    // it was said that there are too many
const MOST_DIALOGS = 64;
const openDialogs = []; // what takes each back
let asking;             // whose dialogs are opened now

function drop(list, x) {
  let n = 0;
  for (let i = 0; i < list.length; i++) if (list[i] !== x) list[n++] = list[i];
  list.length = n;
}

function dismiss(open) {
  const all = copyOf(open);
  for (let i = 0; i < all.length; i++) all[i]();
}

const DIALOGS = { __proto__: null, select: true, confirm: true, input: true, editor: true };

// Asker stands for handlers, or a tool, that may ask a person. When nobody waits for them
// any more, their dialogs are taken back, and they open no others until they are through.
class Asker {
  constructor() {
    this.of = generation;
    this.gone = false;
    this.open = [];
  }
  abort() {
    this.gone = true;
    dismiss(this.open);
    this.controller?.abort();
  }
  // ui is ctx.ui, made when it is asked for: most handlers ask nobody.
  get ui() {
    return this.own ??= new NewProxy(ui, { get: (o, name) => {
      const f = o[name];
      if (!DIALOGS[name]) return f;
      return (x, y, z) => {
        asking = this;
        try { return apply(f, o, [x, y, z]); } finally { asking = undefined; }
      };
    } });
  }
  // get makes it the handler of a proxy, that of ctx.
  get(o, name) {
    const v = o[name];
    return name === "ui" ? this.ui : v;
  }
}
const MOST_TIMEOUT = 2147483647; // of a timer of Node's

// dialog asks a person. Who does not answer in time, or is not there, has not said yes.
async function dialog(record, none, pick, opts) {
  const by = asking, signal = opts?.signal;
  if (signal?.aborted || by && (by.gone || by.of !== generation)) return none;
  if (record.method === "select" && !record.options) throw new NewError("ctx.ui.select: the options have to be an array");
  let timeout = opts?.timeout;
  if (typeof timeout === "string") timeout = +timeout; // as a timer takes it
  if (typeof timeout === "number" && timeout) record.timeout = timeout >= 1 ? floor(timeout < MOST_TIMEOUT ? timeout : MOST_TIMEOUT) : 1; // NaN is none, less than nothing is over at once
  if (dialogs >= MOST_DIALOGS) {
    if (!crowded) failed(undefined, "ui", new NewError("more than " + MOST_DIALOGS + " dialogs are open"));
    crowded = true;
    return none;
  }
  dialogs++;
  let asked;
  try { asked = begin("ask", "ui", stringify(record)); } catch (e) { dialogs--; throw e; }
  const cancel = () => {
    const d = waiting.get(asked.id);
    if (!d) return;
    waiting.delete(asked.id);
    call("unask", asked.id);
    d.resolve({ cancelled: true });
  };
  signal?.addEventListener?.("abort", cancel, { once: true });
  add(openDialogs, cancel);
  if (by) add(by.open, cancel);
  try {
    const r = await asked;
    return !r || r.cancelled ? none : pick(r);
  } catch { // the session is going
    return none;
  } finally {
    dialogs--;
    crowded = false;
    drop(openDialogs, cancel);
    if (by) drop(by.open, cancel);
    signal?.removeEventListener?.("abort", cancel);
  }
}

const value = (r) => typeof r.value === "string" ? r.value : undefined;
const lines = (v) => { const out = []; for (let i = 0; i < v.length; i++) add(out, String_(v[i])); return out; };
const textOf = (v) => v === undefined || v === null ? undefined : String_(v);
const plain = new NewProxy({}, { // a theme that leaves text as it is
  get(_, name) {
    if (name === "name") return "plain";
    if (typeof name === "symbol" || name === "then" || name === "toJSON") return undefined;
    if (name === "getColorMode") return () => "none";
    if (name === "getFgAnsi" || name === "getBgAnsi") return () => "";
    if (name === "getThinkingBorderColor" || name === "getBashModeBorderColor") return () => (s) => s;
    return (...args) => args.length ? String_(args[args.length - 1]) : "";
  },
});

const ui = {
  select: (title, options, opts) => dialog({ method: "select", title: textOf(title), options: isArray(options) ? lines(options) : undefined }, undefined, value, opts),
  confirm: (title, message, opts) => dialog({ method: "confirm", title: textOf(title), message: textOf(message) }, false, (r) => r.confirmed === true, opts),
  input: (title, placeholder, opts) => dialog({ method: "input", title: textOf(title), placeholder: textOf(placeholder) }, undefined, value, opts),
  editor: (title, prefill) => dialog({ method: "editor", title: textOf(title), prefill: textOf(prefill) }, undefined, value),
  notify: (message, type) => host.act("ui", { method: "notify", message: textOf(message), notifyType: type === "info" || type === "warning" || type === "error" ? type : undefined }),
  setStatus: (key, text) => host.act("ui", { method: "setStatus", statusKey: String_(key), statusText: textOf(text) }),
  setWidget(key, content, options) {
    if (content !== undefined && content !== null && !isArray(content)) return; // a component
    const at = options?.placement;
    host.act("ui", { method: "setWidget", widgetKey: String_(key), widgetLines: content ? lines(content) : undefined, widgetPlacement: at === "aboveEditor" || at === "belowEditor" ? at : undefined });
  },
  setTitle: (title) => host.act("ui", { method: "setTitle", title: textOf(title) }),
  setEditorText: (text) => host.act("ui", { method: "set_editor_text", text: textOf(text) }),
  pasteToEditor: (text) => host.act("ui", { method: "set_editor_text", text: textOf(text) }),
  getEditorText: () => "",
  async custom() { // which nobody sees
    for (const type of inOrder(["ui_prompt_start", "ui_prompt_end"])) await combined({ type, reason: "ui_prompt", kind: "custom" });
  },
  setWorkingMessage: ignore, setWorkingVisible: ignore, setWorkingIndicator: ignore, setHiddenThinkingLabel: ignore,
  setFooter: ignore, setHeader: ignore, setEditorComponent: ignore, getEditorComponent: () => undefined,
  addAutocompleteProvider: () => ignore, onTerminalInput: () => ignore,
  theme: plain,
  getAllThemes: () => [], getTheme: () => undefined,
  setTheme: () => ({ success: false, error: "Theme switching not supported in RPC mode" }),
  getToolsExpanded: () => false, setToolsExpanded: ignore,
};

// ---- ctx ----

let run;              // the controller of the run in progress

// web holds what the host uses of Node's own globals, as it was at first.
const web = node
  ? { __proto__: null, Controller: world.AbortController, abort: world.AbortController.prototype.abort, Decoder: world.TextDecoder, decode: world.TextDecoder.prototype.decode }
  : undefined;
const signalOf = node && getOwnPropertyDescriptor(world.AbortController.prototype, "signal").get;

// newController returns the signal of a new AbortController and the function that aborts it.
function newController() {
  const { Controller, abort } = web ?? original("troupe:globals");
  const c = new Controller();
  return { signal: node ? apply(signalOf, c, []) : c.signal, abort: () => apply(abort, c, []) };
}

function signalOfRun() {
  if (!snap.running) return undefined;
  run ??= newController();
  return run.signal;
}

function stale() {
  return new NewError("This extension instance is stale: the session was replaced. Use the ctx that withSession gives.");
}

// guarded makes the members of o throw when the session that it was made for is gone.
function guarded(o) {
  const of = generation;
  return new NewProxy(o, {
    get(o, name) {
      if (of !== generation && typeof name !== "symbol" && name !== "then") throw stale();
      return o[name];
    },
  });
}

const commandOnly = inOrder(["waitForIdle", "newSession", "fork", "branch", "navigateTree", "switchSession", "reload", "getSystemPromptOptions"]);

// context is ctx of a handler; commands and tools have more. One serves a session.
function context(kind) {
  if (contexts.of !== generation) contexts = { of: generation };
  return contexts[kind ?? "handler"] ??= newContext(kind);
}
let contexts = { of: -1 };

function newContext(kind) {
  const o = {
    ui: new Asker().ui, sessionManager, modelRegistry,
    hasUI: boot.mode === "rpc", mode: boot.mode,
    get cwd() { return snap.cwd; },
    get model() { return snap.model ?? undefined; },
    get scopedModels() { return copyOf(snap.scopedModels ?? []); },
    get thinkingLevel() { return snap.thinkingLevel; },
    get signal() { return signalOfRun(); },
    get sessionFile() { return snap.sessionFile ?? null; },
    isIdle: () => snap.idle !== false,
    isProjectTrusted: () => snap.trusted === true,
    abort: () => host.act("abort"),
    hasPendingMessages: () => (snap.pending ?? 0) > 0,
    hasQueuedMessages: () => (snap.pending ?? 0) > 0,
    shutdown: () => host.act("shutdown"),
    getContextUsage: () => snap.contextUsage ?? undefined,
    compact(options) {
      chain(host.ask("compact", { customInstructions: options?.customInstructions }), (r) => options?.onComplete?.(r), (e) => {
        if (options?.onError) options.onError(e); else failed(undefined, "compact", e);
      });
    },
    getSystemPrompt: () => snap.systemPrompt ?? "",
    exec: (command, args, options) => exec(command, args, options),
  };
  if (kind === "command") assign(o, commandMembers());
  else for (const name of commandOnly) o[name] = () => { throw new NewError("ctx." + name + "() is only there in command handlers"); };
  return guarded(o);
}

// handlerContext is ctx of the handlers of one event.
function handlerContext(by) {
  return new NewProxy(context(), by);
}

// toolContext is ctx of one call of a tool, which may call others.
function toolContext(parent, by) {
  return new NewProxy(context("tool"), { get(o, name) {
    if (name === "ui") { o.cwd; return by.ui; }
    if (name === "executeTool") { o.cwd; return (tool, args, options) => executeTool(parent, String_(tool), args ?? {}, options); } // o.cwd: is the session still there?
    if (name === "tools") return parse(stringify(callable()));
    return o[name];
  } });
}

// callable are the tools that others may call.
function callable() {
  const out = [], active = create(null), tools = toolsOf();
  for (let i = 0; i < (snap.activeTools?.length ?? 0); i++) active[snap.activeTools[i]] = true;
  for (let i = 0; i < tools.length; i++) if (active[tools[i].name] && tools[i].exposure !== "model-only") add(out, tools[i]);
  return out;
}

// executeTool calls a tool on behalf of a call. How that fails is a result, too.
function executeTool(parent, name, args, options) {
  const d = deferred(), signal = options?.signal, asked = now();
  const failure = (text) => ({ toolCall: { type: "toolCall", id: parent, name, arguments: args }, result: { content: [{ type: "text", text }], details: {} }, isError: true, durationMs: now() - asked });
  if (toolOwner(name)?.tools[name].exposure === "model-only") { d.resolve(failure("Tool " + name + " not found")); return d.promise; }
  if (signal?.aborted) { d.resolve(failure("Tool execution aborted")); return d.promise; }
  const id = host.open("executeTool", [{ parent, name, args }], (event, v) => {
    if (event === "part") {
      try { options?.onUpdate?.(v); } catch (e) { failed(undefined, "executeTool", e); }
      return;
    }
    over();
    if (event === "error") d.reject(new NewError(v.message)); else d.resolve(v);
  });
  const over = () => { host.close(id); signal?.removeEventListener?.("abort", cancel); };
  const cancel = () => { over(); d.resolve(failure("Tool execution aborted")); };
  signal?.addEventListener?.("abort", cancel, { once: true });
  return d.promise;
}

const reloads = []; // that handlers wait for

function commandMembers() {
  const replace = async (name, payload, options) => {
    const writes = [];
    if (options?.setup) await options.setup(recorder(writes));
    if (writes.length) payload.setup = writes;
    const r = await host.ask(name, payload);
    if (r?.cancelled) return { cancelled: true };
    if (options?.withSession) await options.withSession(sessionContextOf());
    return { cancelled: false };
  };
  return {
    waitForIdle: () => host.ask("waitForIdle"),
    newSession: (options) => replace("newSession", { parentSession: options?.parentSession }, options),
    fork: (entryId, options) => replace("fork", { entryId, position: options?.position }, options),
    branch: (entryId, options) => replace("fork", { entryId, position: options?.position }, options),
    switchSession: (sessionPath, options) => replace("switchSession", { sessionPath }, options),
    navigateTree: async (targetId, options) => {
      const { summarize, customInstructions, replaceInstructions, label } = options ?? {};
      const r = await host.ask("navigateTree", { targetId, summarize, customInstructions, replaceInstructions, label });
      return { cancelled: r?.cancelled === true };
    },
    reload() {
      const d = deferred();
      add(reloads, d);
      chain(host.ask("reload"), () => d.resolve(), d.reject);
      return d.promise;
    },
    getSystemPromptOptions: () => snap.systemPromptOptions ?? {},
  };
}

// sessionContextOf is ctx of the session that came after: with messages that are promises.
function sessionContextOf() {
  const c = context("command");
  const extra = {
    sendMessage: async (message, options) => { sendMessage(message, options); },
    sendUserMessage: async (content, options) => { sendUserMessage(content, options); },
  };
  return new NewProxy(c, { get: (o, name) => extra[name] ?? o[name] });
}

// recorder notes what newSession({setup}) writes, for the new log to take in one go.
function recorder(writes) {
  const note = (method) => (...args) => { add(writes, { method, args }); return "setup-" + writes.length; };
  const o = { ...sessionManager, getEntries: () => [], getBranch: () => [], getLeafId: () => null };
  for (const m of inOrder(["appendMessage", "appendCustomEntry", "appendCustomMessageEntry", "appendThinkingLevelChange", "appendModelChange", "appendSessionInfo",
    "appendLabelChange", "appendCompaction"])) o[m] = note(m);
  for (const m of inOrder(["branch", "branchWithSummary", "resetLeaf"])) o[m] = () => { throw new NewError(m + "() is not available in setup: the session is new"); };
  return o;
}

// ---- pi ----

const checkBound = () => {
  if (!bound) throw new NewError("Extension runtime not initialized. Action methods cannot be called during extension loading.");
};

function sendMessage(message, options) {
  checkBound();
  if (options === true || options === false) options = { triggerTurn: options };
  const { customType, content, display, details } = message;
  const sent = { customType, content: content ?? [], display: display !== false, details };
  if (snap.idle !== false && !options?.triggerTurn && options?.deliverAs !== "nextTurn") guess({ type: "custom_message", ...sent });
  host.act("sendMessage", { message: sent, options: options ?? {} });
}

function sendUserMessage(content, options) {
  checkBound();
  host.act("sendUserMessage", { content: content ?? [], options: options ?? {} });
}

function exec(command, args, options) {
  const d = deferred();
  const { cwd, timeout, maxBuffer, signal } = options ?? {};
  const list = [];
  for (let i = 0; i < (args?.length ?? 0); i++) add(list, String_(args[i]));
  const id = host.open("exec", [String_(command), list, { cwd: cwd ?? snap.cwd, timeout, maxBuffer }], (event, result) => {
    host.close(id);
    signal?.removeEventListener?.("abort", kill);
    d.resolve(result);
  });
  const kill = () => host.send(id, "kill");
  if (signal?.aborted) kill();
  signal?.addEventListener?.("abort", kill, { once: true });
  return d.promise;
}

// toolsOf are all tools, with what extensions have said of theirs.
function toolsOf() {
  const list = parse(stringify(snap.tools ?? []));
  for (let i = 0; i < list.length; i++) {
    const t = list[i], own = toolOwner(t.name)?.tools[t.name];
    t.exposure = own?.exposure ?? "direct";
    if (own?.namespace !== undefined) t.namespace = parse(stringify(own.namespace));
    if (own?.annotations !== undefined) t.annotations = parse(stringify(own.annotations));
  }
  return list;
}

// the bus of one session
const channels = create(null);
const bus = {
  on(channel, f) {
    const list = channels[channel] ??= [];
    const entry = { f, ext: current };
    add(list, entry);
    return () => drop(channels[channel] ?? [], entry);
  },
  emit(channel, data) {
    const list = channels[channel];
    if (!list) return;
    const copy = copyOf(list);
    for (let i = 0; i < copy.length; i++) {
      const fail = (e) => failed(copy[i].ext, "events:" + String_(channel), e);
      try {
        const r = copy[i].f(data);
        if (r && typeof r.then === "function") chain(promised(r), ignore, fail);
      } catch (e) { fail(e); }
    }
  },
};

function extension(path) {
  return { path, handlers: create(null), tools: create(null), commands: create(null), flags: create(null), providers: create(null), kinds: create(null), live: create(null) };
}

const RENAMED = { session_before_branch: "session_before_fork", session_branch: "session_fork" };

function flagValue(x, name) {
  const f = x.flags[name];
  if (!f) return undefined;
  const given = bound ? snap.flags?.[name] : undefined;
  if (given === undefined) return f.default;
  if (f.type === "boolean") return given !== "false";
  return given;
}

function checkTool(t) {
  if (!t || typeof t.name !== "string" || !t.name) throw new NewError("registerTool: a tool needs a name");
  if (typeof t.execute !== "function") throw new NewError('registerTool: tool "' + t.name + '" has no execute');
  if (t.parameters === undefined || t.parameters === null) t = { ...t, parameters: { type: "object", properties: {} } };
  if (t.parameters.type !== "object") throw new NewError('registerTool: parameters of tool "' + t.name + '" must be an object schema (type: "object")');
  return t;
}

// apiOf is pi of one extension.
function apiOf(x) {
  const pi = {
    on(event, handler) {
      event = RENAMED[event] ?? event;
      if (typeof handler !== "function") throw new TypeError("pi.on: handler of " + event + " is not a function");
      const entry = { f: handler };
      const list = x.handlers[event] ??= [];
      add(list, entry);
      changed();
      return () => { drop(list, entry); changed(); };
    },
    registerTool(tool) {
      const t = checkTool(tool);
      const owner = toolOwner(t.name);
      if (owner && owner !== x) {
        failed(x, "register_tool", new NewError('Tool "' + t.name + '" conflicts with ' + owner.path));
        return;
      }
      x.tools[t.name] = t;
      changed();
    },
    registerCommand(name, command) {
      x.commands[String_(name)] = { description: command.description, handler: command.handler };
      changed();
    },
    registerShortcut: ignore,
    registerFlag(name, options) {
      const owner = flagOwner(name);
      if (owner && owner !== x) { failed(x, "register_flag", new NewError('Flag "--' + name + '" conflicts with ' + owner.path)); return; }
      x.flags[name] = { description: options?.description, type: options?.type ?? "boolean", default: options?.default };
      changed();
    },
    getFlag: (name) => flagValue(x, name),
    registerMessageRenderer(customType) { x.kinds[customType] = true; },
    registerEntryRenderer(customType) { x.kinds[customType] = true; },
    registerMarkdownTransformer: ignore,
    registerToolRenderer: ignore,
    sendMessage, sendUserMessage,
    send: (text, attachments) => sendUserMessage(attachments?.length ? joined([{ type: "text", text }], attachments) : text), // until 0.30
    appendEntry(customType, data) {
      checkBound();
      const e = guess({ type: "custom", customType, data: data === undefined ? undefined : parse(stringify(data)) });
      host.act("appendEntry", { entryId: e.id, customType, data });
    },
    setSessionName(name) { checkBound(); snap.sessionName = name; guess({ type: "session_info", name }); host.act("setSessionName", { name }); },
    getSessionName: () => { checkBound(); return snap.sessionName; },
    setLabel(entryId, label) { checkBound(); guess({ type: "label", targetId: entryId, label }); host.act("setLabel", { entryId, label }); },
    exec,
    getActiveTools() { checkBound(); return copyOf(snap.activeTools ?? []); },
    setActiveTools(names) { checkBound(); 
      names = lines(names);
      const there = snap.tools ?? [];
      snap.activeTools = there.length ? [] : names; // those that are there; others may come
      for (let i = 0; i < names.length; i++) for (let j = 0; j < there.length; j++) if (there[j].name === names[i]) { add(snap.activeTools, names[i]); break; }
      host.act("setActiveTools", { names }); },
    getAllTools() { checkBound(); return toolsOf(); },
    getCommands() { checkBound(); return parse(stringify(snap.commands ?? [])); },
    getSettings() { return parse(stringify(snap.settings ?? {})); },
    async setModel(model) {
      checkBound();
      const r = await host.ask("setModel", { provider: model?.provider, modelId: model?.id });
      if (r?.noKey) return false;
      snap.model = r ?? model;
      return true;
    },
    getThinkingLevel() { checkBound(); return snap.thinkingLevel ?? "off"; },
    setThinkingLevel(level) { checkBound(); snap.thinkingLevel = level; host.act("setThinkingLevel", { level }); },
    registerProvider(name, config) {
      if (typeof name === "object") { config = providerObject(name); name = config.id; }
      if (typeof name !== "string" || !name || !config || typeof config !== "object") throw new NewError("registerProvider: a provider needs a name and a configuration");
      x.live["provider:" + name] = config;
      x.providers[name] = described({ ...config, models: modelsOf(name, config) });
      changed();
      if (bound && typeof config.refreshModels === "function") report(refreshProviders(name), "refresh_models");
    },
    unregisterProvider(name) {
      for (let i = 0; i < exts.length; i++) { delete exts[i].providers[name]; delete exts[i].live["provider:" + name]; }
      changed();
    },
    registerMcpServer(name, config) {
      if (!mcpSaid) failed(undefined, "register_mcp_server", new NewError("MCP servers of extensions are not connected by this host"));
      mcpSaid = true;
      mcpServers[name] = { name, config, extensionPath: x.path };
    },
    unregisterMcpServer(name) { delete mcpServers[name]; },
    getMcpServers() { const out = []; for (const n of keys(mcpServers)) add(out, mcpServers[n]); return out; },
    registerVirtualModel(model) {
      if (typeof model?.provider !== "string" || typeof model.id !== "string" || typeof model.route !== "function") throw new NewError("registerVirtualModel: a virtual model needs a provider, an id and route");
      const key = "virtual:" + model.provider + "/" + model.id;
      x.live[key] = model;
      x.providers[key] = { virtual: { thinkingLevels: ["off"], ...described(model) } };
      changed();
    },
    unregisterVirtualModel(provider, id) {
      const key = "virtual:" + (typeof provider === "string" ? provider + (id === undefined ? "" : "/" + id) : provider.provider + "/" + provider.id);
      for (let i = 0; i < exts.length; i++) { delete exts[i].live[key]; delete exts[i].providers[key]; }
      changed();
    },
    events: bus,
    // of custom tools (until 0.34) and of oh-my-pi
    get cwd() { return snap.cwd; },
    hasUI: boot.mode === "rpc", ui,
    logger: { debug: (...a) => call("log", "debug", shown(a)), info: (...a) => call("log", "info", shown(a)), warn: (...a) => call("log", "warn", shown(a)), error: (...a) => call("log", "error", shown(a)) },
    get typebox() { return requireShim("typebox"); },
    get pi() { return requireShim("@mariozechner/pi-coding-agent"); },
    get zod() { return requireFrom(x.path)("zod"); },
    get arktype() { return requireFrom(x.path)("arktype"); },
  };
  return guarded(pi);
}
let mcpSaid = false;
const mcpServers = create(null);

// modelsOf are the models of a configuration, as its login has them.
function modelsOf(name, config) {
  const models = config.models, { modifyModels } = config.oauth ?? {};
  if (typeof modifyModels !== "function" || !isArray(models)) return models;
  const login = original("@mariozechner/pi-coding-agent").readStoredCredential(name);
  if (login?.type !== "oauth") return models;
  const list = [];
  for (let i = 0; i < models.length; i++) add(list, { provider: name, api: config.api, baseUrl: config.baseUrl, ...models[i] });
  return modifyModels(list, login);
}

// described is a configuration without its functions, whose names it lists.
function described(config) {
  const o = parse(stringify(config)), functions = [];
  const walk = (v, at, deep) => {
    if (typeof v === "function") add(functions, at);
    else if (v && typeof v === "object" && !isArray(v) && deep < 3) for (const k of keys(v)) walk(v[k], at ? at + "." + k : k, deep + 1);
  };
  walk(config, "", 0);
  if (functions.length) o.functions = functions;
  return o;
}


// refreshProviders asks for the models of providers whose list lives elsewhere. One that
// fails keeps the list that it has.
async function refreshProviders(only) {
  const all = [], controller = newController();
  for (let i = 0; i < exts.length; i++) for (const key of keys(exts[i].live)) {
    const x = exts[i], config = x.live[key], name = apply(slice, key, [apply(indexOf, key, [":"]) + 1]);
    if (typeof config.refreshModels !== "function" || key[0] !== "p" || only && only !== name) continue;
    add(all, (async () => {
      try {
        const r = await config.refreshModels({ signal: controller.signal, stored: undefined, allowNetwork: true, force: !!only, publish: ignore });
        const models = isArray(r) ? r : typeof config.getModels === "function" ? config.getModels() : undefined;
        if (!models || x.live[key] !== config) return;
        x.providers[name] = described({ ...config, models: modelsOf(name, { ...config, models }) });
        changed();
      } catch (e) { failed(x, "refresh_models", e); }
    })());
  }
  for (let i = 0; i < all.length; i++) await all[i];
}

const HOUR = 3600 * 1000;
const MODELS_WAIT = 3000; // milliseconds for which a session does not begin without them

// keepModels refreshes lists now and from time to time. It gives the end of the first time,
// or nothing if there are none.
function keepModels() {
  for (let i = 0; i < exts.length; i++) for (const key of keys(exts[i].live)) if (typeof exts[i].live[key].refreshModels === "function") {
    if (!refreshing) { refreshing = true; every(() => refreshProviders(), HOUR).unref(); }
    return refreshProviders();
  }
}
let refreshing = false;

// providerObject makes a configuration of a provider object (0.81).
function providerObject(p) {
  return defineProperty({
    id: p.id, name: p.name, baseUrl: p.baseUrl, api: p.api, headers: p.headers, auth: p.auth, apiKey: p.apiKey,
    models: typeof p.getModels === "function" ? p.getModels() : p.models, getModels: p.getModels && (() => p.getModels()), refreshModels: p.refreshModels && ((c) => p.refreshModels(c)),
    streamSimple: typeof p.stream === "function" ? (model, ctx, options) => p.stream(model, ctx, options) : undefined,
  }, "native", { value: p });
}

// ---- loading ----

// load awaits a module, calls its factory and says how that went. If anything throws,
// nothing of the extension stays.
async function load(index, path, key, evaluated) {
  const x = extension(path);
  try {
    await evaluated;
    x.module = modules[path] = pendingModules[key];
    await start(x);
  } catch (e) {
    forget(x);
    loadError = e;
    call("loaded", index, messageOf(e), stackOf(e));
    return;
  } finally { current = undefined; }
  call("loaded", index);
}
const modules = create(null); // of extensions, by path
let loadError;                // the last: the engine reports it as a rejection of an inner module, too

// loadAgain calls the factory of an extension for another session. One that has no
// module could not be loaded at first, and it was said why.
async function loadAgain(index, path) {
  const x = extension(path);
  try {
    x.module = modules[path];
    if (x.module) await start(x);
  } catch (e) {
    forget(x);
    call("loaded", index, messageOf(e), stackOf(e));
    return;
  } finally { current = undefined; }
  call("loaded", index);
}

async function start(x) {
  let factory = x.module?.default;
  if (factory && typeof factory === "object" && typeof factory.default === "function") factory = factory.default; // CommonJS made of ECMAScript
  if (typeof factory !== "function") throw new NewError("Extension does not export a valid factory function: " + x.path);
  add(exts, x);
  handlers = create(null);
  current = x;
  const made = await factory(apiOf(x));
  // A factory of custom tools (until 0.34) gives what it made.
  if (isArray(made)) for (let i = 0; i < made.length; i++) oldTool(x, made[i]);
  else if (made && typeof made === "object" && typeof made.execute === "function") oldTool(x, made);
}

function forget(x) {
  const rest = [];
  for (let i = 0; i < exts.length; i++) if (exts[i] !== x) add(rest, exts[i]);
  exts = rest;
  handlers = create(null);
  for (const c of keys(channels)) {
    const left = [];
    for (let i = 0; i < channels[c].length; i++) if (channels[c][i].ext !== x) add(left, channels[c][i]);
    channels[c] = left;
  }
}

// oldTool takes in a tool of the time when tools were no extensions: with onSession,
// told of the life of the session, and dispose.
function oldTool(x, t) {
  const pi = apiOf(x);
  pi.registerTool(t);
  const on = (event, reason) => pi.on(event, (e, ctx) => t.onSession?.({ reason, entries: sessionManager.getEntries(), previousSessionFile: e.previousSessionFile, ...ofOld(e) }, ctx));
  if (typeof t.onSession === "function") {
    on("session_start", "start");
    on("session_switch", "switch");
    on("session_fork", "branch");
    on("session_tree", "tree");
  }
  pi.on("session_shutdown", async (e, ctx) => {
    await t.onSession?.({ reason: "shutdown", entries: sessionManager.getEntries() }, ctx);
    await t.dispose?.();
  });
}

const ofOld = () => ({ sessionFile: snap.sessionFile ?? null });

// ---- dispatch ----

let handlers = create(null); // by event, made when they are asked for

function handlersOf(event) {
  let list = handlers[event];
  if (list) return list;
  list = handlers[event] = [];
  for (let i = 0; i < exts.length; i++) {
    const of = exts[i].handlers[event];
    for (let j = 0; j < (of?.length ?? 0); j++) add(list, { ext: exts[i], f: of[j].f });
  }
  return list;
}

const truthy = (r) => r !== undefined && r !== null && r !== false;

const SPOKE = Symbol("spoke"); // of an event: the extension whose handler returned something last

const doing = [RUNTIME, ""]; // the handler that was entered last

// combine asks the handlers of an event, one after another, and tells over what they say together:
// undefined changes nothing. broke says that it is an error. Nothing is awaited here but handlers
// that want it: each await costs as much as asking one.
function combine(event, by, name, how, over) {
  const c = { event, by, name, how, over, out: undefined, list: undefined, ctx: undefined, at: 0 };
  try {
    how.begin?.(c);
    c.list = handlersOf(name);
    if (c.list.length !== 0) c.ctx = by ? handlerContext(by) : context();
  } catch (e) { over(e, true); return; }
  goOn(c);
}

// goOn asks the handlers that are left.
function goOn(c) {
  const { list, event, ctx } = c;
  while (c.at < list.length) {
    const h = list[c.at++];
    doing[0] = h.ext.path;
    doing[1] = c.name;
    try {
      const r = h.f(event, ctx);
      if (r !== null && (typeof r === "object" || typeof r === "function") && typeof r.then === "function") {
        chain(promised(r), (v) => { heard(c, h, v); goOn(c); }, (e) => { threw(c, h, e); goOn(c); });
        return;
      }
      heard(c, h, r);
    } catch (e) { threw(c, h, e); }
  }
  let r;
  try {
    r = c.how.end ? c.how.end(c) : c.out;
    if (c.how.waits) { chain(r, (v) => c.over(v), (e) => c.over(e, true)); return; }
  } catch (e) { c.over(e, true); return; }
  c.over(r);
}

// heard takes what a handler says; the rest is not asked if that is the end of it.
function heard(c, h, r) {
  if (!c.how.step || !truthy(r)) return;
  c.event[SPOKE] = h.ext.path;
  try {
    if (c.how.step(c, r, h.ext) === true) c.at = c.list.length;
  } catch (e) { threw(c, h, e); }
}

function threw(c, h, e) {
  if (!c.how.fail) failed(h.ext, c.name, e); else if (c.how.fail(c, e, h.ext) === true) c.at = c.list.length;
}

function combined(event, by, name = event.type, how = COMBINE[name] ?? LAST) {
  const d = deferred();
  combine(event, by, name, how, (r, broke) => { if (broke) d.reject(r); else d.resolve(r); });
  return d.promise;
}

const LAST = { step(c, r) { c.out = r; } };
const TOLD = {};

const VETO = {
  step(c, r) {
    if (typeof r !== "object" || isArray(r)) return false; // has nothing to say
    c.out = r;
    return r.cancel === true;
  },
  waits: true,
  async end(c) { return c.out?.cancel ? c.out : (await oldVeto(c.event, c.by)) ?? c.out; },
};

const BLOCKED = (c, e) => { c.out = { block: true, reason: messageOf(e) }; return true; };

const CONTEXT = {
  begin(c) { c.first = c.event.messages; c.sent = stringify(c.first); },
  step(c, r) { if (isArray(r.messages)) c.event.messages = r.messages; },
  end({ event, first, sent }) { return event.messages !== first || stringify(first) !== sent ? { messages: event.messages } : undefined; },
};

const BOUNDARY = {
  begin(c) {
    c.goesOn = c.event.continue; // by itself, after tool calls: nobody is asked whether it may
    c.event.continue = false;
    defineProperty(c.event, "context", { configurable: true, enumerable: true, get: boundaryContext });
  },
  step(c, r) {
    const { event } = c;
    if (r.entries !== undefined) event.entries = r.entries;
    if (r.continue !== undefined) event.continue = r.continue;
    if (r.entries !== undefined || r.continue !== undefined) c.out = { entries: event.entries, continue: event.continue || c.goesOn };
  },
};

// COMBINE says how one answer is made of those of an event's handlers: step takes one and says
// whether the chain ends, fail what a handler throws, which else is reported, end gives what
// came of all. Without a row the last answer counts.
const COMBINE = {
  __proto__: null,
  agent_end: TOLD, agent_settled: TOLD, agent_start: TOLD, session_start: TOLD, session_shutdown: TOLD,
  session_before_switch: VETO, session_before_fork: VETO,
  session_before_compact: {
    ...VETO,
    begin({ event }) {
      const { fileOps } = event.preparation;
      for (const k of keys(fileOps)) fileOps[k] = setOf(fileOps[k]);
      defineProperty(event, "branchEntries", { configurable: true, enumerable: true, get: () => branchOf() });
    },
  },
  session_before_tree: { ...VETO, begin({ event }) { withBranches(event.preparation); } },
  project_trust: { step(c, r) { if (r.trusted === "yes" || r.trusted === "no") { c.out = r; return true; } } },
  resources_discover: {
    begin(c) { c.out = { skillPaths: [], promptPaths: [], themePaths: [] }; },
    step({ out }, r, x) {
      for (const k of inOrder(["skillPaths", "promptPaths", "themePaths"])) for (let i = 0; i < (r[k]?.length ?? 0); i++) add(out[k], { path: String_(r[k][i]), extensionPath: x.path });
    },
  },
  input: {
    step(c, r) {
      const { event } = c;
      if (r.action === "handled") { c.out = { action: "handled" }; return true; }
      if (r.action === "transform") {
        if (r.text !== undefined) event.text = r.text;
        if (r.images !== undefined) event.images = r.images;
        c.out = { action: "transform", text: event.text, images: event.images };
      }
    },
  },
  before_agent_start: {
    begin(c) {
      c.messages = [];
      c.before = c.event.systemPrompt;
      c.options = c.event.systemPromptOptions && stringify(c.event.systemPromptOptions);
    },
    step({ event, messages }, r) {
      if (r.message) add(messages, r.message);
      if (typeof r.systemPrompt === "string") { event.systemPrompt = r.systemPrompt; snap.systemPrompt = r.systemPrompt; }
    },
    end({ event, messages, before, options }) {
      const changed = options && stringify(event.systemPromptOptions) !== options ? event.systemPromptOptions : undefined;
      if (!messages.length && event.systemPrompt === before && !changed) return undefined;
      return { messages, systemPrompt: event.systemPrompt !== before ? event.systemPrompt : undefined, systemPromptOptions: changed };
    },
  },
  agent_before_settle: BOUNDARY, turn_end: BOUNDARY,
  message_end: {
    step(c, r, x) {
      if (!r.message) return;
      if (r.message.role !== c.event.message.role) { failed(x, "message_end", new NewError("message_end handlers must return a message with the same role")); return; }
      c.event.message = r.message;
      c.out = { message: r.message };
    },
  },
  tool_call: {
    begin(c) { c.sent = stringify(c.event.input); },
    step(c, r) {
      if (r.input !== undefined && r.input !== null && typeof r.input === "object") c.event.input = r.input; // oh-my-pi
      if (r.terminate) c.out = { ...c.out, terminate: true };
      if (r.block) { c.out = { ...c.out, block: true, reason: r.reason === undefined ? undefined : apply(slice, String_(r.reason), [0, MOST_REASON]) }; return true; }
    },
    fail: BLOCKED,
    end({ event, sent, out }) {
      if (out?.block) return out;
      const text = stringify(event.input);
      return text !== sent && text !== undefined ? { ...out, input: event.input } : out;
    },
  },
  tool_result: {
    step(c, r) {
      const { event } = c, patch = c.out ?? {};
      if (r.content !== undefined) {
        patch.content = contentOf(r.content);
        if (r.structuredContent === undefined && event.structuredContent !== undefined) { event.structuredContent = undefined; patch.structuredContent = null; }
      }
      for (const k of inOrder(["details", "isError", "structuredContent", "usage"])) if (r[k] !== undefined) patch[k] = r[k];
      if (r.additionalContext !== undefined) { // oh-my-pi
        const list = copyOf(patch.content ?? event.content ?? []);
        add(list, { type: "text", text: String_(r.additionalContext) });
        patch.content = list;
      }
      assign(event, patch);
      c.out = patch;
    },
  },
  context: CONTEXT, context_with_system: CONTEXT,
  before_provider_request: { step(c, r) { c.event.payload = r; c.out = { payload: r }; } },
  before_provider_headers: {
    begin(c) { c.sent = stringify(c.event.headers); },
    step({ event }, r) { if (r.headers) event.headers = r.headers; },
    end({ event, sent }) { return stringify(event.headers) !== sent ? { headers: event.headers } : undefined; },
  },
  user_bash: {
    step(c, r) {
      if (r.result || r.operations?.exec) { c.out = r; return true; }
      throw new NewError("user_bash handlers must return operations or a result");
    },
    fail(c, e, x) { failed(x, "user_bash", e); return BLOCKED(c, e); },
    waits: true,
    async end({ event, out }) { return out?.operations ? { result: await runBash(out.operations, event) } : out; },
  },
};

// withBranches says what of the branch that is left is not on the way to the target.
function withBranches(preparation) {
  const left = branchOf(preparation.oldLeafId), to = branchOf(preparation.targetId), kept = create(null), rest = [];
  for (let i = 0; i < to.length; i++) kept[to[i].id] = true;
  preparation.commonAncestorId = null;
  for (let i = 0; i < left.length; i++) {
    if (kept[left[i].id]) preparation.commonAncestorId = left[i].id; else add(rest, left[i]);
  }
  preparation.entriesToSummarize ??= rest;
}

function setOf(list) {
  const s = new NewSet();
  for (let i = 0; i < list.length; i++) apply(addTo, s, [list[i]]);
  return s;
}

// boundaryContext is what a handler may look at before it says what follows.
function boundaryContext() {
  const { messages } = sessionContext();
  return { contextEntries: projected(), contextMessages: messages, llmMessages: messages, pendingMessages: [], canContinue: true };
}

// runBash runs a command of the client by what an extension gave for it.
async function runBash(operations, event) {
  let output = "";
  const { Decoder, decode } = web ?? original("troupe:globals"), decoder = new Decoder();
  try {
    const r = await operations.exec(event.command, event.cwd ?? snap.cwd, {
      onData: (d) => { output += typeof d === "string" ? d : apply(decode, decoder, [d, { stream: true }]); },
      signal: event.signal ?? signalOfRun(), env: boot.env,
    });
    return { output, exitCode: r?.exitCode ?? undefined, cancelled: false, truncated: false };
  } catch (e) {
    if (messageOf(e) === "aborted") return { output, cancelled: true, truncated: false };
    throw e;
  }
}

const MOST_REASON = 64 << 10; // of a gate, for the model

const contentOf = (c) => typeof c === "string" ? [{ type: "text", text: c }] : c;

// OLD says which reason of the one event session (until 0.30) stands for an event.
const OLD = {
  session_start: "start", session_before_switch: "before_switch", session_switch: "switch", session_before_fork: "before_branch", session_fork: "branch",
  session_before_compact: "before_compact", session_compact: "compact", session_shutdown: "shutdown",
};

function oldEvent(event) {
  let reason = OLD[event.type];
  if (event.reason === "new" && event.type === "session_before_switch") reason = "before_new";
  if (event.reason === "new" && event.type === "session_switch") reason = "new";
  return { ...event, type: "session", reason, entries: sessionManager.getEntries(), sessionFile: snap.sessionFile ?? null, previousSessionFile: event.previousSessionFile ?? null };
}

// oldVeto asks the handlers of session.
async function oldVeto(event, by) {
  return OLD[event.type] ? combined(oldEvent(event), by, "session", OLD_VETO) : undefined;
}

const OLD_VETO = {
  step(c, r) {
    const e = r.compactionEntry;
    c.out = e ? { compaction: { summary: e.summary, firstKeptEntryId: e.firstKeptEntryId ?? c.event.preparation?.firstKeptEntryId, tokensBefore: e.tokensBefore } } : r;
    return r.cancel === true;
  },
};

// grown gives message_update its message, which crosses the border only in pieces.
function grown(event) {
  if (event.type === "message_start") { growing = event.message; return event; }
  if (event.type !== "message_update" || event.message) return event;
  const m = growing, d = event.assistantMessageEvent;
  if (!m || !d) return event;
  m.content ??= [];
  const at = d.contentIndex ?? 0;
  switch (d.type) {
    case "text_start": m.content[at] ??= { type: "text", text: "" }; break;
    case "text_delta": (m.content[at] ??= { type: "text", text: "" }).text += d.delta; break;
    case "text_end": if (typeof d.content === "string") m.content[at] = { ...m.content[at], type: "text", text: d.content }; break;
    case "thinking_start": m.content[at] ??= { type: "thinking", thinking: "" }; break;
    case "thinking_delta": (m.content[at] ??= { type: "thinking", thinking: "" }).thinking += d.delta; break;
    case "thinking_end": if (typeof d.content === "string") m.content[at] = { ...m.content[at], type: "thinking", thinking: d.content }; break;
    case "toolcall_start": m.content[at] ??= d.toolCall ?? { type: "toolCall", id: d.id, name: d.toolName, arguments: {} }; break;
    case "toolcall_end": if (d.toolCall) m.content[at] = d.toolCall; break;
  }
  event.message = m;
  d.partial ??= m;
  return event;
}

const cancels = newMap(); // what ends the wait for a tell; what says that a call is still wanted
let tail = promised();
let telling = 0;      // tells that are not through
const ofRun = [];     // whose handlers the end of the run ends

// replaced is what session_start was called until 0.64 where a session has taken the place
// of another.
function replaced({ type, reason, previousSessionFile }) {
  if (type !== "session_start" || reason === "startup" || reason === "reload" || !previousSessionFile) return undefined;
  return reason === "fork" ? { type: "session_fork", previousSessionFile } : { type: "session_switch", reason, previousSessionFile };
}

function tell(n, event) {
  const before = tail;
  telling++;
  tail = (async () => {
    await before;
    call("began", "tell", n);
    const d = deferred();
    cancels.set("tell" + n, d);
    const by = new Asker();
    if (apply(indexOf, event.type, ["session_"]) !== 0) add(ofRun, by);
    const work = (async () => {
      if (OLD[event.type]) await oldVeto(event, by);
      await combined(grown(event), by);
      const old = replaced(event);
      if (old) { await oldVeto(old, by); await combined(old, by); }
    })();
    const over = () => { drop(ofRun, by); by.gone = false; d.resolve(); };
    chain(work, over, (e) => { failed(undefined, event.type, e); over(); });
    await d.promise;
    cancels.delete("tell" + n);
    telling--;
    flush(); // what handlers have registered is known when their end is
    call("told", n);
  })();
}

// SIGNALLED are the events that come with a signal of their own: nobody waits any more.
const SIGNALLED = { session_before_compact: true, session_before_tree: true, user_bash: true };

const GATES = { tool_call: true, user_bash: true };

// hook asks the handlers of an event, after what was told before it.
function hook(id, event) {
  const key = "call" + id, by = new Asker();
  cancels.set(key, by);
  const ask = () => {
    if (!cancels.has(key)) return;
    native("began", "call", id);
    try {
      if (SIGNALLED[event.type]) {
        by.controller = newController();
        defineProperty(event, "signal", { configurable: true, enumerable: true, value: by.controller.signal });
      }
    } catch (e) { answer(e, true); return; }
    combine(grown(event), by, event.type, COMBINE[event.type] ?? LAST, answer);
  };
  const answer = (r, broke) => {
    let text;
    if (!broke) try { text = r === undefined ? undefined : stringify(r); } catch (e) { broke = true; r = e; }
    by.gone = false;
    if (!cancels.delete(key)) return;
    if (!broke) { native("done", id, text, undefined, event[SPOKE]); return; }
    if (!GATES[event.type]) failed(undefined, event.type, r); // theirs is the reason of the refusal
    native("done", id, undefined, messageOf(r));
  };
  if (telling !== 0) chain(tail, ask, ask); else ask();
}

// ---- tools ----

const running = newMap(); // askers of tools that run

// updateThird says that a tool takes onUpdate before signal, as from 0.31 to 0.50.
function updateThird(f) {
  const m = apply(match, /^[^(]*\(\s*[^,)]*,[^,)]*(?:\{[^}]*\}[^,)]*)?,\s*([\w$]+)/, [apply(sourceOf, f, [])]);
  return !!m && !!apply(match, /update/i, [m[1]]);
}

function findTool(name) {
  const x = toolOwner(name);
  if (!x) throw new NewError("Tool " + name + " not found");
  return x.tools[name];
}

function prepared(t, args) {
  if (typeof t.prepareArguments === "function") args = t.prepareArguments(args);
  const r = call("validate", t.name, stringify(schemaOf(t.parameters)), stringify(args));
  return r;
}

async function prepareTool(id, c) {
  try {
    call("prepared", id, stringify(prepared(findTool(c.name), c.args)));
  } catch (e) { call("prepared", id, undefined, messageOf(e)); }
}

const MOST_RESULT = 32 << 20; // what a model was shown once it is shown with every request

async function runTool(id, c) {
  let open = true;
  const by = new Asker();
  const end = (result, isError) => {
    if (!open) return;
    const text = stringify(result); // throws, if it goes round in a circle
    if (text.length > MOST_RESULT) throw new NewError("The result has " + text.length + " characters, more than " + MOST_RESULT + ": nobody can read it");
    open = false;
    running.delete(id);
    call("toolDone", id, text, isError);
  };
  try {
    const t = findTool(c.name);
    doing[0] = toolOwner(c.name).path;
    doing[1] = c.name;
    const args = c.prepared ? c.args : prepared(t, c.args);
    const controller = by.controller = newController();
    running.set(id, by);
    const update = (partial) => { if (open) call("toolUpdate", id, stringify(resultOf(partial))); };
    const ctx = toolContext(c.id, by);
    const r = updateThird(t.execute)
      ? await t.execute(c.id, args, update, ctx, controller.signal)
      : await t.execute(c.id, args, controller.signal, update, ctx);
    const out = resultOf(r), failed = r?.isError === true;
    if (t.outputSchema && out.structuredContent !== undefined && !failed) call("conforms", c.name, stringify(schemaOf(t.outputSchema)), stringify(out.structuredContent));
    end(out, failed);
  } catch (e) {
    const content = [{ type: "text", text: messageOf(e) }];
    try { end({ content, details: e && typeof e === "object" && "details" in e ? e.details : undefined }, true); } catch { end({ content }, true); }
  } finally { by.gone = false; }
}

// resultOf accepts what pi would break on: a text, or nothing.
function resultOf(r) {
  if (typeof r === "string") return { content: [{ type: "text", text: r }] };
  if (r === null || r === undefined || typeof r !== "object") return { content: [{ type: "text", text: r === undefined || r === null ? "" : String_(r) }] };
  let content = contentOf(r.content ?? []);
  if (!isArray(content)) content = [{ type: "text", text: stringify(content) ?? "" }];
  return { content, details: r.details, structuredContent: r.structuredContent, terminate: r.terminate === true ? true : undefined, usage: r.usage };
}

async function runCommand(id, name, args) {
  const found = commandNames[name];
  if (!found) { call("commandDone", id, "Unknown command: /" + name); return; }
  const x = found[0], own = found[1];
  doing[0] = x.path;
  doing[1] = name;
  try {
    await x.commands[own].handler(args, context("command"));
    call("commandDone", id);
  } catch (e) {
    call("commandDone", id, messageOf(e)); // which is reported where the command was asked for
  }
}

// relay says what the stream of an extension's own provider gives, event by event.
async function relay(id, target, of, args) {
  const controller = newController();
  cancels.set("call" + id, controller);
  const model = args[0], shown = args[1], options = args[2];
  shown.messages = original("@mariozechner/pi-coding-agent").convertToLlm(shown.messages);
  options.signal = controller.signal;
  try {
    const stream = await apply(target, of, [model, shown, options]);
    for await (const e of stream) {
      if (!cancels.has("call" + id)) return;
      const { type, contentIndex, delta, reason, partial } = e;
      const out = { type, contentIndex, delta, reason };
      if (type === "done") out.message = e.message;
      else if (type === "error") out.message = e.error ?? e.message;
      else if (typeof contentIndex === "number" && delta === undefined) out.block = e.toolCall ?? partial?.content?.[contentIndex] ?? (typeof e.content === "string" ? { text: e.content, thinking: e.content } : undefined);
      host.act("streamPart", { id, event: out });
      if (type === "done" || type === "error") break;
    }
    call("done", id);
  } finally { cancels.delete("call" + id); }
}

const ROUTER_STATE = "pi.virtual-model-state";

// routed asks a virtual model which model answers a request. What it keeps is in the session.
async function routed(id, key, target, of, request) {
  const { messages, why } = request, controller = newController();
  cancels.set("call" + id, controller);
  call("began", "call", id);
  delete request.why;
  const last = messages[messages.length - 1];
  request.reason = why === "retry" ? "retry" : why !== "run" ? "direct" : last?.role === "user" ? "user" : "continuation";
  for (let i = messages.length - 1; i >= 0 && !request.previous; i--) {
    const m = messages[i];
    if (m.role === "assistant" && m.stopReason !== "error" && m.stopReason !== "aborted") request.previous = { model: modelOf(m.provider, m.model), thinkingLevel: m.thinkingLevel };
  }
  const path = branchOf(), direct = request.reason === "direct";
  for (let i = path.length - 1; i >= 0; i--) {
    const e = path[i];
    if (!direct && request.state === undefined && e.type === "custom" && e.customType === ROUTER_STATE && e.data?.model === key) request.state = e.data.state;
    if (request.reason === "retry" && !request.failed && e.type === "message" && e.message.role === "assistant" && e.message.stopReason === "error") {
      request.failed = { model: modelOf(e.message.provider, e.message.model), thinkingLevel: e.message.thinkingLevel, message: e.message };
    }
  }
  request.signal = controller.signal;
  request.messages = original("@mariozechner/pi-coding-agent").convertToLlm(messages);
  const state = request.state;
  try {
    const r = await apply(target, of, [request, context()]);
    if (!cancels.has("call" + id)) return;
    if (!direct && r?.state !== undefined && r.state !== state) {
      const data = { model: key, state: parse(stringify(r.state)) };
      host.act("appendEntry", { entryId: guess({ type: "custom", customType: ROUTER_STATE, data }).id, customType: ROUTER_STATE, data });
    }
    call("done", id, stringify({ model: { provider: r?.model?.provider, id: r?.model?.id }, thinkingLevel: r?.thinkingLevel }));
  } finally { cancels.delete("call" + id); }
}

// invoke calls a function of a configuration that an extension registered.
async function invoke(id, key, member, args) {
  try {
    let target, of;
    for (let i = 0; i < exts.length; i++) if (exts[i].live[key]) { target = exts[i].live[key]; break; }
    for (const part of inOrder(apply(split, member, ["."]))) { of = target; target = target?.[part]; }
    if (typeof target !== "function") throw new NewError("no function " + member + " of " + key);
    if (member === "route") { await routed(id, key, target, of, args[0]); return; }
    if (member === "streamSimple") { await relay(id, target, of, args); return; }
    if (member === "oauth.refreshToken") {
      const controller = newController();
      cancels.set("call" + id, controller);
      args[1] = controller.signal;
    }
    const r = await apply(target, of, args);
    cancels.delete("call" + id);
    call("done", id, r === undefined ? undefined : stringify(r));
  } catch (e) { call("done", id, undefined, messageOf(e)); }
}

// ---- the way in ----

const dispatch = {
  load(index, path, key, evaluated) { load(index, path, key, evaluated); },
  drop(path) { for (let i = 0; i < exts.length; i++) if (exts[i].path === path) { forget(exts[i]); return; } },
  bound(text) {
    assign(snap, parse(text));
    bound = true;
    commandNames = create(null);
    const ready = () => { said = true; dirty = false; commandNames = create(null); call("ready", stringify(registrations())); };
    const lists = keepModels();
    if (!lists) { ready(); return; }
    const late = once(ready, MODELS_WAIT);
    chain(lists, () => { if (!said) { cancelOnce(late); ready(); } }, ignore);
  },
  // rebind begins another session in the same realm: factories will run again.
  rebind(cwd) {
    generation++;
    dismiss(openDialogs);
    node?.chdir(cwd);
    snap = create(null);
    snap.cwd = cwd;
    mirror = undefined; early = []; growing = undefined; run = undefined;
    bound = said = false;
    exts = [];
    handlers = create(null);
    for (const c of keys(channels)) delete channels[c];
  },
  // ending lets the handlers go on that have reloaded: what they kept is stale.
  ending() {
    generation++;
    for (let i = 0; i < reloads.length; i++) reloads[i].resolve();
  },
  again(index, path) { loadAgain(index, path); },
  snap(text) {
    const o = parse(text);
    for (const k of keys(o)) {
      if (o[k] === null) delete snap[k]; else snap[k] = o[k];
      if (k === "leafId" && mirror) mirror.leaf = o[k];
      if (k === "running" && !o[k]) run = undefined;
    }
  },
  abortRun() {
    const r = run, told = copyOf(ofRun);
    run = undefined;
    r?.abort();
    for (let i = 0; i < told.length; i++) told[i].abort();
  },
  entry(text) {
    const e = parse(text);
    if (mirror) { addEntry(e); return; }
    if (typeof e.id === "string") snap.leafId = e.id; // what was said of it before is older
    if (!snap.sessionFile) add(early, e);
  },
  tell(n, text) { tell(n, parse(text)); },
  hook(id, text, begun) { hook(id, parse(text), begun); },
  cancel(kind, id) {
    const d = cancels.get(kind + id);
    if (kind !== "call") { d?.resolve(); return; }
    cancels.delete(kind + id);
    d?.abort();
  },
  prepare(id, text) { prepareTool(id, parse(text)); },
  tool(id, text) { runTool(id, parse(text)); },
  cancelTool(id) { running.get(id)?.abort(); },
  command(id, name, args) { runCommand(id, name, args); },
  invoke(id, key, member, text) { invoke(id, key, member, parse(text)); },
  timer: fire,
  settle(id, v, error) {
    const d = waiting.get(id);
    if (!d) return;
    waiting.delete(id);
    if (error !== undefined) d.reject(hostError(error)); else d.resolve(made(v));
  },
  answer(id, text, error) {
    const d = waiting.get(id);
    if (!d) return;
    waiting.delete(id);
    if (error) d.reject(new NewError(error)); else d.resolve(text === undefined ? undefined : parse(text));
  },
  stream(id, event, ...values) {
    const on = streams.get(id);
    if (!on) return;
    for (let i = 0; i < values.length; i++) values[i] = made(values[i]);
    try {
      const r = apply(on, undefined, joined([event], values));
      if (r && typeof r.then === "function") report(r, "stream");
    } catch (e) { failed(undefined, "stream", e); }
  },
  doing: () => doing,
  exportsOf(id) {
    const out = [];
    for (const k of inOrder(getOwnPropertyNames(requireShim(id)))) if (k !== "default" && apply(match, /^[A-Za-z_$][\w$]*$/, [k])) add(out, k);
    return out;
  },
  rejection(reason) { if (bound || reason !== loadError) failed(undefined, "unhandledRejection", reason); },
  flush,
};

// lock fixes the properties that the engine looks up when a promise is awaited, resolved or returned, so that
// no extension can put its own answer in place of another's: Promise.prototype.then and constructor,
// Promise[Symbol.species], then of any object, and toJSON of arrays and functions. An assignment to
// Promise.prototype.then has no effect, which is gentler on packages that wrap it than an error.
// Nothing can be added to Object.prototype: members that options and handlers lack stay undefined.
function lock() {
  const keep = (proto, name, get) => defineProperty(proto, name, {
    enumerable: false, configurable: false, get,
    set(v) { if (this !== proto) defineProperty(this, name, { value: v, writable: true, enumerable: true, configurable: true }); },
  });
  const promises = NewPromise.prototype;
  defineProperty(promises, "constructor", { value: NewPromise, writable: false, enumerable: false, configurable: false });
  keep(promises, "then", () => then);
  keep(arrays, "toJSON", undefined);
  keep(functions, "toJSON", undefined);
  const species = getOwnPropertyDescriptor(NewPromise, Symbol.species);
  defineProperty(NewPromise, Symbol.species, { get: species.get, enumerable: false, configurable: false });
  preventExtensions(objects);
}
lock();
if (!node) original("troupe:globals"); // made before an extension can change what it is made of

return (kind, ...args) => apply(dispatch[kind], dispatch, args);
})
