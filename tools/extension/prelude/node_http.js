// provides: node:http, http
// node-only
"use strict";

// Requests go over fetch; there are no servers and no sockets.

const EventEmitter = require("events");
const { Readable, Writable } = require("stream");
const { Buffer } = require("buffer");

const STATUS_CODES = {
  100: "Continue", 101: "Switching Protocols", 200: "OK", 201: "Created", 202: "Accepted", 203: "Non-Authoritative Information", 204: "No Content", 205: "Reset Content", 206: "Partial Content", 300: "Multiple Choices", 301: "Moved Permanently", 302: "Found", 303: "See Other",
  304: "Not Modified", 307: "Temporary Redirect", 308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized", 402: "Payment Required", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable", 408: "Request Timeout", 409: "Conflict", 410: "Gone",
  411: "Length Required", 412: "Precondition Failed", 413: "Payload Too Large", 415: "Unsupported Media Type", 416: "Range Not Satisfiable", 422: "Unprocessable Entity", 426: "Upgrade Required", 428: "Precondition Required", 429: "Too Many Requests", 431: "Request Header Fields Too Large",
  500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout", 505: "HTTP Version Not Supported",
};
const METHODS = ["ACL", "BIND", "CHECKOUT", "CONNECT", "COPY", "DELETE", "GET", "HEAD", "LINK", "LOCK", "MERGE", "MKCOL", "MOVE", "NOTIFY", "OPTIONS", "PATCH", "POST", "PROPFIND", "PROPPATCH", "PURGE", "PUT", "QUERY", "REPORT", "SEARCH", "SUBSCRIBE", "TRACE", "UNLINK", "UNLOCK", "UNSUBSCRIBE"];

function needsNode(what) {
  return Object.assign(new Error(`${what} needs Node.js`), { code: "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM" });
}

class Agent extends EventEmitter {
  constructor(options = {}) {
    super();
    Object.assign(this, { options, maxSockets: Infinity, maxFreeSockets: 256, keepAlive: !!options.keepAlive, sockets: {}, freeSockets: {}, requests: {}, defaultPort: 80, protocol: "http:" });
  }
  createConnection() { throw needsNode("node:http.Agent.createConnection"); }
  destroy() {}
  getName() { return ""; }
}

class IncomingMessage extends Readable {
  constructor(res) {
    super({ read: () => this.pull() });
    this.reader = res?.body?.getReader();
    Object.assign(this, { statusCode: res?.status, statusMessage: res?.statusText, httpVersion: "1.1", httpVersionMajor: 1, httpVersionMinor: 1, headers: {}, rawHeaders: [], trailers: {}, complete: false, socket: null, url: "" });
    for (const [k, v] of res?.headers ?? []) {
      this.rawHeaders.push(k, v);
      if (k === "set-cookie") (this.headers[k] ??= []).push(v);
      else this.headers[k] = v;
    }
  }
  async pull() {
    try {
      const { value, done } = this.reader ? await this.reader.read() : { done: true };
      if (done) this.complete = true;
      this.push(done ? null : Buffer.from(value));
    } catch (e) {
      this.destroy(e.cause ?? e);
    }
  }
  setTimeout() { return this; }
}

