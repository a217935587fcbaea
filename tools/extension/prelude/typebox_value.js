// provides: typebox/value, @sinclair/typebox/value
"use strict";

const { Kind, OptionalKind, TransformKind, TypeRegistry, FormatRegistry } = require("typebox");

const formats = {
  date: /^\d{4}-\d\d-\d\d$/, "date-time": /^\d{4}-\d\d-\d\d[tT ]\d\d:\d\d:\d\d(\.\d+)?([zZ]|[+-]\d\d:?\d\d)$/, time: /^\d\d:\d\d:\d\d/, email: /^[^\s@]+@[^\s@]+\.[^\s@]+$/, uri: /^[a-z][a-z0-9+.-]*:\S+$/i, url: /^[a-z][a-z0-9+.-]*:\/\/\S+$/i,
  uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i, ipv4: /^(\d{1,3}\.){3}\d{1,3}$/, ipv6: /^[0-9a-f:.]+$/i, hostname: /^[a-z0-9.-]+$/i,
};
const equal = (a, b) => require("util").isDeepStrictEqual(a, b);
const isObject = (v) => v !== null && typeof v === "object" && !Array.isArray(v);

// split takes the references and the schema itself from the ways these functions are called.
function split(args) {
  const [schema, second, third] = args;
  return args.length > 2 && Array.isArray(second) ? [schema, second, third] : [schema, [], second];
}

