// provides: node:fs/promises, fs/promises
module.exports = require("fs").promises;
