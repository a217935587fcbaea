// provides: node:v8, v8
// node-only
"use strict";

// Values travel as JSON with their own undoing: what is written here is read here.
const { Buffer } = require("buffer");
module.exports = {
  serialize: (v) => Buffer.from(JSON.stringify({ v: structuredClone(v) })), deserialize: (b) => JSON.parse(Buffer.from(b).toString()).v, setFlagsFromString() {}, cachedDataVersionTag: () => 0, getHeapSpaceStatistics: () => [],
  getHeapStatistics: () => Object.fromEntries(["total_heap_size", "total_heap_size_executable", "total_physical_size", "total_available_size", "used_heap_size", "heap_size_limit", "malloced_memory", "peak_malloced_memory", "does_zap_garbage", "number_of_native_contexts", "number_of_detached_contexts"].map((k) => [k, 0])),
};
