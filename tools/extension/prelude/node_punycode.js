// provides: node:punycode, punycode
"use strict";

// RFC 3492.
const base = 36, tMin = 1, tMax = 26, skew = 38, damp = 700;
const adapt = (delta, n, first) => {
  delta = first ? Math.floor(delta / damp) : delta >> 1;
  delta += Math.floor(delta / n);
  let k = 0;
  for (; delta > 455; k += base) delta = Math.floor(delta / (base - tMin));
  return Math.floor(k + 36 * delta / (delta + skew));
};
const threshold = (k, bias) => k <= bias ? tMin : k >= bias + tMax ? tMax : k - bias;

function encode(text) {
  const points = Array.from(text, (c) => c.codePointAt(0));
  const out = points.filter((c) => c < 128).map((c) => String.fromCharCode(c));
  let n = 128, delta = 0, bias = 72, done = out.length;
  const plain = done;
  if (plain) out.push("-");
  while (done < points.length) {
    const m = Math.min(...points.filter((c) => c >= n));
    delta += (m - n) * (done + 1);
    n = m;
    for (const c of points) {
      if (c < n) delta++;
      if (c !== n) continue;
      let q = delta;
      for (let k = base; ; k += base) {
        const t = threshold(k, bias);
        if (q < t) break;
        out.push(digit(t + (q - t) % (base - t)));
        q = Math.floor((q - t) / (base - t));
      }
      out.push(digit(q));
      bias = adapt(delta, done + 1, done === plain);
      delta = 0;
      done++;
    }
    delta++;
    n++;
  }
  return out.join("");
}
const digit = (d) => String.fromCharCode(d < 26 ? d + 97 : d + 22);

function decode(text) {
  const cut = text.lastIndexOf("-"), out = cut > 0 ? Array.from(text.slice(0, cut), (c) => c.charCodeAt(0)) : [];
  let n = 128, i = 0, bias = 72;
  for (let at = cut > 0 ? cut + 1 : 0; at < text.length;) {
    const old = i;
    for (let w = 1, k = base; ; k += base) {
      const c = text.charCodeAt(at++), d = c < 58 ? c - 22 : c < 91 ? c - 65 : c - 97;
      if (!(d >= 0 && d < base)) throw new RangeError("Invalid input");
      i += d * w;
      const t = threshold(k, bias);
      if (d < t) break;
      w *= base - t;
    }
    bias = adapt(i - old, out.length + 1, old === 0);
    n += Math.floor(i / (out.length + 1));
    i %= out.length + 1;
    out.splice(i++, 0, n);
  }
  return String.fromCodePoint(...out);
}

const each = (name, f) => name.split(".").map(f).join(".");
module.exports = {
  encode, decode, version: "2.3.1", ucs2: { decode: (s) => Array.from(s, (c) => c.codePointAt(0)), encode: (list) => String.fromCodePoint(...list) },
  toASCII: (name) => each(name, (l) => /[^\x00-\x7f]/.test(l) ? "xn--" + encode(l) : l), toUnicode: (name) => each(name, (l) => l.startsWith("xn--") ? decode(l.slice(4).toLowerCase()) : l),
};
