// provides: typebox/compile, @sinclair/typebox/compiler, typebox/compiler
"use strict";

const { Value } = require("typebox/value");

// A validator that knows its schema. There is nothing to compile: what a schema says is
// looked up each time.
class Validator {
  constructor(schema, refs = []) {
    this.schema = schema;
    this.refs = refs;
  }
  Check(v) { return Value.Check(this.schema, this.refs, v); }
  Errors(v) { return Value.Errors(this.schema, this.refs, v); }
  Parse(v) { return Value.Parse(this.schema, this.refs, v); }
  Decode(v) { return Value.Decode(this.schema, this.refs, v); }
  Encode(v) { return Value.Encode(this.schema, this.refs, v); }
  Clean(v) { return Value.Clean(this.schema, this.refs, v); }
  Convert(v) { return Value.Convert(this.schema, this.refs, v); }
  Default(v) { return Value.Default(this.schema, this.refs, v); }
  Create() { return Value.Create(this.schema, this.refs); }
  Schema() { return this.schema; }
  References() { return this.refs; }
  Type() { return this.schema; }
  Code() { return ""; }
  IsAccelerated() { return false; }
}
const Compile = (...args) => new Validator(...(args.length > 1 && !Array.isArray(args[1]) ? [args[1]] : args));
module.exports = { Compile, Validator, TypeCheck: Validator, TypeCompiler: { Compile, Code: () => "" }, default: Compile };
