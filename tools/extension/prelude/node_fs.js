// provides: node:fs, fs
"use strict";

const { Buffer } = require("buffer");
const path = require("path");

const constants = {
  F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1, COPYFILE_EXCL: 1, COPYFILE_FICLONE: 2, COPYFILE_FICLONE_FORCE: 4, UV_FS_COPYFILE_EXCL: 1, UV_FS_COPYFILE_FICLONE: 2, UV_FS_COPYFILE_FICLONE_FORCE: 4,
  O_RDONLY: 0, O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_NOCTTY: 256, O_TRUNC: 512, O_APPEND: 1024, O_NONBLOCK: 2048, O_DSYNC: 4096, O_DIRECT: 16384, O_DIRECTORY: 65536,
  O_NOFOLLOW: 131072, O_NOATIME: 262144, O_SYNC: 1052672, S_IFMT: 61440, S_IFREG: 32768, S_IFDIR: 16384, S_IFCHR: 8192, S_IFBLK: 24576, S_IFIFO: 4096, S_IFLNK: 40960, S_IFSOCK: 49152,
  S_IRWXU: 448, S_IRUSR: 256, S_IWUSR: 128, S_IXUSR: 64, S_IRWXG: 56, S_IRGRP: 32, S_IWGRP: 16, S_IXGRP: 8, S_IRWXO: 7, S_IROTH: 4, S_IWOTH: 2, S_IXOTH: 1,
};

function badArg(name, wanted, got) {
  const e = new TypeError(`The "${name}" argument must be of type ${wanted}. Received ${got === null ? "null" : typeof got === "object" ? `an instance of ${got?.constructor?.name}` : got === undefined ? "undefined" : `type ${typeof got} (${String(got)})`}`);
  e.code = "ERR_INVALID_ARG_TYPE";
  return e;
}

// at is a path as the host takes it: absolute, since a session's directory is its own.
function at(p, name = "path") {
  if (p instanceof Uint8Array) p = Buffer.from(p).toString();
  else if (p && typeof p === "object" && typeof p.href === "string") p = require("url").fileURLToPath(p);
  if (typeof p !== "string") throw badArg(name, "string or an instance of Buffer or URL", p);
  if (p.includes("\0")) throw Object.assign(new TypeError(`The argument '${name}' must be a string, Uint8Array, or URL without null bytes. Received ${JSON.stringify(p)}`), { code: "ERR_INVALID_ARG_VALUE" });
  return p.startsWith("/") ? p : p === "" ? "" : path.resolve(p) + (p.endsWith("/") ? "/" : "");
}
const where = (p) => typeof p === "number" ? p : at(p);
const fdOf = (fd) => {
  if (typeof fd !== "number") throw badArg("fd", "number", fd);
  return fd;
};
const encodingOf = (o) => typeof o === "string" ? o : o?.encoding ?? null;
const buf = (u8) => Buffer.from(u8.buffer, u8.byteOffset, u8.byteLength);
const decoded = (u8, o) => {
  const enc = encodingOf(o);
  return enc && enc !== "buffer" ? buf(u8).toString(enc) : buf(u8);
};
const asData = (data, enc) => {
  if (typeof data === "string") return enc && !/^utf-?8$/i.test(enc) ? Buffer.from(data, enc) : data;
  if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  throw badArg("data", "string or an instance of Buffer, TypedArray, or DataView", data);
};
const modeOf = (m, fallback) => typeof m === "string" ? parseInt(m, 8) : m ?? fallback;
const msOf = (t) => t instanceof Date ? +t : typeof t === "string" && Number.isNaN(+t) ? Date.parse(t) : +t * 1000;

