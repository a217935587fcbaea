// provides: node:console, console
module.exports = Object.assign(Object.create(console), { ...console, Console: class Console { constructor() { return console; } } });
