// provides: node:diagnostics_channel, diagnostics_channel
"use strict";

// Channels that nobody listens to.
const channels = new Map();
class Channel {
  constructor(name) { this.name = name; }
  get hasSubscribers() { return false; }
  publish() {}
  subscribe() {}
  unsubscribe() { return false; }
  bindStore() {}
  unbindStore() {}
  runStores(_, f, self, ...args) { return f.apply(self, args); }
}
const channel = (name) => channels.get(name) ?? channels.set(name, new Channel(name)).get(name);
const tracing = (name) => ({
  ...Object.fromEntries(["start", "end", "asyncStart", "asyncEnd", "error"].map((k) => [k, channel(`tracing:${name}:${k}`)])), hasSubscribers: false, subscribe() {}, unsubscribe() {},
  traceSync: (f, _, self, ...args) => f.apply(self, args), tracePromise: (f, _, self, ...args) => f.apply(self, args), traceCallback: (f, _, __, self, ...args) => f.apply(self, args),
});
module.exports = { Channel, channel, hasSubscribers: () => false, subscribe() {}, unsubscribe: () => false, tracingChannel: tracing };