class Stats {
  constructor(s) { Object.assign(this, { rdev: 0 }, s); }
  get atime() { return new Date(this.atimeMs); }
  get mtime() { return new Date(this.mtimeMs); }
  get ctime() { return new Date(this.ctimeMs); }
  get birthtime() { return new Date(this.birthtimeMs); }
}
class BigIntStats extends Stats {
  constructor(s) {
    super(s);
    for (const k of ["atime", "mtime", "ctime", "birthtime"]) this[`${k}Ns`] = BigInt(Math.round(this[`${k}Ms`] * 1e6));
    for (const k of Object.keys(this)) if (typeof this[k] === "number") this[k] = BigInt(Math.floor(this[k]));
  }
  get atime() { return new Date(Number(this.atimeMs)); }
  get mtime() { return new Date(Number(this.mtimeMs)); }
  get ctime() { return new Date(Number(this.ctimeMs)); }
  get birthtime() { return new Date(Number(this.birthtimeMs)); }
}
class Dirent {
  constructor(name, parentPath, type) {
    this.name = name;
    this.parentPath = this.path = parentPath;
    Object.defineProperty(this, "type", { value: type, enumerable: false });
  }
}
for (const [name, mode, type] of [["File", constants.S_IFREG, "file"], ["Directory", constants.S_IFDIR, "dir"], ["SymbolicLink", constants.S_IFLNK, "link"], ["FIFO", constants.S_IFIFO, "fifo"],
  ["Socket", constants.S_IFSOCK, "socket"], ["CharacterDevice", constants.S_IFCHR, "char"], ["BlockDevice", constants.S_IFBLK, "block"]]) {
  const method = (f) => ({ value: f, writable: true, configurable: true });
  Object.defineProperty(Stats.prototype, `is${name}`, method(function () { return (Number(this.mode) & constants.S_IFMT) === mode; }));
  Object.defineProperty(Dirent.prototype, `is${name}`, method(function () { return this.type === type; }));
}
const stats = (s, o) => o?.bigint ? new BigIntStats(s) : new Stats(s);

function entries(list, dir, o) {
  if (o?.withFileTypes) return list.map((e) => new Dirent(e.name, dir, e.type));
  return encodingOf(o) === "buffer" ? list.map((e) => Buffer.from(e.name)) : list.map((e) => e.name);
}

// Each operation once: the words for the host, and what its answer means. The three ways
// to call it (at once, with a callback, with a promise) are made of it below.
const same = (v) => v;
const none = () => undefined;
const table = {
  readFile: (p, o) => [["fs.readFile", where(p)], (b) => decoded(b, o)],
  writeFile: (p, data, o) => [["fs.writeFile", where(p), asData(data, encodingOf(o)), { flag: o?.flag ?? "w", mode: modeOf(o?.mode, 0o666) }], none],
  appendFile: (p, data, o) => [["fs.writeFile", where(p), asData(data, encodingOf(o)), { flag: o?.flag ?? "a", mode: modeOf(o?.mode, 0o666) }], none],
  stat: (p, o) => [["fs.stat", at(p)], (s) => stats(s, o)],
  lstat: (p, o) => [["fs.lstat", at(p)], (s) => stats(s, o)],
  fstat: (fd, o) => [["fs.fstat", fdOf(fd)], (s) => stats(s, o)],
  realpath: (p) => [["fs.realpath", at(p)], same],
  readlink: (p) => [["fs.readlink", at(p)], same],
  mkdir: (p, o) => [["fs.mkdir", at(p), { recursive: !!o?.recursive, mode: modeOf(typeof o === "object" ? o?.mode : o, 0o777) }], (v) => o?.recursive ? v ?? undefined : undefined],
  mkdtemp: (prefix) => [["fs.mkdtemp", at(prefix, "prefix")], same],
  rm: (p, o) => [["fs.rm", at(p), { recursive: !!o?.recursive, force: !!o?.force }], none],
  rmdir: (p, o) => [o?.recursive ? ["fs.rm", at(p), { recursive: true, force: false }] : ["fs.rmdir", at(p)], none],
  unlink: (p) => [["fs.unlink", at(p)], none],
  rename: (a, b) => [["fs.rename", at(a, "oldPath"), at(b, "newPath")], none],
  copyFile: (a, b, mode) => [["fs.copyFile", at(a, "src"), at(b, "dest"), mode ?? 0], none],
  symlink: (target, p) => [["fs.symlink", typeof target === "string" ? target : at(target, "target"), at(p)], none],
  link: (a, b) => [["fs.link", at(a, "existingPath"), at(b, "newPath")], none],
  chmod: (p, mode) => [["fs.chmod", at(p), modeOf(mode)], none],
  chown: (p, uid, gid) => [["fs.chown", at(p), uid, gid], none],
  lchown: () => [null, none],
  utimes: (p, a, m) => [["fs.utimes", at(p), msOf(a), msOf(m)], none],
  lutimes: (p, a, m) => [["fs.lutimes", at(p), msOf(a), msOf(m)], none],
  futimes: (fd, a, m) => [["fs.futimes", fdOf(fd), msOf(a), msOf(m)], none],
  access: (p, mode) => [["fs.access", at(p), mode ?? 0], none],
  truncate: (p, n) => [["fs.truncate", at(p), n ?? 0], none],
  ftruncate: (fd, n) => [["fs.ftruncate", fdOf(fd), n ?? 0], none],
  open: (p, flags, mode) => [["fs.open", at(p), flags ?? "r", modeOf(mode, 0o666)], same],
  close: (fd) => [["fs.close", fdOf(fd)], none],
  fsync: (fd) => [["fs.fsync", fdOf(fd)], none],
  fdatasync: (fd) => [["fs.fsync", fdOf(fd)], none],
  fchmod: (fd, mode) => [["fs.fchmod", fdOf(fd), modeOf(mode)], none],
  fchown: () => [null, none],
  glob: (pattern, o) => [["fs.glob", pattern, { cwd: at(o?.cwd ?? ".") }], same],
};
// cp and readdir are made of several operations.
const cpOptions = (o) => ({ recursive: !!o?.recursive, force: o?.force !== false, errorOnExist: !!o?.errorOnExist });

