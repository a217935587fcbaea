// provides: node:net, net
"use strict";

// TCP and Unix sockets. What comes is pushed as it comes; a piece is written when the one
// before it has been.

const { Duplex } = require("stream");
const EventEmitter = require("events");

const isIPv4 = (s) => /^(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$/.test(s);
function isIPv6(s) {
  if (typeof s !== "string") return false;
  try {
    return new URL(`http://[${s.replace(/%[\w.]+$/, "")}]/`).hostname !== "";
  } catch {
    return false;
  }
}
const errorOf = (e) => Object.assign(new Error(e.message), { code: e.code, errno: e.errno, syscall: e.syscall }, e.path ? { address: e.path } : {});

// addressOf reads the arguments of connect and listen: (port, host?), (path), (options),
// each with a callback behind it.
function addressOf(list) {
  const callback = typeof list[list.length - 1] === "function" ? list.pop() : undefined;
  const [first, second] = list;
  const o = first !== null && typeof first === "object" ? first
    : typeof first === "string" && !/^\d+$/.test(first) ? { path: first } : { port: first, host: typeof second === "string" ? second : undefined };
  const port = Number(o.port ?? 0);
  if (o.path === undefined && !(port >= 0 && port < 65536)) throw Object.assign(new RangeError(`Port should be >= 0 and < 65536. Received ${o.port}.`), { code: "ERR_SOCKET_BAD_PORT" });
  return { at: o.path === undefined ? { host: o.host, port } : { path: String(o.path) }, o, callback };
}

class Socket extends Duplex {
  #id;
  #wrote;
  #waiting = [];
  #timer;
  #timeout = 0;
  constructor(o = {}) {
    super({ allowHalfOpen: o.allowHalfOpen === true });
    Object.assign(this, { connecting: false, pending: true, encrypted: false, bytesRead: 0, bytesWritten: 0, timeout: 0 });
    if (o.signal) o.signal.addEventListener("abort", () => this.destroy(o.signal.reason), { once: true });
    if (!this.allowHalfOpen) this.once("end", () => this.writable && this.end());
  }
  connect(...list) {
    const { at, callback } = addressOf(list);
    if (callback) this.once("connect", callback);
    this.connecting = true;
    this.#open("net.connect", { host: "localhost", ...at, ...(at.path === undefined && at.host === undefined ? { host: "localhost" } : {}) });
    return this;
  }
  // taken makes a socket of a connection that a server has accepted.
  static taken(server, number, ends) {
    const s = new Socket({ allowHalfOpen: server.allowHalfOpen });
    s.server = server;
    s.#open("net.accepted", number);
    s.#connected(ends);
    return s;
  }
  #open(name, arg) {
    try {
      this.#id = host.open(name, [arg], (event, v) => this.#on(event, v));
    } catch (e) {
      queueMicrotask(() => this.destroy(errorOf(e)));
    }
  }
  #connected(ends) {
    Object.assign(this, { connecting: false, pending: false }, ends);
    for (const send of this.#waiting.splice(0)) send();
  }
  #on(event, v) {
    if (this.destroyed) return;
    this.#alive();
    switch (event) {
      case "connect":
        this.#connected(v);
        this.emit("connect");
        this.emit("ready");
        break;
      case "data":
        this.bytesRead += v.byteLength;
        this.push(Buffer.from(v.buffer, v.byteOffset, v.byteLength));
        break;
      case "wrote": {
        const done = this.#wrote;
        this.#wrote = undefined;
        done?.();
        break;
      }
      case "end":
        this.push(null);
        break;
      case "error":
        this.destroy(errorOf(v));
    }
  }
  #when(send) {
    if (this.pending) this.#waiting.push(send);
    else send();
  }
  #alive() {
    if (!this.#timeout) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.emit("timeout"), this.#timeout);
  }
  _read() {}
  _write(chunk, encoding, done) {
    const b = typeof chunk === "string" ? Buffer.from(chunk, encoding) : chunk;
    this.bytesWritten += b.byteLength;
    this.#when(() => {
      this.#alive();
      this.#wrote = done;
      host.send(this.#id, "write", new Uint8Array(b.buffer, b.byteOffset, b.byteLength));
    });
  }
  _final(done) {
    this.#when(() => { host.send(this.#id, "end"); done(); });
  }
  _destroy(err, done) {
    clearTimeout(this.#timer);
    if (this.#id !== undefined) host.close(this.#id);
    done(err);
  }
  destroySoon() {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy(); else this.once("finish", () => this.destroy());
  }
  resetAndDestroy() { return this.destroy(); }
  get readyState() { return this.connecting ? "opening" : this.readable && this.writable ? "open" : this.readable ? "readOnly" : this.writable ? "writeOnly" : "closed"; }
  setTimeout(ms, callback) {
    this.timeout = this.#timeout = ms;
    if (callback) this.once("timeout", callback);
    clearTimeout(this.#timer);
    this.#alive();
    return this;
  }
  setNoDelay() { return this; }
  setKeepAlive() { return this; }
  address() { return this.localAddress ? { address: this.localAddress, port: this.localPort, family: this.localFamily } : {}; }
  ref() { return this; }
  unref() { return this; }
}
const taken = Socket.taken;
delete Socket.taken;

class Server extends EventEmitter {
  #id;
  #where = null;
  #open = new Set();
  #closing = false;
  constructor(o, onConnection) {
    super();
    if (typeof o === "function") [o, onConnection] = [{}, o];
    this.allowHalfOpen = o?.allowHalfOpen === true;
    this.listening = false;
    if (onConnection) this.on("connection", onConnection);
  }
  listen(...list) {
    const { at, o, callback } = addressOf(list.length ? list : [0]);
    if (callback) this.once("listening", callback);
    this.#closing = false;
    try {
      this.#id = host.open("net.listen", [{ ...at, host: at.host ?? "" }], (event, v, ends) => this.#on(event, v, ends, at));
    } catch (e) {
      queueMicrotask(() => this.emit("error", Object.assign(errorOf(e), at.path === undefined ? { address: at.host ?? "::", port: at.port } : { address: at.path })));
    }
    o.signal?.addEventListener("abort", () => this.close(), { once: true });
    return this;
  }
  #on(event, v, ends, at) {
    switch (event) {
      case "listening":
        if (this.#closing) return;
        this.listening = true;
        this.#where = at.path ?? v;
        this.emit("listening");
        break;
      case "connection": {
        const s = taken(this, v, ends);
        this.#open.add(s);
        s.once("close", () => { this.#open.delete(s); this.#over(); });
        this.emit("connection", s);
        break;
      }
      case "error":
        this.emit("error", errorOf(v));
    }
  }
  #over() {
    if (!this.#closing || this.#open.size) return;
    this.#closing = false;
    this.emit("close");
  }
  close(callback) {
    if (callback) this.once("close", callback);
    if (this.#id !== undefined) {
      host.send(this.#id, "close");
      host.close(this.#id);
    }
    this.#id = undefined;
    this.listening = false;
    this.#where = null;
    this.#closing = true;
    queueMicrotask(() => this.#over());
    return this;
  }
  address() { return this.#where; }
  getConnections(callback) { queueMicrotask(() => callback(null, this.#open.size)); return this; }
  ref() { return this; }
  unref() { return this; }
  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() { await new Promise((done) => this.close(done)); }
}
const connect = (...list) => {
  const { o } = addressOf(list.slice());
  const s = new Socket(o);
  if (o.timeout) s.setTimeout(o.timeout);
  return s.connect(...list);
};
module.exports = {
  Socket, Stream: Socket, Server, connect, createConnection: connect, createServer: (o, onConnection) => new Server(o, onConnection), isIP: (s) => isIPv4(s) ? 4 : isIPv6(s) ? 6 : 0, isIPv4, isIPv6, BlockList: class BlockList { addAddress() {} addRange() {} addSubnet() {} check() { return false; } },
  SocketAddress: class SocketAddress {}, getDefaultAutoSelectFamily: () => true, setDefaultAutoSelectFamily() {}, getDefaultAutoSelectFamilyAttemptTimeout: () => 250, setDefaultAutoSelectFamilyAttemptTimeout() {},
};
