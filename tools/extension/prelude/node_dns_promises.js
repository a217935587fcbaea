// provides: node:dns/promises, dns/promises
module.exports = require("dns").promises;