const fs = {};
const promises = {};
const now = (words) => words === null ? undefined : host.op(...words);
const later = (words) => words === null ? Promise.resolve() : host.start(...words);

function withCallback(make) {
  return (...args) => {
    const callback = args[args.length - 1];
    if (typeof callback !== "function") throw badArg("callback", "function", callback);
    args = args.slice(0, -1);
    make(...args).then((v) => callback(null, v), (e) => callback(e));
  };
}
for (const [name, words] of Object.entries(table)) {
  fs[`${name}Sync`] = (...args) => {
    const [w, result] = words(...args);
    return result(now(w));
  };
  const make = async (...args) => {
    const [w, result] = words(...args);
    return result(await later(w));
  };
  fs[name] = withCallback((...args) => {
    const [w, result] = words(...args); // a wrong argument throws at once
    return later(w).then(result);
  });
  promises[name] = make;
}
for (const name of ["fstat", "futimes", "ftruncate", "close", "fsync", "fdatasync", "fchmod", "fchown"]) delete promises[name];

// What is not there is no error for who asks so.
fs.statSync = (p, o) => quiet(() => stats(host.op("fs.stat", at(p)), o), o);
fs.lstatSync = (p, o) => quiet(() => stats(host.op("fs.lstat", at(p)), o), o);
function quiet(f, o) {
  if (o?.throwIfNoEntry !== false) return f();
  try {
    return f();
  } catch (e) {
    if (e.code === "ENOENT" || e.code === "ENOTDIR") return undefined;
    throw e;
  }
}

fs.existsSync = (p) => {
  try {
    host.op("fs.access", at(p), 0);
    return true;
  } catch {
    return false;
  }
};
fs.exists = (p, callback) => { host.start("fs.access", at(p), 0).then(() => callback(true), () => callback(false)); };
fs.exists[Symbol.for("nodejs.util.promisify.custom")] = (p) => new Promise((resolve) => fs.exists(p, resolve));

