// provides: node:readline, readline
"use strict";

const EventEmitter = require("events");
const { StringDecoder } = require("string_decoder");

// Interface gives the lines of a stream. Questions have no one to answer them here: use
// ctx.ui for those.
class Interface extends EventEmitter {
  #rest = "";
  #waiting = [];
  constructor(input, output) {
    super();
    const o = input && typeof input === "object" && input.input ? input : { input, output };
    this.input = o.input;
    this.output = o.output;
    this.terminal = false;
    this.line = "";
    this.cursor = 0;
    this.closed = false;
    this._prompt = o.prompt ?? "> ";
    const decoder = new StringDecoder("utf8");
    this.onData = (chunk) => this.#take(typeof chunk === "string" ? chunk : decoder.write(chunk));
    this.onEnd = () => {
      const last = this.#rest + decoder.end();
      this.#rest = "";
      if (last !== "") this.#line(last);
      this.close();
    };
    this.onError = (e) => this.emit("error", e);
    if (o.signal) o.signal.aborted ? queueMicrotask(() => this.close()) : o.signal.addEventListener("abort", () => this.close(), { once: true });
    this.input.on("data", this.onData);
    this.input.on("end", this.onEnd);
    this.input.on("close", () => { if (!this.closed) this.onEnd(); });
    this.input.resume?.();
  }
  #take(text) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const l of lines) this.#line(l);
  }
  #line(text) {
    if (text.endsWith("\r")) text = text.slice(0, -1);
    const next = this.#waiting.shift();
    if (next) next(text);
    else this.emit("line", text);
  }
  close() {
    if (this.closed) return;
    this.closed = true;
    this.input.off("data", this.onData);
    this.input.off("end", this.onEnd);
    this.emit("close");
  }
  pause() { this.input.pause?.(); this.emit("pause"); return this; }
  resume() { this.input.resume?.(); this.emit("resume"); return this; }
  setPrompt(p) { this._prompt = p; }
  getPrompt() { return this._prompt; }
  prompt() { this.output?.write(this._prompt); }
  write() {}
  question(text, options, callback) {
    if (typeof options === "function") callback = options;
    this.output?.write(text);
    this.#waiting.push(callback);
  }
  [Symbol.asyncIterator]() {
    const lines = [];
    let wake = () => {}, failed, over = this.closed;
    this.on("line", (l) => { lines.push(l); wake(); });
    this.once("close", () => { over = true; wake(); });
    this.input.on("error", (e) => { failed = e; wake(); });
    return {
      next: async () => {
        for (;;) {
          if (lines.length) return { value: lines.shift(), done: false };
          if (failed) throw failed;
          if (over) return { value: undefined, done: true };
          await new Promise((resolve) => { wake = resolve; });
        }
      },
      return: async () => { this.close(); return { value: undefined, done: true }; },
      [Symbol.asyncIterator]() { return this; },
    };
  }
  [Symbol.dispose ?? Symbol.for("Symbol.dispose")]() { this.close(); }
}
Interface.prototype.question[Symbol.for("nodejs.util.promisify.custom")] = function (text) { return new Promise((resolve) => this.question(text, resolve)); };

const nothing = (...args) => {
  const f = args[args.length - 1];
  if (typeof f === "function") queueMicrotask(f);
  return true;
};
class Promised extends Interface {
  question(text) { return new Promise((resolve) => super.question(text, resolve)); }
}
module.exports = {
  Interface, createInterface: (...a) => new Interface(...a), clearLine: nothing, clearScreenDown: nothing, cursorTo: nothing, moveCursor: nothing, emitKeypressEvents() {},
  promises: { Interface: Promised, createInterface: (...a) => new Promised(...a) },
};
