// provides: node:path/win32, path/win32
module.exports = require("path").win32;
