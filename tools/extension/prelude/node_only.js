// provides: node:sqlite, node:test, node:sea, node:http2, http2
// node-only
