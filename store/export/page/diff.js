// Diffs, line by line, with the changed part of a line marked.

// A line of a numbered diff: sign, line number, text.
const numberedLine = /^([ +-])\s*(\d+)(?: |$)(.*)$/;

// parseDiff reads the lines of a diff, numbered or unified.
function parseDiff(text) {
  const lines = spelt(text).replace(/\n$/, "").split("\n");
  const numbered = lines.filter((l) => numberedLine.test(l)).length * 2 > lines.length;
  return lines.map((line) => (numbered ? parseNumbered(line) : parseUnified(line)));
}

function parseNumbered(line) {
  const m = numberedLine.exec(line);
  return m ? { sign: m[1], number: m[2], text: m[3] } : { sign: "@", number: "", text: line.trim() };
}

function parseUnified(line) {
  if (/^(@@|---|\+\+\+|diff |index |\\)/.test(line)) return { sign: "@", number: "", text: line };
  const sign = "+-".includes(line[0] ?? " ") ? line[0] : " ";
  return { sign, number: "", text: line.slice(1) };
}

// diffOfEdits makes diff lines of replacements, where a tool reported no diff.
function diffOfEdits(edits) {
  return edits.filter(isObject).flatMap((edit, i) => {
    const side = (sign, text) => (text ? spelt(text).replace(/\n$/, "").split("\n").map((t) => ({ sign, number: "", text: t })) : []);
    const gap = i > 0 ? [{ sign: "@", number: "", text: "…" }] : [];
    return [...gap, ...side("-", str(edit.oldText)), ...side("+", str(edit.newText))];
  });
}

function changes(lines) {
  const n = (sign) => lines.filter((l) => l.sign === sign).length;
  return { added: n("+"), removed: n("-") };
}

const kinds = { "+": "added", "-": "removed", " ": "same", "@": "gap" };

function diffTable(lines) {
  markChanges(lines);
  const width = Math.max(...lines.map((l) => l.number.length));
  const rows = lines.map((l) =>
    el("div", { class: "line " + kinds[l.sign] },
      el("span", { class: "gutter", "aria-hidden": "true" }, l.number.padStart(width)),
      el("span", { class: "sign" }, l.sign === "@" ? " " : l.sign),
      el("span", { class: "text" }, l.parts ?? l.text, "\n")));
  return el("div", { class: "diff" }, el("div", { class: "lines" }, rows));
}

// markChanges pairs removed lines with as many added ones after them and marks
// what differs between the two of a pair.
function markChanges(lines) {
  for (let i = 0; i < lines.length; ) {
    const start = i;
    while (lines[i]?.sign === "-") i++;
    const middle = i;
    while (lines[i]?.sign === "+") i++;
    if (middle > start && i - middle === middle - start) {
      for (let k = 0; k < middle - start; k++) markPair(lines[start + k], lines[middle + k]);
    }
    if (i === start) i++;
  }
}

// Lines with more words than this, multiplied, are not compared.
const maxCompared = 40_000;

function wordsIn(text) {
  return text.match(/\w+|\s+|[^\w\s]/g) ?? [];
}

// commonWords pairs the positions of a longest common subsequence.
function commonWords(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let k = b.length - 1; k >= 0; k--) {
      lengths[i][k] = a[i] === b[k] ? lengths[i + 1][k + 1] + 1 : Math.max(lengths[i + 1][k], lengths[i][k + 1]);
    }
  }
  const pairs = [];
  for (let i = 0, k = 0; i < a.length && k < b.length; ) {
    if (a[i] === b[k]) pairs.push([i++, k++]);
    else if (lengths[i + 1][k] >= lengths[i][k + 1]) i++;
    else k++;
  }
  return pairs;
}

// partsOf joins words into text, marking those that are not kept.
function partsOf(words, kept) {
  const parts = [];
  for (let i = 0; i < words.length; ) {
    const start = i;
    const isKept = kept.has(i);
    while (i < words.length && kept.has(i) === isKept) i++;
    const text = words.slice(start, i).join("");
    parts.push(isKept ? text : el("mark", null, text));
  }
  return parts;
}

function markPair(old, now) {
  const a = wordsIn(old.text);
  const b = wordsIn(now.text);
  if (a.length * b.length > maxCompared) return;
  const same = commonWords(a, b);
  const kept = same.reduce((n, [i]) => n + a[i].trim().length, 0);
  if (kept * 3 < Math.min(old.text.length, now.text.length)) return; // different lines: marks would only confuse
  old.parts = partsOf(a, new Set(same.map(([i]) => i)));
  now.parts = partsOf(b, new Set(same.map(([, k]) => k)));
}
