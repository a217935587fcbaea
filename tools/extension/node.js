// Node's half of the engine that is Node: it evaluates the prelude, which is given the host's
// function as in the engine that is built in. What the host says comes on descriptor 3, a
// line of JSON each; what is asked of it goes out on descriptor 4, where the answer is waited for.
"use strict";
const { writeSync, readSync } = require("node:fs");
const { createRequire, isBuiltin } = require("node:module");
const { pathToFileURL } = require("node:url");
const Module = require("node:module"), vm = require("node:vm"), net = require("node:net");
const { parse, stringify } = JSON; // and nothing else by its name below: an extension may have replaced it
const { from: bytesOf, concat } = Buffer, { indexOf, subarray, toString } = Buffer.prototype, { apply } = Reflect;
const OUT = 4, own = process.pid;

// What is no JSON is said to be what it is.
function encode(v) {
  if (v === undefined || v === null) return null;
  switch (typeof v) {
    case "boolean": case "string": return v;
    case "number": return Number.isFinite(v) ? v : 0;
    case "function": case "symbol": return null;
    case "bigint": return String(v);
  }
  if (v instanceof Uint8Array) return { b: apply(toString, bytesOf(v.buffer, v.byteOffset, v.byteLength), ["base64"]) };
  return { j: stringify(v) };
}
function decode(v) {
  if (v === null) return undefined;
  if (typeof v !== "object") return v;
  if (v.b !== undefined) return new Uint8Array(bytesOf(v.b, "base64"));
  return each(v.l, decode);
}
function each(list, f) {
  const out = [];
  for (let i = 0; i < list.length; i++) out[i] = f(list[i]);
  return out;
}

function put(words) {
  const b = bytesOf(stringify(words) + "\n");
  for (let at = 0; at < b.length;) at += writeSync(OUT, b, at);
}

const chunk = Buffer.allocUnsafe(64 << 10);
function answer() {
  const list = [];
  for (;;) {
    const n = readSync(OUT, chunk, 0, chunk.length, null);
    if (n === 0) exit(0);
    list[list.length] = bytesOf(apply(subarray, chunk, [0, n]));
    if (chunk[n - 1] === 10) break;
  }
  return parse(apply(toString, concat(list), []));
}

// Nobody waits for an answer to these.
const said = { __proto__: null };
for (const word of ["loaded", "ready", "regs", "began", "told", "done", "prepared", "toolUpdate", "toolDone", "commandDone", "log", "error", "close", "unask", "send"]) said[word] = true;
function native(word, ...args) {
  const list = each(args, encode);
  if (word === "began") begun[args[0] + args[1]] = inUse();
  if (ends[word]) delete begun[ends[word] + args[0]];
  if (said[word]) { put([0, word, list]); return undefined; }
  put([1, word, list]);
  const a = answer();
  if (a.e !== undefined) throw a.e;
  const v = decode(a.v);
  return word === "module" ? vm.runInThisContext("(function (exports, require, module, host) {" + v[0] + "\n})", { filename: v[1] }) : v;
}

// What goes on is seen by what Node holds open: a handler that waits for it has time.
const idle = { __proto__: null };
for (const kind of ["Timeout", "Immediate", "TickObject", "PipeWrap", "TTYWrap", "FSEventWrap", "StatWatcher", "TCPServerWrap", "MessagePort"]) idle[kind] = true;
const resources = process.getActiveResourcesInfo.bind(process);
function inUse() {
  let n = 0;
  const list = resources();
  for (let i = 0; i < list.length; i++) if (!idle[list[i]]) n++;
  return n;
}
const begun = { __proto__: null }, ends = { __proto__: null, told: "tell", done: "call" };
setInterval(() => {
  const n = inUse(), busy = [];
  let any = false;
  for (const key in begun) {
    any = true;
    if (n > begun[key]) busy[busy.length] = key;
  }
  if (any) put([0, "busy", busy]);
}, 250).unref();

const exit = process.reallyExit.bind(process), kill = process.kill.bind(process);
function refused(name) {
  return () => {
    const e = new Error(`${name} is not available in an extension: it would end the others, too. To end the session use ctx.shutdown().`);
    e.code = "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM";
    throw e;
  };
}
process.exit = refused("process.exit()"); process.reallyExit = refused("process.reallyExit()"); process.abort = refused("process.abort()");
process.kill = (pid, signal) => {
  if (signal !== 0 && (Math.abs(pid) === own || pid === 0 || Math.abs(pid) === process.ppid)) refused("process.kill() of the agent itself")();
  return kill(pid, signal);
};

