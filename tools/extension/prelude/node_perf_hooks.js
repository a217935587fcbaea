// provides: node:perf_hooks, perf_hooks
"use strict";

class PerformanceObserver {
  observe() {}
  disconnect() {}
  static supportedEntryTypes = [];
}
module.exports = {
  performance, PerformanceObserver, PerformanceEntry, PerformanceMark, PerformanceMeasure, constants: {},
  monitorEventLoopDelay: () => ({ enable() {}, disable() {}, min: 0, max: 0, mean: 0, stddev: 0, percentile: () => 0 }),
};
