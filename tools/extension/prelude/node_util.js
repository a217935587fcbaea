// provides: node:util, util, sys
"use strict";

const custom = Symbol.for("nodejs.util.inspect.custom");
const getOwnPropertyDescriptor = Object.getOwnPropertyDescriptor, hasOwn = Object.hasOwn;

const defaults = {
  showHidden: false, depth: 2, colors: false, customInspect: true, showProxy: false, maxArrayLength: 100, maxStringLength: 10000,
  breakLength: 80, compact: 3, sorted: false, getters: false, numericSeparator: false,
};

const colors = {
  reset: [0, 0], bold: [1, 22], dim: [2, 22], italic: [3, 23], underline: [4, 24], blink: [5, 25], inverse: [7, 27], hidden: [8, 28],
  strikethrough: [9, 29], doubleunderline: [21, 24], black: [30, 39], red: [31, 39], green: [32, 39], yellow: [33, 39], blue: [34, 39],
  magenta: [35, 39], cyan: [36, 39], white: [37, 39], bgBlack: [40, 49], bgRed: [41, 49], bgGreen: [42, 49], bgYellow: [43, 49],
  bgBlue: [44, 49], bgMagenta: [45, 49], bgCyan: [46, 49], bgWhite: [47, 49], framed: [51, 54], overlined: [53, 55], gray: [90, 39],
  redBright: [91, 39], greenBright: [92, 39], yellowBright: [93, 39], blueBright: [94, 39], magentaBright: [95, 39], cyanBright: [96, 39],
  whiteBright: [97, 39], bgGray: [100, 49], bgRedBright: [101, 49], bgGreenBright: [102, 49], bgYellowBright: [103, 49],
  bgBlueBright: [104, 49], bgMagentaBright: [105, 49], bgCyanBright: [106, 49], bgWhiteBright: [107, 49],
};
for (const [alias, name] of [["grey", "gray"], ["bgGrey", "bgGray"], ["blackBright", "gray"], ["bgBlackBright", "bgGray"], ["faint", "dim"],
  ["crossedout", "strikethrough"], ["strikeThrough", "strikethrough"], ["crossedOut", "strikethrough"], ["conceal", "hidden"], ["swapColors", "inverse"],
  ["swapcolors", "inverse"], ["doubleUnderline", "doubleunderline"]]) {
  Object.defineProperty(colors, alias, { value: colors[name], configurable: true });
}
const styles = {
  special: "cyan", number: "yellow", bigint: "yellow", boolean: "yellow", undefined: "grey", null: "bold", string: "green", symbol: "green",
  date: "magenta", regexp: "red", module: "underline",
};