fs.readdirSync = (p, o) => {
  const dir = at(p);
  if (!o?.recursive) return entries(host.op("fs.readdir", dir), typeof p === "string" ? p : dir, o);
  const out = [];
  const walk = (full, rel) => {
    for (const e of host.op("fs.readdir", full)) {
      out.push(o.withFileTypes ? new Dirent(e.name, path.join(typeof p === "string" ? p : dir, rel), e.type) : path.join(rel, e.name));
      if (e.type === "dir") walk(path.join(full, e.name), path.join(rel, e.name));
    }
  };
  walk(dir, "");
  return out;
};
promises.readdir = async (p, o) => {
  const dir = at(p);
  if (!o?.recursive) return entries(await host.start("fs.readdir", dir), typeof p === "string" ? p : dir, o);
  const out = [];
  const walk = async (full, rel) => {
    for (const e of await host.start("fs.readdir", full)) {
      out.push(o.withFileTypes ? new Dirent(e.name, path.join(typeof p === "string" ? p : dir, rel), e.type) : path.join(rel, e.name));
      if (e.type === "dir") await walk(path.join(full, e.name), path.join(rel, e.name));
    }
  };
  await walk(dir, "");
  return out;
};
fs.readdir = withCallback(promises.readdir);

fs.cpSync = (a, b, o) => {
  if (typeof o?.filter !== "function") return void host.op("fs.cp", at(a, "src"), at(b, "dest"), cpOptions(o));
  const copy = (from, to) => {
    if (!o.filter(from, to)) return;
    if (fs.statSync(from).isDirectory()) {
      fs.mkdirSync(to, { recursive: true });
      for (const n of fs.readdirSync(from)) copy(path.join(from, n), path.join(to, n));
    } else {
      host.op("fs.cp", at(from), at(to), cpOptions(o));
    }
  };
  copy(a, b);
};
promises.cp = async (a, b, o) => {
  if (typeof o?.filter !== "function") return void await host.start("fs.cp", at(a, "src"), at(b, "dest"), cpOptions(o));
  const copy = async (from, to) => {
    if (!await o.filter(from, to)) return;
    if ((await promises.stat(from)).isDirectory()) {
      await promises.mkdir(to, { recursive: true });
      for (const n of await promises.readdir(from)) await copy(path.join(from, n), path.join(to, n));
    } else {
      await host.start("fs.cp", at(from), at(to), cpOptions(o));
    }
  };
  await copy(a, b);
};
fs.cp = withCallback(promises.cp);

// read and write with all their old ways to be called.
function readArgs(buffer, offset, length, position) {
  if (offset !== null && typeof offset === "object" && offset !== undefined) ({ offset = 0, length, position } = offset);
  offset ??= 0;
  length ??= buffer.byteLength - offset;
  return [offset, length, position === undefined || position === -1 ? null : Number(position)];
}
const put = (buffer, offset, bytes) => {
  new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength).set(bytes, offset);
  return bytes.length;
};
fs.readSync = (fd, buffer, ...rest) => {
  const [offset, length, position] = readArgs(buffer, ...rest);
  return put(buffer, offset, host.op("fs.read", fdOf(fd), length, position));
};
fs.read = (fd, ...args) => {
  const callback = args.pop();
  let [buffer, ...rest] = args;
  if (!ArrayBuffer.isView(buffer)) [buffer, rest] = [buffer?.buffer ?? Buffer.alloc(16384), [buffer ?? {}]];
  const [offset, length, position] = readArgs(buffer, ...rest);
  host.start("fs.read", fdOf(fd), length, position).then((b) => callback(null, put(buffer, offset, b), buffer), callback);
};
fs.read[Symbol.for("nodejs.util.promisify.custom")] = (fd, ...args) => new Promise((resolve, reject) => fs.read(fd, ...args, (e, bytesRead, buffer) => e ? reject(e) : resolve({ bytesRead, buffer })));
function writeArgs(data, ...rest) {
  if (typeof data === "string") return [asData(data, rest[1]), rest[0] ?? null];
  let [offset, length, position] = rest;
  if (offset !== null && typeof offset === "object") ({ offset = 0, length, position } = offset);
  offset ??= 0;
  return [new Uint8Array(data.buffer, data.byteOffset + offset, length ?? data.byteLength - offset), position ?? null];
}
fs.writeSync = (fd, data, ...rest) => host.op("fs.write", fdOf(fd), ...writeArgs(data, ...rest));
fs.write = (fd, data, ...rest) => {
  const callback = rest.pop();
  host.start("fs.write", fdOf(fd), ...writeArgs(data, ...rest)).then((n) => callback(null, n, data), callback);
};
fs.write[Symbol.for("nodejs.util.promisify.custom")] = (fd, ...args) => new Promise((resolve, reject) => fs.write(fd, ...args, (e, bytesWritten, buffer) => e ? reject(e) : resolve({ bytesWritten, buffer })));
fs.readvSync = (fd, list, position) => list.reduce((n, b) => n + fs.readSync(fd, b, 0, b.byteLength, position == null ? null : position + n), 0);
fs.writevSync = (fd, list, position) => list.reduce((n, b) => n + fs.writeSync(fd, b, 0, b.byteLength, position == null ? null : position + n), 0);

