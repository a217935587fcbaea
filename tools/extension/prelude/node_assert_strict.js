// provides: node:assert/strict, assert/strict
module.exports = require("assert").strict;
