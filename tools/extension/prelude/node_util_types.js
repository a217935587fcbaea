// provides: node:util/types, util/types
module.exports = require("util").types;
