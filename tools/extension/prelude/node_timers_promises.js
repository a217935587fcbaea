// provides: node:timers/promises, timers/promises
"use strict";

const aborted = (signal) => Object.assign(new Error("The operation was aborted", { cause: signal.reason }), { name: "AbortError", code: "ABORT_ERR" });

function wait(begin, end, value, { signal, ref = true } = {}) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(aborted(signal));
    const stop = () => {
      end(timer);
      reject(aborted(signal));
    };
    const timer = begin(() => {
      signal?.removeEventListener("abort", stop);
      resolve(value);
    });
    if (!ref) timer?.unref?.();
    signal?.addEventListener("abort", stop, { once: true });
  });
}

const sleep = (ms, value, options) => wait((f) => setTimeout(f, ms), clearTimeout, value, options);
module.exports = {
  setTimeout: sleep,
  setImmediate: (value, options) => wait((f) => setImmediate(f), clearImmediate, value, options),
  async *setInterval(ms, value, options) { for (;;) yield await sleep(ms, value, options); },
  scheduler: { wait: (ms, options) => sleep(ms, undefined, options), yield: () => wait((f) => setImmediate(f), clearImmediate) },
};
