// provides: node:async_hooks, async_hooks
"use strict";

// A store holds while the function runs that it was given for; what that function awaits
// does not see it any more, since the engine does not tell who continues what.
let said = false;
class AsyncLocalStorage {
  #store;
  #on = false;
  run(store, f, ...args) {
    const before = [this.#store, this.#on];
    this.#store = store;
    this.#on = true;
    let result;
    try {
      result = f(...args);
    } finally {
      [this.#store, this.#on] = before;
    }
    if (typeof result?.then === "function" && !said) {
      said = true;
      host.log("warn", "AsyncLocalStorage: a store is not seen behind an await in this host");
    }
    return result;
  }
  exit(f, ...args) { return this.run(undefined, f, ...args); }
  getStore() { return this.#on ? this.#store : undefined; }
  enterWith(store) {
    this.#store = store;
    this.#on = true;
  }
  disable() { this.#on = false; }
  static bind(f) { return f; }
  static snapshot() { return (f, ...args) => f(...args); }
}
class AsyncResource {
  constructor(type) { this.type = type; }
  runInAsyncScope(f, self, ...args) { return f.apply(self, args); }
  bind(f) { return f.bind(this); }
  static bind(f) { return f; }
  emitDestroy() { return this; }
  asyncId() { return 0; }
  triggerAsyncId() { return 0; }
}
module.exports = { AsyncLocalStorage, AsyncResource, createHook: () => ({ enable() { return this; }, disable() { return this; } }), executionAsyncId: () => 0, triggerAsyncId: () => 0, executionAsyncResource: () => ({}) };