function find(ref, c) {
  if (ref === "#") return c.root;
  const name = ref.replace(/^#\/\$defs\//, "");
  return c.refs.find((s) => s.$id === ref) ?? c.root.$defs?.[name] ?? c.seen.get(ref) ?? c.root;
}

const typeNames = { Date: (v) => v instanceof Date, Uint8Array: (v) => v instanceof Uint8Array, undefined: (v) => v === undefined, void: (v) => v === undefined || v === null, bigint: (v) => typeof v === "bigint", symbol: (v) => typeof v === "symbol", Function: (v) => typeof v === "function", Promise: (v) => v instanceof Promise, RegExp: () => true };
function isType(type, v) {
  switch (type) {
    case "string":
    case "boolean":
      return typeof v === type;
    case "number":
      return typeof v === "number" && Number.isFinite(v);
    case "integer":
      return Number.isInteger(v);
    case "null":
      return v === null;
    case "array":
      return Array.isArray(v);
    case "object":
      return isObject(v);
  }
  return typeNames[type]?.(v) ?? true;
}

// errors walks a value beside its schema and says what does not fit.
function* errors(s, v, path, c) {
  const bad = (message, at = path, schema = s, value = v) => ({ type: 0, schema, path: at, instancePath: at, value, message, keyword: "", errors: [] });
  if (s === true || s === undefined) return;
  if (s === false) return void (yield bad("Never"));
  if (s.$id) c.seen.set(s.$id, s);
  if (s.$ref !== undefined) return void (yield* errors(find(s.$ref, c), v, path, c));
  if (typeof s[Kind] === "string" && TypeRegistry.Has(s[Kind])) {
    if (!TypeRegistry.Get(s[Kind])(s, v)) yield bad(`Expected kind '${s[Kind]}'`);
    return;
  }
  const types = s.type === undefined ? null : [].concat(s.type);
  if (types && !types.some((t) => isType(t, v))) {
    if (s.const !== undefined) return void (yield bad(`Expected ${typeof s.const === "string" ? `'${s.const}'` : s.const}`));
    return void (yield bad(`Expected ${types.join(" or ")}`));
  }
  if (s.const !== undefined && !equal(s.const, v)) yield bad(`Expected ${typeof s.const === "string" ? `'${s.const}'` : JSON.stringify(s.const)}`);
  if (s.enum && !s.enum.some((x) => equal(x, v))) yield bad(`Expected one of ${s.enum.map((x) => JSON.stringify(x)).join(", ")}`);
  if (s.anyOf && !s.anyOf.some((x) => fits(x, v, c))) yield bad("Expected union value");
  if (s.oneOf && s.oneOf.filter((x) => fits(x, v, c)).length !== 1) yield bad("Expected exactly one schema to match");
  for (const x of s.allOf ?? []) yield* errors(x, v, path, c);
  if (s.not !== undefined && fits(s.not, v, c)) yield bad(s[Kind] === "Never" || Object.keys(s.not).length === 0 ? "Never" : "Value should not match");
  if (typeof v === "string") {
    if (s.minLength > v.length) yield bad(`Expected string length greater or equal to ${s.minLength}`);
    if (s.maxLength < v.length) yield bad(`Expected string length less or equal to ${s.maxLength}`);
    if (s.pattern && !new RegExp(s.pattern, "u").test(v)) yield bad(`Expected string to match '${s.pattern}'`);
    if (s.format) {
      const f = FormatRegistry.Get(s.format) ?? formats[s.format];
      if (f && !(typeof f === "function" ? f(v) : f.test(v))) yield bad(`Expected string to match '${s.format}' format`);
    }
  }
  if (typeof v === "number") {
    if (v < s.minimum) yield bad(`Expected ${s.type} to be greater or equal to ${s.minimum}`);
    if (v > s.maximum) yield bad(`Expected ${s.type} to be less or equal to ${s.maximum}`);
    if (v <= s.exclusiveMinimum) yield bad(`Expected ${s.type} to be greater than ${s.exclusiveMinimum}`);
    if (v >= s.exclusiveMaximum) yield bad(`Expected ${s.type} to be less than ${s.exclusiveMaximum}`);
    if (s.multipleOf && Math.abs(v / s.multipleOf - Math.round(v / s.multipleOf)) > 1e-9) yield bad(`Expected ${s.type} to be a multiple of ${s.multipleOf}`);
  }
  if (Array.isArray(v)) {
    if (s.minItems > v.length) yield bad(`Expected array length to be greater or equal to ${s.minItems}`);
    if (s.maxItems < v.length) yield bad(`Expected array length to be less or equal to ${s.maxItems}`);
    if (s.uniqueItems && v.some((x, i) => v.slice(0, i).some((y) => equal(x, y)))) yield bad("Expected array elements to be unique");
    const tuple = Array.isArray(s.items) ? s.items : s.prefixItems;
    for (let i = 0; i < v.length; i++) {
      const item = tuple ? tuple[i] : s.items;
      if (item !== undefined) yield* errors(item, v[i], `${path}/${i}`, c);
    }
    if (s.contains && !v.some((x) => fits(s.contains, x, c))) yield bad("Expected array to contain at least one matching type");
  }
  if (isObject(v)) {
    const known = s.properties ?? {}, n = Object.keys(v).length;
    if (s.minProperties > n) yield bad(`Expected object to have a minimum of ${s.minProperties} properties`);
    if (s.maxProperties < n) yield bad(`Expected object to have a maximum of ${s.maxProperties} properties`);
    const required = s.required ?? [], pattern = (k) => Object.keys(s.patternProperties ?? {}).find((p) => new RegExp(p).test(k));
    for (const k of required) if (!(k in v)) yield bad("Expected required property", `${path}/${key(k)}`, known[k], undefined);
    const others = Object.keys(v).filter((k) => known[k] === undefined);
    if (s.additionalProperties === false) for (const k of others) if (pattern(k) === undefined) yield bad("Unexpected property", `${path}/${key(k)}`, {}, v[k]);
    for (const k of Object.keys(known)) {
      if (k in v ? v[k] !== undefined || required.includes(k) : required.includes(k)) yield* errors(known[k], v[k], `${path}/${key(k)}`, c);
    }
    for (const k of others) {
      const p = pattern(k);
      if (p !== undefined) yield* errors(s.patternProperties[p], v[k], `${path}/${key(k)}`, c);
      else if (isObject(s.additionalProperties)) yield* errors(s.additionalProperties, v[k], `${path}/${key(k)}`, c);
    }
  }
}
const key = (k) => k.replace(/~/g, "~0").replace(/\//g, "~1");
const context = (root, refs) => ({ root, refs, seen: new Map() });
const fits = (s, v, c) => errors(s, v, "", c).next().done;

function Check(...args) {
  const [s, refs, v] = split(args);
  return fits(s, v, context(s, refs));
}

// Errors can be walked as they are, asked for the first, and indexed.
function Errors(...args) {
  const [s, refs, v] = split(args);
  const list = [...errors(s, v, "", context(s, refs))];
  return Object.assign(list, { First: () => list[0] });
}

function Default(...args) {
  const [s, refs, v] = split(args);
  return fill(s, v, context(s, refs));
}
function fill(s, v, c) {
  if (!isObject(s)) return v;
  if (s.$ref !== undefined) return fill(find(s.$ref, c), v, c);
  if (v === undefined && "default" in s) v = typeof s.default === "function" ? s.default() : structuredClone(s.default);
  if (s.anyOf) {
    for (const x of s.anyOf) {
      const filled = fill(x, v === undefined ? v : structuredClone(v), c);
      if (filled !== undefined && fits(x, filled, c)) return filled;
    }
    return v;
  }
  for (const x of s.allOf ?? []) v = fill(x, v, c);
  if (isObject(v)) {
    for (const [k, x] of Object.entries(s.properties ?? {})) {
      const filled = fill(x, v[k], c);
      if (filled !== undefined) v[k] = filled;
    }
  } else if (Array.isArray(v) && s.items) {
    v = v.map((x, i) => fill(Array.isArray(s.items) ? s.items[i] : s.items, x, c));
  }
  return v;
}

function Convert(...args) {
  const [s, refs, v] = split(args);
  return convert(s, v, context(s, refs));
}
function convert(s, v, c) {
  if (!isObject(s)) return v;
  if (s.$ref !== undefined) return convert(find(s.$ref, c), v, c);
  if (s.anyOf) {
    if (fits(s, v, c)) return v;
    for (const x of s.anyOf) {
      const w = convert(x, v, c);
      if (fits(x, w, c)) return w;
    }
    return v;
  }
  for (const x of s.allOf ?? []) v = convert(x, v, c);
  if (s.const !== undefined && typeof v !== typeof s.const && String(v) === String(s.const)) return s.const;
  switch (s.type) {
    case "string":
      return ["number", "boolean", "bigint"].includes(typeof v) ? String(v) : v;
    case "number":
    case "integer": {
      const n = typeof v === "string" && v.trim() !== "" ? Number(v) : v === true ? 1 : v === false ? 0 : NaN;
      if (typeof v === "number") return s.type === "integer" ? Math.trunc(v) : v;
      return Number.isFinite(n) ? (s.type === "integer" ? Math.trunc(n) : n) : v;
    }
    case "boolean":
      return v === 1 || typeof v === "string" && /^(true|1)$/i.test(v) ? true : v === 0 || typeof v === "string" && /^(false|0|-0)$/i.test(v) ? false : v;
    case "null":
      return typeof v === "string" && v.toLowerCase() === "null" ? null : v;
    case "array": {
      const list = Array.isArray(v) || Array.isArray(s.items) || v === undefined || v === null ? v : [v];
      return Array.isArray(list) ? list.map((x, i) => convert(Array.isArray(s.items) ? s.items[i] : s.items, x, c)) : v;
    }
    case "object":
      return isObject(v) ? Object.fromEntries(Object.entries(v).map(([k, x]) => [k, convert(s.properties?.[k] ?? Object.values(s.patternProperties ?? {})[0], x, c)])) : v;
  }
  return v;
}

function Clean(...args) {
  const [s, refs, v] = split(args);
  return clean(s, v, context(s, refs));
}
function clean(s, v, c) {
  if (!isObject(s)) return v;
  if (s.$ref !== undefined) return clean(find(s.$ref, c), v, c);
  if (s.anyOf) {
    const x = s.anyOf.find((x) => fits(x, v, c)) ?? s.anyOf.find((x) => fits(x, clean(x, structuredClone(v), c), c));
    return x ? clean(x, v, c) : v;
  }
  if (s.allOf) return clean({ type: "object", properties: Object.assign({}, ...s.allOf.map((x) => x.properties)) }, v, c);
  if (isObject(v) && (s.properties || s.patternProperties)) {
    for (const k of Object.keys(v)) {
      const x = s.properties?.[k] ?? Object.entries(s.patternProperties ?? {}).find(([p]) => new RegExp(p).test(k))?.[1] ?? (isObject(s.additionalProperties) ? s.additionalProperties : undefined);
      if (x === undefined) delete v[k];
      else v[k] = clean(x, v[k], c);
    }
  } else if (Array.isArray(v) && s.items) {
    return v.map((x, i) => clean(Array.isArray(s.items) ? s.items[i] : s.items, x, c));
  }
  return v;
}

// coded runs the two ways of a transform through a value.
function coded(s, v, way, c) {
  if (!isObject(s)) return v;
  if (s.$ref !== undefined) return coded(find(s.$ref, c), v, way, c);
  const own = s[TransformKind]?.[way];
  if (own && way === "Encode") v = own(v);
  if (s.anyOf) {
    const x = s.anyOf.find((x) => fits(x, v, c));
    if (x) v = coded(x, v, way, c);
  } else if (isObject(v) && s.properties) {
    v = Object.fromEntries(Object.entries(v).map(([k, x]) => [k, coded(s.properties[k], x, way, c)]));
  } else if (Array.isArray(v) && s.items) {
    v = v.map((x, i) => coded(Array.isArray(s.items) ? s.items[i] : s.items, x, way, c));
  }
  return own && way === "Decode" ? own(v) : v;
}

class AssertError extends Error {
  constructor(error) {
    super(error?.message ?? "Assert");
    this.name = "AssertError";
    this.error = error;
    this.path = error?.path;
    this.cause = { source: "Assert", errors: [error] };
  }
}
function Assert(...args) {
  const [s, refs, v] = split(args), first = errors(s, v, "", context(s, refs)).next();
  if (!first.done) throw new AssertError(first.value);
}
function Decode(...args) {
  const [s, refs, v] = split(args);
  Assert(s, refs, v);
  return coded(s, v, "Decode", context(s, refs));
}
function Encode(...args) {
  const [s, refs, v] = split(args), out = coded(s, v, "Encode", context(s, refs));
  Assert(s, refs, out);
  return out;
}
function Parse(...args) {
  if (Array.isArray(args[0])) args.shift(); // the steps to take: all of them are taken
  const [s, refs, value] = split(args), c = context(s, refs);
  let v = value === undefined || value === null || typeof value !== "object" ? value : structuredClone(value);
  if (!fits(s, v, c)) v = clean(s, convert(s, fill(s, v, c), c), c);
  else v = clean(s, fill(s, v, c), c);
  Assert(s, refs, v);
  return coded(s, v, "Decode", c);
}

function Create(...args) {
  const [s, refs] = split([...args, undefined]);
  return create(s, context(s, refs));
}
function create(s, c) {
  if (s.$ref !== undefined) return create(find(s.$ref, c), c);
  if ("default" in s) return typeof s.default === "function" ? s.default() : structuredClone(s.default);
  if (s.const !== undefined) return s.const;
  if (s.enum) return s.enum[0];
  if (s.anyOf) return create(s.anyOf[0], c);
  if (s.allOf) return Object.assign({}, ...s.allOf.map((x) => create(x, c)));
  switch (s.type) {
    case "string":
      return " ".repeat(s.minLength ?? 0);
    case "number":
    case "integer":
      return s.minimum ?? (s.exclusiveMinimum !== undefined ? s.exclusiveMinimum + 1 : 0);
    case "boolean":
      return false;
    case "null":
      return null;
    case "array":
      return Array.isArray(s.items) ? s.items.map((x) => create(x, c)) : Array.from({ length: s.minItems ?? 0 }, () => create(s.items ?? {}, c));
    case "object":
      return Object.fromEntries((s.required ?? []).map((k) => [k, create(s.properties?.[k] ?? {}, c)]));
  }
  return s.type === undefined ? {} : undefined;
}

// Cast keeps of a value what fits and makes up the rest.
function Cast(...args) {
  const [s, refs, v] = split(args), c = context(s, refs);
  const cast = (s, v) => {
    if (fits(s, v, c)) return v;
    if (s.type === "object" && isObject(v)) return Object.fromEntries(Object.entries(s.properties ?? {}).filter(([k, x]) => v[k] !== undefined || x[OptionalKind] !== "Optional").map(([k, x]) => [k, cast(x, v[k])]));
    const w = convert(s, v, c);
    return fits(s, w, c) ? w : create(s, c);
  };
  return cast(s, v);
}

const Value = {
  Check, Errors, Default, Convert, Clean, Assert, Decode, Encode, Parse, Create, Cast, Equal: equal, Clone: (v) => structuredClone(v),
  Hash: (v) => BigInt("0x" + require("crypto").createHash("sha1").update(JSON.stringify(v) ?? "").digest("hex").slice(0, 16)),
  Mutate(into, from) {
    for (const k of Object.keys(into)) if (!(k in from)) delete into[k];
    Object.assign(into, from);
  },
};
class ValueErrorIterator {}
module.exports = { Value, ...Value, AssertError, ValueErrorIterator, default: Value };
