// provides: node:path/posix, path/posix
module.exports = require("path").posix;
