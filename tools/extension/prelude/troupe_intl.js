// provides: troupe:intl
"use strict";

// What extensions write for people: dates, numbers, sorted names, characters. The forms
// are those of en-US; another locale gives them, too, but for what separates numbers.

const { graphemes } = require("troupe:width");
const locale = (l) => [].concat(l ?? "en-US")[0] ?? "en-US";
class Base {
  constructor(locales, options) {
    this.l = locale(locales);
    this.o = options ?? {};
    Object.defineProperties(this, { l: { enumerable: false }, o: { enumerable: false } });
  }
  static supportedLocalesOf(l) { return [].concat(l ?? []); }
  resolvedOptions() { return { locale: this.l, timeZone: this.o.timeZone ?? zone(), calendar: "gregory", numberingSystem: "latn", ...this.o }; }
}
const zone = () => require("process").env.TZ || "UTC";

const comma = ["de", "es", "it", "pt", "nl", "id", "tr", "da"], space = ["fr", "ru", "pl", "sv", "nb", "no", "fi", "cs", "uk"];
function separators(l) {
  const lang = l.slice(0, 2);
  return comma.includes(lang) ? [".", ","] : space.includes(lang) ? ["\u202f", ","] : [",", "."];
}

class NumberFormat extends Base {
  format(n) {
    const o = this.o, [group, point] = separators(this.l);
    if (typeof n === "bigint") n = Number(n);
    n = Number(n);
    if (Number.isNaN(n)) return "NaN";
    const money = o.style === "currency";
    let max = o.maximumFractionDigits ?? Math.max(o.minimumFractionDigits ?? 0, money ? 2 : o.style === "percent" ? 0 : 3), suffix = "";
    const min = o.minimumFractionDigits ?? (money && o.maximumFractionDigits === undefined ? 2 : 0);
    if (o.style === "percent") n *= 100, suffix = "%";
    if (o.notation === "compact") {
      const step = Math.min(4, Math.floor(Math.log10(Math.max(1, Math.abs(n))) / 3 + 1e-9));
      const units = o.compactDisplay === "long" ? ["", " thousand", " million", " billion", " trillion"] : ["", "K", "M", "B", "T"];
      n /= 1000 ** step;
      suffix = units[step] + suffix;
      if (o.maximumFractionDigits === undefined) max = Math.abs(n) < 100 && n % 1 ? (Math.abs(n) < 10 ? 1 : 0) : 0;
    }
    if (o.style === "unit") suffix += ` ${({ byte: "byte", kilobyte: "kB", megabyte: "MB", gigabyte: "GB", second: "sec", minute: "min", hour: "hr", day: "day", celsius: "°C", percent: "%" })[o.unit] ?? o.unit}`;
    if (!Number.isFinite(n)) return (n < 0 ? "-∞" : "∞") + suffix;
    let text = Math.abs(n).toFixed(Math.min(max, 20));
    if (o.maximumSignificantDigits) text = String(Number(Math.abs(n).toPrecision(o.maximumSignificantDigits)));
    let [whole, part = ""] = text.split(".");
    while (part.length > min && part.endsWith("0") && !o.maximumSignificantDigits) part = part.slice(0, -1);
    whole = whole.padStart(o.minimumIntegerDigits ?? 1, "0");
    if (o.useGrouping !== false) whole = whole.replace(/\B(?=(\d{3})+(?!\d))/g, group);
    const symbol = money ? ({ USD: "$", EUR: "€", GBP: "£", JPY: "¥" })[o.currency] ?? `${o.currency}\u00a0` : "";
    const minus = n < 0 && Number(text) !== 0 ? "-" : o.signDisplay === "always" || o.signDisplay === "exceptZero" && n > 0 ? "+" : "";
    return minus + symbol + whole + (part ? point + part : "") + suffix;
  }
  formatToParts(n) { return [{ type: "literal", value: this.format(n) }]; }
}

const months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

