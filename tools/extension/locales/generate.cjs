// Writes locales.txt from the Unicode CLDR data of the Node.js that runs it:
//
//	node generate.cjs > locales.txt
//
// A line is a locale, a tab, and its record as JSON. A pattern is text with fields in braces: {y} {yy} years,
// {M} {MM} {d} {dd} {m} {mm} {s} {ss} numbers, {L0} {E0} {a0} names from lists, {H} {h} {k} {K} hours of the four
// hour cycles. A combination that cannot be written as a pattern is null, and the formatter refuses it.
const locales = ("en-US en-GB en-CA en-AU en-IN en-NZ en-IE en-ZA de-DE de-AT de-CH fr-FR fr-CA fr-CH es-ES es-MX it-IT pt-BR pt-PT nl-NL " +
  "sv-SE da-DK nb-NO fi-FI pl-PL cs-CZ hu-HU ro-RO el-GR lt-LT id-ID tr-TR ru-RU uk-UA ja-JP zh-CN zh-TW ko-KR").split(" ");

const day = (month, date, hour = 9, minute = 7, second = 8) => new Date(Date.UTC(2009, month, date, hour, minute, second));
const months = [...Array(12).keys()], hours = [...Array(24).keys()];

function record(locale) {
  const lists = [], patterns = [];
  const intern = (list, v) => {
    const key = JSON.stringify(v), i = list.findIndex((x) => JSON.stringify(x) === key);
    return i < 0 ? list.push(v) - 1 : i;
  };
  const format = (o) => new Intl.DateTimeFormat(locale, { timeZone: "UTC", ...o });
  const value = (f, t, type) => f.formatToParts(t).find((p) => p.type === type)?.value;
  // pattern derives the pattern of a formatter from its parts.
  function pattern(o) {
    const f = format(o), parts = f.formatToParts(day(0, 5));
    let text = "";
    for (const p of parts) {
      switch (p.type) {
        case "literal": text += p.value; break;
        case "year": text += p.value === "09" ? "{yy}" : p.value === "2009" ? "{y}" : "?"; break;
        case "day": text += p.value === "05" ? "{dd}" : p.value === "5" ? "{d}" : "?"; break;
        case "minute": text += p.value === "07" ? "{mm}" : "{m}"; break;
        case "second": text += p.value === "08" ? "{ss}" : "{s}"; break;
        case "month": text += p.value === "01" ? "{MM}" : p.value === "1" ? "{M}" : `{L${intern(lists, months.map((m) => value(f, day(m, 5), "month")))}}`; break;
        case "weekday": text += `{E${intern(lists, [4, 5, 6, 7, 8, 9, 10].map((d) => value(f, day(0, d), "weekday")))}}`; break;
        case "dayPeriod": {
          const all = hours.map((h) => value(f, day(0, 5, h), "dayPeriod"));
          const halves = all.every((v, h) => v === all[h < 12 ? 0 : 12]);
          text += `{a${intern(lists, halves ? [all[0], all[12]] : all)}}`;
          break;
        }
        case "hour": {
          const [zero, noon, later] = [0, 12, 15].map((h) => Number(value(f, day(0, 5, h), "hour")));
          const cycle = later === 15 ? (zero === 24 ? "k" : "H") : noon === 0 ? "K" : "h";
          text += `{${p.value === "09" ? cycle + cycle : cycle}}`;
          break;
        }
        case "timeZoneName": text += "{z}"; break;
        default: text += "?";
      }
    }
    return text.includes("?") ? null : text;
  }
  const use = (p) => intern(patterns, p);
  // joint is the text between a date and the time after it. Where the date has another form beside a time, it is "="
  // and that form with the text.
  function joint(date, o, time) {
    const all = pattern({ ...o, ...time }), at = all === null || date === null ? -1 : all.search(/\{[HhkKa]/);
    if (at < 0 || /\{[yMLdE]/.test(all.slice(at))) return null;
    const before = all.slice(0, at);
    return before.startsWith(date) ? before.slice(date.length) : "=" + before;
  }
  const only = (o) => Object.fromEntries(Object.entries(o).filter(([, v]) => v));
  const date = [], joins = [];
  for (const weekday of ["", "long", "short", "narrow"]) {
    for (const year of ["", "numeric", "2-digit"]) {
      for (const month of ["", "numeric", "2-digit", "long", "short", "narrow"]) {
        for (const d of ["", "numeric", "2-digit"]) {
          const o = only({ weekday, year, month, day: d });
          const p = Object.keys(o).length ? pattern(o) : null;
          date.push(use(p));
          joins.push(use(p && joint(p, o, { hour: "2-digit", minute: "2-digit" })));
        }
      }
    }
  }
  const time = [];
  for (const hour12 of [true, false]) {
    for (const hour of ["", "numeric", "2-digit"]) {
      for (const minute of ["", "numeric", "2-digit"]) {
        for (const second of ["", "numeric", "2-digit"]) {
          const o = only({ hour, minute, second });
          time.push(use(Object.keys(o).length ? pattern({ ...o, ...(hour ? { hour12 } : {}) }) : null));
        }
      }
    }
  }
  const styles = ["full", "long", "medium", "short"];
  const dateStyle = styles.map((s) => use(pattern({ dateStyle: s })));
  const styleJoins = styles.map((s) => use(joint(pattern({ dateStyle: s }), { dateStyle: s }, { timeStyle: "short" })));
  const timeStyle = [true, false].map((hour12) => ["medium", "short", "long"].map((s) => use(pattern({ timeStyle: s, hour12 }))));
  // zoned is what surrounds a date or time that a zone stands beside, by the style of its name.
  const zoned = (o) => ["short", "shortOffset", "longOffset"].map((timeZoneName) => {
    const f = format({ ...o, timeZone: "Asia/Kathmandu", timeZoneName });
    const parts = f.formatToParts(day(0, 5)).map((p) => p.type === "timeZoneName" ? "{z}" : p.value).join("");
    const text = parts.replace(format({ ...o, timeZone: "Asia/Kathmandu" }).format(day(0, 5)), "{t}");
    return text.includes("{t}") ? text : null;
  });
  const numeric = zoned({ hour: "numeric", minute: "numeric", second: "numeric", hour12: false });
  const zoneTime = zoned({ hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }).map((p, i) => p === numeric[i] ? p : null);
  const zoneDate = zoned({ year: "numeric", month: "2-digit", day: "2-digit" });
  const gmt = value(format({ timeZone: "Asia/Kathmandu", hour: "numeric", timeZoneName: "shortOffset" }), day(0, 5), "timeZoneName");
  const zones = {};
  if (locale === "en-US") {
    for (const timeZone of [...Intl.supportedValuesOf("timeZone"), "US/Eastern", "US/Central", "US/Mountain", "US/Pacific", "US/Alaska", "US/Hawaii", "US/Arizona"]) {
      const f = format({ timeZone, hour: "numeric", timeZoneName: "short" });
      const names = [0, 6].map((m) => value(f, new Date(Date.UTC(2026, m, 5)), "timeZoneName"));
      if (names.some((n) => !/^(GMT|UTC)/.test(n))) (zones[names.sort().join("/")] ??= []).push(timeZone);
    }
  }
  const number = (n, o) => new Intl.NumberFormat(locale, o).formatToParts(n);
  const parts = number(1234567.5), part = (list, type) => list.find((p) => p.type === type)?.value;
  const symbols = {};
  for (const currency of "USD EUR GBP JPY CNY INR KRW BRL CAD AUD CHF SEK NOK DKK PLN CZK RUB MXN TRY NZD".split(" ")) {
    symbols[currency] = part(number(5, { style: "currency", currency }), "currency");
  }
  const shape = (list) => list.map((p) => ({ currency: "¤", percentSign: "%", minusSign: "-", literal: p.value }[p.type] ?? (p.type === "integer" ? "#" : ""))).join("").replace(/#+/g, "#");
  return {
    lists, patterns, date, joins, time, dateStyle, styleJoins, timeStyle, h12: format({ hour: "numeric" }).resolvedOptions().hour12,
    zones, zoneTime, zoneDate, gmt: gmt.replace(/[+\u2212-].*/, ""),
    group: part(parts, "group"), point: part(parts, "decimal"), nan: part(number(NaN), "nan"), minus: part(number(-1), "minusSign"), lakh: part(parts, "integer") === "12",
    groups4: number(1234).some((p) => p.type === "group"), groups4c: number(1234, { style: "currency", currency: "EUR" }).some((p) => p.type === "group"),
    groupC: part(number(1234567, { style: "currency", currency: "EUR" }), "group"), pointC: part(number(1.5, { style: "currency", currency: "EUR" }), "decimal"),
    percent: shape(number(0.5, { style: "percent" })), money: shape(number(5, { style: "currency", currency: "EUR" })), debt: shape(number(-5, { style: "currency", currency: "EUR" })),
    code: shape(number(5, { style: "currency", currency: "XTS" })), symbols,
  };
}
for (const l of locales) process.stdout.write(`${l}\t${JSON.stringify(record(l))}\n`);
