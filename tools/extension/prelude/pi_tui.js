// provides: @mariozechner/pi-tui, @earendil-works/pi-tui, @oh-my-pi/pi-tui, @mariozechner/pi-tui/*, @earendil-works/pi-tui/*, @oh-my-pi/pi-tui/*
"use strict";

// There is no terminal: what draws accepts what it is given and draws nothing; what
// computes with text is real, since tools and commands use it for answers.

const { width, graphemes, graphemeWidth } = require("troupe:width");

const escape = /\u001b\[[0-9;:?<=>]*[ -/]*[@-~]|\u001b[\]_P^X][\s\S]*?(?:\u0007|\u001b\\)|\u001b[ -/]*[0-~]/y;

function extractAnsiCode(text, at) {
  if (text.charCodeAt(at) !== 27) return null;
  escape.lastIndex = at;
  const m = escape.exec(text);
  return m ? { code: m[0], length: m[0].length } : null;
}

function stripTerminalSequences(text) {
  if (!text.includes("\u001b")) return text;
  let out = "";
  for (let i = 0; i < text.length;) {
    const a = extractAnsiCode(text, i);
    if (a) i += a.length;
    else out += text[i++];
  }
  return out;
}

const visibleWidth = (text) => width(stripTerminalSequences(text).replaceAll("\t", "   "));

// pieces gives the text in characters and control sequences, each with its columns.
function* pieces(text) {
  for (let i = 0; i < text.length;) {
    const a = extractAnsiCode(text, i);
    if (a) {
      yield [a.code, 0, true];
      i += a.length;
      continue;
    }
    let end = text.indexOf("\u001b", i + 1);
    if (end < 0) end = text.length;
    for (const g of graphemes(text.slice(i, end))) yield [g, g === "\t" ? 3 : graphemeWidth(g), false];
    i = end;
  }
}

function truncateToWidth(text, max, ellipsis = "...", pad = false) {
  const full = visibleWidth(text);
  if (full <= max) return pad ? text + " ".repeat(max - full) : text;
  const dots = visibleWidth(ellipsis), room = max - dots;
  if (room <= 0) {
    const cut = sliceByColumn(ellipsis, 0, max, true);
    return pad ? cut + " ".repeat(Math.max(0, max - visibleWidth(cut))) : cut;
  }
  let out = "", n = 0;
  for (const [piece, w, code] of pieces(text)) {
    if (code) {
      out += piece;
      continue;
    }
    if (n + w > room) break;
    out += piece;
    n += w;
  }
  out += "\u001b[0m" + ellipsis;
  return pad ? out + " ".repeat(Math.max(0, max - n - dots)) : out;
}

function sliceWithWidth(line, start, length, strict = false) {
  let out = "", col = 0, n = 0, before = "";
  for (const [piece, w, code] of pieces(line)) {
    if (code) {
      if (col >= start + length) continue;
      if (col < start) before += piece;
      else out += piece;
      continue;
    }
    if (col >= start && col < start + length && (!strict || col + w <= start + length)) {
      out += before + piece;
      before = "";
      n += w;
    }
    col += w;
    if (col >= start + length) break;
  }
  return { text: out, width: n };
}
const sliceByColumn = (line, start, length, strict) => sliceWithWidth(line, start, length, strict).text;

function extractSegments(line, beforeEnd, afterStart, afterLen, strictAfter) {
  const before = sliceWithWidth(line, 0, beforeEnd, true), after = sliceWithWidth(line, afterStart, afterLen, strictAfter);
  return { before: before.text, beforeWidth: before.width, after: after.text, afterWidth: after.width };
}