const ansi = /[\u001b\u009b][[\]()#;?]*(?:(?:(?:(?:;[-a-zA-Z\d/#&.:=?%@~_]+)*|[a-zA-Z\d]+(?:;[-a-zA-Z\d/#&.:=?%@~_]*)*)?(?:\u0007|\u001b\\|\u009c))|(?:(?:\d{1,4}(?:;\d{0,4})*)?[\dA-PR-TZcf-ntqry=><~]))/g;
const stripVTControlCharacters = (text) => String(text).replace(ansi, "");

const plain = (text) => text;
const coloured = (text, kind) => {
  const c = colors[styles[kind]];
  return c ? `\u001b[${c[0]}m${text}\u001b[${c[1]}m` : text;
};

const escapes = ["\\x00", "\\x01", "\\x02", "\\x03", "\\x04", "\\x05", "\\x06", "\\x07", "\\b", "\\t", "\\n", "\\x0B", "\\f", "\\r"];
function quoted(text) {
  let quote = "'";
  if (text.includes("'")) {
    if (!text.includes('"')) quote = '"';
    else if (!text.includes("`") && !text.includes("${")) quote = "`";
  }
  const body = text.replace(/[\x00-\x1f\x7f-\x9f\\]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, (c) => {
    const n = c.charCodeAt(0);
    if (c === "\\") return "\\\\";
    return escapes[n] ?? (n < 256 ? `\\x${n.toString(16).toUpperCase().padStart(2, "0")}` : `\\u${n.toString(16).toUpperCase()}`);
  });
  return quote + (quote === "'" ? body.replaceAll("'", "\\'") : body) + quote;
}

const identifier = /^[a-zA-Z_][a-zA-Z_0-9]*$/;
const grouped = (n) => {
  const [whole, part] = n.split(".");
  const w = whole.replace(/\B(?=(\d{3})+(?!\d))/g, "_");
  return part === undefined ? w : `${w}.${part.replace(/(\d{3})(?=\d)/g, "$1_")}`;
};
const numberText = (n, ctx) => {
  const text = Object.is(n, -0) ? "-0" : String(n);
  return ctx.numericSeparator && Number.isFinite(n) && !text.includes("e") ? grouped(text) : text;
};

function primitive(ctx, v) {
  const s = ctx.stylize;
  switch (typeof v) {
    case "string": {
      let rest = "";
      if (v.length > ctx.maxStringLength) {
        const more = v.length - ctx.maxStringLength;
        v = v.slice(0, ctx.maxStringLength);
        rest = `... ${more} more character${more > 1 ? "s" : ""}`;
      }
      if (ctx.compact !== true && v.length > 16 && v.length > ctx.breakLength - ctx.indentationLvl - 4) {
        return v.split(/(?<=\n)/).map((line) => s(quoted(line), "string")).join(` +\n${" ".repeat(ctx.indentationLvl + 2)}`) + rest;
      }
      return s(quoted(v), "string") + rest;
    }
    case "number":
      return s(numberText(v, ctx), "number");
    case "bigint":
      return s(`${ctx.numericSeparator ? grouped(String(v)) : v}n`, "bigint");
    case "boolean":
      return s(String(v), "boolean");
    case "undefined":
      return s("undefined", "undefined");
    case "symbol":
      return s(v.toString(), "symbol");
  }
  return s("null", "null");
}

function inspect(value, opts) {
  const ctx = {
    ...defaults, budget: {}, indentationLvl: 0, seen: [], currentDepth: 0, circular: undefined,
    ...(typeof opts === "object" && opts !== null ? opts : {}),
  };
  if (typeof opts === "boolean") { // showHidden, depth, colors
    ctx.showHidden = opts;
    if (arguments[2] !== undefined) ctx.depth = arguments[2];
    if (arguments[3] !== undefined) ctx.colors = arguments[3];
  }
  ctx.userOptions = opts;
  ctx.stylize ??= ctx.colors ? coloured : plain;
  if (ctx.maxArrayLength === null) ctx.maxArrayLength = Infinity;
  if (ctx.maxStringLength === null) ctx.maxStringLength = Infinity;
  return formatValue(ctx, value, 0);
}

function formatValue(ctx, value, depth, typed) {
  if (value === null || typeof value !== "object" && typeof value !== "function") return primitive(ctx, value);
  const maybe = ctx.customInspect ? value[custom] : undefined;
  if (typeof maybe === "function" && maybe !== inspect && !(value.constructor && value.constructor.prototype === value)) {
    const left = ctx.depth === null ? null : ctx.depth - depth;
    const ret = maybe.call(value, left, { ...ctx, ...ctx.userOptions, stylize: ctx.stylize, depth: left }, inspect);
    if (ret !== value) {
      return typeof ret === "object" ? formatValue(ctx, ret, depth) : String(ret).replaceAll("\n", `\n${" ".repeat(ctx.indentationLvl)}`);
    }
  }
  if (ctx.seen.includes(value)) {
    ctx.circular ??= new Map();
    if (!ctx.circular.has(value)) ctx.circular.set(value, ctx.circular.size + 1);
    return ctx.stylize(`[Circular *${ctx.circular.get(value)}]`, "special");
  }
  return formatRaw(ctx, value, depth, typed);
}

function constructorName(obj, ctx, depth, proto) {
  let first;
  const tmp = obj;
  while (obj) {
    const d = getOwnPropertyDescriptor(obj, "constructor");
    if (d !== undefined && typeof d.value === "function" && d.value.name !== "" && isInstance(tmp, d.value)) {
      return String(d.value.name);
    }
    obj = Object.getPrototypeOf(obj);
    first ??= obj;
  }
  if (first === null) return null;
  const res = typeNameOf(tmp);
  if (depth > ctx.depth && ctx.depth !== null) return `${res} <Complex prototype>`;
  return `${res} <${inspect(first, { ...ctx, customInspect: false, depth: -1 })}>`;
}

function isInstance(v, C) {
  try {
    return v instanceof C;
  } catch {
    return false;
  }
}

const tagOf = (v) => Object.prototype.toString.call(v).slice(8, -1);
const typeNameOf = (v) => tagOf(v);

function prefix(constructor, tag, fallback, size = "") {
  if (constructor === null) {
    return tag !== "" && fallback !== tag ? `[${fallback}${size}: null prototype] [${tag}] ` : `[${fallback}${size}: null prototype] `;
  }
  return tag !== "" && constructor !== tag ? `${constructor}${size} [${tag}] ` : `${constructor}${size} `;
}

function keysOf(value, showHidden) {
  const symbols = Object.getOwnPropertySymbols(value);
  if (showHidden) return [...Object.getOwnPropertyNames(value), ...symbols];
  return [...Object.keys(value), ...symbols.filter((s) => Object.prototype.propertyIsEnumerable.call(value, s))];
}

const isIndex = (k) => typeof k === "string" && /^(0|[1-9]\d*)$/.test(k) && +k < 2 ** 32 - 1;
const otherKeys = (value, ctx) => keysOf(value, ctx.showHidden).filter((k) => !isIndex(k));

const kObject = 0, kArray = 1, kArrayExtras = 2;

function formatRaw(ctx, value, depth, typed) {
  const constructor = constructorName(value, ctx, depth);
  let tag = "";
  try {
    const t = value[Symbol.toStringTag];
    if (typeof t === "string" && t !== "" && t !== constructor && !Object.prototype.propertyIsEnumerable.call(value, Symbol.toStringTag)) tag = t;
  } catch { /* a getter that throws */ }
  let keys, base = "", formatter = () => [], braces, kind = kObject;
  const size = () => `(${value.length ?? value.size})`;
  if (Array.isArray(value)) {
    const p = constructor !== "Array" || tag !== "" ? prefix(constructor, tag, "Array", size()) : "";
    keys = otherKeys(value, ctx);
    braces = [`${p}[`, "]"];
    if (value.length === 0 && keys.length === 0) return `${braces[0]}]`;
    kind = kArrayExtras;
    formatter = arrayParts;
  } else if (value instanceof Set) {
    keys = keysOf(value, ctx.showHidden);
    const p = prefix(constructor, tag, "Set", `(${value.size})`);
    formatter = setParts;
    if (value.size === 0 && keys.length === 0) return `${p}{}`;
    braces = [`${p}{`, "}"];
  } else if (value instanceof Map) {
    keys = keysOf(value, ctx.showHidden);
    const p = prefix(constructor, tag, "Map", `(${value.size})`);
    formatter = mapParts;
    if (value.size === 0 && keys.length === 0) return `${p}{}`;
    braces = [`${p}{`, "}"];
  } else if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    keys = otherKeys(value, ctx);
    const p = prefix(constructor, tag, typeNameOf(value), `(${value.length})`);
    braces = [`${p}[`, "]"];
    if (value.length === 0 && keys.length === 0) return `${braces[0]}]`;
    kind = kArrayExtras;
    formatter = typedParts;
  } else if (tagOf(value) === "Map Iterator" || tagOf(value) === "Set Iterator") {
    keys = keysOf(value, ctx.showHidden);
    braces = [`[${tagOf(value)}] {`, "}"];
    formatter = () => ["<items unknown>"];
  } else {
    keys = keysOf(value, ctx.showHidden);
    braces = ["{", "}"];
    if (tagOf(value) === "Arguments") {
      braces[0] = "[Arguments] {";
    } else if (typeof value === "function") {
      base = functionBase(value, constructor, tag);
      if (keys.length === 0) return ctx.stylize(base, "special");
    } else if (value instanceof RegExp) {
      base = RegExp.prototype.toString.call(value);
      const p = prefix(constructor, tag, "RegExp");
      if (p !== "RegExp ") base = `${p}${base}`;
      if (keys.length === 0 || tooDeep(ctx, depth)) return ctx.stylize(base, "regexp");
    } else if (value instanceof Date) {
      base = Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
      const p = prefix(constructor, tag, "Date");
      if (p !== "Date ") base = `${p}${base}`;
      if (keys.length === 0) return ctx.stylize(base, "date");
    } else if (value instanceof Error) {
      base = errorText(value, constructor, ctx, keys);
      if (keys.length === 0) return base;
    } else if (value instanceof ArrayBuffer) {
      const p = prefix(constructor, tag, "ArrayBuffer");
      if (typed === undefined) {
        const shown = new Uint8Array(value, 0, Math.min(50, value.byteLength));
        const more = value.byteLength - shown.length;
        const text = Array.from(shown, (b) => b.toString(16).padStart(2, "0")).join(" ") + (more > 0 ? ` ... ${more} more byte${more > 1 ? "s" : ""}` : "");
        keys = ["byteLength", ...keys];
        braces = [`${p}{`, "}"];
        formatter = () => [`${ctx.stylize("[Uint8Contents]", "special")}: <${text}>`];
      } else {
        return `${p}{ byteLength: ${primitive({ ...ctx, stylize: plain }, value.byteLength)} }`;
      }
    } else if (value instanceof DataView) {
      braces[0] = `${prefix(constructor, tag, "DataView")}{`;
      keys = ["byteLength", "byteOffset", "buffer", ...keys];
    } else if (value instanceof Promise) {
      braces[0] = `${prefix(constructor, tag, "Promise")}{`;
      formatter = () => [ctx.stylize("<pending>", "special")];
    } else if (value instanceof WeakSet || value instanceof WeakMap) {
      braces[0] = `${prefix(constructor, tag, value instanceof WeakSet ? "WeakSet" : "WeakMap")}{`;
      formatter = () => [ctx.stylize("<items unknown>", "special")];
    } else if (typeof WeakRef !== "undefined" && value instanceof WeakRef) {
      braces[0] = `${prefix(constructor, tag, "WeakRef")}{`;
      formatter = () => [formatValue(ctx, value.deref(), depth + 1)];
    } else if (boxed(value)) {
      base = boxedText(value, ctx, keys, constructor, tag);
      if (typeof value.valueOf() === "string") keys = keys.filter((k) => !isIndex(k));
      if (keys.length === 0) return base;
    } else if (tagOf(value) === "Module") {
      braces[0] = `${prefix(constructor, tag, "Module")}{`;
    } else if (tagOf(value) === "Generator") {
      braces[0] = `${prefix(constructor, tag, "Generator")}{`;
    } else {
      if (constructor === "Object" && tag === "") {
        if (keys.length === 0) return "{}";
      } else {
        braces[0] = `${prefix(constructor, tag, "Object")}{`;
        if (keys.length === 0) return `${braces[0]}}`;
      }
    }
  }
  if (tooDeep(ctx, depth)) {
    const name = prefix(constructor, tag, Array.isArray(value) ? "Array" : "Object").slice(0, -1);
    return ctx.stylize(`[${name}]`, "special");
  }
  depth += 1;
  ctx.seen.push(value);
  ctx.currentDepth = depth;
  let output;
  try {
    output = formatter(ctx, value, depth);
    for (const k of keys) output.push(property(ctx, value, depth, k, kind));
  } finally {
    ctx.seen.pop();
  }
  if (ctx.circular?.has(value)) {
    const ref = ctx.stylize(`<ref *${ctx.circular.get(value)}>`, "special");
    if (ctx.compact !== true) base = base === "" ? ref : `${ref} ${base}`;
    else braces[0] = `${ref} ${braces[0]}`;
  }
  if (ctx.sorted) {
    const by = ctx.sorted === true ? undefined : ctx.sorted;
    if (kind === kObject) output.sort(by);
    else if (keys.length > 1) output.splice(output.length - keys.length, keys.length, ...output.slice(output.length - keys.length).sort(by));
  }
  return joined(ctx, output, base, braces, kind, depth, value);
}

