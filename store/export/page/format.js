// Numbers, times and texts as people read them.

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// str is a value that should be a string, "" if it is none.
function str(value) {
  return typeof value === "string" ? value : "";
}

function num(value) {
  return Number.isFinite(value) ? value : 0;
}

function tokens(n) {
  if (n < 1000) return String(n);
  if (n < 99950) return (n / 1000).toFixed(1) + "k";
  if (n < 999500) return Math.round(n / 1000) + "k";
  return (n / 1e6).toFixed(1) + "M";
}

function money(dollars) {
  if (dollars === 0) return "$0";
  return "$" + dollars.toFixed(dollars < 0.01 ? 5 : dollars < 1 ? 4 : 2);
}

function count(n, one, many = one + "s") {
  return n.toLocaleString("en") + " " + (n === 1 ? one : many);
}

function duration(ms) {
  const minutes = Math.round(ms / 60000);
  if (ms < 60000) return Math.round(ms / 1000) + " s";
  if (minutes < 60) return minutes + " min";
  if (minutes < 48 * 60) return Math.floor(minutes / 60) + " h " + (minutes % 60) + " min";
  return Math.round(minutes / 1440) + " days";
}

function clock(ms) {
  return new Date(ms).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
}

function dateAndTime(ms) {
  return new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

// timeOf is a time of the file in epoch milliseconds, 0 if there is none.
function timeOf(value) {
  const ms = typeof value === "number" ? value : Date.parse(str(value));
  return Number.isFinite(ms) && Math.abs(ms) < 8.64e15 ? ms : 0;
}

// firstLine is the beginning of a text on one line.
function firstLine(text, limit = 140) {
  const line = text.slice(0, 4 * limit).replace(/\s+/g, " ").trim();
  return line.length > limit ? line.slice(0, limit - 1) + "…" : line;
}

function lineCount(text) {
  const lines = text.split("\n");
  return lines.length - (lines.at(-1) === "" ? 1 : 0);
}

// plain removes terminal control sequences, which files of other programs may
// hold.
function plain(text) {
  return text.replace(/\x1b(?:\[[0-9;?]*[ -\/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g, "");
}

// unseen are the characters that show nothing or turn round what stands beside them: with them
// a text reads otherwise than it runs. What joins an emoji, and the end of a DOS line, are none.
const unseen = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u1680\u180b-\u180f\u2000-\u200b\u200c\u200e\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|(?<![\p{Extended_Pictographic}#*0-9])[\ufe0e\ufe0f]|\r(?!\n)|(?<![\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d/gu;

// spelt is a text with its unseen characters by their numbers, for all that somebody decides about.
function spelt(text) {
  return text.replace(unseen, (c) => `‹U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}

// unmarked removes the commonest marks of Markdown, for outlines.
function unmarked(text) {
  return text.slice(0, 2000).replace(/[*`]|^#+ |(?<!\w)_|_(?!\w)/gm, "");
}

function prettyJSON(value) {
  return JSON.stringify(value, null, 2) ?? "";
}