// Styles that are on: what a wrapped line must begin with again.
class Styles {
  on = [];
  take(code) {
    const m = /^\u001b\[([0-9;:]*)m$/.exec(code);
    if (!m) return;
    if (m[1] === "" || m[1] === "0") this.on = [];
    else this.on.push(code);
  }
  get begin() { return this.on.join(""); }
  get end() { return this.on.length ? "\u001b[0m" : ""; }
}

// wrapTextWithAnsi breaks lines between words, and words that are too long anywhere.
function wrapTextWithAnsi(text, max) {
  if (!text) return [""];
  const styles = new Styles(), out = [];
  for (const line of text.split("\n")) {
    let current = styles.begin, n = 0, word = "", wordWidth = 0, gap = "", gapWidth = 0, any = false;
    const breakLine = () => {
      out.push(current + styles.end);
      current = styles.begin;
      n = 0;
    };
    const place = () => {
      if (!word) return;
      if (n + gapWidth + wordWidth <= max) {
        current += gap + word;
        n += gapWidth + wordWidth;
        for (const [piece, , code] of pieces(word)) if (code) styles.take(piece);
      } else {
        if (n > 0) breakLine();
        for (const [piece, w, code] of pieces(word)) {
          if (!code && n + w > max && n > 0) breakLine();
          current += piece;
          if (code) styles.take(piece);
          else n += w;
        }
      }
      any = true;
      word = gap = "";
      wordWidth = gapWidth = 0;
    };
    for (const [piece, w, code] of pieces(line)) {
      if (code) {
        word += piece;
      } else if (piece === " " || piece === "\t") {
        place();
        gap += piece;
        gapWidth += w;
      } else {
        word += piece;
        wordWidth += w;
      }
    }
    place();
    if (!any && gap) current += gapWidth <= max ? gap : "";
    out.push(current + styles.end);
  }
  return out.length ? out : [""];
}

function applyBackgroundToLine(line, max, bg) { return bg(line + " ".repeat(Math.max(0, max - visibleWidth(line)))); }
const hyperlink = (text, url) => `\u001b]8;;${url}\u001b\\${text}\u001b]8;;\u001b\\`;

// ---- keys ----

const named = { escape: "\u001b", enter: "\r", tab: "\t", space: " ", backspace: "\u007f", delete: "\u001b[3~", insert: "\u001b[2~", home: "\u001b[H", end: "\u001b[F", pageUp: "\u001b[5~", pageDown: "\u001b[6~", up: "\u001b[A", down: "\u001b[B", right: "\u001b[C", left: "\u001b[D", clear: "\u001b[E" };
const alias = { esc: "escape", return: "enter", pageup: "pageUp", pagedown: "pageDown" };
const symbols = { backtick: "`", hyphen: "-", equals: "=", leftbracket: "[", rightbracket: "]", backslash: "\\", semicolon: ";", quote: "'", comma: ",", period: ".", slash: "/", exclamation: "!", at: "@", hash: "#", dollar: "$", percent: "%", caret: "^", ampersand: "&", asterisk: "*", leftparen: "(", rightparen: ")", underscore: "_", plus: "+", pipe: "|", tilde: "~", leftbrace: "{", rightbrace: "}", colon: ":", lessthan: "<", greaterthan: ">", question: "?" };
const modifiers = [["shift", 1], ["alt", 2], ["ctrl", 4], ["super", 8]];
const functionKeys = { 11: "f1", 12: "f2", 13: "f3", 14: "f4", 15: "f5", 17: "f6", 18: "f7", 19: "f8", 20: "f9", 21: "f10", 23: "f11", 24: "f12" };
const kitty = { 27: "escape", 13: "enter", 9: "tab", 32: "space", 127: "backspace", 57414: "enter" };

const Key = { ...Object.fromEntries([...Object.keys(named), ...Array.from({ length: 12 }, (_, i) => `f${i + 1}`)].map((k) => [k, k])), esc: "esc", return: "return", ...symbols };
for (const combo of [["ctrl"], ["shift"], ["alt"], ["super"], ["ctrl", "shift"], ["shift", "ctrl"], ["ctrl", "alt"], ["alt", "ctrl"], ["shift", "alt"], ["alt", "shift"], ["ctrl", "super"], ["super", "ctrl"], ["shift", "super"], ["super", "shift"], ["alt", "super"], ["super", "alt"], ["ctrl", "shift", "alt"], ["ctrl", "shift", "super"]]) {
  Key[combo.map((m, i) => i ? m[0].toUpperCase() + m.slice(1) : m).join("")] = (key) => [...combo, key].join("+");
}

let kittyActive = false;

// decoded reads one key: its name and its modifiers as bits.
function decoded(data) {
  let m;
  if ((m = /^\u001b\[(\d+)(?::\d*)*(?:;(\d+)(?::(\d+))?)?(?:;[\d:]*)?u$/.exec(data))) {
    const code = +m[1], name = kitty[code] ?? (code < 0x110000 && code >= 32 ? String.fromCodePoint(code) : undefined);
    return name && { name: /^[A-Z]$/.test(name) ? name.toLowerCase() : name, mods: (m[2] ? +m[2] - 1 : 0) & 15, event: +(m[3] ?? 1) };
  }
  if ((m = /^\u001b\[27;(\d+);(\d+)~$/.exec(data))) return { name: kitty[+m[2]] ?? String.fromCodePoint(+m[2]).toLowerCase(), mods: +m[1] - 1, event: 1 };
  if ((m = /^\u001b(?:\[|O)(?:1;(\d+)(?::(\d+))?)?([A-HPQRS])$/.exec(data))) {
    const name = { A: "up", B: "down", C: "right", D: "left", E: "clear", H: "home", F: "end", P: "f1", Q: "f2", R: "f3", S: "f4" }[m[3]];
    return name && { name, mods: m[1] ? (+m[1] - 1) & 15 : 0, event: +(m[2] ?? 1) };
  }
  if ((m = /^\u001b\[(\d+)(?:;(\d+)(?::(\d+))?)?~$/.exec(data))) {
    const name = { 1: "home", 2: "insert", 3: "delete", 4: "end", 5: "pageUp", 6: "pageDown", 7: "home", 8: "end" }[m[1]] ?? functionKeys[m[1]];
    return name && { name, mods: m[2] ? (+m[2] - 1) & 15 : 0, event: +(m[3] ?? 1) };
  }
  if (data === "\u001b[Z") return { name: "tab", mods: 1, event: 1 };
  if (data === "\u001b") return { name: "escape", mods: 0, event: 1 };
  if (data.length === 2 && data[0] === "\u001b") {
    const rest = decoded(data[1]);
    return rest && { ...rest, mods: rest.mods | 2 };
  }
  if ([...data].length !== 1) return undefined;
  const c = data.charCodeAt(0);
  const plain = { 13: "enter", 10: "enter", 9: "tab", 32: "space", 127: "backspace", 8: "backspace" }[c];
  if (plain) return { name: plain, mods: 0, event: 1 };
  if (c === 0) return { name: "space", mods: 4, event: 1 };
  if (c < 27) return { name: String.fromCharCode(c + 96), mods: 4, event: 1 };
  if (c < 32) return { name: "[\\]^_"[c - 27], mods: 4, event: 1 };
  if (/^[A-Z]$/.test(data)) return { name: data.toLowerCase(), mods: 1, event: 1 };
  return { name: data, mods: 0, event: 1 };
}

function parseKey(data) {
  const k = decoded(data);
  if (!k) return undefined;
  const names = [["ctrl", 4], ["shift", 1], ["alt", 2], ["super", 8]].filter(([, bit]) => k.mods & bit).map(([n]) => n);
  return [...names, k.name].join("+");
}

function matchesKey(data, id) {
  const parts = id === "+" ? ["+"] : id.endsWith("++") ? [...id.slice(0, -2).split("+"), "+"] : id.split("+");
  let name = parts.pop();
  name = alias[name.toLowerCase()] ?? (name.length > 1 && named[name] === undefined ? Object.keys(named).find((k) => k.toLowerCase() === name.toLowerCase()) ?? name.toLowerCase() : name);
  let mods = 0;
  for (const p of parts) mods |= modifiers.find(([n]) => n === p.toLowerCase())?.[1] ?? 0;
  if (/^[A-Z]$/.test(name)) {
    name = name.toLowerCase();
    if (!parts.length) mods |= 1;
  }
  const k = decoded(data);
  if (!k) return false;
  if (k.name === name && k.mods === mods) return true;
  // What the old ways of terminals cannot tell apart.
  if (!data.startsWith("\u001b[") && mods === 4) return { enter: "m", tab: "i", escape: "[", backspace: "h" }[k.name] === name;
  return false;
}
const eventOf = (data) => data.includes("\u001b[200~") ? 1 : decoded(data)?.event ?? 1;

// ---- finding ----

function fuzzyMatch(query, text) {
  const q = query.toLowerCase(), t = text.toLowerCase();
  if (q === "") return { matches: true, score: 0 };
  if (q.length > t.length) return { matches: false, score: 0 };
  let score = 0, at = 0, last = -1, row = 0;
  for (const c of q) {
    const i = t.indexOf(c, at);
    if (i < 0) return { matches: false, score: 0 };
    if (i === last + 1 && last >= 0) score -= ++row * 5;
    else {
      row = 0;
      if (last >= 0) score += (i - last - 1) * 2;
    }
    if (i === 0 || /[\s\-_./:]/.test(t[i - 1])) score -= 10;
    score += i * 0.1;
    last = i;
    at = i + 1;
  }
  return { matches: true, score };
}
function fuzzyFilter(items, query, getText) {
  const tokens = query.trim().split(/[\s/]+/).filter(Boolean);
  if (!tokens.length) return items;
  const found = [];
  for (const item of items) {
    const all = tokens.map((t) => fuzzyMatch(t, getText(item)));
    if (all.every((m) => m.matches)) found.push([all.reduce((n, m) => n + m.score, 0), item]);
  }
  return found.sort((a, b) => a[0] - b[0]).map(([, item]) => item);
}

// ---- what would be drawn ----

// A component holds what it is given. It renders nothing, takes no keys, and any method
// of its kind may be called on it.
class Component {
  constructor(...args) { this.args = args; }
  render() { return []; }
  invalidate() {}
  handleInput() {}
  dispose() {}
}
class Container extends Component {
  children = [];
  addChild(c) { this.children.push(c); }
  removeChild(c) { this.children = this.children.filter((x) => x !== c); }
  clear() { this.children = []; }
  render(w) { return this.children.flatMap((c) => c?.render?.(w) ?? []); }
}
class Box extends Container {
  setBgFn() {}
}
class Text extends Component {
  constructor(text = "") {
    super();
    this.text = text;
  }
  setText(text) { this.text = text; }
  setCustomBgFn() {}
}
class TruncatedText extends Text {}
class Markdown extends Text {}
class Spacer extends Component {
  setLines() {}
}
class Input extends Component {
  #value = "";
  focused = false;
  getValue() { return this.#value; }
  setValue(v) { this.#value = String(v); }
}
class Editor extends Input {
  borderColor = (s) => s;
  disableSubmit = false;
  getText() { return this.getValue(); }
  setText(t) { this.setValue(t); }
  getExpandedText() { return this.getValue(); }
  getLines() { return this.getValue().split("\n"); }
  getCursor() { return { line: 0, col: 0 }; }
  insertTextAtCursor(t) { this.setValue(this.getValue() + t); }
  addToHistory() {}
  setAutocompleteProvider() {}
  setPaddingX() {}
  getPaddingX() { return 0; }
  isShowingAutocomplete() { return false; }
}
class SelectList extends Component {
  #i = 0;
  constructor(items = [], ...rest) {
    super(items, ...rest);
    this.items = items;
  }
  setFilter() {}
  setSelectedIndex(i) { this.#i = i; }
  getSelectedItem() { return this.items[this.#i] ?? null; }
}
class SettingsList extends Component {
  constructor(items = [], ...rest) {
    super(items, ...rest);
    this.items = items;
  }
  updateValue(id, value) {
    const item = this.items.find((x) => x.id === id);
    if (item) item.currentValue = value;
  }
}
class Loader extends Text {
  start() {}
  stop() {}
  setMessage() {}
  setIndicator() {}
}
class CancellableLoader extends Loader {
  #controller = new AbortController();
  get signal() { return this.#controller.signal; }
  get aborted() { return this.signal.aborted; }
}
class TUI extends Container {
  terminal = { columns: 80, rows: 24, write() {}, kittyProtocolActive: false };
  requestRender() {}
  setFocus() {}
  showOverlay() { return { hide() {}, setHidden() {}, isHidden: () => true, focus() {}, unfocus() {}, isFocused: () => false }; }
  hideOverlay() {}
  hasOverlay() { return false; }
  addInputListener() { return () => {}; }
  start() {}
  stop() {}
}
class KeybindingsManager {
  constructor(definitions = {}, user = {}) {
    this.definitions = definitions;
    this.user = user;
  }
  getKeys(id) { return [].concat(this.user[id] ?? this.definitions[id]?.defaultKeys ?? []); }
  matches(data, id) { return this.getKeys(id).some((k) => matchesKey(data, k)); }
  getDefinition(id) { return this.definitions[id]; }
  getConflicts() { return []; }
  getUserBindings() { return this.user; }
  setUserBindings(u) { this.user = u; }
  getResolvedBindings() { return {}; }
}
class CombinedAutocompleteProvider {
  async getSuggestions() { return null; }
  applyCompletion(lines, line, col) { return { lines, cursorLine: line, cursorCol: col }; }
}

const classes = { Box, CancellableLoader, Container, Editor, Input, Loader, Markdown, SelectList, SettingsList, Spacer, Text, TruncatedText, TUI, KeybindingsManager, CombinedAutocompleteProvider };
for (const name of ["HStack", "VStack", "ScrollView", "MouseRegion", "TuiAltScreen", "TuiMainScreen"]) classes[name] = { [name]: class extends Container { setEntries() {} } }[name];
for (const name of ["Image", "ProcessTerminal", "StdinBuffer"]) classes[name] = { [name]: class extends Component {} }[name];

// Where terminals differ there is none.
const capabilities = { images: null, trueColor: false, hyperlinks: false };
const bindings = new KeybindingsManager();
module.exports = {
  ...classes, Key, matchesKey, parseKey, isKeyRelease: (d) => eventOf(d) === 3, isKeyRepeat: (d) => eventOf(d) === 2, isKittyProtocolActive: () => kittyActive, setKittyProtocolActive(on) { kittyActive = !!on; },
  decodeKittyPrintable: (d) => { const k = decoded(d); return k && /^\u001b\[.*u$/.test(d) && [...k.name].length === 1 && !(k.mods & 6) ? (k.mods & 1 ? k.name.toUpperCase() : k.name) : undefined; },
  fuzzyMatch, fuzzyFilter, visibleWidth, truncateToWidth, wrapTextWithAnsi, sliceByColumn, sliceWithWidth, extractAnsiCode, extractSegments, stripTerminalSequences, applyBackgroundToLine, hyperlink,
  getOsc8LinkAtColumn: () => undefined, isWhitespaceChar: (c) => /\s/.test(c), isPunctuationChar: (c) => /[(){}[\]<>.,;:'"!?+\-=*/\\|&%^$#@~`]/.test(c),
  getSegmenter: () => new (require("troupe:intl").Segmenter)(undefined, { granularity: "grapheme" }), CURSOR_MARKER: "\u001b_pi:c\u0007", compositeTuiLine: (base) => base, isFocusable: (c) => c !== null && typeof c === "object" && "focused" in c, isViewportTUI: () => false,
  renderFakeCursor: (c = " ") => `\u001b[7m${c}\u001b[27m`,
  getCapabilities: () => capabilities, detectCapabilities: () => capabilities, resetCapabilitiesCache() {}, setCapabilities() {}, setCapabilityOverrides() {}, getCellDimensions: () => ({ widthPx: 9, heightPx: 18 }), setCellDimensions() {}, allocateImageId: () => 1, calculateImageRows: () => 0,
  deleteKittyImage: () => "", deleteAllKittyImages: () => "", encodeKitty: () => "", encodeITerm2: () => "", renderImage: () => null, imageFallback: (mime) => `[Image: [${mime}]]`, getImageDimensions: () => null, getPngDimensions: () => null, getJpegDimensions: () => null, getGifDimensions: () => null, getWebpDimensions: () => null,
  getKeybindings: () => bindings, setKeybindings() {}, getEditorKeybindings: () => bindings, setEditorKeybindings() {}, TUI_KEYBINDINGS: {}, DEFAULT_EDITOR_KEYBINDINGS: {}, EditorKeybindingsManager: KeybindingsManager, renderLatex: (t) => t, getNativeClipboard: () => undefined, parseOsc11BackgroundColor: () => undefined, parseTerminalColorSchemeReport: () => undefined,
  Component,
};
