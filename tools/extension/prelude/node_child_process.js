// provides: node:child_process, child_process
"use strict";

const EventEmitter = require("events");
const { Buffer } = require("buffer");
const buf = (u8) => Buffer.from(u8.buffer, u8.byteOffset, u8.byteLength);
const process = require("process");

const dirOf = (cwd) => cwd === undefined || cwd === null ? process.cwd() : typeof cwd === "string" ? require("path").resolve(cwd) : require("url").fileURLToPath(cwd);
const envOf = (env) => Object.fromEntries(Object.entries(env ?? process.env).filter(([, v]) => v !== undefined).map(([k, v]) => [k, String(v)]));
const signals = require("os").constants.signals;
const nameOf = (s) => typeof s === "number" ? Object.keys(signals).find((k) => signals[k] === s) ?? s : s;

function checkCommand(file, name = "file") {
  if (typeof file !== "string") throw Object.assign(new TypeError(`The "${name}" argument must be of type string. Received ${file === null ? "null" : typeof file}`), { code: "ERR_INVALID_ARG_TYPE" });
  if (file === "") throw Object.assign(new TypeError(`The argument '${name}' cannot be empty. Received ''`), { code: "ERR_INVALID_ARG_VALUE" });
}

function splitArgs(args, options) {
  if (args !== undefined && args !== null && !Array.isArray(args)) [options, args] = [args, []];
  return [(args ?? []).map(String), options ?? {}];
}

// command is what is started: the file itself, or a shell with the line.
function command(file, args, o) {
  if (!o.shell) return [file, args];
  return [typeof o.shell === "string" ? o.shell : "/bin/sh", ["-c", [file, ...args].join(" ")]];
}

const errnos = require("os").constants.errno;
function spawnError(error, file, args, sync) {
  const syscall = `${sync ? "spawnSync" : "spawn"} ${file}`;
  return Object.assign(new Error(error.code ? `${syscall} ${error.code}` : error.message), { code: error.code, errno: -errnos[error.code] || undefined, syscall, path: file, spawnargs: args });
}

// kinds says of the three streams what becomes of them: a pipe, nothing, or the log.
function kinds(stdio) {
  const list = Array.isArray(stdio) ? stdio : stdio === undefined || stdio === null ? [] : [stdio, stdio, stdio];
  return [0, 1, 2].map((i) => {
    const k = list[i] ?? "pipe";
    if (k === "inherit" || k === process.stdout || k === process.stderr || k === process.stdin) return "inherit";
    if (typeof k === "number") return k <= 2 ? "inherit" : { fd: k };
    if (k !== null && typeof k === "object") return typeof k.fd === "number" ? (k.fd <= 2 ? "inherit" : { fd: k.fd }) : { stream: k };
    return k === "ignore" ? "ignore" : "pipe";
  });
}

