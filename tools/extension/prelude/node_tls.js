// provides: node:tls, tls
// node-only
"use strict";

const net = require("net");
const needsNode = (what) => () => { throw Object.assign(new Error(`node:tls.${what} needs Node.js`), { code: "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM" }); };
class TLSSocket extends net.Socket {
  connect() { needsNode("TLSSocket.connect")(); }
}
class Server { constructor() { needsNode("Server")(); } }
module.exports = { TLSSocket, Server, connect: needsNode("connect"), createServer: needsNode("createServer"), createSecureContext: () => ({}), checkServerIdentity: () => undefined, rootCertificates: [], DEFAULT_MIN_VERSION: "TLSv1.2", DEFAULT_MAX_VERSION: "TLSv1.3", getCiphers: () => [], SecureContext: class SecureContext {} };
