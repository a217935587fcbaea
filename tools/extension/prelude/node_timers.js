// provides: node:timers, timers
module.exports = {
  setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate,
  get promises() { return require("timers/promises"); },
};
