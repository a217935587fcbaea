// provides: node:net, net
// node-only
"use strict";

// Addresses are read; nothing is connected.

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
const needsNode = (what) => Object.assign(new Error(`${what} needs Node.js`), { code: "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM" });

class Socket extends Duplex {
  constructor(o) {
    super(o);
    Object.assign(this, { connecting: false, pending: true, remoteAddress: undefined, encrypted: false });
  }
  connect() { throw needsNode("node:net.Socket.connect"); }
  setTimeout() { return this; }
  setNoDelay() { return this; }
  setKeepAlive() { return this; }
  address() { return {}; }
  ref() { return this; }
  unref() { return this; }
  _read() {}
}
class Server extends EventEmitter {
  constructor() {
    super();
    throw needsNode("node:net.Server");
  }
}
const connect = () => { throw needsNode("node:net.connect"); };
module.exports = {
  Socket, Stream: Socket, Server, connect, createConnection: connect, createServer() { throw needsNode("node:net.createServer"); }, isIP: (s) => isIPv4(s) ? 4 : isIPv6(s) ? 6 : 0, isIPv4, isIPv6, BlockList: class BlockList { addAddress() {} addRange() {} addSubnet() {} check() { return false; } },
  SocketAddress: class SocketAddress {}, getDefaultAutoSelectFamily: () => true, setDefaultAutoSelectFamily() {}, getDefaultAutoSelectFamilyAttemptTimeout: () => 250, setDefaultAutoSelectFamilyAttemptTimeout() {},
};