class DateTimeFormat extends Base {
  constructor(locales, options) {
    super(locales, options);
    let o = { ...this.o };
    const styles = { full: { weekday: "long", year: "numeric", month: "long", day: "numeric" }, long: { year: "numeric", month: "long", day: "numeric" }, medium: { year: "numeric", month: "short", day: "numeric" }, short: { year: "2-digit", month: "numeric", day: "numeric" } };
    const times = { full: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "short" }, long: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "short" }, medium: { hour: "numeric", minute: "2-digit", second: "2-digit" }, short: { hour: "numeric", minute: "2-digit" } };
    if (o.dateStyle || o.timeStyle) o = { ...o, ...styles[o.dateStyle], ...times[o.timeStyle] };
    else if (!["weekday", "year", "month", "day", "hour", "minute", "second", "dayPeriod", "fractionalSecondDigits"].some((k) => o[k])) o = { ...o, year: "numeric", month: "numeric", day: "numeric" };
    Object.defineProperty(this, "o", { value: o, enumerable: false });
  }
  // fields are the parts of a time where it is read: the host knows the zones.
  fields(t) {
    const d = t === undefined ? new Date() : new Date(t);
    if (Number.isNaN(+d)) throw new RangeError("Invalid time value");
    const local = !this.o.timeZone;
    const shift = local ? -d.getTimezoneOffset() : offset(this.o.timeZone, +d);
    const s = new Date(+d + shift * 60000);
    return { y: s.getUTCFullYear(), mo: s.getUTCMonth(), d: s.getUTCDate(), wd: s.getUTCDay(), h: s.getUTCHours(), mi: s.getUTCMinutes(), s: s.getUTCSeconds(), ms: s.getUTCMilliseconds(), shift };
  }
  formatToParts(t) {
    const o = this.o, f = this.fields(t), parts = [], two = (n) => String(n).padStart(2, "0");
    const add = (type, value) => parts.push({ type, value: String(value) }), lit = (value) => parts.push({ type: "literal", value });
    const num = (n, style) => style === "2-digit" ? two(n % 100) : n;
    const word = o.month === "long" || o.month === "short" || o.month === "narrow";
    if (o.weekday) add("weekday", o.weekday === "long" ? days[f.wd] : days[f.wd].slice(0, o.weekday === "narrow" ? 1 : 3));
    if (o.month) {
      if (o.weekday) lit(", ");
      add("month", word ? (o.month === "long" ? months[f.mo] : months[f.mo].slice(0, o.month === "narrow" ? 1 : 3)) : num(f.mo + 1, o.month));
    }
    if (o.day) {
      if (o.month) lit(word ? " " : "/");
      else if (o.weekday) lit(" ");
      add("day", num(f.d, o.day));
    }
    if (o.year) {
      if (parts.length) lit(word ? (o.day ? ", " : " ") : "/");
      add("year", num(f.y, o.year));
    }
    if (o.hour || o.minute || o.second) {
      if (parts.length) lit(o.month === "long" ? " at " : ", ");
      const h12 = o.hour12 ?? (o.hourCycle ? /12|11/.test(o.hourCycle) : !/^(de|fr|es|it|nl|pl|ru|sv|en-GB)/.test(this.l));
      const pieces = [];
      if (o.hour) pieces.push(["hour", h12 ? (o.hour === "2-digit" ? two(f.h % 12 || 12) : f.h % 12 || 12) : o.minute || o.hour === "2-digit" ? two(f.h) : f.h]);
      if (o.minute) pieces.push(["minute", o.hour || o.second || o.minute === "2-digit" ? two(f.mi) : f.mi]);
      if (o.second) pieces.push(["second", o.minute || o.second === "2-digit" ? two(f.s) : f.s]);
      pieces.forEach(([k, v], i) => { if (i) lit(":"); add(k, v); });
      if (o.fractionalSecondDigits) lit("."), add("fractionalSecond", String(f.ms).padStart(3, "0").slice(0, o.fractionalSecondDigits));
      if (o.hour && h12) lit(" "), add("dayPeriod", f.h < 12 ? "AM" : "PM");
    }
    if (o.timeZoneName) {
      const a = Math.abs(f.shift);
      lit(" ");
      add("timeZoneName", f.shift === 0 ? "UTC" : `GMT${f.shift < 0 ? "-" : "+"}${Math.floor(a / 60)}${a % 60 ? ":" + two(a % 60) : ""}`);
    }
    return parts;
  }
  format(t) { return this.formatToParts(t).map((p) => p.value).join(""); }
  formatRange(a, b) { return `${this.format(a)} – ${this.format(b)}`; }
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

class Collator extends Base {
  constructor(l, o) {
    super(l, o);
    this.compare = this.compare.bind(this);
  }
  compare(a, b) {
    const o = this.o;
    a = String(a);
    b = String(b);
    const base = (s) => s.normalize("NFD").replace(/\p{Mn}/gu, "").toLowerCase();
    const cmp = (x, y) => x < y ? -1 : x > y ? 1 : 0;
    if (o.numeric) {
      const xs = base(a).split(/(\d+)/), ys = base(b).split(/(\d+)/);
      for (let i = 0; i < Math.min(xs.length, ys.length); i++) {
        const c = i % 2 ? +xs[i] - +ys[i] : cmp(xs[i], ys[i]);
        if (c) return Math.sign(c);
      }
      if (xs.length !== ys.length) return Math.sign(xs.length - ys.length);
    }
    return cmp(base(a), base(b)) || (o.sensitivity === "base" ? 0 : cmp(a.normalize("NFD").toLowerCase(), b.normalize("NFD").toLowerCase()) || (o.sensitivity === "accent" ? 0 : -cmp(a, b)));
  }
}

class PluralRules extends Base {
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
  format(list) {
    const l = [...list], word = this.o.type === "disjunction" ? "or" : this.o.type === "unit" ? "" : "and";
    if (l.length < 2) return l.join("");
    const last = word ? ` ${word} ` : ", ";
    return l.length === 2 ? l.join(last) : `${l.slice(0, -1).join(", ")},${last}${l[l.length - 1]}`.replace(/,, /, ", ");
  }
}
class DisplayNames extends Base { of(code) { return code; } }
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
  if (asks(which === "date" ? date : which === "time" ? time : [...date, ...time])) return o;
  return { ...o, ...(which !== "time" ? { year: "numeric", month: "numeric", day: "numeric" } : {}), ...(which !== "date" ? { hour: "numeric", minute: "2-digit", second: "2-digit" } : {}) };
}

// As in other engines, these are called without new as well.
const callable = (C) => new Proxy(C, { apply: (_, __, args) => new C(...args) });
module.exports = {
  NumberFormat: callable(NumberFormat), DateTimeFormat: callable(DateTimeFormat), Collator: callable(Collator), PluralRules, Segmenter, RelativeTimeFormat, ListFormat, DisplayNames, Locale,
  shown, getCanonicalLocales: (l) => [].concat(l ?? []), supportedValuesOf: () => [],
};
