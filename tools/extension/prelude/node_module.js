// provides: node:module, module
"use strict";

const builtins = ["assert", "assert/strict", "async_hooks", "buffer", "child_process", "cluster", "console", "constants", "crypto", "dgram", "diagnostics_channel", "dns", "dns/promises", "domain", "events",
  "fs", "fs/promises", "http", "http2", "https", "inspector", "module", "net", "os", "path", "path/posix", "path/win32", "perf_hooks", "process", "punycode", "querystring", "readline",
  "readline/promises", "repl", "stream", "stream/consumers", "stream/promises", "stream/web", "string_decoder", "sys", "timers", "timers/promises", "tls", "tty", "url", "util", "util/types",
  "v8", "vm", "worker_threads", "zlib"];

// createRequire gives a require that finds what a file finds: modules of the host at
// once, packages and files when they are asked for.
function createRequire(from) {
  const file = typeof from === "string" && from.startsWith("/") ? from : require("url").fileURLToPath(from);
  const load = (name) => host.require(name, file);
  load.resolve = (name) => isBuiltin(name) ? name : host.resolve(name, file);
  load.resolve.paths = () => [];
  load.cache = Object.create(null);
  load.extensions = {};
  load.main = undefined;
  return load;
}
const isBuiltin = (name) => builtins.includes(name.replace(/^node:/, ""));

function Module(id) {
  this.id = id;
  this.exports = {};
}
module.exports = Object.assign(Module, {
  Module, createRequire, builtinModules: builtins, isBuiltin, _extensions: {}, _cache: {}, _load: (name, parent) => createRequire(parent?.filename ?? require("process").cwd() + "/x")(name),
  _resolveFilename: (name) => name, register() {}, syncBuiltinESMExports() {}, findSourceMap: () => undefined, enableCompileCache() {}, wrap: (s) => s,
});
