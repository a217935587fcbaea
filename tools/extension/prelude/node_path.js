// provides: node:path, path
"use strict";

// One code for both kinds of paths: win says that backslashes separate, too, and that
// there may be a drive or a server in front.
function make(win) {
  const sep = win ? "\\" : "/";
  const isSep = (c) => c === "/" || (win && c === "\\");
  const check = (p, name) => {
    if (typeof p !== "string") {
      const e = new TypeError(`The "${name ?? "path"}" argument must be of type string. Received ${p === null ? "null" : typeof p}`);
      e.code = "ERR_INVALID_ARG_TYPE";
      throw e;
    }
  };

  // root gives what stands before the first name: "", "/", "C:", "C:\", "\\server\share\".
  const root = (p) => {
    if (!win) return p[0] === "/" ? "/" : "";
    const unc = /^[\\/]{2}([^\\/]+)[\\/]+([^\\/]+)[\\/]*/.exec(p);
    if (unc) return unc[0];
    const m = /^([A-Za-z]:)?([\\/])?/.exec(p);
    return m[0];
  };
  const isAbsolute = (p) => {
    check(p);
    const r = root(p);
    return r !== "" && isSep(r[r.length - 1]) || win && /^[\\/]{2}/.test(r);
  };
  const squeeze = (p, above) => {
    const out = [];
    for (const part of p.split(win ? /[\\/]+/ : /\/+/)) {
      if (part === "" || part === ".") continue;
      if (part === ".." && out.length && out[out.length - 1] !== "..") out.pop();
      else if (part !== ".." || above) out.push(part);
    }
    return out.join(sep);
  };
  const plainRoot = (r) => {
    if (!win) return r;
    const unc = /^[\\/]{2}([^\\/]+)[\\/]+([^\\/]+)/.exec(r);
    return unc ? `\\\\${unc[1]}\\${unc[2]}\\` : r.replace(/\//g, "\\");
  };
  const normalize = (p) => {
    check(p);
    if (p === "") return ".";
    const r = root(p), rest = p.slice(r.length);
    const abs = isAbsolute(p);
    let body = squeeze(rest, !abs);
    if (body !== "" && isSep(p[p.length - 1])) body += sep;
    const head = plainRoot(r);
    if (body === "" && !abs) return head === "" ? (isSep(p[p.length - 1]) ? "." + sep : ".") : head + ".";
    return head + body;
  };
  const join = (...parts) => {
    parts.forEach((p) => check(p));
    parts = parts.filter((p) => p !== "");
    if (!parts.length) return ".";
    let joined = parts.join(sep);
    // Two separators that come from joining are no server.
    if (win && /^[\\/]{2}/.test(joined) && !/^[\\/]{2}[^\\/]/.test(parts[0])) joined = joined.replace(/^[\\/]{2,}/, "\\");
    return normalize(joined);
  };
  const cwd = () => require("process").cwd();
  const resolve = (...parts) => {
    let path = "", abs = false, device = "";
    for (let i = parts.length - 1; i >= -1 && !(abs && (device || !win)); i--) {
      const p = i >= 0 ? parts[i] : cwd();
      check(p, i >= 0 ? `paths[${i}]` : undefined);
      if (p === "") continue;
      if (win) {
        const r = root(p), drive = /^[A-Za-z]:/.exec(r)?.[0] ?? (/^[\\/]{2}/.test(r) ? plainRoot(r).slice(0, -1) : "");
        if (drive && device && drive.toLowerCase() !== device.toLowerCase()) continue;
        device ||= drive;
        if (abs) continue;
        path = p.slice(drive.length && /:$/.test(drive) ? drive.length : r.length) + sep + path;
        abs = isAbsolute(p);
      } else {
        path = p + "/" + path;
        abs = p[0] === "/";
      }
    }
    const body = squeeze(path, !abs);
    return (device + (abs ? sep : "") + body) || ".";
  };
  const tail = (p) => {
    let end = p.length;
    const low = root(p).length;
    while (end > low && isSep(p[end - 1])) end--;
    let start = end;
    while (start > low && !isSep(p[start - 1])) start--;
    return [start, end];
  };
  const basename = (p, ext) => {
    check(p);
    if (ext !== undefined) check(ext, "ext");
    const [start, end] = tail(p);
    const base = p.slice(start, end);
    return ext && base !== ext && base.endsWith(ext) ? base.slice(0, -ext.length) : base;
  };
  const dirname = (p) => {
    check(p);
    const r = root(p);
    const end = tail(p)[0] - 1;
    if (!win && end === 1 && p.startsWith("//")) return "//";
    return end <= r.length && !(win && end > 0 && r.length === 1) ? r || (end > 0 ? p.slice(0, end) : ".") : p.slice(0, end);
  };
  const extname = (p) => {
    check(p);
    const base = basename(p), dot = base.lastIndexOf(".");
    return dot <= 0 || base === ".." ? "" : base.slice(dot);
  };
  const relative = (from, to) => {
    check(from, "from");
    check(to, "to");
    if (from === to) return "";
    from = resolve(from);
    to = resolve(to);
    const same = (a, b) => win ? a.toLowerCase() === b.toLowerCase() : a === b;
    if (same(from, to)) return "";
    if (win && !same(root(from), root(to))) return to;
    const a = from.slice(root(from).length).split(sep).filter(Boolean), b = to.slice(root(to).length).split(sep).filter(Boolean);
    let n = 0;
    while (n < a.length && n < b.length && same(a[n], b[n])) n++;
    return [...a.slice(n).map(() => ".."), ...b.slice(n)].join(sep);
  };
  const format = (o) => {
    if (o === null || typeof o !== "object") {
      const e = new TypeError(`The "pathObject" argument must be of type object. Received ${o === null ? "null" : typeof o}`);
      e.code = "ERR_INVALID_ARG_TYPE";
      throw e;
    }
    const dir = o.dir || o.root, base = o.base || `${o.name || ""}${o.ext ? (o.ext[0] === "." ? "" : ".") + o.ext : ""}`;
    if (!dir) return base;
    return dir === o.root ? dir + base : dir + sep + base;
  };
  const parse = (p) => {
    check(p);
    const r = root(p), base = basename(p), ext = extname(p), [start] = tail(p);
    const dir = base === "" || start <= r.length ? r : p.slice(0, start - 1);
    return { root: r, dir, base, ext, name: ext ? base.slice(0, -ext.length) : base };
  };
  const toNamespacedPath = (p) => p;
  const matchesGlob = (p, pattern) => {
    const source = normalize(pattern).replace(/[.+^$()|\\]/g, "\\$&").replace(/\*\*\/|\*\*|\*|\?|\[!|\{([^}]*)\}/g, (m, list) => list !== undefined ? `(?:${list.split(",").join("|")})` : ({ "**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "[!": "[^" })[m]);
    return new RegExp(`^${source}$`).test(normalize(p));
  };
  return { resolve, normalize, isAbsolute, join, relative, toNamespacedPath, dirname, basename, extname, format, parse, matchesGlob, sep, delimiter: win ? ";" : ":", win32: null, posix: null };
}

const posix = make(false), win32 = make(true);
posix.posix = win32.posix = posix;
posix.win32 = win32.win32 = win32;
module.exports = posix;
