// provides: node:readline/promises, readline/promises
module.exports = require("readline").promises;