class ChildProcess extends EventEmitter {
  #id;
  #queue = [];
  constructor() {
    super();
    Object.assign(this, { pid: undefined, exitCode: null, signalCode: null, killed: false, connected: false, stdin: null, stdout: null, stderr: null, stdio: [null, null, null] });
  }
  static start(file, args, o) {
    const { Readable, Writable } = require("stream");
    const child = new ChildProcess();
    child.spawnfile = file;
    child.spawnargs = [file, ...args];
    const [k0, k1, k2] = kinds(o.stdio);
    let failed = false, exited, ends = 0, closing;
    const over = () => {
      if (!exited || !closing || ends > 0) return;
      closing = false;
      if (child.#id !== undefined) host.close(child.#id);
      child.emit("close", child.exitCode, child.signalCode);
    };
    const reader = (kind, level) => {
      if (kind === "ignore") return [null, () => {}];
      if (kind === "inherit") return [null, (b) => b && host.log(level, buf(b).toString().replace(/\n$/, ""))];
      if (kind.fd !== undefined) return [null, (b) => b && host.op("fs.write", kind.fd, b, null)];
      if (kind.stream) return [null, (b) => b && kind.stream.write(buf(b))];
      const s = new Readable({ read() {} });
      ends++;
      s.once("close", () => { ends--; over(); });
      s.fd = -1;
      return [s, (b) => s.push(b ? buf(b) : null)];
    };
    const [stdout, putOut] = reader(k1, "info"), [stderr, putErr] = reader(k2, "info");
    let ready = false;
    const say = (event, ...values) => ready ? host.send(child.#id, event, ...values) : child.#queue.push([event, ...values]);
    if (k0 === "pipe") {
      child.stdin = new Writable({
        write(chunk, _, done) {
          if (exited || failed) return done(Object.assign(new Error("write EPIPE"), { code: "EPIPE", errno: -32, syscall: "write" }));
          say("stdin", new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength));
          done();
        },
        final(done) {
          say("stdinEnd");
          done();
        },
      });
      child.stdin.fd = -1;
    }
    child.stdout = stdout;
    child.stderr = stderr;
    child.stdio = [child.stdin, stdout, stderr];
    const on = (event, v) => {
      switch (event) {
        case "spawn":
          child.pid = v.pid;
          child.emit("spawn");
          break;
        case "stdout":
          putOut(v);
          break;
        case "stderr":
          putErr(v);
          break;
        case "exit":
          exited = true;
          child.exitCode = v.code ?? null;
          child.signalCode = v.signal || null;
          child.stdin?.destroy();
          child.emit("exit", child.exitCode, child.signalCode);
          over();
          break;
        case "close":
          if (!exited) on("exit", v);
          putOut(null);
          putErr(null);
          closing = true;
          // A stream that nobody reads holds nothing back.
          for (const s of [stdout, stderr]) if (s && s.readableFlowing === null && !s.listenerCount("readable")) s.resume();
          over();
          break;
        case "error":
          failed = true;
          child.exitCode = -(errnos[v.code] ?? 1);
          putOut(null);
          putErr(null);
          child.stdin?.destroy();
          queueMicrotask(() => {
            stdout?.resume();
            stderr?.resume();
            child.emit("error", spawnError(v, file, args));
            if (!exited) {
              exited = closing = true;
              over();
            }
          });
      }
    };
    const [name, list] = command(file, args, o);
    try {
      child.#id = host.open("proc.spawn", [name, list, { cwd: dirOf(o.cwd), env: envOf(o.env), detached: !!o.detached, stdio: [k0, k1, k2].map((k) => k === "ignore" ? "ignore" : "pipe") }], on);
      child.pid = host.pid(child.#id);
      ready = true;
      for (const words of child.#queue.splice(0)) host.send(child.#id, ...words);
      if (k0 !== "pipe" && !k0.stream) host.send(child.#id, "stdinEnd");
      else if (k0.stream) k0.stream.on("data", (c) => say("stdin", new Uint8Array(Buffer.from(c)))).on("end", () => say("stdinEnd"));
    } catch (e) {
      queueMicrotask(() => on("error", e));
    }
    let timer;
    if (o.timeout > 0) {
      timer = setTimeout(() => child.kill(o.killSignal ?? "SIGTERM"), o.timeout);
      child.once("exit", () => clearTimeout(timer));
    }
    if (o.signal) {
      const stop = () => {
        child.kill(o.killSignal ?? "SIGTERM");
        child.emit("error", Object.assign(new Error("The operation was aborted", { cause: o.signal.reason }), { name: "AbortError", code: "ABORT_ERR" }));
      };
      if (o.signal.aborted) queueMicrotask(stop);
      else {
        o.signal.addEventListener("abort", stop, { once: true });
        child.once("exit", () => o.signal.removeEventListener("abort", stop));
      }
    }
    return child;
  }
  kill(signal = "SIGTERM") {
    if (signal === 0) return this.exitCode === null && this.signalCode === null && this.#id !== undefined;
    if (this.exitCode !== null || this.signalCode !== null || this.#id === undefined) return false;
    host.send(this.#id, "kill", nameOf(signal));
    this.killed = true;
    return true;
  }
  ref() {}
  unref() {}
  disconnect() {}
  send() { throw noFork(); }
  [Symbol.dispose ?? Symbol.for("Symbol.dispose")]() { this.kill(); }
}
const start = ChildProcess.start;
delete ChildProcess.start;

function noFork() {
  return Object.assign(new Error("child_process.fork is not available here: there is no Node.js to run the module. Use spawn, or start Node by its name."), { code: "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM" });
}

function spawn(file, args, options) {
  checkCommand(file);
  const [list, o] = splitArgs(args, options);
  return start(file, list, o);
}

function execFile(file, ...rest) {
  const callback = typeof rest[rest.length - 1] === "function" ? rest.pop() : undefined;
  checkCommand(file);
  const [list, o] = splitArgs(...rest);
  return collect(start(file, list, o), o, [file, ...list].join(" "), callback);
}

function exec(line, options, callback) {
  if (typeof options === "function") [callback, options] = [options, {}];
  checkCommand(line, "command");
  const o = { ...options, shell: options?.shell ?? true };
  return collect(start(line, [], o), o, line, callback);
}

// collect gathers what a child writes, up to maxBuffer, and calls back at its end.
function collect(child, o, line, callback) {
  const max = o.maxBuffer ?? 1024 * 1024, enc = o.encoding === undefined ? "utf8" : o.encoding;
  const out = { stdout: [], stderr: [] }, size = { stdout: 0, stderr: 0 };
  let failed = null, over = false;
  for (const k of ["stdout", "stderr"]) {
    child[k]?.on("data", (c) => {
      if (size[k] >= max) return;
      const room = max - size[k];
      size[k] += c.length;
      out[k].push(c.length > room ? c.subarray(0, room) : c);
      if (size[k] > max) {
        failed = Object.assign(new RangeError(`${k} maxBuffer length exceeded`), { code: "ERR_CHILD_PROCESS_STDIO_MAXBUFFER" });
        child.kill(o.killSignal);
      }
    });
  }
  const done = (err) => {
    if (over) return;
    over = true;
    const show = (list) => enc && enc !== "buffer" ? Buffer.concat(list).toString(enc) : Buffer.concat(list);
    const stdout = show(out.stdout), stderr = show(out.stderr);
    if (!err && (child.exitCode !== 0 || child.signalCode)) {
      err = Object.assign(new Error(`Command failed: ${line}\n${stderr}`), { code: child.exitCode ?? null, killed: child.killed, signal: child.signalCode, cmd: line });
    }
    if (err) Object.assign(err, { cmd: err.cmd ?? line, stdout, stderr });
    callback?.(err ?? null, stdout, stderr);
  };
  child.on("error", (e) => { failed ??= e; done(failed); });
  child.on("close", () => done(failed));
  return child;
}
const promised = (f) => (...args) => {
  let child;
  const p = new Promise((resolve, reject) => { child = f(...args, (err, stdout, stderr) => err ? reject(err) : resolve({ stdout, stderr })); });
  return Object.assign(p, { child });
};
exec[Symbol.for("nodejs.util.promisify.custom")] = promised(exec);
execFile[Symbol.for("nodejs.util.promisify.custom")] = promised(execFile);

function run(file, args, o) {
  const [name, list] = command(file, args, o), [, k1, k2] = kinds(o.stdio);
  const input = o.input === undefined || o.input === null ? undefined : typeof o.input === "string" ? new TextEncoder().encode(o.input) : new Uint8Array(o.input.buffer, o.input.byteOffset, o.input.byteLength);
  const opts = { cwd: dirOf(o.cwd), env: envOf(o.env), timeout: o.timeout || undefined, maxBuffer: o.maxBuffer === Infinity ? undefined : o.maxBuffer ?? 1024 * 1024, killSignal: nameOf(o.killSignal) };
  const words = ["proc.run", name, list, opts];
  // Bytes do not travel inside of options.
  if (input) words.push(input);
  let r;
  try {
    r = host.op(...words);
  } catch (e) {
    r = { pid: 0, code: null, signal: null, stdout: new Uint8Array(0), stderr: new Uint8Array(0), error: { code: e.code, message: e.message } };
  }
  const enc = o.encoding && o.encoding !== "buffer" ? o.encoding : null;
  const show = (u8, kind) => {
    if (kind !== "pipe") {
      if (kind === "inherit" && u8.length) host.log("info", buf(u8).toString().replace(/\n$/, ""));
      return null;
    }
    return enc ? buf(u8).toString(enc) : buf(u8);
  };
  const out = { pid: r.pid, output: null, stdout: null, stderr: null, status: r.code ?? null, signal: r.signal || null };
  if (r.error && !r.timedOut && !r.truncated) out.error = spawnError(r.error, name, list, true);
  else if (r.timedOut) out.error = spawnError({ code: "ETIMEDOUT" }, name, list, true);
  else if (r.truncated) out.error = spawnError({ code: "ENOBUFS" }, name, list, true);
  if (!r.error || r.timedOut || r.truncated) {
    out.stdout = show(r.stdout, k1);
    out.stderr = show(r.stderr, k2);
    out.output = [null, out.stdout, out.stderr];
  }
  return out;
}

function spawnSync(file, args, options) {
  checkCommand(file);
  const [list, o] = splitArgs(args, options);
  return run(file, list, o);
}

function checked(r, line, o) {
  // What the child says on stderr is the caller's to see, unless it asked otherwise.
  if (r.stderr?.length && o.stdio === undefined) host.log("info", r.stderr.toString().replace(/\n$/, ""));
  if (!r.error && r.status === 0) return r.stdout;
  const e = r.error ?? new Error(`Command failed: ${line}${r.stderr?.length ? "\n" + r.stderr.toString() : ""}`);
  throw Object.assign(e, { status: r.status, signal: r.signal, output: r.output, pid: r.pid, stdout: r.stdout, stderr: r.stderr });
}

function execFileSync(file, args, options) {
  checkCommand(file);
  const [list, o] = splitArgs(args, options);
  return checked(run(file, list, o), [file, ...list].join(" "), o);
}

function execSync(line, options = {}) {
  checkCommand(line, "command");
  return checked(run(line, [], { ...options, shell: options.shell ?? true }), line, options);
}

module.exports = { ChildProcess, spawn, exec, execFile, spawnSync, execSync, execFileSync, fork() { throw noFork(); } };
