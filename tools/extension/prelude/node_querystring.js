// provides: node:querystring, querystring
"use strict";

const unescape = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return require("buffer").Buffer.from(text.replace(/%([0-9a-fA-F]{2})|[^\x00-\x7f]/g, (m, h) => h ? String.fromCharCode(parseInt(h, 16)) : unescapeBytes(m)), "latin1").toString();
  }
};
const unescapeBytes = (c) => require("buffer").Buffer.from(c).toString("latin1");
const escape = (text) => encodeURIComponent(typeof text === "string" ? text : String(text));
const plain = (v) => typeof v === "string" ? v : typeof v === "bigint" || typeof v === "boolean" || Number.isFinite(v) ? String(v) : "";

function stringify(o, sep = "&", eq = "=", { encodeURIComponent: enc = module.exports.escape } = {}) {
  if (o === null || typeof o !== "object") return "";
  return Object.entries(o).flatMap(([k, v]) => (Array.isArray(v) ? v : [v]).map((x) => `${enc(k)}${eq}${enc(plain(x))}`)).join(sep);
}

function parse(text, sep = "&", eq = "=", { decodeURIComponent: dec = module.exports.unescape, maxKeys = 1000 } = {}) {
  const out = Object.create(null);
  if (typeof text !== "string" || text === "") return out;
  let parts = text.split(sep);
  if (maxKeys > 0) parts = parts.slice(0, maxKeys);
  for (const part of parts) {
    if (part === "") continue;
    const i = part.indexOf(eq);
    const [k, v] = (i < 0 ? [part, ""] : [part.slice(0, i), part.slice(i + eq.length)]).map((x) => dec(x.replaceAll("+", " ")));
    if (k in out) out[k] = [].concat(out[k], v);
    else out[k] = v;
  }
  return out;
}

module.exports = { parse, decode: parse, stringify, encode: stringify, escape, unescape, unescapeBuffer: (t) => require("buffer").Buffer.from(unescape(t)) };
