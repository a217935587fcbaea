// provides: troupe:intl
"use strict";

// Dates, numbers and sorting for people. The patterns of each locale are those of the Unicode CLDR, in the host's
// table locales.txt. A locale or an option that the table does not cover throws: a text of another form would be wrong.

const { graphemes } = require("troupe:width");
const NODE = 'Use another one, or run the extension in Node.js: its first line is then "// @troupe-host node".';

const known = new Map();
// record returns the patterns of a locale, undefined where the table has none.
function record(tag) {
  if (!known.has(tag)) known.set(tag, host.op("intl.locale", tag) ?? undefined);
  return known.get(tag);
}

// canonical splits a BCP 47 tag in its name and the keywords after -u-.
function canonical(value) {
  const [tag, extension = ""] = String(value).split(/-u-/i);
  if (!/^[a-z]{2,8}(-[a-z0-9]{1,8})*$/i.test(tag)) throw new RangeError(`Incorrect locale information provided: ${value}`);
  const keywords = {};
  let key;
  for (const part of extension.toLowerCase().split("-")) {
    if (part.length === 2) keywords[key = part] = "";
    else if (key) keywords[key] += (keywords[key] && "-") + part;
  }
  const name = tag.split("-").map((p, i) => i === 0 ? p.toLowerCase() : p.length === 2 ? p.toUpperCase() : p.length === 4 ? p[0].toUpperCase() + p.slice(1).toLowerCase() : p).join("-");
  return { name, keywords };
}

function list(locales) {
  if (locales === undefined) return [];
  if (locales === null) throw new TypeError("Incorrect locale information provided");
  return [].concat(locales).map(canonical);
}

// choose returns the first locale of a list that the table has.
function choose(locales) {
  const wanted = list(locales);
  for (const w of wanted) if (record(w.name)) return w;
  if (wanted.length) throw new RangeError(`The built-in engine has no data of the locale ${wanted.map((w) => w.name).join(", ")}. ${NODE}`);
  return { name: "en-US", keywords: {} };
}

const hide = (o, members) => { for (const k of Object.keys(members)) Object.defineProperty(o, k, { value: members[k] }); };

class Base {
  constructor(locales, options) {
    const chosen = choose(locales);
    for (const [k, v] of Object.entries(chosen.keywords)) {
      if (!(k === "ca" && /^greg/.test(v) || k === "nu" && v === "latn" || k === "hc" || k === "kn" || k === "kf" && v === "false" || k === "co" && v === "standard")) {
        throw new RangeError(`The built-in engine does not support the locale keyword ${k}-${v}. ${NODE}`);
      }
    }
    hide(this, { l: chosen.name, o: { ...options }, data: record(chosen.name), keywords: chosen.keywords });
  }
  static supportedLocalesOf(l) { return list(l).map((w) => w.name).filter(record); }
  resolvedOptions() { return { locale: this.l, numberingSystem: "latn", ...this.o }; }
}

const zone = () => host.op("intl.local");

function only(o, name, values) {
  if (o[name] !== undefined && !values.includes(o[name])) {
    throw new RangeError(`The built-in engine does not support ${name}: ${String(o[name])}. ${NODE}`);
  }
}

// ---- numbers ----

// decimal writes a number that is not negative with all its digits.
function decimal(text) {
  const [digits, exponent = "0"] = text.split("e");
  let [whole, part = ""] = digits.split(".");
  const e = Number(exponent);
  if (e > 0) [whole, part] = [whole + part.slice(0, e).padEnd(e, "0"), part.slice(e)];
  else if (e < 0) [whole, part] = ["0", whole.padStart(-e + whole.length, "0") + part];
  return [whole.replace(/^0+(?=\d)/, ""), part];
}

// round cuts a decimal to so many digits after the point, less than 0 before it; halves go away from zero.
function round([whole, part], digits) {
  const all = whole + part, keep = whole.length + digits;
  if (part.length <= digits) return [whole, part];
  if (keep < 0) return ["0", ""];
  const up = all[keep] >= "5" ? 1n : 0n;
  let text = String(BigInt(all.slice(0, keep) || "0") + up).padStart(digits > 0 ? digits + 1 : 1, "0");
  if (digits <= 0) return [text === "0" ? "0" : text + "0".repeat(-digits), ""];
  return [text.slice(0, -digits), text.slice(-digits)];
}

