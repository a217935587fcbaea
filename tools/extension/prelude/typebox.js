// provides: typebox, @sinclair/typebox, typebox/type
"use strict";

// Schemas as JSON Schema, with the marks of typebox in symbols, which JSON does not show.

const Kind = Symbol.for("TypeBox.Kind"), OptionalKind = Symbol.for("TypeBox.Optional"), ReadonlyKind = Symbol.for("TypeBox.Readonly"), Hint = Symbol.for("TypeBox.Hint"), TransformKind = Symbol.for("TypeBox.Transform");

const marks = (s, o) => Object.defineProperties(s, Object.fromEntries(Reflect.ownKeys(o).map((k) => [k, { value: o[k], enumerable: true, configurable: true, writable: true }])));
const make = (kind, schema, options) => marks({ ...schema, ...options }, { [Kind]: kind });
const clone = (s) => Object.defineProperties(Array.isArray(s) ? [] : {}, Object.getOwnPropertyDescriptors(s));
const without = (s, key) => {
  const c = clone(s);
  delete c[key];
  return c;
};
const isOptional = (s) => s?.[OptionalKind] === "Optional";

function Optional(schema, enable = true) { return enable ? marks(clone(schema), { [OptionalKind]: "Optional" }) : without(schema, OptionalKind); }
function Readonly(schema, enable = true) { return enable ? marks(clone(schema), { [ReadonlyKind]: "Readonly" }) : without(schema, ReadonlyKind); }

function Object_(properties, options) {
  const required = Object.keys(properties).filter((k) => !isOptional(properties[k]));
  return make("Object", { type: "object", ...(required.length ? { required } : {}), properties }, options);
}

function Literal(value, options) { return make("Literal", { type: typeof value, const: value }, options); }
function Union(list, options) {
  if (list.length === 0) return Never(options);
  if (list.length === 1) return marks({ ...list[0], ...options }, Object.fromEntries(Object.getOwnPropertySymbols(list[0]).map((k) => [k, list[0][k]])));
  return make("Union", { anyOf: list }, options);
}
function Never(options) { return make("Never", { not: {} }, options); }

const simple = (kind, type) => (options) => make(kind, { type }, options);
const propertiesOf = (s) => s.allOf ? Object.assign({}, ...s.allOf.map(propertiesOf)) : s.properties ?? {};
const keysOf = (keys) => Array.isArray(keys) ? keys : keys?.anyOf ? keys.anyOf.map((k) => k.const) : keys?.const !== undefined ? [keys.const] : [];
const rest = (s) => {
  const { type, properties, required, ...more } = s;
  void type, properties, required;
  return more;
};

function Intersect(list, options) {
  if (list.length === 1) return list[0];
  const objects = list.every((s) => s.type === "object");
  return make("Intersect", { ...(objects ? { type: "object" } : {}), allOf: list }, options);
}

