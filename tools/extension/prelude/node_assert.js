// provides: node:assert, assert
"use strict";

const { inspect, isDeepStrictEqual, equal } = require("util");

class AssertionError extends Error {
  constructor({ message, actual, expected, operator }) {
    super(message ?? `${inspect(actual)} ${operator} ${inspect(expected)}`);
    Object.assign(this, { name: "AssertionError", code: "ERR_ASSERTION", generatedMessage: message === undefined, actual, expected, operator });
  }
}

function check(ok, message, actual, expected, operator, fallback) {
  if (ok) return;
  if (message instanceof Error) throw message;
  const e = new AssertionError({ message: message ?? fallback, actual, expected, operator });
  e.generatedMessage = message === undefined;
  throw e;
}
const differ = (a, b) => `Expected values to be strictly equal:\n\n${inspect(a)} !== ${inspect(b)}\n`;
const loosely = (a, b) => equal(a, b, false, []);

function matches(e, wanted) {
  if (wanted === undefined) return true;
  if (wanted instanceof RegExp) return wanted.test(String(e));
  if (typeof wanted === "function") {
    if (wanted.prototype !== undefined && e instanceof wanted) return true;
    return !(wanted === Error || Error.isPrototypeOf(wanted)) && wanted.call({}, e) === true;
  }
  return Object.keys(wanted).concat(wanted instanceof Error ? ["name", "message"] : []).every((k) => wanted[k] instanceof RegExp && typeof e?.[k] === "string" ? wanted[k].test(e[k]) : isDeepStrictEqual(e?.[k], wanted[k]));
}
function caught(thrown, e, wanted, message, name) {
  if (typeof wanted === "string") [message, wanted] = [wanted, undefined];
  check(thrown, message, undefined, wanted, name, `Missing expected ${name === "rejects" ? "rejection" : "exception"}.`);
  if (matches(e, wanted)) return;
  if (typeof wanted === "object" && !(wanted instanceof RegExp)) check(false, message, e, wanted, name, "The error is not the expected one");
  throw e;
}

function assert(value, message) { check(value, message, value, true, "==", "The expression evaluated to a falsy value"); }
Object.assign(assert, {
  AssertionError, ok: (v, m) => assert(v, m),
  equal: (a, b, m) => check(a == b || a !== a && b !== b, m, a, b, "=="), notEqual: (a, b, m) => check(a != b && (a === a || b === b), m, a, b, "!="),
  strictEqual: (a, b, m) => check(Object.is(a, b), m, a, b, "strictEqual", differ(a, b)), notStrictEqual: (a, b, m) => check(!Object.is(a, b), m, a, b, "notStrictEqual"),
  deepEqual: (a, b, m) => check(loosely(a, b), m, a, b, "deepEqual"), notDeepEqual: (a, b, m) => check(!loosely(a, b), m, a, b, "notDeepEqual"),
  deepStrictEqual: (a, b, m) => check(isDeepStrictEqual(a, b), m, a, b, "deepStrictEqual"), notDeepStrictEqual: (a, b, m) => check(!isDeepStrictEqual(a, b), m, a, b, "notDeepStrictEqual"),
  match: (s, r, m) => check(typeof s === "string" && r.test(s), m, s, r, "match"), doesNotMatch: (s, r, m) => check(typeof s === "string" && !r.test(s), m, s, r, "doesNotMatch"),
  throws(f, wanted, message) {
    try {
      f();
    } catch (e) {
      return caught(true, e, wanted, message, "throws");
    }
    caught(false, undefined, wanted, message, "throws");
  },
  doesNotThrow(f) { f(); },
  async rejects(f, wanted, message) {
    try {
      await (typeof f === "function" ? f() : f);
    } catch (e) {
      return caught(true, e, wanted, message, "rejects");
    }
    caught(false, undefined, wanted, message, "rejects");
  },
  async doesNotReject(f) { await (typeof f === "function" ? f() : f); },
  ifError(v) { if (v !== null && v !== undefined) throw v instanceof Error ? v : new AssertionError({ message: `ifError got unwanted exception: ${inspect(v)}`, actual: v, expected: null, operator: "ifError" }); },
  fail(message = "Failed") { throw message instanceof Error ? message : new AssertionError({ message, operator: "fail" }); },
});
// strict has the names of the loose comparisons for the strict ones.
assert.strict = Object.assign((v, m) => assert(v, m), assert, { equal: assert.strictEqual, notEqual: assert.notStrictEqual, deepEqual: assert.deepStrictEqual, notDeepEqual: assert.notDeepStrictEqual });
assert.strict.strict = assert.strict;
module.exports = assert;