const tooDeep = (ctx, depth) => depth > ctx.depth && ctx.depth !== null;

const boxed = (v) => v instanceof Number || v instanceof String || v instanceof Boolean || typeof BigInt !== "undefined" && v instanceof BigInt || v instanceof Symbol;

function boxedText(value, ctx, keys, constructor, tag) {
  const v = value.valueOf(), type = { number: "Number", string: "String", boolean: "Boolean", bigint: "BigInt", symbol: "Symbol" }[typeof v];
  let base = `[${type}`;
  if (type !== constructor) base += constructor === null ? " (null prototype)" : ` (${constructor})`;
  base += `: ${primitive({ ...ctx, stylize: plain }, v)}]`;
  if (tag !== "" && tag !== constructor) base += ` [${tag}]`;
  return keys.length && typeof v !== "string" || ctx.stylize === plain ? base : ctx.stylize(base, typeof v);
}

function functionBase(f, constructor, tag) {
  const text = Function.prototype.toString.call(f);
  if (text.startsWith("class") && text.endsWith("}")) {
    const body = text.slice(5, -1), open = body.indexOf("{");
    if (open >= 0 && (!body.slice(0, open).includes("(") || /^(\s+[^(]*?)\s*{/.test(body))) {
      const named = hasOwn(f, "name");
      let base = `[class ${named && f.name !== "" ? f.name : "(anonymous)"}`;
      if (constructor !== "Function" && constructor !== null) base += ` [${constructor}]`;
      if (tag !== "" && constructor !== tag) base += ` [${tag}]`;
      if (constructor !== null) {
        const up = Object.getPrototypeOf(f).name;
        if (up) base += ` extends ${up}`;
      } else {
        base += " extends null";
      }
      return base + "]";
    }
  }
  const type = { AsyncFunction: "AsyncFunction", GeneratorFunction: "GeneratorFunction", AsyncGeneratorFunction: "AsyncGeneratorFunction" }[tagOf(f)] ?? "Function";
  let base = `[${type}`;
  if (constructor === null) base += " (null prototype)";
  base += f.name === "" ? " (anonymous)]" : `: ${f.name}]`;
  if (constructor !== type && constructor !== null) base += ` ${constructor}`;
  if (tag !== "" && constructor !== tag && tag !== type) base += ` [${tag}]`;
  return base;
}

// errorText is the error with its stack in the form of Node: name and message first,
// whatever the engine makes of stacks.
function errorText(err, constructor, ctx, keys) {
  const name = err.name != null ? String(err.name) : "Error", message = err.message != null ? String(err.message) : "";
  const head = message === "" ? name : `${name}: ${message}`;
  let stack = typeof err.stack === "string" && err.stack !== "" ? err.stack : "";
  if (!stack.startsWith(head)) {
    const at = /^\s*at /m.exec(stack);
    stack = at ? `${head}\n${stack.slice(at.index).trimEnd()}` : stack.includes("\n") || stack === "" ? head : stack;
  }
  stack = stack.trimEnd();
  for (const k of ["name", "message", "stack"]) {
    const i = keys.indexOf(k);
    if (i >= 0 && stack.includes(String(err[k]))) keys.splice(i, 1);
  }
  if ("cause" in err && !keys.includes("cause") && hasOwn(err, "cause")) keys.push("cause");
  if (Array.isArray(err.errors) && !keys.includes("errors") && hasOwn(err, "errors")) keys.push("errors");
  if (constructor === null) stack = `[${name}: null prototype]` + stack.slice(name.length);
  else if (constructor !== name && !name.includes(constructor) && /^[A-Z]/.test(constructor) && stack.startsWith("Error") && constructor !== "Error") stack = stack.replace(/^Error/, name === "Error" ? constructor : `${constructor} [${name}]`);
  const at = stack.indexOf("\n    at");
  if (at < 0) stack = `[${stack}]`;
  if (ctx.indentationLvl !== 0) stack = stack.replaceAll("\n", `\n${" ".repeat(ctx.indentationLvl)}`);
  return stack;
}

function arrayParts(ctx, value, depth) {
  const output = [], max = Math.min(Math.max(0, ctx.maxArrayLength), value.length);
  let i = 0, shown = 0;
  for (; i < value.length && shown < max; shown++) {
    if (hasOwn(value, i)) {
      output.push(property(ctx, value, depth, i, kArray));
      i++;
      continue;
    }
    let holes = 0;
    while (i < value.length && !hasOwn(value, i)) {
      holes++;
      i++;
    }
    output.push(ctx.stylize(`<${holes} empty item${holes > 1 ? "s" : ""}>`, "undefined"));
  }
  return andMore(output, value.length - i);
}

function andMore(output, n) {
  if (n > 0) output.push(`... ${n} more item${n > 1 ? "s" : ""}`);
  return output;
}

function typedParts(ctx, value) {
  const max = Math.min(Math.max(0, ctx.maxArrayLength), value.length);
  const output = Array.from({ length: max }, (_, i) => primitive(ctx, value[i]));
  return andMore(output, value.length - max);
}

function setParts(ctx, value, depth) {
  const output = [], max = Math.min(Math.max(0, ctx.maxArrayLength), value.size);
  ctx.indentationLvl += 2;
  for (const v of value) {
    if (output.length >= max) break;
    output.push(formatValue(ctx, v, depth));
  }
  ctx.indentationLvl -= 2;
  return andMore(output, value.size - max);
}

function mapParts(ctx, value, depth) {
  const output = [], max = Math.min(Math.max(0, ctx.maxArrayLength), value.size);
  ctx.indentationLvl += 2;
  for (const [k, v] of value) {
    if (output.length >= max) break;
    output.push(`${formatValue(ctx, k, depth)} => ${formatValue(ctx, v, depth)}`);
  }
  ctx.indentationLvl -= 2;
  return andMore(output, value.size - max);
}

function property(ctx, value, depth, key, kind) {
  let text, extra = " ";
  const d = getOwnPropertyDescriptor(value, key) ?? { value: value[key], configurable: true, enumerable: true };
  if (d.value !== undefined || !d.get && !d.set) {
    const diff = ctx.compact !== true || kind !== kObject ? 2 : 3;
    ctx.indentationLvl += diff;
    text = formatValue(ctx, d.value, depth);
    if (diff === 3 && ctx.breakLength < text.length) extra = `\n${" ".repeat(ctx.indentationLvl)}`;
    ctx.indentationLvl -= diff;
  } else if (d.get !== undefined) {
    const label = d.set !== undefined ? "Getter/Setter" : "Getter";
    if (ctx.getters && (ctx.getters === true || ctx.getters === "get" && d.set === undefined || ctx.getters === "set" && d.set !== undefined)) {
      try {
        const v = d.get.call(value);
        ctx.indentationLvl += 2;
        text = v === null || typeof v !== "object" ? `${ctx.stylize(`[${label}:`, "special")} ${formatValue(ctx, v, depth)}${ctx.stylize("]", "special")}` : `${ctx.stylize(`[${label}]`, "special")} ${formatValue(ctx, v, depth)}`;
        ctx.indentationLvl -= 2;
      } catch (e) {
        text = `${ctx.stylize(`[${label}: <Inspection threw (${e.message})>`, "special")}${ctx.stylize("]", "special")}`;
      }
    } else {
      text = ctx.stylize(`[${label}]`, "special");
    }
  } else {
    text = ctx.stylize("[Setter]", "special");
  }
  if (kind === kArray) return text;
  let name;
  if (typeof key === "symbol") name = `[${ctx.stylize(key.toString(), "symbol")}]`;
  else if (key === "__proto__") name = "['__proto__']";
  else if (d.enumerable === false) name = `[${key}]`;
  else if (identifier.test(key)) name = ctx.stylize(key, "name");
  else name = ctx.stylize(quoted(key), "string");
  return `${name}:${extra}${text}`;
}

function width(text) { return require("troupe:width").width(text); }
const lengthOf = (text, hasColors) => width(hasColors ? stripVTControlCharacters(text) : text);

// columns puts the items of a long list side by side.
function columns(ctx, output, value) {
  let total = 0, longest = 0, i = 0, count = output.length;
  if (ctx.maxArrayLength < output.length) count--; // "... more items" is not one
  const between = 2, lens = new Array(count);
  for (; i < count; i++) {
    const len = lengthOf(output[i], ctx.colors);
    lens[i] = len;
    total += len + between;
    if (longest < len) longest = len;
  }
  const actual = longest + between;
  if (actual * 3 + ctx.indentationLvl < ctx.breakLength && (total / actual > 5 || longest <= 6)) {
    const bias = Math.sqrt(actual - total / output.length), biased = Math.max(actual - 3 - bias, 1);
    const cols = Math.min(Math.round(Math.sqrt(2.5 * biased * count) / biased), Math.floor((ctx.breakLength - ctx.indentationLvl) / actual), ctx.compact * 4, 15);
    if (cols <= 1) return output;
    const lines = [], widths = [];
    for (let c = 0; c < cols; c++) {
      let w = 0;
      for (let j = c; j < count; j += cols) if (lens[j] > w) w = lens[j];
      widths.push(w + between);
    }
    let pad = String.prototype.padStart;
    if (value !== undefined) {
      for (let j = 0; j < output.length; j++) {
        if (typeof value[j] !== "number" && typeof value[j] !== "bigint") {
          pad = String.prototype.padEnd;
          break;
        }
      }
    }
    for (let row = 0; row < count; row += cols) {
      const max = Math.min(row + cols, count);
      let line = "", j = row;
      for (; j < max - 1; j++) line += pad.call(`${output[j]}, `, widths[j - row] + output[j].length - lens[j], " ");
      if (pad === String.prototype.padStart) line += pad.call(output[j], widths[j - row] + output[j].length - lens[j] - between, " ");
      else line += output[j];
      lines.push(line);
    }
    if (ctx.maxArrayLength < output.length) lines.push(output[count]);
    output = lines;
  }
  return output;
}

function joined(ctx, output, base, braces, kind, depth, value) {
  if (ctx.compact !== true) {
    if (typeof ctx.compact === "number" && ctx.compact >= 1) {
      const entries = output.length;
      if (kind === kArrayExtras && entries > 6) output = columns(ctx, output, value);
      if (ctx.currentDepth - depth < ctx.compact && entries === output.length) {
        const start = output.length + ctx.indentationLvl + braces[0].length + base.length + 10;
        if (fits(ctx, output, start, base)) {
          const text = output.join(", ");
          if (!text.includes("\n")) return `${base ? `${base} ` : ""}${braces[0]} ${text} ${braces[1]}`;
        }
      }
    }
    const indent = `\n${" ".repeat(ctx.indentationLvl)}`;
    return `${base ? `${base} ` : ""}${braces[0]}${indent}  ${output.join(`,${indent}  `)}${indent}${braces[1]}`;
  }
  if (fits(ctx, output, 0, base)) return `${braces[0]}${base ? ` ${base}` : ""} ${output.join(", ")} ${braces[1]}`;
  const indent = `\n${" ".repeat(ctx.indentationLvl)}`;
  const ln = base === "" && braces[0].length === 1 ? " " : `${base ? ` ${base}` : ""}\n${" ".repeat(ctx.indentationLvl)}  `;
  return `${braces[0]}${ln}${output.join(`,${indent}  `)} ${braces[1]}`;
}

function fits(ctx, output, start, base) {
  let total = output.length + start;
  if (total + output.length > ctx.breakLength) return false;
  for (const o of output) {
    total += ctx.colors ? stripVTControlCharacters(o).length : o.length;
    if (total > ctx.breakLength) return false;
  }
  return base === "" || !base.includes("\n");
}

inspect.custom = custom;
inspect.colors = colors;
inspect.styles = styles;
inspect.defaultOptions = defaults;

function formatWithOptions(opts, ...args) {
  let text = "", used = 0;
  if (typeof args[0] === "string") {
    if (args.length === 1) return args[0];
    used = 1;
    text = args[0].replace(/%[sdifjoOc%]/g, (verb) => {
      if (verb === "%%") return "%";
      if (used >= args.length) return verb;
      const a = args[used++];
      switch (verb) {
        case "%s":
          if (typeof a === "bigint") return `${a}n`;
          if (typeof a === "number") return numberText(a, {});
          if (typeof a !== "object" || a === null) return String(a);
          if (typeof a.toString === "function" && hasText(a)) return String(a);
          return inspect(a, { ...opts, depth: 0, colors: false, compact: 3 });
        case "%d":
          return typeof a === "bigint" ? `${a}n` : typeof a === "symbol" ? "NaN" : numberText(Number(a), {});
        case "%i":
          return typeof a === "bigint" ? `${a}n` : typeof a === "symbol" ? "NaN" : numberText(parseInt(a), {});
        case "%f":
          return typeof a === "symbol" ? "NaN" : numberText(parseFloat(a), {});
        case "%j":
          try {
            return String(JSON.stringify(a));
          } catch (e) {
            if (/circular/i.test(e.message)) return "[Circular]";
            throw e;
          }
        case "%o":
          return inspect(a, { ...opts, showHidden: true, showProxy: true, depth: 4 });
        case "%O":
          return inspect(a, opts);
      }
      return ""; // %c
    });
  }
  const rest = args.slice(used).map((a) => typeof a === "string" ? a : inspect(a, opts));
  return [...(used ? [text] : []), ...rest].join(" ");
}

// hasText says whether an object has words of its own: a toString that is not that of
// every object or error.
function hasText(v) {
  if (v instanceof Error && v.toString === Error.prototype.toString) return true;
  for (let o = v; o && o !== Object.prototype; o = Object.getPrototypeOf(o)) {
    if (hasOwn(o, "toString") || hasOwn(o, Symbol.toPrimitive)) {
      return !["Array", "Date", "Function", "RegExp", "Map", "Set"].includes(o.constructor?.name) && !ArrayBuffer.isView(v);
    }
  }
  return false;
}

const format = (...args) => formatWithOptions(undefined, ...args);

const kPromisify = Symbol.for("nodejs.util.promisify.custom");
function promisify(f) {
  if (typeof f !== "function") throw typeError("original", "function", f);
  if (f[kPromisify]) return Object.defineProperty(f[kPromisify], kPromisify, { value: f[kPromisify], configurable: true });
  const p = function (...args) {
    return new Promise((resolve, reject) => f.call(this, ...args, (err, ...values) => err ? reject(err) : resolve(values[0])));
  };
  Object.setPrototypeOf(p, Object.getPrototypeOf(f));
  return Object.defineProperties(p, Object.getOwnPropertyDescriptors(f));
}
promisify.custom = kPromisify;

function callbackify(f) {
  return function (...args) {
    const done = args.pop();
    f.apply(this, args).then((v) => queueMicrotask(() => done(null, v)), (e) => queueMicrotask(() => done(e ?? new Error("Promise was rejected with a falsy value"))));
  };
}

function typeError(name, wanted, got) {
  const e = new TypeError(`The "${name}" argument must be of type ${wanted}. Received ${got === null ? "null" : typeof got}`);
  e.code = "ERR_INVALID_ARG_TYPE";
  return e;
}

const warned = new Set();
function deprecate(f, message, code) {
  const wrapped = function (...args) {
    if (!warned.has(code ?? message)) {
      warned.add(code ?? message);
      host.log("warn", `DeprecationWarning: ${message}`);
    }
    return new.target ? Reflect.construct(f, args, new.target) : f.apply(this, args);
  };
  Object.setPrototypeOf(wrapped, f);
  if (f.prototype) wrapped.prototype = f.prototype;
  return wrapped;
}

function inherits(ctor, superCtor) {
  Object.defineProperty(ctor, "super_", { value: superCtor, writable: true, configurable: true });
  Object.setPrototypeOf(ctor.prototype, superCtor.prototype);
}

function debuglog(section) {
  const on = new RegExp(`(^|,)\\s*${section.replace(/[^\w*]/g, "").replaceAll("*", ".*")}\\s*(,|$)`, "i").test(host.boot.env?.NODE_DEBUG ?? "");
  const log = (...args) => on && host.log("debug", `${section.toUpperCase()} ${format(...args)}`);
  log.enabled = on;
  return log;
}

function isDeepStrictEqual(a, b) { return equal(a, b, true, []); }

// equal compares as assert.deepStrictEqual does, or loosely as deepEqual.
function equal(a, b, strict, seen) {
  if (strict ? Object.is(a, b) : a == b || a !== a && b !== b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (strict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (tagOf(a) !== tagOf(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  if (a instanceof Date && +a !== +b) return false;
  if (a instanceof RegExp && (String(a) !== String(b) || a.lastIndex !== b.lastIndex)) return false;
  if (a instanceof Error && (a.message !== b.message || a.name !== b.name)) return false;
  if (boxed(a) && !Object.is(a.valueOf(), b.valueOf())) return false;
  if (a instanceof ArrayBuffer) return equal(new Uint8Array(a), new Uint8Array(b), strict, seen);
  if (seen.some(([x, y]) => x === a && y === b)) return true;
  seen = [...seen, [a, b]];
  if (a instanceof Set) {
    if (a.size !== b.size) return false;
    for (const x of a) if (!b.has(x) && !(x !== null && typeof x === "object" && [...b].some((y) => equal(x, y, strict, seen)))) return false;
  }
  if (a instanceof Map) {
    if (a.size !== b.size) return false;
    for (const [k, x] of a) {
      if (b.has(k) ? !equal(x, b.get(k), strict, seen) : ![...b].some(([l, y]) => equal(k, l, strict, seen) && equal(x, y, strict, seen))) return false;
    }
  }
  const ka = keysOf(a, false), kb = keysOf(b, false);
  return ka.length === kb.length && (!Array.isArray(a) || a.length === b.length) && ka.every((k) => Object.prototype.propertyIsEnumerable.call(b, k) && equal(a[k], b[k], strict, seen));
}

const isView = (name) => (v) => ArrayBuffer.isView(v) && Object.prototype.toString.call(v) === `[object ${name}]`;
const types = {
  isAnyArrayBuffer: (v) => v instanceof ArrayBuffer || tagOf(v) === "SharedArrayBuffer", isArrayBuffer: (v) => v instanceof ArrayBuffer,
  isSharedArrayBuffer: (v) => tagOf(v) === "SharedArrayBuffer", isArrayBufferView: ArrayBuffer.isView, isAsyncFunction: (v) => typeof v === "function" && tagOf(v).startsWith("Async"),
  isBigInt64Array: isView("BigInt64Array"), isBigUint64Array: isView("BigUint64Array"), isBooleanObject: (v) => v instanceof Boolean, isBoxedPrimitive: boxed,
  isDataView: (v) => v instanceof DataView, isDate: (v) => v instanceof Date, isFloat32Array: isView("Float32Array"), isFloat64Array: isView("Float64Array"),
  isGeneratorFunction: (v) => typeof v === "function" && tagOf(v).endsWith("GeneratorFunction"), isGeneratorObject: (v) => tagOf(v) === "Generator",
  isInt16Array: isView("Int16Array"), isInt32Array: isView("Int32Array"), isInt8Array: isView("Int8Array"), isMap: (v) => v instanceof Map,
  isMapIterator: (v) => tagOf(v) === "Map Iterator", isModuleNamespaceObject: (v) => tagOf(v) === "Module", isNativeError: (v) => v instanceof Error, isNumberObject: (v) => v instanceof Number,
  isPromise: (v) => v instanceof Promise, isProxy: () => false, isRegExp: (v) => v instanceof RegExp, isSet: (v) => v instanceof Set, isSetIterator: (v) => tagOf(v) === "Set Iterator",
  isStringObject: (v) => v instanceof String, isSymbolObject: (v) => v instanceof Symbol, isTypedArray: (v) => ArrayBuffer.isView(v) && !(v instanceof DataView),
  isUint16Array: isView("Uint16Array"), isUint32Array: isView("Uint32Array"), isUint8Array: (v) => v instanceof Uint8Array, isUint8ClampedArray: isView("Uint8ClampedArray"),
  isWeakMap: (v) => v instanceof WeakMap, isWeakSet: (v) => v instanceof WeakSet, isArgumentsObject: (v) => tagOf(v) === "Arguments", isExternal: () => false, isKeyObject: () => false, isCryptoKey: () => false,
};

function styleText(style, text) {
  return [].concat(style).reduceRight((t, name) => {
    const c = colors[name];
    if (!c) {
      const e = new TypeError(`The argument 'format' must be one of: ${Object.keys(colors).map((k) => `'${k}'`).join(", ")}. Received '${name}'`);
      e.code = "ERR_INVALID_ARG_VALUE";
      throw e;
    }
    return `\u001b[${c[0]}m${t}\u001b[${c[1]}m`;
  }, text);
}

// parseArgs reads a command line by a description of its options.
function parseArgs({ args = require("process").argv.slice(1), options = {}, strict = true, allowPositionals = !strict, tokens: wantTokens = false, allowNegative = false } = {}) {
  const values = Object.create(null), positionals = [], tokens = [];
  const fail = (code, message) => {
    const e = new TypeError(message);
    e.code = code;
    throw e;
  };
  const store = (name, raw, value, inline, index) => {
    const o = options[name];
    if (!o && strict) fail("ERR_PARSE_ARGS_UNKNOWN_OPTION", `Unknown option '${raw}'${allowPositionals ? `. To specify a positional argument starting with a '-', place it at the end of the command after '--', as in '-- ${JSON.stringify(raw)}` : ""}`);
    if (strict && o?.type === "string" && typeof value !== "string") fail("ERR_PARSE_ARGS_INVALID_OPTION_VALUE", `Option '${o.short ? `-${o.short}, ` : ""}--${name} <value>' argument missing`);
    if (strict && o?.type === "boolean" && typeof value === "string") fail("ERR_PARSE_ARGS_INVALID_OPTION_VALUE", `Option '${o.short ? `-${o.short}, ` : ""}--${name}' does not take an argument`);
    tokens.push({ kind: "option", name, rawName: raw, index, value: typeof value === "string" ? value : undefined, inlineValue: typeof value === "string" ? inline : undefined });
    const v = value ?? true;
    if (o?.multiple) (values[name] ??= []).push(v);
    else values[name] = v;
  };
  const short = (c) => Object.keys(options).find((k) => options[k].short === c) ?? c;
  for (let i = 0; i < args.length; i++) {
    const arg = args[i], index = i;
    if (arg === "--") {
      tokens.push({ kind: "option-terminator", index });
      args.slice(i + 1).forEach((value, j) => { tokens.push({ kind: "positional", index: i + 1 + j, value }); positionals.push(value); });
      if (positionals.length && !allowPositionals) fail("ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL", `Unexpected argument '${positionals[0]}'. This command does not take positional arguments`);
      break;
    }
    if (arg.startsWith("--")) {
      const eq = arg.indexOf("=");
      let name = arg.slice(2, eq < 0 ? undefined : eq);
      if (eq >= 0) store(name, `--${name}`, arg.slice(eq + 1), true, index);
      else if (options[name]?.type === "string" && i + 1 < args.length && !(strict && args[i + 1].startsWith("-") && args[i + 1].length > 1)) store(name, arg, args[++i], false, index);
      else if (allowNegative && name.startsWith("no-") && options[name.slice(3)]?.type === "boolean") {
        name = name.slice(3);
        tokens.push({ kind: "option", name, rawName: arg, index, value: undefined, inlineValue: undefined });
        values[name] = options[name].multiple ? [...(values[name] ?? []), false] : false;
      } else store(name, arg, undefined, false, index);
    } else if (arg.startsWith("-") && arg.length > 1) {
      for (let j = 1; j < arg.length; j++) {
        const name = short(arg[j]);
        if (options[name]?.type === "string") {
          const rest = arg.slice(j + 1);
          if (rest) store(name, `-${arg[j]}`, rest.replace(/^=/, ""), true, index);
          else store(name, `-${arg[j]}`, i + 1 < args.length ? args[++i] : undefined, false, index);
          break;
        }
        store(name, `-${arg[j]}`, undefined, false, index);
      }
    } else {
      if (!allowPositionals) fail("ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL", `Unexpected argument '${arg}'. This command does not take positional arguments`);
      tokens.push({ kind: "positional", index, value: arg });
      positionals.push(arg);
    }
  }
  for (const [name, o] of Object.entries(options)) if (o.default !== undefined && values[name] === undefined) values[name] = o.default;
  return wantTokens ? { values, positionals, tokens } : { values, positionals };
}

module.exports = {
  inspect, format, formatWithOptions, promisify, callbackify, deprecate, inherits, debuglog, debug: debuglog, isDeepStrictEqual, types, styleText, parseArgs,
  stripVTControlCharacters, TextEncoder, TextDecoder, isArray: Array.isArray, toUSVString: (s) => String(s).toWellFormed?.() ?? String(s),
  aborted: (signal) => new Promise((resolve) => signal.aborted ? resolve() : signal.addEventListener("abort", () => resolve(), { once: true })),
  getSystemErrorName: (n) => Object.entries(require("os").constants.errno).find(([, v]) => v === -n)?.[0],
  isBoolean: (v) => typeof v === "boolean", isNull: (v) => v === null, isNullOrUndefined: (v) => v == null, isNumber: (v) => typeof v === "number",
  isString: (v) => typeof v === "string", isSymbol: (v) => typeof v === "symbol", isUndefined: (v) => v === undefined, isRegExp: types.isRegExp,
  isObject: (v) => v !== null && typeof v === "object", isDate: types.isDate, isError: (v) => v instanceof Error, isFunction: (v) => typeof v === "function",
  isPrimitive: (v) => v === null || typeof v !== "object" && typeof v !== "function", _extend: (a, b) => Object.assign(a, b),
  equal, // for assert
};