let way; // into the prelude
function enterPrelude(kind, args) {
  const all = [kind];
  for (let i = 0; i < args.length; i++) all[i + 1] = args[i];
  apply(way, undefined, all);
}
function failed(event, e) {
  const stack = typeof e?.stack === "string" ? e.stack : "";
  put([0, "error", ["<runtime>", event, e?.message ?? String(e), stack.slice(Math.max(0, stack.indexOf("\n    at ") + 1))]]);
}
process.on("uncaughtException", (e) => failed("uncaughtException", e));
process.on("unhandledRejection", (reason) => { if (way) way("rejection", reason); else failed("unhandledRejection", reason); });

// Packages that Node loads by itself may import what stands for pi's.
const ours = /^@(mariozechner|earendil-works|oh-my-pi)\/pi-|^(@sinclair\/)?typebox(\/|$)/;
const load = Module._load;
Module._load = function (request, parent, main) {
  if (ours.test(request) && native("shim", request) !== undefined) return globalThis.__troupe.require(request);
  return load.call(this, request, parent, main);
};

// imported is what import() of a name that was not known before gives.
async function imported(name, from) {
  if (isBuiltin(name)) return import(name);
  let m;
  if (native("shim", name) !== undefined) m = globalThis.__troupe.require(name);
  else {
    let file = name.startsWith("file:") ? require("node:url").fileURLToPath(name) : name;
    if (!/\.[cm]?tsx?$/.test(file)) {
      try { file = createRequire(from).resolve(file); } catch { file = ""; }
      if (file && !/\.[cm]?tsx?$/.test(file)) return import(pathToFileURL(file));
    }
    m = globalThis.__troupe.requireFrom(from)(file || name);
  }
  const names = Object.keys(m).filter((k) => k !== "default");
  const s = new vm.SyntheticModule(["default", ...names], function () {
    this.setExport("default", m.default ?? m);
    for (const k of names) this.setExport(k, m[k]);
  });
  await s.link(() => {});
  await s.evaluate();
  return s.namespace;
}

async function evaluate(code, key) {
  const m = new vm.SourceTextModule(code, { identifier: key, importModuleDynamically: (name) => imported(name, key) });
  await m.link((name) => { throw new Error(`Cannot find module '${name}'`); });
  await m.evaluate();
}

const does = {
  boot(core, text) {
    const record = parse(text);
    process.argv = [process.execPath, ...record.argv.slice(1)];
    record.node = {
      isBuiltin, require, chdir: process.chdir.bind(process),
      // Packages are Node's own business, files may be TypeScript.
      requireFrom(name, from) {
        const r = createRequire(from);
        if (name.startsWith("file:") || /^[./]/.test(name) && !/\.(node|json)$/.test(name)) return undefined;
        try { r.resolve(name); } catch { return undefined; }
        return { exports: r(name) };
      },
    };
    way = vm.runInThisContext(core, { filename: "troupe:core.js" })(native, record);
  },
  load(index, file, key, code) { way("load", index, file, key, evaluate(code, key)); },
};

let last = 0, due = false;
const later = setImmediate;
function enter(word) {
  last = word[0];
  if (!due) { // when what was begun has had its turn, we are there to say so
    due = true;
    later(() => { due = false; put([0, "ack", [last]]); });
  }
  const kind = word[1], args = each(word[2], decode);
  try {
    if (does[kind]) apply(does[kind], does, args); else apply(enterPrelude, undefined, [kind, args]);
  } catch (e) { failed(kind, e); }
}

let pieces = [];
const daemon = new net.Socket({ fd: 3, readable: true, writable: false });
daemon.on("data", (data) => {
  for (;;) {
    const at = apply(indexOf, data, [10]);
    if (at < 0) { pieces[pieces.length] = data; return; }
    pieces[pieces.length] = apply(subarray, data, [0, at]);
    const line = apply(toString, concat(pieces), []);
    pieces = [];
    data = apply(subarray, data, [at + 1]);
    enter(parse(line));
  }
});
const end = () => exit(0);
daemon.on("end", end).on("close", end).on("error", end);
