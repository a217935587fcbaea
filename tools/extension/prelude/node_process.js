// provides: node:process, process
"use strict";

const EventEmitter = require("events");
const boot = host.boot;

const process = Object.create(Object.create(EventEmitter.prototype, { constructor: { value: function process() {}, writable: true, configurable: true } }));
EventEmitter.call(process);

let dir = boot.cwd;
const started = Date.now();
const now = () => (typeof performance !== "undefined" ? performance.now() : Date.now() - started);

// What is written to the standard streams goes to the log: stdout belongs to the protocol.
function output(fd, level) {
  let line = "";
  const { Writable } = require("stream");
  const stream = new Writable({
    decodeStrings: false,
    write(chunk, encoding, done) {
      line += typeof chunk === "string" ? chunk : chunk.toString("utf8");
      const cut = line.lastIndexOf("\n");
      if (cut >= 0) {
        host.log(level, line.slice(0, cut));
        line = line.slice(cut + 1);
      }
      if (line.length > 1 << 16) {
        host.log(level, line);
        line = "";
      }
      done();
    },
    final(done) {
      if (line) host.log(level, line);
      line = "";
      done();
    },
  });
  return Object.assign(stream, { fd, isTTY: false, columns: undefined, rows: undefined, hasColors: () => false, getColorDepth: () => 1, _type: "pipe" });
}

function input() {
  const { Readable } = require("stream");
  const stream = new Readable({ read() { this.push(null); } }); // the protocol's, and nobody else's
  return Object.assign(stream, { fd: 0, isTTY: false, setRawMode() { return this; }, isRaw: false, ref() { return this; }, unref() { return this; } });
}

function lazy(name, make) {
  Object.defineProperty(process, name, {
    configurable: true, enumerable: true,
    get() {
      const value = make();
      Object.defineProperty(process, name, { value, writable: true, enumerable: true, configurable: true });
      return value;
    },
    set(value) { Object.defineProperty(process, name, { value, writable: true, enumerable: true, configurable: true }); },
  });
}
lazy("stdin", input);
lazy("stdout", () => output(1, "info"));
lazy("stderr", () => output(2, "info"));

function refused(name) {
  return () => {
    const e = new Error(`${name} is not available in an extension: it would end the agent of others, too. To end the session use ctx.shutdown().`);
    e.code = "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM";
    throw e;
  };
}

function unavailable(what) {
  const e = new Error(`${what} is not available here`);
  e.code = "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM";
  return e;
}

function hrtime(before) {
  const ms = now(), s = Math.floor(ms / 1e3), ns = Math.floor((ms - s * 1e3) * 1e6);
  if (!before) return [s, ns];
  const d = [s - before[0], ns - before[1]];
  if (d[1] < 0) d[0]--, d[1] += 1e9;
  return d;
}
hrtime.bigint = () => BigInt(Math.floor(now() * 1e6));

const memory = () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 });
memory.rss = () => 0;

const env = new Proxy({ ...boot.env }, {
  set(t, k, v) {
    if (typeof k === "symbol") throw new TypeError("Cannot convert a Symbol value to a string");
    t[k] = String(v);
    return true;
  },
  defineProperty(t, k, d) { return Reflect.defineProperty(t, k, { value: String(d.value), writable: true, enumerable: true, configurable: true }); },
});

Object.assign(process, {
  env, argv: [...boot.argv], argv0: boot.argv[0], execArgv: [], execPath: boot.execPath, pid: boot.pid, ppid: boot.ppid, platform: boot.platform, arch: boot.arch,
  title: "troupe", version: "v22.19.0", versions: { node: "22.19.0", v8: "12.4.254.21-node.33", uv: "1.51.0", modules: "127", napi: "10", troupe: boot.version },
  release: { name: "node", lts: "Jod" }, features: {}, config: { target_defaults: {}, variables: {} }, exitCode: undefined, noDeprecation: false,
  cwd: () => dir,
  chdir(path) { // of this session only: its files are found from here, children start here
    const p = require("path").resolve(dir, path), st = host.op("fs.stat", p);
    if ((st.mode & 0o170000) !== 0o040000) throw Object.assign(new Error(`ENOTDIR: not a directory, chdir '${dir}' -> '${p}'`), { code: "ENOTDIR", syscall: "chdir", path: p });
    dir = p;
  },
  nextTick(f, ...args) { queueMicrotask(args.length ? () => f(...args) : f); },
  hrtime, uptime: () => now() / 1e3, memoryUsage: memory, cpuUsage: () => ({ user: 0, system: 0 }), resourceUsage: () => ({ maxRSS: 0 }),
  umask: () => 0o22, getuid: () => boot.user.uid, geteuid: () => boot.user.uid, getgid: () => boot.user.gid, getegid: () => boot.user.gid, getgroups: () => [boot.user.gid],
  exit: refused("process.exit()"), reallyExit: refused("process.reallyExit()"), abort: refused("process.abort()"),
  kill(pid, signal = "SIGTERM") {
    if (signal !== 0 && (Math.abs(pid) === boot.pid || pid === 0 || Math.abs(pid) === boot.ppid)) refused("process.kill() of the agent itself")();
    host.op("proc.kill", pid, signal);
    return true;
  },
  emitWarning(warning, options) {
    const type = typeof options === "string" ? options : options?.type ?? "Warning";
    host.log("warn", warning instanceof Error ? `${warning.name}: ${warning.message}` : `${type}: ${warning}`);
  },
  binding() { throw unavailable("process.binding"); },
  dlopen() { throw unavailable("a native addon"); },
  getBuiltinModule(name) {
    try {
      return require(name.startsWith("node:") ? name : `node:${name}`);
    } catch {
      return undefined;
    }
  },
  setUncaughtExceptionCaptureCallback() {}, hasUncaughtExceptionCaptureCallback: () => false, setSourceMapsEnabled() {}, loadEnvFile() { throw unavailable("process.loadEnvFile"); },
  ref() {}, unref() {}, allowedNodeEnvironmentFlags: new Set(), report: undefined, permission: undefined, channel: undefined, connected: false,
  constrainedMemory: () => 0, availableMemory: () => boot.totalmem,
});
Object.defineProperty(process, Symbol.toStringTag, { value: "process", configurable: true });
module.exports = process;