class ClientRequest extends Writable {
  #parts = [];
  #stop = new AbortController();
  #headers = new Map();
  constructor(url, options, callback, protocol) {
    super({ autoDestroy: false, write: (chunk, _, done) => { this.#parts.push(chunk); done(); }, final: (done) => { this.#send(); done(); } });
    const o = options;
    this.method = (o.method ?? "GET").toUpperCase();
    this.protocol = url?.protocol ?? o.protocol ?? protocol;
    this.host = url?.hostname ?? o.hostname ?? (o.host ?? "localhost").replace(/:\d+$/, "");
    const port = url ? url.port : o.port;
    this.path = o.path ?? (url ? url.pathname + url.search : "/");
    this.href = `${this.protocol}//${this.host.includes(":") && this.host[0] !== "[" ? `[${this.host}]` : this.host}${port ? `:${port}` : ""}${this.path}`;
    for (const [k, v] of Array.isArray(o.headers) ? o.headers : Object.entries(o.headers ?? {})) if (v !== undefined) this.setHeader(k, v);
    if (o.auth) this.setHeader("authorization", `Basic ${Buffer.from(o.auth).toString("base64")}`);
    this.aborted = false;
    this.reusedSocket = false;
    this.socket = this.connection = null;
    if (o.timeout) this.setTimeout(o.timeout);
    if (o.signal) o.signal.aborted ? this.destroy(o.signal.reason) : o.signal.addEventListener("abort", () => this.destroy(o.signal.reason), { once: true });
    if (callback) this.once("response", callback);
  }
  setHeader(k, v) { this.#headers.set(k.toLowerCase(), [k, v]); return this; }
  getHeader(k) { return this.#headers.get(k.toLowerCase())?.[1]; }
  getHeaders() { return Object.fromEntries([...this.#headers].map(([k, [, v]]) => [k, v])); }
  getHeaderNames() { return [...this.#headers.keys()]; }
  hasHeader(k) { return this.#headers.has(k.toLowerCase()); }
  removeHeader(k) { this.#headers.delete(k.toLowerCase()); }
  async #send() {
    const body = Buffer.concat(this.#parts), { fetch } = require("troupe:web");
    const headers = [...this.#headers.values()].flatMap(([k, v]) => /^(host|content-length|transfer-encoding|connection|expect)$/i.test(k) ? [] : [].concat(v).map((x) => [k, String(x)]));
    try {
      const res = await fetch(this.href, { method: this.method, headers, redirect: "manual", signal: this.#stop.signal, ...(body.length && !/^(GET|HEAD)$/.test(this.method) ? { body } : {}) });
      clearTimeout(this.timer);
      const message = new IncomingMessage(res);
      message.req = this;
      this.res = message;
      if (!this.emit("response", message)) message.resume();
    } catch (e) {
      clearTimeout(this.timer);
      if (!this.destroyed || !this.aborted) this.emit("error", e.cause ?? e);
    }
  }
  setTimeout(ms, f) {
    if (f) this.once("timeout", f);
    clearTimeout(this.timer);
    if (ms > 0) this.timer = setTimeout(() => this.emit("timeout"), ms);
    return this;
  }
  abort() {
    this.aborted = true;
    this.emit("abort");
    this.destroy();
  }
  _destroy(err, done) {
    clearTimeout(this.timer);
    if (!this.res) this.aborted = true;
    this.#stop.abort();
    done(err ?? (this.res ? null : Object.assign(new Error("socket hang up"), { code: "ECONNRESET" })));
  }
  flushHeaders() {}
  setNoDelay() {}
  setSocketKeepAlive() {}
}

const requester = (protocol) => (url, options, callback) => {
  if (typeof url === "string") url = new URL(url);
  if (!(url instanceof URL)) [url, options, callback] = [undefined, url, options];
  if (typeof options === "function") [options, callback] = [{}, options];
  return new ClientRequest(url, options ?? {}, callback, protocol);
};
const getter = (request) => (...args) => {
  const r = request(...args);
  r.end();
  return r;
};

// make gives the module for a protocol.
function make(protocol) {
  const request = requester(protocol);
  const Own = class extends Agent {
    constructor(o) {
      super(o);
      this.protocol = protocol;
      this.defaultPort = protocol === "https:" ? 443 : 80;
    }
  };
  Object.defineProperty(Own, "name", { value: "Agent" });
  return {
    request, get: getter(request), Agent: Own, globalAgent: new Own(), ClientRequest, IncomingMessage, OutgoingMessage: Writable, Server: class Server extends EventEmitter { constructor() { throw needsNode("node:http.Server"); } },
    ServerResponse: class ServerResponse extends Writable {}, createServer() { throw needsNode("node:http.createServer"); }, STATUS_CODES, METHODS, maxHeaderSize: 16384, validateHeaderName() {}, validateHeaderValue() {},
  };
}
module.exports = Object.assign(make("http:"), { make });