class FileHandle extends require("events") {
  constructor(fd) {
    super();
    this.fd = fd;
  }
  #do(words) {
    if (this.fd < 0) return Promise.reject(Object.assign(new Error("file closed"), { code: "EBADF", errno: -9, syscall: words[0].slice(3) }));
    return host.start(...words);
  }
  async read(buffer, ...rest) {
    if (!ArrayBuffer.isView(buffer)) [buffer, rest] = [buffer?.buffer ?? Buffer.alloc(16384), [buffer ?? {}]];
    const [offset, length, position] = readArgs(buffer, ...rest);
    return { bytesRead: put(buffer, offset, await this.#do(["fs.read", this.fd, length, position])), buffer };
  }
  async write(data, ...rest) { return { bytesWritten: await this.#do(["fs.write", this.fd, ...writeArgs(data, ...rest)]), buffer: data }; }
  async readFile(o) { return decoded(await this.#do(["fs.readFile", this.fd]), o); }
  async writeFile(data, o) { await this.#do(["fs.writeFile", this.fd, asData(data, encodingOf(o)), { flag: "w", mode: 0o666 }]); }
  async appendFile(data, o) { await this.#do(["fs.write", this.fd, asData(data, encodingOf(o)), null]); }
  async stat(o) { return stats(await this.#do(["fs.fstat", this.fd]), o); }
  async truncate(n = 0) { await this.#do(["fs.ftruncate", this.fd, n]); }
  async sync() { await this.#do(["fs.fsync", this.fd]); }
  datasync() { return this.sync(); }
  async utimes(a, m) { await this.#do(["fs.futimes", this.fd, msOf(a), msOf(m)]); }
  async chmod(mode) { await this.#do(["fs.fchmod", this.fd, modeOf(mode)]); }
  async close() {
    if (this.fd < 0) return;
    const fd = this.fd;
    this.fd = -1;
    await host.start("fs.close", fd);
    this.emit("close");
  }
  createReadStream(o) { return fs.createReadStream("", { ...o, fd: this }); }
  createWriteStream(o) { return fs.createWriteStream("", { ...o, fd: this }); }
  readLines(o) { return require("readline").createInterface({ input: this.createReadStream(o), crlfDelay: Infinity }); }
  [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() { return this.close(); }
}
promises.open = async (p, flags, mode) => new FileHandle(await host.start("fs.open", at(p), flags ?? "r", modeOf(mode, 0o666)));
for (const name of ["readFile", "writeFile", "appendFile"]) {
  const plain = promises[name];
  promises[name] = async (p, ...rest) => {
    const o = rest[rest.length - 1];
    if (o?.signal?.aborted) throw Object.assign(new Error("The operation was aborted"), { name: "AbortError", code: "ABORT_ERR" });
    if (p instanceof FileHandle) return p[name](...rest);
    if (name !== "readFile" && rest[0] && typeof rest[0] === "object" && !ArrayBuffer.isView(rest[0]) && (rest[0][Symbol.asyncIterator] || rest[0][Symbol.iterator])) {
      const parts = [];
      for await (const c of rest[0]) parts.push(typeof c === "string" ? Buffer.from(c) : c);
      rest[0] = Buffer.concat(parts);
    }
    return plain(p, ...rest);
  };
}
promises.constants = constants;

class Dir {
  #list;
  constructor(p, list) {
    this.path = p;
    this.#list = list;
  }
  readSync() { return this.#list.shift() ?? null; }
  async read() { return this.readSync(); }
  closeSync() {}
  async close() {}
  async *[Symbol.asyncIterator]() { while (this.#list.length) yield this.#list.shift(); }
}
fs.opendirSync = (p, o) => new Dir(p, fs.readdirSync(p, { ...o, withFileTypes: true }));
promises.opendir = async (p, o) => new Dir(p, await promises.readdir(p, { ...o, withFileTypes: true }));
fs.opendir = withCallback(promises.opendir);
promises.glob = async function* (pattern, o) { for (const p of [].concat(pattern)) yield* await host.start("fs.glob", p, { cwd: at(o?.cwd ?? ".") }); };
fs.realpathSync.native = fs.realpathSync;
fs.realpath.native = fs.realpath;
fs.openAsBlob = async (p, o) => new (require("troupe:web").Blob)([await promises.readFile(p)], o);
fs.statfsSync = () => { throw Object.assign(new Error("ENOSYS: function not implemented, statfs"), { code: "ENOSYS", syscall: "statfs" }); };

function createReadStream(p, o) {
  const { Readable } = require("stream");
  if (typeof o === "string") o = { encoding: o };
  const { start = 0, end = Infinity, autoClose = true } = o ?? {};
  let fd = o?.fd ?? null, position = o?.start === undefined ? null : start, left = end - start + 1;
  const raw = () => typeof fd === "number" ? fd : fd.fd;
  const stream = new Readable({
    highWaterMark: o?.highWaterMark ?? 65536, encoding: o?.encoding, signal: o?.signal,
    construct(done) {
      if (fd !== null) return done();
      host.start("fs.open", at(p), o?.flags ?? "r", modeOf(o?.mode, 0o666)).then((n) => {
        fd = n;
        this.fd = n;
        this.emit("open", n);
        this.emit("ready");
        done();
      }, done);
    },
    read(n) {
      const want = Math.min(n, left);
      if (want <= 0) return void this.push(null);
      host.start("fs.read", raw(), want, position).then((b) => {
        if (position !== null) position += b.length;
        left -= b.length;
        this.bytesRead += b.length;
        this.push(b.length ? buf(b) : null);
      }, (e) => this.destroy(e));
    },
    destroy(err, done) {
      if (fd === null || !autoClose) return done(err);
      const closing = typeof fd === "number" ? host.start("fs.close", fd) : fd.close();
      closing.then(() => done(err), (e) => done(err ?? e));
    },
  });
  return Object.assign(stream, { path: p, bytesRead: 0, pending: false, close(f) { f && stream.once("close", f); stream.destroy(); } });
}

function createWriteStream(p, o) {
  const { Writable } = require("stream");
  if (typeof o === "string") o = { encoding: o };
  let fd = o?.fd ?? null, position = o?.start ?? null;
  const raw = () => typeof fd === "number" ? fd : fd.fd;
  const all = async (b) => {
    while (b.length) {
      const n = await host.start("fs.write", raw(), b, position);
      if (position !== null) position += n;
      b = b.subarray(n);
    }
  };
  const stream = new Writable({
    defaultEncoding: o?.encoding ?? "utf8", signal: o?.signal, highWaterMark: o?.highWaterMark,
    construct(done) {
      if (fd !== null) return done();
      host.start("fs.open", at(p), o?.flags ?? "w", modeOf(o?.mode, 0o666)).then((n) => {
        fd = n;
        this.fd = n;
        this.emit("open", n);
        this.emit("ready");
        done();
      }, done);
    },
    write(chunk, _, done) {
      this.bytesWritten += chunk.length;
      all(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength)).then(() => done(), done);
    },
    destroy(err, done) {
      if (fd === null || o?.autoClose === false) return done(err);
      const closing = typeof fd === "number" ? host.start("fs.close", fd) : fd.close();
      closing.then(() => done(err), (e) => done(err ?? e));
    },
  });
  return Object.assign(stream, { path: p, bytesWritten: 0, pending: false, close(f) { f && stream.once("close", f); stream.end(); } });
}

// watch tells of changes; the watcher lives until it is closed or the session ends.
function watch(p, options, listener) {
  if (typeof options === "function") [listener, options] = [options, {}];
  if (typeof options === "string") options = { encoding: options };
  const EventEmitter = require("events");
  const w = new EventEmitter();
  let open = true;
  const id = host.open("fs.watch", [at(p), { recursive: !!options?.recursive }], (event, v) => {
    if (!open) return;
    if (event === "change") w.emit("change", v.eventType, v.filename);
    else if (event === "error") w.emit("error", Object.assign(new Error(v.message), v));
  });
  w.close = () => {
    if (!open) return;
    open = false;
    host.close(id);
    queueMicrotask(() => w.emit("close"));
  };
  w.ref = w.unref = () => w;
  if (listener) w.on("change", listener);
  options?.signal?.addEventListener("abort", () => w.close(), { once: true });
  return w;
}
promises.watch = async function* (p, o) {
  const queue = [];
  let wake = () => {}, failed;
  const w = watch(p, o, (eventType, filename) => { queue.push({ eventType, filename }); wake(); });
  w.on("error", (e) => { failed = e; wake(); });
  o?.signal?.addEventListener("abort", () => { failed = Object.assign(new Error("The operation was aborted"), { name: "AbortError", code: "ABORT_ERR" }); wake(); }, { once: true });
  try {
    for (;;) {
      if (queue.length) yield queue.shift();
      else if (failed) throw failed;
      else await new Promise((resolve) => { wake = resolve; });
    }
  } finally {
    w.close();
  }
};

// watchFile asks again and again.
const watched = new Map();
function watchFile(p, options, listener) {
  if (typeof options === "function") [listener, options] = [options, {}];
  const name = at(p), look = () => fs.statSync(name, { throwIfNoEntry: false }) ?? new Stats({ mode: 0, size: 0, ino: 0, mtimeMs: 0, atimeMs: 0, ctimeMs: 0, birthtimeMs: 0, nlink: 0 });
  let last = look();
  const timer = setInterval(() => {
    const is = look();
    if (is.mtimeMs !== last.mtimeMs || is.size !== last.size || is.ino !== last.ino) {
      const was = last;
      last = is;
      listener(is, was);
    }
  }, options.interval ?? 5007);
  if (options.persistent === false) timer.unref?.();
  watched.set(name, [...(watched.get(name) ?? []), { listener, timer }]);
}
function unwatchFile(p, listener) {
  const name = at(p), list = watched.get(name) ?? [];
  for (const w of list) if (!listener || w.listener === listener) clearInterval(w.timer);
  watched.set(name, listener ? list.filter((w) => w.listener !== listener) : []);
}

class ReadStream {
  constructor(p, o) { return createReadStream(p, o); }
  static [Symbol.hasInstance](s) { return s instanceof require("stream").Readable && "bytesRead" in s; }
}
class WriteStream {
  constructor(p, o) { return createWriteStream(p, o); }
  static [Symbol.hasInstance](s) { return s instanceof require("stream").Writable && "bytesWritten" in s; }
}

module.exports = Object.assign(fs, { constants, ...Object.fromEntries(["F_OK", "R_OK", "W_OK", "X_OK"].map((k) => [k, constants[k]])), promises, Stats, Dirent, Dir, ReadStream, WriteStream, FileReadStream: ReadStream, FileWriteStream: WriteStream, createReadStream, createWriteStream, watch, watchFile, unwatchFile });
