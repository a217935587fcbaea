// provides: node:https, https
// node-only
module.exports = require("http").make("https:");
