// provides: node:url, url
"use strict";

// URL by the standard, as far as addresses of files and services go: special schemes,
// hosts of ASCII and of the international form, IPv4, IPv6, paths with dots.

const special = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21", "file:": "" };

function invalid(input, base) {
  const e = new TypeError("Invalid URL");
  e.code = "ERR_INVALID_URL";
  e.input = input;
  if (base !== undefined) e.base = String(base);
  return e;
}

const hex = "0123456789ABCDEF";
function percent(text, keep, from = 0x20) {
  let out = "";
  for (const ch of text) {
    const c = ch.codePointAt(0);
    if (c > from && c < 0x7f && !keep.includes(ch)) {
      out += ch;
      continue;
    }
    for (const b of new TextEncoder().encode(ch)) out += "%" + hex[b >> 4] + hex[b & 15];
  }
  return out;
}
const inFragment = ' "<>`', inQuery = ' "#<>', inSpecialQuery = inQuery + "'", inPath = inQuery + "?`{}", inUser = inPath + "/:;=@[\\]|";

const decoded = (text) => {
  const bytes = [];
  const raw = new TextEncoder().encode(text);
  for (let i = 0; i < raw.length; i++) {
    const h = raw[i] === 37 ? parseInt(String.fromCharCode(raw[i + 1], raw[i + 2]), 16) : NaN;
    if (raw[i] === 37 && /^[0-9a-fA-F]{2}$/.test(String.fromCharCode(raw[i + 1] ?? 0, raw[i + 2] ?? 0))) {
      bytes.push(h);
      i += 2;
    } else {
      bytes.push(raw[i]);
    }
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
};

function ipv4(host) {
  const parts = host.split(".");
  if (parts[parts.length - 1] === "" && parts.length > 1) parts.pop();
  const last = parts[parts.length - 1];
  if (!/^(\d+|0[xX][0-9a-fA-F]*)$/.test(last)) return undefined;
  if (parts.length > 4) return null;
  const nums = parts.map((p) => p === "" ? NaN : /^0x[0-9a-f]*$/i.test(p) ? parseInt(p.slice(2) || "0", 16) : /^0[0-7]*$/.test(p) ? parseInt(p, 8) : /^\d+$/.test(p) && p[0] !== "0" ? +p : NaN);
  if (nums.some(Number.isNaN) || nums.slice(0, -1).some((n) => n > 255) || nums[nums.length - 1] >= 256 ** (5 - nums.length)) return null;
  let n = nums.pop();
  nums.forEach((v, i) => { n += v * 256 ** (3 - i); });
  return [24, 16, 8, 0].map((s) => Math.floor(n / 2 ** s) % 256).join(".");
}

function ipv6(text) {
  const v4 = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(text);
  if (v4) {
    if (v4.slice(2).some((n) => +n > 255)) return null;
    text = v4[1] + (+v4[2] * 256 + +v4[3]).toString(16) + ":" + (+v4[4] * 256 + +v4[5]).toString(16);
  }
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const words = halves.map((h) => h === "" ? [] : h.split(":"));
  if (words.flat().some((w) => !/^[0-9a-fA-F]{1,4}$/.test(w))) return null;
  const n = words.flat().length;
  if (halves.length === 1 ? n !== 8 : n > 7) return null;
  const all = (halves.length === 1 ? words[0] : [...words[0], ...Array(8 - n).fill("0"), ...words[1]]).map((w) => parseInt(w, 16));
  let best = [-1, 1];
  for (let i = 0; i < 8; i++) {
    let j = i;
    while (j < 8 && all[j] === 0) j++;
    if (j - i > best[1]) best = [i, j - i];
  }
  const show = (list) => list.map((w) => w.toString(16)).join(":");
  return best[0] < 0 ? show(all) : show(all.slice(0, best[0])) + "::" + show(all.slice(best[0] + best[1]));
}

// domainToASCII writes names of other letters in the form that servers know.
function domainToASCII(name) {
  return name.normalize("NFKC").toLowerCase().replace(/[\u3002\uff0e\uff61]/g, ".").split(".").map((label) => /^[\x00-\x7f]*$/.test(label) ? label : "xn--" + require("punycode").encode(label)).join(".");
}

function hostOf(text, isSpecial) {
  if (text[0] === "[") {
    const v6 = text.endsWith("]") ? ipv6(text.slice(1, -1)) : null;
    return v6 === null ? null : `[${v6}]`;
  }
  if (!isSpecial) return /[\0\t\n\r #/:<>?@[\\\]^|]/.test(text) ? null : percent(text, "");
  let ascii;
  try {
    ascii = domainToASCII(decoded(text));
  } catch {
    return null;
  }
  if (ascii === "" || /[\0-\x20"#%/:<>?@[\\\]^`{|}\x7f]/.test(ascii)) return null;
  const v4 = ipv4(ascii);
  return v4 === null ? null : v4 ?? ascii;
}

function pathOf(text, isSpecial, isFile) {
  const parts = text.split(isSpecial ? /[/\\]/ : "/"), out = [];
  parts.forEach((part, i) => {
    const last = i === parts.length - 1;
    if (/^(\.|%2e)$/i.test(part)) {
      if (last) out.push("");
    } else if (/^(\.|%2e)(\.|%2e)$/i.test(part)) {
      if (out.length && !(isFile && out.length === 1 && /^[a-zA-Z]:$/.test(out[0]))) out.pop();
      if (last) out.push("");
    } else {
      out.push(isFile && out.length === 0 && /^[a-zA-Z][:|]$/.test(part) ? part[0] + ":" : percent(part, inPath));
    }
  });
  return out;
}

// parse reads an address into its parts, on top of those of a base.
function parse(input, base) {
  input = input.replace(/^[\0-\x20]+|[\0-\x20]+$/g, "").replace(/[\t\n\r]/g, "");
  const u = { protocol: "", username: "", password: "", host: null, port: "", path: [], opaque: null, query: null, fragment: null };
  const hash = input.indexOf("#");
  if (hash >= 0) {
    u.fragment = percent(input.slice(hash + 1), inFragment);
    input = input.slice(0, hash);
  }
  const scheme = /^([a-zA-Z][a-zA-Z0-9+.-]*):/.exec(input);
  let rest = input;
  if (scheme) {
    u.protocol = scheme[1].toLowerCase() + ":";
    rest = input.slice(scheme[0].length);
    if (base && u.protocol === base.protocol && u.protocol in special && u.protocol !== "file:" && !/^[/\\]/.test(rest)) return relative(u, rest, base); // http:path
  } else {
    if (!base) return null;
    if (base.opaque !== null) {
      if (input !== "" || u.fragment === null) return null;
      return { ...base, fragment: u.fragment };
    }
    u.protocol = base.protocol;
    return relative(u, rest, base);
  }
  if (base && u.protocol === "file:" && base.protocol === "file:" && !/^[/\\]{2}/.test(rest)) return relative(u, rest, base);
  return absolute(u, rest, false);
}

function split(u, rest) {
  const q = rest.indexOf("?");
  if (q < 0) return rest;
  u.query = percent(rest.slice(q + 1), u.protocol in special ? inSpecialQuery : inQuery);
  return rest.slice(0, q);
}

function absolute(u, rest) {
  const isSpecial = u.protocol in special, isFile = u.protocol === "file:";
  if (isSpecial && !isFile) {
    rest = "//" + rest.replace(/^[/\\]*/, "");
  } else if (isFile) {
    rest = rest.replace(/^[/\\]{0,2}/, (m) => "/".repeat(m.length));
    if (!rest.startsWith("//")) rest = "//" + (rest.startsWith("/") ? "" : "/") + rest;
  }
  rest = split(u, rest);
  if (!rest.startsWith("//")) {
    if (rest.startsWith("/")) {
      u.path = pathOf(rest.slice(1), false, false);
      return u;
    }
    u.opaque = percent(rest, "", 0x1f);
    return u;
  }
  const end = rest.slice(2).search(isSpecial ? /[/\\]/ : /\//), authority = end < 0 ? rest.slice(2) : rest.slice(2, 2 + end);
  let path = end < 0 ? "" : rest.slice(2 + end);
  if (isFile) {
    if (/^[a-zA-Z][:|]$/.test(authority)) {
      u.host = "";
      path = "/" + authority + path;
    } else {
      u.host = authority === "" ? "" : hostOf(authority, true);
      if (u.host === null) return null;
      if (u.host === "localhost") u.host = "";
    }
    u.path = path === "" ? [""] : pathOf(path.slice(1), true, true);
    return u;
  }
  const at = authority.lastIndexOf("@");
  if (at >= 0) {
    const [, user, , password] = /^([^:]*)(:([\s\S]*))?$/.exec(authority.slice(0, at));
    u.username = percent(user, inUser);
    u.password = percent(password ?? "", inUser);
  }
  const m = /^(\[[^\]]*\]|[^:]*)(?::(\d*))?$/.exec(authority.slice(at + 1));
  if (!m) return null;
  u.host = m[1] === "" && !isSpecial ? "" : hostOf(m[1], isSpecial);
  if (u.host === null) return null;
  if (m[2]) {
    if (+m[2] > 65535) return null;
    u.port = String(+m[2]) === special[u.protocol] ? "" : String(+m[2]);
  }
  u.path = path === "" ? (isSpecial ? [""] : []) : pathOf(path.slice(1), isSpecial, false);
  return u;
}

function relative(u, rest, base) {
  const isSpecial = u.protocol in special, isFile = u.protocol === "file:";
  if (isSpecial ? /^[/\\]{2}/.test(rest) : rest.startsWith("//")) return absolute(u, rest);
  Object.assign(u, { username: base.username, password: base.password, host: base.host, port: base.port });
  const body = split(u, rest);
  if (body === "") {
    u.path = [...base.path];
    if (u.query === null) u.query = base.query;
    return u;
  }
  const drive = isFile && base.path.length && /^[a-zA-Z]:$/.test(base.path[0]) && !/^[/\\]?[a-zA-Z][:|]([/\\]|$)/.test(body) ? base.path[0] + "/" : "";
  if (isSpecial ? /^[/\\]/.test(body) : body[0] === "/") u.path = pathOf(drive + body.slice(1), isSpecial, isFile);
  else u.path = pathOf([...base.path.slice(0, -1), body].join("/"), isSpecial, isFile);
  return u;
}

class URLSearchParams {
  #list = [];
  #url = null;
  constructor(init = "", url = null) {
    this.#url = url;
    if (typeof init === "string" || init === null || init === undefined || typeof init !== "object" && typeof init !== "function") {
      this.#read(init === undefined ? "" : String(init));
    } else if (typeof init[Symbol.iterator] === "function") {
      for (const pair of init) {
        const p = [...pair];
        if (p.length !== 2) throw Object.assign(new TypeError("Each query pair must be an iterable [name, value] tuple"), { code: "ERR_INVALID_TUPLE" });
        this.#list.push(p.map(String));
      }
    } else {
      for (const k of Reflect.ownKeys(init)) if (Object.prototype.propertyIsEnumerable.call(init, k)) this.#list.push([String(k), String(init[k])]);
    }
  }
  #read(text) {
    if (text[0] === "?") text = text.slice(1);
    this.#list = text.split("&").filter((p) => p !== "").map((p) => {
      const i = p.indexOf("=");
      return (i < 0 ? [p, ""] : [p.slice(0, i), p.slice(i + 1)]).map((x) => decoded(x.replaceAll("+", " ")));
    });
  }
  static reset(p, text) { p.#read(text); }
  #changed() { this.#url?.(this.toString()); }
  get size() { return this.#list.length; }
  append(k, v) { this.#list.push([String(k), String(v)]); this.#changed(); }
  delete(k, v) { this.#list = this.#list.filter(([a, b]) => a !== String(k) || v !== undefined && b !== String(v)); this.#changed(); }
  get(k) { return this.#list.find(([a]) => a === String(k))?.[1] ?? null; }
  getAll(k) { return this.#list.filter(([a]) => a === String(k)).map(([, v]) => v); }
  has(k, v) { return this.#list.some(([a, b]) => a === String(k) && (v === undefined || b === String(v))); }
  set(k, v) {
    k = String(k);
    const i = this.#list.findIndex(([a]) => a === k);
    if (i < 0) this.#list.push([k, String(v)]);
    else this.#list = this.#list.filter(([a], j) => a !== k || j === i).map((p) => p[0] === k ? [k, String(v)] : p);
    this.#changed();
  }
  sort() { this.#list.sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0); this.#changed(); }
  forEach(f, self) { for (const [k, v] of this.#list) f.call(self, v, k, this); }
  *entries() { yield* this.#list.map((p) => [...p]); }
  *keys() { for (const [k] of this.#list) yield k; }
  *values() { for (const [, v] of this.#list) yield v; }
  [Symbol.iterator]() { return this.entries(); }
  toString() {
    const enc = (s) => encodeURIComponent(s.toWellFormed ? s.toWellFormed() : s).replace(/%20/g, "+").replace(/[!'()~]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase());
    return this.#list.map(([k, v]) => `${enc(k)}=${enc(v)}`).join("&");
  }
  [Symbol.for("nodejs.util.inspect.custom")](_, o, inspect) {
    return this.#list.length ? `URLSearchParams { ${this.#list.map(([k, v]) => `${inspect(k)} => ${inspect(v)}`).join(", ")} }` : "URLSearchParams {}";
  }
  get [Symbol.toStringTag]() { return "URLSearchParams"; }
}
const resetParams = URLSearchParams.reset;
delete URLSearchParams.reset;

class URL {
  #u;
  #params = null;
  constructor(input, base) {
    input = String(input);
    let b;
    if (base !== undefined) {
      b = base instanceof URL ? base.#u : parse(String(base));
      if (!b) throw invalid(input, base);
    }
    const u = parse(input, b);
    if (!u) throw invalid(input, base);
    this.#u = u;
  }
  static canParse(input, base) {
    try {
      return !!new URL(input, base);
    } catch {
      return false;
    }
  }
  static parse(input, base) {
    try {
      return new URL(input, base);
    } catch {
      return null;
    }
  }
  static createObjectURL() { throw new Error("URL.createObjectURL is not available here"); }
  static revokeObjectURL() {}

  get href() {
    const u = this.#u;
    let out = u.protocol;
    if (u.host !== null) {
      out += "//";
      if (u.username || u.password) out += u.username + (u.password ? ":" + u.password : "") + "@";
      out += this.host;
    } else if (u.opaque === null && u.path.length > 1 && u.path[0] === "") {
      out += "/.";
    }
    return out + this.pathname + (u.query !== null ? "?" + u.query : "") + (u.fragment !== null ? "#" + u.fragment : "");
  }
  set href(v) {
    const u = parse(String(v));
    if (!u) throw invalid(String(v));
    this.#u = u;
    this.#sync();
  }
  get origin() {
    const p = this.#u.protocol;
    if (p === "blob:") {
      const inner = URL.parse(this.pathname);
      return inner && /^https?:$/.test(inner.protocol) ? inner.origin : "null";
    }
    return p in special && p !== "file:" ? `${p}//${this.host}` : "null";
  }
  get protocol() { return this.#u.protocol; }
  set protocol(v) {
    const m = /^([a-zA-Z][a-zA-Z0-9+.-]*)/.exec(String(v));
    const p = m && m[1].toLowerCase() + ":";
    if (!p || (p in special) !== (this.#u.protocol in special)) return;
    this.#u.protocol = p;
    if (this.#u.port === special[p]) this.#u.port = "";
  }
  get username() { return this.#u.username; }
  set username(v) { if (this.#u.host) this.#u.username = percent(String(v), inUser); }
  get password() { return this.#u.password; }
  set password(v) { if (this.#u.host) this.#u.password = percent(String(v), inUser); }
  get host() { return (this.#u.host ?? "") + (this.#u.port !== "" ? ":" + this.#u.port : ""); }
  set host(v) {
    const m = /^(\[[^\]]*\]|[^:/\\?#]*)(?::(\d+))?/.exec(String(v));
    this.hostname = m[1];
    if (m[2] !== undefined) this.port = m[2];
  }
  get hostname() { return this.#u.host ?? ""; }
  set hostname(v) {
    if (this.#u.opaque !== null) return;
    const h = hostOf(String(v).replace(/[/\\?#].*$/s, ""), this.#u.protocol in special);
    if (h !== null) this.#u.host = h;
  }
  get port() { return this.#u.port; }
  set port(v) {
    const m = /^\d+/.exec(String(v));
    if (String(v) === "") this.#u.port = "";
    else if (m && +m[0] <= 65535 && this.#u.host) this.#u.port = String(+m[0]) === special[this.#u.protocol] ? "" : String(+m[0]);
  }
  get pathname() { return this.#u.opaque ?? (this.#u.path.length ? "/" + this.#u.path.join("/") : ""); }
  set pathname(v) {
    if (this.#u.opaque !== null) return;
    const isSpecial = this.#u.protocol in special;
    this.#u.path = pathOf(String(v).replace(/[?#]/g, (c) => c === "?" ? "%3F" : "%23").replace(isSpecial ? /^[/\\]/ : /^\//, ""), isSpecial, this.#u.protocol === "file:");
  }
  get search() { return this.#u.query ? "?" + this.#u.query : ""; }
  set search(v) {
    v = String(v);
    this.#u.query = v === "" ? null : percent(v.replace(/^\?/, ""), this.#u.protocol in special ? inSpecialQuery : inQuery);
    this.#sync();
  }
  get searchParams() {
    return this.#params ??= new URLSearchParams(this.#u.query ?? "", (text) => { this.#u.query = text === "" ? null : text; });
  }
  #sync() { if (this.#params) resetParams(this.#params, this.#u.query ?? ""); }
  get hash() { return this.#u.fragment ? "#" + this.#u.fragment : ""; }
  set hash(v) {
    v = String(v);
    this.#u.fragment = v === "" ? null : percent(v.replace(/^#/, ""), inFragment);
  }
  toString() { return this.href; }
  toJSON() { return this.href; }
  get [Symbol.toStringTag]() { return "URL"; }
  [Symbol.for("nodejs.util.inspect.custom")](depth, options, inspect) {
    if (typeof depth === "number" && depth < 0) return "[URL]";
    const o = {};
    for (const k of ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "searchParams", "hash"]) o[k] = this[k];
    return `URL ${inspect(o, options)}`;
  }
}
for (const k of ["href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "searchParams", "hash", "toString", "toJSON"]) {
  Object.defineProperty(URL.prototype, k, { enumerable: true });
}

function fileURLToPath(url) {
  if (typeof url === "string") url = new URL(url);
  if (!(url && typeof url.href === "string" && url.protocol)) throw Object.assign(new TypeError('The "path" argument must be of type string or an instance of URL.'), { code: "ERR_INVALID_ARG_TYPE" });
  if (url.protocol !== "file:") throw Object.assign(new TypeError("The URL must be of scheme file"), { code: "ERR_INVALID_URL_SCHEME" });
  if (url.hostname !== "") throw Object.assign(new TypeError(`File URL host must be "localhost" or empty on ${host.boot.platform}`), { code: "ERR_INVALID_FILE_URL_HOST" });
  if (/%2f/i.test(url.pathname)) throw Object.assign(new TypeError("File URL path must not include encoded / characters"), { code: "ERR_INVALID_FILE_URL_PATH" });
  return decodeURIComponent(url.pathname);
}

function pathToFileURL(path) {
  let full = require("path").resolve(path);
  if (path.endsWith("/") && !full.endsWith("/")) full += "/";
  return new URL("file://" + full.replace(/%/g, "%25").replace(/\\/g, "%5C").replace(/\n/g, "%0A").replace(/\r/g, "%0D").replace(/\t/g, "%09").replace(/\?/g, "%3F").replace(/#/g, "%23"));
}

// The old interface, without a base: parts as they are written.
class Url {
  constructor() { Object.assign(this, { protocol: null, slashes: null, auth: null, host: null, port: null, hostname: null, hash: null, search: null, query: null, pathname: null, path: null, href: null }); }
  format() { return format(this); }
  resolve(to) { return legacyResolve(this.href, to); }
}

function legacyParse(text, withQuery = false, slashesMeanHost = false) {
  if (text instanceof Url) return text;
  if (typeof text !== "string") throw Object.assign(new TypeError(`The "url" argument must be of type string. Received ${text === null ? "null" : typeof text}`), { code: "ERR_INVALID_ARG_TYPE" });
  const u = new Url();
  let rest = text.trim();
  const cut = (c) => {
    const i = rest.indexOf(c);
    if (i < 0) return null;
    const tail = rest.slice(i);
    rest = rest.slice(0, i);
    return tail;
  };
  u.hash = cut("#");
  u.search = cut("?");
  const scheme = /^([a-z0-9.+-]+:)/i.exec(rest);
  if (scheme) {
    u.protocol = scheme[1].toLowerCase();
    rest = rest.slice(scheme[0].length);
  }
  const web = u.protocol && u.protocol in special;
  if (web) rest = rest.replaceAll("\\", "/");
  if (rest.startsWith("//") && (slashesMeanHost || scheme || /^\/\/[^@/]+@[^@/]+/.test(rest)) && u.protocol !== "javascript:") {
    u.slashes = true;
    rest = rest.slice(2);
    const slash = rest.search(/[/\\]/), authority = slash < 0 ? rest : rest.slice(0, slash), at = authority.lastIndexOf("@");
    rest = slash < 0 ? "" : rest.slice(slash);
    if (at >= 0) u.auth = decodeURIComponent(authority.slice(0, at));
    const m = /^(.*?)(?::(\d*))?$/.exec(authority.slice(at + 1));
    u.port = m[2] || null;
    u.hostname = m[1].toLowerCase().replace(/^\[|\]$/g, "");
    u.host = m[1].toLowerCase() + (u.port ? ":" + u.port : "");
  }
  const esc = (t) => t.replace(/[\s<>"`{}|\\^']/g, (c) => c === "'" ? "%27" : encodeURIComponent(c));
  if (rest) u.pathname = esc(rest);
  if (web && u.hostname && !u.pathname) u.pathname = "/";
  if (u.search !== null) u.search = esc(u.search);
  if (u.hash !== null) u.hash = esc(u.hash);
  if (u.search !== null) u.query = u.search.slice(1);
  if (withQuery) {
    u.query = require("querystring").parse(u.query ?? "");
  }
  if (u.pathname || u.search) u.path = (u.pathname ?? "") + (u.search ?? "");
  u.href = format(u);
  return u;
}

function format(u, { fragment = true, unicode = false, search = true, auth = true } = {}) {
  void unicode;
  if (typeof u === "string") return legacyParse(u).href;
  if (u instanceof URL) {
    const copy = new URL(u.href);
    if (!fragment) copy.hash = "";
    if (!search) copy.search = "";
    if (!auth) copy.username = copy.password = "";
    return copy.href;
  }
  let protocol = u.protocol || "", pathname = u.pathname || "", hash = u.hash || "", host = "", query = "";
  if (protocol && !protocol.endsWith(":")) protocol += ":";
  const login = u.auth ? encodeURIComponent(u.auth).replace(/%3A/i, ":") + "@" : "";
  if (u.host) host = login + u.host;
  else if (u.hostname) host = login + (u.hostname.includes(":") && !u.hostname.startsWith("[") ? `[${u.hostname}]` : u.hostname) + (u.port ? ":" + u.port : "");
  if (u.query !== null && typeof u.query === "object") query = require("querystring").stringify(u.query);
  let s = u.search || (query && "?" + query) || "";
  if (u.slashes || (!protocol || protocol in special) && host !== "") {
    if (u.slashes || host) {
      if (pathname && pathname[0] !== "/") pathname = "/" + pathname;
      host = "//" + host;
    }
  }
  if (hash && hash[0] !== "#") hash = "#" + hash;
  if (s && s[0] !== "?") s = "?" + s;
  return protocol + host + pathname.replace(/[?#]/g, encodeURIComponent) + s.replace("#", "%23") + hash;
}

function legacyResolve(from, to) {
  const base = new URL(from, "resolve://x/");
  const u = new URL(to, base);
  if (u.protocol === "resolve:") return (from.startsWith("/") || to.startsWith("/") ? "" : "") + u.pathname.slice(/^\//.test(from) || /^\//.test(to) ? 0 : 1) + u.search + u.hash;
  return u.href;
}

module.exports = {
  URL, URLSearchParams, Url, fileURLToPath, pathToFileURL, parse: legacyParse, format, resolve: legacyResolve, resolveObject: (from, to) => legacyParse(legacyResolve(from, to)), domainToASCII,
  domainToUnicode: (name) => name.split(".").map((l) => l.startsWith("xn--") ? require("punycode").decode(l.slice(4)) : l).join("."),
  fileURLToPathBuffer: (u) => require("buffer").Buffer.from(fileURLToPath(u)),
  urlToHttpOptions: (u) => ({ protocol: u.protocol, hostname: u.hostname.replace(/^\[|\]$/g, ""), hash: u.hash, search: u.search, pathname: u.pathname, path: u.pathname + u.search, href: u.href, ...(u.port ? { port: +u.port } : {}), ...(u.username ? { auth: `${decodeURIComponent(u.username)}:${decodeURIComponent(u.password)}` } : {}) }),
};
