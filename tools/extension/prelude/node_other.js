// provides: node:vm, vm, node:worker_threads, worker_threads, node:cluster, cluster, node:dgram, dgram, node:inspector, inspector, node:inspector/promises, inspector/promises, node:repl, repl, node:domain, domain, node:trace_events, trace_events, node:wasi, wasi
// node-only
"use strict";

// What says of itself that it is not there, one module for all: packages ask isMainThread
// and isPrimary, and have ways without the rest.
function needsNode(what) {
  return function () { throw Object.assign(new Error(`${what} needs Node.js`), { code: "ERR_FEATURE_UNAVAILABLE_ON_PLATFORM" }); };
}
module.exports = {
  isMainThread: true, parentPort: null, workerData: null, threadId: 0, resourceLimits: {}, SHARE_ENV: Symbol("SHARE_ENV"), isPrimary: true, isMaster: true, isWorker: false, workers: {}, url: () => undefined, isContext: () => false, constants: {},
  createContext: (o) => o ?? {}, runInThisContext: (code) => (0, eval)(code), getEnvironmentData: () => undefined, setEnvironmentData() {}, markAsUntransferable() {}, markAsUncloneable() {}, isMarkedAsUntransferable: () => false, moveMessagePortToContext: (p) => p,
};
Object.assign(module.exports, { MessageChannel, MessagePort });
for (const name of ["Worker", "BroadcastChannel", "Script", "SourceTextModule", "SyntheticModule", "runInContext", "runInNewContext", "compileFunction", "receiveMessageOnPort", "fork", "setupPrimary", "createSocket", "Session", "open", "start", "create", "createTracing", "WASI"]) module.exports[name] = needsNode(name);
