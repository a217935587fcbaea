// provides: troupe:width
"use strict";

// Columns that text takes on a terminal: of East Asian wide characters and emoji two, of
// marks that sit on another character none.
const wideRanges = [
  [0x1100, 0x115f], [0x231a, 0x231b], [0x2329, 0x232a], [0x23e9, 0x23ec], [0x23f0, 0x23f0], [0x23f3, 0x23f3], [0x25fd, 0x25fe], [0x2614, 0x2615],
  [0x2648, 0x2653], [0x267f, 0x267f], [0x2693, 0x2693], [0x26a1, 0x26a1], [0x26aa, 0x26ab], [0x26bd, 0x26be], [0x26c4, 0x26c5], [0x26ce, 0x26ce],
  [0x26d4, 0x26d4], [0x26ea, 0x26ea], [0x26f2, 0x26f3], [0x26f5, 0x26f5], [0x26fa, 0x26fa], [0x26fd, 0x26fd], [0x2705, 0x2705], [0x270a, 0x270b],
  [0x2728, 0x2728], [0x274c, 0x274c], [0x274e, 0x274e], [0x2753, 0x2755], [0x2757, 0x2757], [0x2795, 0x2797], [0x27b0, 0x27b0], [0x27bf, 0x27bf],
  [0x2b1b, 0x2b1c], [0x2b50, 0x2b50], [0x2b55, 0x2b55], [0x2e80, 0x303e], [0x3041, 0x33ff], [0x3400, 0x4dbf], [0x4e00, 0x9fff], [0xa000, 0xa4cf],
  [0xa960, 0xa97f], [0xac00, 0xd7a3], [0xf900, 0xfaff], [0xfe10, 0xfe19], [0xfe30, 0xfe6f], [0xff01, 0xff60], [0xffe0, 0xffe6], [0x16fe0, 0x18aff],
  [0x1b000, 0x1b2ff], [0x1f004, 0x1f004], [0x1f0cf, 0x1f0cf], [0x1f18e, 0x1f18e], [0x1f191, 0x1f19a], [0x1f200, 0x1f320], [0x1f32d, 0x1f335],
  [0x1f337, 0x1f37c], [0x1f37e, 0x1f393], [0x1f3a0, 0x1f3ca], [0x1f3cf, 0x1f3d3], [0x1f3e0, 0x1f3f0], [0x1f3f4, 0x1f3f4], [0x1f3f8, 0x1f43e],
  [0x1f440, 0x1f440], [0x1f442, 0x1f4fc], [0x1f4ff, 0x1f53d], [0x1f54b, 0x1f54e], [0x1f550, 0x1f567], [0x1f57a, 0x1f57a], [0x1f595, 0x1f596],
  [0x1f5a4, 0x1f5a4], [0x1f5fb, 0x1f64f], [0x1f680, 0x1f6c5], [0x1f6cc, 0x1f6cc], [0x1f6d0, 0x1f6d2], [0x1f6d5, 0x1f6d7], [0x1f6dc, 0x1f6df],
  [0x1f6eb, 0x1f6ec], [0x1f6f4, 0x1f6fc], [0x1f7e0, 0x1f7eb], [0x1f7f0, 0x1f7f0], [0x1f90c, 0x1f93a], [0x1f93c, 0x1f945], [0x1f947, 0x1f9ff],
  [0x1fa70, 0x1faff], [0x20000, 0x3fffd],
];

function isWide(c) {
  if (c < 0x1100) return false;
  let low = 0, high = wideRanges.length - 1;
  while (low <= high) {
    const mid = (low + high) >> 1;
    if (c < wideRanges[mid][0]) high = mid - 1;
    else if (c > wideRanges[mid][1]) low = mid + 1;
    else return true;
  }
  return false;
}

const mark = /^[\p{Mn}\p{Me}\p{Cf}\u1160-\u11ff]$/u;
const regional = /^\p{Regional_Indicator}$/u;

// graphemes splits text into what a reader takes for characters: marks, joined emoji,
// flags and pairs of a carriage return and a line feed stay together.
function graphemes(text) {
  if (/^[\x20-\x7e]*$/.test(text)) return text.split("");
  const out = [];
  let joins = false, flags = 0;
  for (const ch of text) {
    const c = ch.codePointAt(0), last = out.length - 1;
    const isFlag = c >= 0x1f1e6 && c <= 0x1f1ff;
    const sticks = last >= 0 && out[last] !== "\n" && (joins || c === 0x200d || c === 0xfe0f || c === 0xfe0e || c >= 0x1f3fb && c <= 0x1f3ff || isFlag && flags % 2 === 1 ||
      c > 0x2ff && mark.test(ch) || c >= 0xe0020 && c <= 0xe007f || ch === "\n" && out[last] === "\r");
    if (sticks) out[last] += ch;
    else out.push(ch);
    flags = isFlag ? flags + 1 : 0;
    joins = c === 0x200d;
  }
  return out;
}

// graphemeWidth is the columns of one such character.
function graphemeWidth(g) {
  const c = g.codePointAt(0);
  if (c < 0x20 || c >= 0x7f && c < 0xa0) return 0;
  if (c < 0x300) return g.length > 1 && g.includes("\ufe0f") ? 2 : 1;
  if (mark.test(String.fromCodePoint(c))) return 0;
  if (regional.test(String.fromCodePoint(c))) return g.length > 2 ? 2 : 1;
  return isWide(c) || g.includes("\ufe0f") && g.length > 1 && /\p{Emoji}/u.test(g) ? 2 : 1;
}

// width is the columns of a text without control sequences.
function width(text) {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let n = 0;
  for (const g of graphemes(text)) n += graphemeWidth(g);
  return n;
}

module.exports = { width, graphemes, graphemeWidth };