const Type = {
  String: simple("String", "string"), Number: simple("Number", "number"), Integer: simple("Integer", "integer"), Boolean: simple("Boolean", "boolean"), Null: simple("Null", "null"),
  Object: Object_, Optional, Readonly, ReadonlyOptional: (s) => Readonly(Optional(s)), Literal, Union, Never, Intersect,
  Array: (items, options) => make("Array", { type: "array", items }, options),
  Tuple: (items, options) => make("Tuple", items.length ? { type: "array", items, additionalItems: false, minItems: items.length, maxItems: items.length } : { type: "array", minItems: 0, maxItems: 0 }, options),
  Record: (key, value, options) => {
    const names = keysOf(key);
    if (names.length && names.every((n) => n !== undefined)) return Object_(Object.fromEntries(names.map((n) => [n, value])), options);
    const pattern = key?.pattern ?? (key?.type === "number" || key?.type === "integer" ? "^(0|[1-9][0-9]*)$" : "^(.*)$");
    return make("Record", { type: "object", patternProperties: { [pattern]: value } }, options);
  },
  Enum: (of, options) => {
    const values = Array.isArray(of) ? of : Object.entries(of).filter(([k]) => Number.isNaN(+k)).map(([, v]) => v);
    return make("Union", { anyOf: [...new Set(values)].map((v) => Literal(v)) }, { ...options, [Hint]: "Enum" });
  },
  Any: (options) => make("Any", {}, options), Unknown: (options) => make("Unknown", {}, options), Undefined: (options) => make("Undefined", { type: "undefined" }, options),
  Void: (options) => make("Void", { type: "void" }, options), BigInt: (options) => make("BigInt", { type: "bigint" }, options), Symbol: (options) => make("Symbol", { type: "symbol" }, options),
  Date: (options) => make("Date", { type: "Date" }, options), Uint8Array: (options) => make("Uint8Array", { type: "Uint8Array" }, options),
  RegExp: (re, options) => make("RegExp", { type: "RegExp", source: re.source ?? re, flags: re.flags ?? "" }, options),
  Function: (parameters, returns, options) => make("Function", { type: "Function", parameters, returns }, options), Promise: (item, options) => make("Promise", { type: "Promise", item }, options),
  Unsafe: (schema = {}) => make(schema[Kind] ?? "Unsafe", schema), Not: (not, options) => make("Not", { not }, options), Ref: (to, options) => make("Ref", { $ref: typeof to === "string" ? to : to.$id }, options),
  This: (options) => make("This", { $ref: "#" }, options), Recursive: (f, options = {}) => {
    const $id = options.$id ?? `T${Recursive.next++}`;
    return marks({ ...f(make("This", { $ref: $id })), ...options, $id }, { [Hint]: "Recursive" });
  },
  TemplateLiteral: (parts, options) => make("TemplateLiteral", { type: "string", pattern: `^${(Array.isArray(parts) ? parts : [parts]).map((p) => typeof p === "string" ? p.replace(/\$\{[^}]*\}/g, "(.*)") : p.const !== undefined ? String(p.const) : p.anyOf ? `(${p.anyOf.map((x) => x.const).join("|")})` : "(.*)").join("")}$` }, options),
  Partial: (s, options) => Object_(Object.fromEntries(Object.entries(propertiesOf(s)).map(([k, v]) => [k, Optional(v)])), { ...rest(s), ...options }),
  Required: (s, options) => Object_(Object.fromEntries(Object.entries(propertiesOf(s)).map(([k, v]) => [k, without(v, OptionalKind)])), { ...rest(s), ...options }),
  Pick: (s, keys, options) => Object_(Object.fromEntries(Object.entries(propertiesOf(s)).filter(([k]) => keysOf(keys).includes(k))), { ...rest(s), ...options }),
  Omit: (s, keys, options) => Object_(Object.fromEntries(Object.entries(propertiesOf(s)).filter(([k]) => !keysOf(keys).includes(k))), { ...rest(s), ...options }),
  Composite: (list, options) => Object_(Object.assign({}, ...list.map(propertiesOf)), options),
  KeyOf: (s, options) => Union(Object.keys(propertiesOf(s)).map((k) => Literal(k)), options),
  Index: (s, keys) => { const found = keysOf(keys).map((k) => s.type === "array" ? s.items : propertiesOf(s)[k]).filter(Boolean); return found.length === 1 ? found[0] : Union(found); },
  Exclude: (s, of) => Union((s.anyOf ?? [s]).filter((x) => !(of.anyOf ?? [of]).some((y) => y.const !== undefined ? y.const === x.const : y.type === x.type))),
  Extract: (s, of) => Union((s.anyOf ?? [s]).filter((x) => (of.anyOf ?? [of]).some((y) => y.const !== undefined ? y.const === x.const : y.type === x.type))),
  Const: (v) => v === null ? Type.Null() : Array.isArray(v) ? Type.Tuple(v.map((x) => Type.Const(x))) : typeof v === "object" ? Object_(Object.fromEntries(Object.entries(v).map(([k, x]) => [k, Readonly(Type.Const(x))]))) : Literal(v),
  Transform: (s) => ({ Decode: (Decode) => ({ Encode: (Encode) => marks(clone(s), { [TransformKind]: { Decode, Encode } }) }) }),
  Module: (all) => ({ Import: (name, options) => ({ ...clone(all[name]), ...options }) }),
  Clone: clone, CreateType: make,
};
const Recursive = { next: 0 };
Type.Cyclic = (all, name, options) => ({ $defs: all, $ref: name, ...options });
Type.Options = (s, options) => Object.assign(clone(s), options);
Type.Static = undefined;

const kind = (name) => (s) => s?.[Kind] === name;
const guards = Object.fromEntries(Object.keys(Type).filter((k) => /^[A-Z]/.test(k)).map((k) => [`Is${k}`, kind(k)]));
const TypeGuard = { ...guards, IsOptional: isOptional, IsReadonly: (s) => s?.[ReadonlyKind] === "Readonly", IsSchema: (s) => s !== null && typeof s === "object", IsKind: (s) => s?.[Kind] !== undefined };

// Kinds and formats that somebody defines.
const registry = () => {
  const map = new Map();
  return { Entries: () => new Map(map), Clear: () => map.clear(), Has: (k) => map.has(k), Get: (k) => map.get(k), Set: (k, f) => map.set(k, f), Delete: (k) => map.delete(k) };
};

module.exports = {
  Type, Kind, OptionalKind, ReadonlyKind, Hint, TransformKind, TypeGuard, KindGuard: TypeGuard, ...TypeGuard, TypeRegistry: registry(), FormatRegistry: registry(), CloneType: clone,
  PatternString: "^(.*)$", PatternNumber: "^(0|[1-9][0-9]*)$", PatternBoolean: "(true|false)", ...Object.fromEntries(Object.entries(Type).filter(([, f]) => typeof f === "function")), Type_: Type,
  default: Type,
};
delete module.exports.Type_;
