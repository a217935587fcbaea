"use strict";

// Texts for people: dates, numbers and orders of sorting. Node must say the same.
module.exports = async (r, dir, out) => {
  const show = (what, f) => {
    let text;
    try {
      text = f();
      if (typeof text !== "string") text = JSON.stringify(text);
    } catch (e) {
      text = `throws ${e.name}`;
    }
    out(what, text.replace(/[\u202f\u2009]/g, " "));
  };
  const LOCALES = ["en-US", "en-CA", "en-GB", "en-AU", "de-DE", "fr-FR", "sv-SE", "es-ES", "it-IT", "pt-BR", "nl-NL", "pl-PL", "ru-RU", "ja-JP", "zh-CN", "ko-KR", "lt", "fr-CA"];
  const times = [Date.UTC(2026, 10, 27, 15, 4, 9, 7), Date.UTC(2026, 0, 5, 0, 30, 0), Date.UTC(1999, 6, 4, 12, 0, 59)];
  const DATES = [
    {}, { year: "numeric", month: "2-digit", day: "2-digit" }, { month: "short", day: "numeric" }, { month: "long", year: "numeric" }, { weekday: "short" }, { weekday: "long", day: "numeric" },
    { weekday: "long", year: "numeric", month: "long", day: "numeric" }, { year: "2-digit", month: "numeric", day: "numeric" }, { day: "2-digit" }, { month: "narrow" }, { month: "2-digit", year: "numeric" },
    { dateStyle: "full" }, { dateStyle: "long" }, { dateStyle: "medium" }, { dateStyle: "short" },
  ];
  const HOURS = [
    {}, { hour: "2-digit", minute: "2-digit" }, { hour: "numeric" }, { hour: "numeric", hour12: true }, { hour: "numeric", minute: "2-digit", hour12: false }, { hourCycle: "h23" }, { minute: "2-digit", second: "2-digit" },
    { timeStyle: "short" }, { timeStyle: "medium" }, { timeStyle: "long" }, { timeStyle: "short", hour12: true }, { second: "2-digit", fractionalSecondDigits: 3 }, { hour12: false },
  ];
  const BOTH = [
    {}, { dateStyle: "short", timeStyle: "short" }, { dateStyle: "medium", timeStyle: "medium" }, { dateStyle: "long", timeStyle: "short" }, { dateStyle: "full", timeStyle: "short" },
    { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }, { weekday: "short", hour: "numeric", minute: "numeric" }, { hour12: false }, { hourCycle: "h23" },
    { year: "numeric", month: "long", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" },
  ];
  for (const l of LOCALES) for (const t of times) {
    const d = new Date(t);
    for (const [f, list] of [["toLocaleDateString", DATES], ["toLocaleTimeString", HOURS], ["toLocaleString", BOTH]]) {
      // A time before its weekday has no pattern here.
      for (const o of list) if (!(/^(ja|lt)/.test(l) && f === "toLocaleString" && o.weekday)) show(`${f} ${l} ${JSON.stringify(o)} ${d.toISOString()}`, () => d[f](l, { timeZone: "UTC", ...o }));
    }
  }
  for (const timeZone of ["America/New_York", "Asia/Kolkata", "Europe/Berlin", "UTC", "Asia/Tokyo"]) for (const t of times) {
    show(`zone ${timeZone} ${t}`, () => new Date(t).toLocaleString("en-US", { timeZone, hour: "numeric", minute: "2-digit", timeZoneName: "short" }));
    for (const l of ["en-GB", "fr-FR", "de-DE"]) show(`offset ${l} ${timeZone} ${t}`, () => new Date(t).toLocaleTimeString(l, { timeZone, timeZoneName: "shortOffset" }));
    show(`long offset ${timeZone} ${t}`, () => new Date(t).toLocaleTimeString("en-US", { timeZone, timeZoneName: "longOffset" }));
    show(`zone of a date ${timeZone} ${t}`, () => new Date(t).toLocaleDateString("en-US", { timeZone, timeZoneName: "short" }));
    show(`date of ${timeZone} ${t}`, () => new Date(t).toLocaleDateString("en-CA", { timeZone }));
  }
  for (const o of [{ timeZone: "No/Where" }, { month: "wide" }, { hourCycle: "h99" }, { dateStyle: "short", day: "numeric" }, { dateStyle: "tall" }]) show(`wrong ${JSON.stringify(o)}`, () => new Intl.DateTimeFormat("en-US", o).format(0));
  show("a time's style in a date", () => new Date(0).toLocaleDateString("en-US", { timeStyle: "short" }));
  show("no locale", () => new Date(0).toLocaleDateString("not a tag"));
  show("no date", () => new Date(NaN).toLocaleDateString("de-DE"));
  show("parts", () => new Intl.DateTimeFormat("de-DE", { timeZone: "UTC", dateStyle: "long", timeStyle: "short" }).formatToParts(times[0]));
  show("parts of en", () => new Intl.DateTimeFormat("en-US", { timeZone: "UTC", hour: "numeric", hour12: true }).formatToParts(times[0]).map((p) => p.type));
  show("map", () => times.map(new Intl.DateTimeFormat("sv-SE", { timeZone: "UTC" }).format));

  for (const l of LOCALES) {
    for (const n of [0, -0.5, 5, 1234, 12345.678, -1234567.891, 1.005, 123456789012345678901n, NaN, -Infinity, 0.000001234]) {
      for (const o of [undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 }, { maximumFractionDigits: 0 }, { style: "percent" }, { style: "percent", maximumFractionDigits: 1 }, { style: "currency", currency: "EUR" },
        { style: "currency", currency: "USD" }, { style: "currency", currency: "JPY" }, { useGrouping: false }, { maximumSignificantDigits: 3 }, { minimumSignificantDigits: 4 }, { signDisplay: "always" }, { minimumIntegerDigits: 2 }]) {
          if (o?.style === "currency" && typeof n === "number" && !Number.isFinite(n)) continue;
        show(`number ${l} ${String(n)} ${JSON.stringify(o)}`, () => n.toLocaleString(l, o));
      }
    }
  }
  for (const n of [0, 7, 12, 999, 1000, 1234, 12345, 99950, 999999, 1234567, 1.5e9, 2e13]) {
    for (const o of [{}, { compactDisplay: "long" }, { maximumFractionDigits: 1 }]) show(`compact ${n} ${JSON.stringify(o)}`, () => new Intl.NumberFormat("en-US", { notation: "compact", ...o }).format(n));
  }
  for (const unit of ["byte", "kilobyte", "megabyte", "second", "minute", "hour", "day", "percent", "celsius"]) {
    for (const unitDisplay of ["short", "narrow", "long"]) for (const n of [1, 2.5]) show(`unit ${unit} ${unitDisplay} ${n}`, () => new Intl.NumberFormat("en-US", { style: "unit", unit, unitDisplay }).format(n));
  }
  show("lakh", () => (12345678.9).toLocaleString("en-IN"));
  show("parts of a number", () => new Intl.NumberFormat("de-DE", { style: "currency", currency: "EUR" }).formatToParts(-1234.5));
  for (const o of [{ style: "currency" }, { maximumFractionDigits: 101 }, { style: "currency", currency: "x" }, { minimumFractionDigits: 5, maximumFractionDigits: 2 }]) show(`wrong ${JSON.stringify(o)}`, () => (1).toLocaleString("en-US", o));

  const words = ["b", "a10", "A2", "ä", "a", "B", "Z", "z", "ö", "o", "a2", "résumé", "resume", "Resume", "co-op", "coop", "co op", "_x", "1", "10", "2", "", "ß", "ss", "file-1.txt", "file_1.txt", "file 1.txt", "é", "e", "ñ", "n", "å", "aa", "中", "日本", "!", "#a", "a b", "a.b", "ab"];
  const sorted = (f) => [...words].sort(f).join("|");
  show("sort", () => sorted((a, b) => a.localeCompare(b)));
  for (const l of ["en", "de", "sv", "da", "es"]) {
    for (const o of [undefined, { numeric: true }, { sensitivity: "base" }, { sensitivity: "accent" }, { sensitivity: "base", numeric: true }]) show(`sort ${l} ${JSON.stringify(o)}`, () => sorted((a, b) => a.localeCompare(b, l, o)));
  }
  for (const sensitivity of ["base", "accent", "case", "variant"]) {
    for (const [a, b] of [["a", "A"], ["a", "á"], ["a", "b"], ["A", "á"]]) show(`equal ${sensitivity} ${a} ${b}`, () => a.localeCompare(b, undefined, { sensitivity }));
  }
  for (const [a, b] of [["v1.10", "v1.9"], ["1", "01"], ["a1b2", "a1b10"], ["10", "9a"], ["1.5", "1.25"], ["x100", "x99"]]) show(`numeric ${a} ${b}`, () => new Intl.Collator("en", { numeric: true }).compare(a, b));
};