class NumberFormat extends Base {
  constructor(locales, options) {
    super(locales, options);
    const o = this.o;
    only(o, "style", ["decimal", "percent", "currency", "unit"]);
    only(o, "notation", ["standard", "compact"]);
    only(o, "currencyDisplay", ["symbol", "code"]);
    only(o, "currencySign", ["standard"]);
    only(o, "signDisplay", ["auto", "never", "always", "exceptZero", "negative"]);
    only(o, "roundingMode", ["halfExpand"]);
    only(o, "roundingPriority", ["auto"]);
    only(o, "roundingIncrement", [1]);
    only(o, "trailingZeroDisplay", ["auto"]);
    only(o, "numberingSystem", ["latn"]);
    only(o, "useGrouping", [true, false, "auto", "always", "min2", "true", "false"]);
    for (const [k, low, high] of [["minimumIntegerDigits", 1, 21], ["minimumFractionDigits", 0, 100], ["maximumFractionDigits", 0, 100], ["minimumSignificantDigits", 1, 21], ["maximumSignificantDigits", 1, 21]]) {
      if (o[k] !== undefined && !(o[k] >= low && o[k] <= high)) throw new RangeError(`${k} value is out of range.`);
    }
    if (o.style === "currency") {
      if (o.currency === undefined) throw new TypeError("Currency code is required with currency style.");
      if (!/^[a-z]{3}$/i.test(o.currency)) throw new RangeError(`Invalid currency code : ${o.currency}`);
      o.currency = o.currency.toUpperCase();
    }
    if (o.style === "unit" && o.unit === undefined) throw new TypeError("Required unit is missing");
    const english = this.l.startsWith("en");
    if (!english && (o.style === "unit" || o.notation === "compact")) throw new RangeError(`The built-in engine has ${o.style === "unit" ? "units" : "compact numbers"} in English only, not in ${this.l}. ${NODE}`);
    if (o.style === "unit" && !UNITS[o.unit]) throw new RangeError(`The built-in engine does not support the unit ${o.unit}. ${NODE}`);
    const money = o.style === "currency" ? (/^(JPY|KRW|VND|CLP|ISK)$/.test(o.currency) ? 0 : 2) : undefined;
    const compact = o.notation === "compact", base = compact ? 0 : money ?? 0, most = compact ? 0 : money ?? (o.style === "percent" ? 0 : 3);
    const min = o.minimumFractionDigits ?? Math.min(base, o.maximumFractionDigits ?? base), max = o.maximumFractionDigits ?? Math.max(most, min);
    if (min > max) throw new RangeError("maximumFractionDigits value is out of range.");
    hide(this, { min, max, significant: o.minimumSignificantDigits !== undefined || o.maximumSignificantDigits !== undefined, short: compact && o.maximumFractionDigits === undefined && o.minimumFractionDigits === undefined });
    Object.defineProperty(this, "format", { value: (n) => this.formatToParts(n).map((p) => p.value).join(""), configurable: true, writable: true });
  }
  digits(value) {
    const o = this.o;
    if (this.significant || this.short) {
      const min = this.significant ? o.minimumSignificantDigits ?? 1 : 1, max = this.significant ? o.maximumSignificantDigits ?? 21 : 2;
      const [whole, part] = value, zeros = /^0*/.exec(whole + part)[0].length, lead = whole.length - zeros;
      if (this.short && lead > 2) return round(value, 0);
      let [w, p] = round(value, max - lead);
      p = p.replace(/0+$/, "");
      const have = (w === "0" ? "" : w).length + (w === "0" ? p.replace(/^0+/, "").length : p.length);
      return [w, p + "0".repeat(Math.max(0, min - Math.max(have, w === "0" && !p ? 1 : 0)))];
    }
    let [whole, part] = round(value, this.max);
    part = part.padEnd(this.min, "0");
    while (part.length > this.min && part.endsWith("0")) part = part.slice(0, -1);
    return [whole, part];
  }
  formatToParts(n) {
    const o = this.o, data = this.data, parts = [], money = o.style === "currency";
    const add = (type, value) => value && parts.push({ type, value });
    if (n instanceof Number || n instanceof BigInt) n = n.valueOf();
    if (typeof n !== "bigint") n = typeof n === "string" && /^-?\d{16,}$/.test(n.trim()) ? BigInt(n) : Number(n);
    const negative = typeof n === "bigint" ? n < 0n : n < 0 || Object.is(n, -0);
    let body = [], zero = false, suffix = "", one = false;
    if (typeof n === "number" && !Number.isFinite(n)) body = [{ type: Number.isNaN(n) ? "nan" : "infinity", value: Number.isNaN(n) ? data.nan : "∞" }];
    else {
      let value = decimal(String(n).replace("-", ""));
      const shift = (by) => {
        let [w, p] = value;
        if (by > 0) value = decimal(`${w}.${p}e${by}`);
        else value = decimal(`0.${"0".repeat(Math.max(0, -by - w.length))}${w.length > -by ? "" : w}${p}e0`).map((x, i) => w.length > -by ? (i ? w.slice(by) + p : w.slice(0, by)) : x);
      };
      if (o.style === "percent") shift(2);
      if (o.notation === "compact") {
        const units = o.compactDisplay === "long" ? ["", " thousand", " million", " billion", " trillion"] : ["", "K", "M", "B", "T"];
        let step = Math.min(4, Math.floor((value[0].length - 1) / 3));
        const at = value;
        if (step) shift(-3 * step);
        if (step < 4 && this.digits(value)[0].length > 3) value = at, step++, shift(-3 * step);
        suffix = units[step];
      }
      let [whole, part] = this.digits(value);
      zero = !/[1-9]/.test(whole + part);
      one = whole === "1" && !part;
      whole = whole.padStart(o.minimumIntegerDigits ?? 1, "0");
      const min2 = o.useGrouping === "min2" || o.notation === "compact" && o.useGrouping === undefined || o.useGrouping !== "always" && !(money ? data.groups4c : data.groups4);
      const group = money ? data.groupC : data.group, point = money ? data.pointC : data.point;
      if (o.useGrouping !== false && o.useGrouping !== "false" && group && whole.length > (min2 ? 4 : 3)) {
        const pieces = [whole.slice(-3)];
        for (let rest = whole.slice(0, -3), size = data.lakh ? 2 : 3; rest; rest = rest.slice(0, -size)) pieces.unshift(rest.slice(-size));
        pieces.forEach((value, i) => {
          if (i) body.push({ type: "group", value: group });
          body.push({ type: "integer", value });
        });
      } else body.push({ type: "integer", value: whole });
      if (part) body.push({ type: "decimal", value: point }, { type: "fraction", value: part });
      if (suffix) {
        if (suffix[0] === " ") body.push({ type: "literal", value: " " });
        body.push({ type: "compact", value: suffix.trim() });
      }
    }
    const nan = typeof n === "number" && Number.isNaN(n), s = o.signDisplay ?? "auto";
    const sign = nan ? (s === "always" ? "+" : "") : s === "never" ? "" : negative ? ((s === "exceptZero" || s === "negative") && zero ? "" : data.minus) : s === "always" || s === "exceptZero" && !zero ? "+" : "";
    const code = money && (o.currencyDisplay === "code" || !data.symbols[o.currency]);
    const symbol = money ? (code ? o.currency : data.symbols[o.currency]) : "";
    const lettered = /[A-Za-z]$/.test(symbol);
    let shape = money ? (sign && sign !== "+" ? data.debt : lettered ? data.code : data.money) : o.style === "percent" ? data.percent : "#";
    if (money && sign && sign !== "+" && lettered && !/¤\s/.test(shape) && !/\s¤/.test(shape)) shape = shape.replace("¤#", "¤\u00a0#");
    if (sign && !shape.includes("-")) shape = "-" + shape;
    for (const [, mark, text] of shape.matchAll(/([¤%#-])|([^¤%#-]+)/g)) {
      if (text) add("literal", text);
      else if (mark === "#") parts.push(...body);
      else if (mark === "¤") add("currency", symbol);
      else if (mark === "%") add("percentSign", "%");
      else if (sign) add(sign === "+" ? "plusSign" : "minusSign", sign);
    }
    if (o.style === "unit") {
      const [short, narrow, long, plural] = UNITS[o.unit], display = o.unitDisplay ?? "short";
      const text = display === "long" ? ` ${one ? long : plural ?? long + "s"}` : display === "narrow" ? narrow : typeof short === "string" ? short : short[one ? 0 : 1];
      if (text[0] === " ") add("literal", " ");
      add("unit", text.trim());
    }
    return parts;
  }
  resolvedOptions() {
    return { locale: this.l, numberingSystem: "latn", style: "decimal", ...this.o, minimumIntegerDigits: this.o.minimumIntegerDigits ?? 1, minimumFractionDigits: this.min, maximumFractionDigits: this.max };
  }
}

// UNITS are the English units: short (for one, for more), narrow, long, its plural.
const UNITS = {
  byte: [[" byte", " byte"], "B", "byte"], kilobyte: [" kB", "kB", "kilobyte"], megabyte: [" MB", "MB", "megabyte"], gigabyte: [" GB", "GB", "gigabyte"], terabyte: [" TB", "TB", "terabyte"],
  millisecond: [" ms", "ms", "millisecond"], second: [" sec", "s", "second"], minute: [" min", "m", "minute"], hour: [" hr", "h", "hour"], day: [[" day", " days"], "d", "day"],
  week: [[" wk", " wks"], "w", "week"], month: [[" mth", " mths"], "m", "month"], year: [[" yr", " yrs"], "y", "year"],
  celsius: ["°C", "°C", "degree Celsius", "degrees Celsius"], percent: ["%", "%", "percent", "percent"], kilometer: [" km", "km", "kilometer"], meter: [" m", "m", "meter"],
};

// ---- dates ----

const DATE = ["weekday", "year", "month", "day"], TIME = ["hour", "minute", "second", "fractionalSecondDigits"];
const TEXTS = ["", "long", "short", "narrow"], NUMBERS = ["", "numeric", "2-digit"], MONTHS = ["", "numeric", "2-digit", "long", "short", "narrow"];
const STYLES = ["full", "long", "medium", "short"];

class DateTimeFormat extends Base {
  constructor(locales, options) {
    super(locales, options);
    const o = this.o, set = (k) => o[k] !== undefined;
    const check = (k, values) => {
      if (set(k) && !values.includes(o[k])) throw new RangeError(`Value ${String(o[k])} out of range for Intl.DateTimeFormat options property ${k}`);
    };
    check("weekday", TEXTS.slice(1));
    check("month", MONTHS.slice(1));
    for (const k of ["year", "day", "hour", "minute", "second"]) check(k, NUMBERS.slice(1));
    check("fractionalSecondDigits", [1, 2, 3]);
    for (const k of ["dateStyle", "timeStyle"]) check(k, STYLES);
    check("hourCycle", ["h11", "h12", "h23", "h24"]);
    for (const k of ["era", "dayPeriod"]) if (set(k)) only(o, k, []);
    only(o, "timeZoneName", ["short", "shortOffset", "longOffset"]);
    only(o, "calendar", ["gregory"]);
    only(o, "numberingSystem", ["latn"]);
    if (o.timeStyle === "full") throw new RangeError(`The built-in engine has no long names of time zones (timeStyle: full). ${NODE}`);
    const style = set("dateStyle") ? "dateStyle" : "timeStyle";
    if (set(style)) {
      const more = [...DATE, ...TIME, "timeZoneName"].find(set);
      if (more) throw new TypeError(`Can't set option ${more} when ${style} is used`);
    } else if (![...DATE, ...TIME].some(set)) Object.assign(o, { year: "numeric", month: "numeric", day: "numeric" });
    if (set("timeZone")) offset(o.timeZone = String(o.timeZone), 0);
    const cycle = o.hour12 === undefined ? o.hourCycle ?? this.keywords.hc : undefined;
    const h12 = o.hour12 === undefined ? (cycle ? cycle === "h11" || cycle === "h12" : this.data.h12) : !!o.hour12;
    hide(this, { cycle, h12, shape: this.pattern(h12, cycle) });
    Object.defineProperty(this, "format", { value: (t) => this.formatToParts(t).map((p) => p.value).join(""), configurable: true, writable: true });
  }
  // pattern is that of the options: a date, a time, or both.
  pattern(h12, cycle) {
    const o = this.o, r = this.data, at = (i) => r.patterns[i];
    const need = (p) => {
      if (typeof p !== "string") throw new RangeError(`The built-in engine has no pattern of ${this.l} for ${JSON.stringify(this.o)}. ${NODE}`);
      return p;
    };
    let date, join, time;
    const zoned = o.timeZoneName !== undefined;
    if (o.dateStyle || o.timeStyle) {
      const i = STYLES.indexOf(o.dateStyle);
      if (i >= 0) date = need(at(r.dateStyle[i])), join = at(r.styleJoins[i]);
      if (o.timeStyle) time = need(at(r.timeStyle[h12 ? 0 : 1][["medium", "short", "long"].indexOf(o.timeStyle)]));
    } else {
      const i = ((TEXTS.indexOf(o.weekday ?? "") * 3 + NUMBERS.indexOf(o.year ?? "")) * 6 + MONTHS.indexOf(o.month ?? "")) * 3 + NUMBERS.indexOf(o.day ?? "");
      if (i) date = need(at(r.date[i])), join = at(r.joins[i]);
      const [h, m, s] = ["hour", "minute", "second"].map((k) => NUMBERS.indexOf(o[k] ?? ""));
      const j = (((h12 ? 0 : 1) * 3 + h) * 3 + m) * 3 + s;
      if (h || m || s) time = need(at(r.time[j]));
      if (o.fractionalSecondDigits) {
        if (!s) time = need(undefined);
        time = time.replace(/\{ss?\}/, (x) => `${x}${r.point}{f}`);
      }
    }
    if (time && cycle) time = time.replace(/\{([HhkK])(\1?)\}/, (_, c, two) => { const k = { h11: "K", h12: "h", h23: "H", h24: "k" }[cycle]; return `{${k}${two && k}}`; });
    if (zoned) {
      const around = need((time ? r.zoneTime : r.zoneDate)[["short", "shortOffset", "longOffset"].indexOf(o.timeZoneName)]);
      if (time) time = around.replace("{t}", () => time);
      else date = around.replace("{t}", () => date);
    }
    if (date === undefined || time === undefined) return date ?? time;
    need(join);
    return join[0] === "=" ? join.slice(1) + time : date + join + time;
  }
  // fields are the parts of a time where it is read: the host knows the zones.
  fields(t) {
    const d = t === undefined ? new Date() : new Date(t);
    if (Number.isNaN(+d)) throw new RangeError("Invalid time value");
    const local = !this.o.timeZone;
    const shift = local ? -d.getTimezoneOffset() : offset(this.o.timeZone, +d);
    const s = new Date(+d + shift * 60000);
    return { at: +d, y: s.getUTCFullYear(), mo: s.getUTCMonth(), d: s.getUTCDate(), wd: s.getUTCDay(), h: s.getUTCHours(), mi: s.getUTCMinutes(), s: s.getUTCSeconds(), ms: s.getUTCMilliseconds(), shift };
  }
  zoneName(f) {
    const style = this.o.timeZoneName ?? "short", name = this.o.timeZone ?? zone(), a = Math.abs(f.shift), sign = f.shift < 0 ? "-" : "+";
    if (style === "short") {
      if (/^(UTC|Etc\/(UTC|UCT|Zulu|Universal)|UCT|Zulu|Universal)$/i.test(name)) return "UTC";
      if (!/^([+-]|Etc\/|GMT$)/.test(name)) {
        if (this.l !== "en-US" && this.l !== "en") throw new RangeError(`The built-in engine has short names of time zones in en-US only. Use timeZoneName: "shortOffset". ${NODE}`);
        const short = host.op("intl.zone", name, f.at);
        if (Object.keys(this.data.zones).some((k) => k.split("/").includes(short) && this.data.zones[k].includes(name))) return short;
      }
    }
    if (f.shift === 0 && style === "short") return this.data.gmt;
    const two = (n) => String(n).padStart(2, "0"), h = Math.floor(a / 60), m = a % 60;
    return style === "longOffset" ? `${this.data.gmt}${sign}${two(h)}:${two(m)}` : `${this.data.gmt}${sign === "-" && this.data.gmt === "UTC" ? "−" : sign}${h}${m ? ":" + two(m) : ""}`;
  }
  formatToParts(t) {
    const f = this.fields(t), parts = [], two = (n) => String(n).padStart(2, "0"), lists = this.data.lists;
    const year = f.y > 0 ? f.y : 1 - f.y;
    const hours = { H: f.h, h: f.h % 12 || 12, K: f.h % 12, k: f.h || 24 };
    for (const [, name, n, text] of this.shape.matchAll(/\{([A-Za-z]+)(\d*)\}|([^{]+)/g)) {
      if (text !== undefined) {
        if (parts.length && parts[parts.length - 1].type === "literal") parts[parts.length - 1].value += text;
        else parts.push({ type: "literal", value: text });
        continue;
      }
      const [type, value] = {
        y: () => ["year", year], yy: () => ["year", two(year % 100)], M: () => ["month", f.mo + 1], MM: () => ["month", two(f.mo + 1)], L: () => ["month", lists[n][f.mo]],
        d: () => ["day", f.d], dd: () => ["day", two(f.d)], E: () => ["weekday", lists[n][f.wd]],
        m: () => ["minute", f.mi], mm: () => ["minute", two(f.mi)], s: () => ["second", f.s], ss: () => ["second", two(f.s)],
        f: () => ["fractionalSecond", String(f.ms).padStart(3, "0").slice(0, this.o.fractionalSecondDigits)],
        a: () => ["dayPeriod", lists[n].length === 2 ? lists[n][f.h < 12 ? 0 : 1] : lists[n][f.h]], z: () => ["timeZoneName", this.zoneName(f)],
      }[name]?.() ?? ["hour", name.length === 2 ? two(hours[name[0]]) : hours[name]];
      parts.push({ type, value: String(value) });
    }
    return parts;
  }
  formatRange(a, b) {
    const [from, to] = [this.format(a), this.format(b)];
    if (from === to) return from;
    throw new RangeError(`The built-in engine has no patterns of ranges: format both ends. ${NODE}`);
  }
  resolvedOptions() {
    const hour = this.o.hour || this.o.timeStyle;
    const cycle = this.cycle ?? { H: "h23", h: "h12", k: "h24", K: "h11" }[/\{([HhkK])\1?\}/.exec(this.shape)?.[1]];
    return { locale: this.l, calendar: "gregory", numberingSystem: "latn", timeZone: zone(), ...this.o, ...(hour ? { hourCycle: cycle, hour12: this.h12 } : {}) };
  }
}

// offset is how many minutes a zone is before UTC. Without the host's table of zones
// there are the fixed ones.
function offset(name, ms) {
  const m = /^(?:UTC|GMT|Z)?(?:([+-])(\d{1,2})(?::?(\d{2}))?)?$/.exec(name);
  if (m) return m[1] ? (m[1] === "-" ? -1 : 1) * (+m[2] * 60 + +(m[3] ?? 0)) : 0;
  if (/^(Etc\/(UTC|GMT|Zulu)|Universal)$/.test(name)) return 0;
  try {
    return host.op("intl.offset", name, ms);
  } catch {
    throw new RangeError(`Invalid time zone specified: ${name}`);
  }
}

// Collator sorts as the host's tables of the Unicode collation algorithm say.
class Collator extends Base {
  constructor(l, o) {
    const given = list(l)[0];
    super(given && !record(given.name) ? undefined : l, o);
    const own = this.o;
    if (given && !record(given.name)) hide(this, { tag: given.name });
    else hide(this, { tag: this.l });
    only(own, "usage", ["sort", "search"]);
    only(own, "sensitivity", ["base", "accent", "case", "variant"]);
    only(own, "caseFirst", ["false", "lower", "upper"]);
    only(own, "ignorePunctuation", [false]);
    only(own, "collation", ["default"]);
    const numeric = own.numeric ?? (this.keywords.kn === "" || this.keywords.kn === "true");
    const upper = own.caseFirst === "upper" || own.caseFirst === undefined && /^(da|mt)\b/.test(this.tag);
    const mode = `${own.sensitivity ?? "variant"}${numeric ? " numeric" : ""}${upper ? " upper" : ""}`;
    Object.defineProperty(this, "compare", { value: (a, b) => host.op("intl.compare", this.tag, mode, String(a), String(b)), configurable: true, writable: true });
  }
  resolvedOptions() { return { locale: this.tag, usage: "sort", sensitivity: "variant", ignorePunctuation: false, collation: "default", numeric: false, caseFirst: "false", ...this.o }; }
}

// inEnglish refuses other languages: plurals and phrases are made by the rules of English.
function inEnglish(made, name) {
  if (!made.l.startsWith("en")) throw new RangeError(`The built-in engine has Intl.${name} in English only, not in ${made.l}. ${NODE}`);
}

class PluralRules extends Base {
  constructor(l, o) {
    super(l, o);
    inEnglish(this, "PluralRules");
  }
  select(n) {
    if (this.o.type === "ordinal") {
      const t = n % 10, h = n % 100;
      return t === 1 && h !== 11 ? "one" : t === 2 && h !== 12 ? "two" : t === 3 && h !== 13 ? "few" : "other";
    }
    return n === 1 ? "one" : "other";
  }
}

class Segmenter extends Base {
  segment(text) {
    const kind = this.o.granularity ?? "grapheme";
    const pieces = kind === "grapheme" ? graphemes(text) : kind === "word" ? text.match(/[\p{L}\p{N}\p{M}_']+|\s+|[^\p{L}\p{N}\p{M}_'\s]/gu) ?? [] : text.match(/[^.!?]+[.!?]*\s*/g) ?? (text ? [text] : []);
    return {
      *[Symbol.iterator]() {
        let index = 0;
        for (const segment of pieces) {
          yield { segment, index, input: text, ...(kind === "word" ? { isWordLike: /[\p{L}\p{N}]/u.test(segment) } : {}) };
          index += segment.length;
        }
      },
      containing(i = 0) {
        for (const s of this) if (i < s.index + s.segment.length) return s;
        return undefined;
      },
    };
  }
}

class RelativeTimeFormat extends Base {
  constructor(l, o) {
    super(l, o);
    inEnglish(this, "RelativeTimeFormat");
  }
  format(n, unit) {
    unit = unit.replace(/s$/, "");
    if (this.o.numeric === "auto") {
      const named = { day: { "-1": "yesterday", 0: "today", 1: "tomorrow" } }[unit]?.[n] ?? (["year", "month", "week"].includes(unit) ? { "-1": `last ${unit}`, 0: `this ${unit}`, 1: `next ${unit}` }[n] : n === 0 && unit === "second" ? "now" : undefined);
      if (named) return named;
    }
    const a = Math.abs(n), text = `${new NumberFormat(this.l).format(a)} ${unit}${a === 1 ? "" : "s"}`;
    return n < 0 || Object.is(n, -0) ? `${text} ago` : `in ${text}`;
  }
}

class ListFormat extends Base {
  constructor(l, o) {
    super(l, o);
    inEnglish(this, "ListFormat");
  }
  format(list) {
    const l = [...list], word = this.o.type === "disjunction" ? "or" : this.o.type === "unit" ? "" : "and";
    if (l.length < 2) return l.join("");
    const last = word ? ` ${word} ` : ", ";
    return l.length === 2 ? l.join(last) : `${l.slice(0, -1).join(", ")},${last}${l[l.length - 1]}`.replace(/,, /, ", ");
  }
}
class DisplayNames {
  constructor() { throw new RangeError(`The built-in engine has no names of languages, regions and currencies (Intl.DisplayNames). ${NODE}`); }
}
class Locale extends Base {
  constructor(tag) {
    super(tag);
    [this.language, this.region] = this.l.split("-");
    this.baseName = this.l;
  }
  toString() { return this.l; }
}

// shown are the options of toLocaleString and its like: what is not said is shown in
// numbers.
function shown(o = {}, which) {
  const asks = (names) => names.some((k) => o[k] !== undefined);
  const date = ["weekday", "year", "month", "day", "dateStyle"], time = ["hour", "minute", "second", "dayPeriod", "fractionalSecondDigits", "timeStyle"];
  for (const [style, wrong] of [["timeStyle", "date"], ["dateStyle", "time"]]) {
    if (which === wrong && o[style] !== undefined) throw new TypeError(`Invalid option : ${style}`);
  }
  if (o.dateStyle !== undefined || o.timeStyle !== undefined) return o;
  if (asks(which === "date" ? date : which === "time" ? time : [...date, ...time])) return o;
  return { ...o, ...(which !== "time" ? { year: "numeric", month: "numeric", day: "numeric" } : {}), ...(which !== "date" ? { hour: "numeric", minute: "numeric", second: "numeric" } : {}) };
}

// As in other engines, these are called without new as well.
const callable = (C) => new Proxy(C, { apply: (_, __, args) => new C(...args) });
module.exports = {
  NumberFormat: callable(NumberFormat), DateTimeFormat: callable(DateTimeFormat), Collator: callable(Collator), PluralRules, Segmenter, RelativeTimeFormat, ListFormat, DisplayNames, Locale,
  shown, getCanonicalLocales: (l) => [].concat(l ?? []), supportedValuesOf: () => [],
};
