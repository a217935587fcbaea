// provides: node:tls, tls
// node-only
"use strict";

const net = require("net");
class TLSSocket extends net.Socket {}
module.exports = { TLSSocket, Server: net.Server, connect: net.connect, createServer: net.createServer, createSecureContext: () => ({}), checkServerIdentity: () => undefined, rootCertificates: [], DEFAULT_MIN_VERSION: "TLSv1.2", DEFAULT_MAX_VERSION: "TLSv1.3", getCiphers: () => [], SecureContext: class SecureContext {} };
