// Code with colours, line numbers and a copy button.

// Longer texts stay plain: colouring them would hold up the page.
const maxHighlight = 60_000;

const languagesByName = new Map(Object.entries({
  makefile: "makefile", gnumakefile: "makefile", dockerfile: "dockerfile", containerfile: "dockerfile",
  "go.mod": "go", "go.sum": "plaintext", ".gitignore": "plaintext", ".bashrc": "bash", ".zshrc": "bash",
}));

const languagesByEnding = new Map(Object.entries({
  jsonl: "json", ndjson: "json", txtar: "plaintext", txt: "plaintext", h: "c", toml: "ini", cfg: "ini", conf: "ini",
  svelte: "xml", vue: "xml", tf: "plaintext", lock: "plaintext", mod: "go", tmpl: "xml", mts: "typescript", cts: "typescript",
}));

// languageOf guesses a file's language from its name, "" if it cannot.
function languageOf(path) {
  const name = path.split(/[/\\]/).at(-1).toLowerCase();
  const ending = name.includes(".") ? name.split(".").at(-1) : "";
  const guess = languagesByName.get(name) ?? languagesByEnding.get(ending) ?? ending;
  return hljs.getLanguage(guess) ? guess : "";
}

// codeBlock shows a text, all of it, with an optional language, first line number and name
// of the language.
function codeBlock(text, { language = "", from = 0, named = false } = {}) {
  const lines = from > 0 && el("pre", { class: "numbers", "aria-hidden": "true" }, lineNumbers(from, lineCount(text)));
  return el("div", { class: "code" },
    el("div", { class: "code-tools" },
      named && language ? el("span", { class: "language" }, language) : null,
      copyButton(() => text, "Copy this block")),
    el("div", { class: "code-text" }, lines, el("pre", null, el("code", null, highlighted(spelt(text), language)))));
}

function lineNumbers(from, n) {
  return Array.from({ length: n }, (_, i) => from + i).join("\n");
}

// highlighted colours a text, or returns it as it is.
function highlighted(text, language) {
  if (!language || text.length > maxHighlight || !hljs.getLanguage(language)) return text;
  try {
    return spans(hljs.highlight(text, { language, ignoreIllegals: true }).value);
  } catch {
    return text;
  }
}

const spanMark = /<span class="([\w\- .]*)">|<\/span>/g;

// spans builds what highlight.js writes, which is nothing but nested spans and
// escaped text, without an HTML parser.
function spans(html) {
  const root = document.createDocumentFragment();
  const open = [root];
  let end = 0;
  for (const mark of html.matchAll(spanMark)) {
    open.at(-1).append(unescapeHTML(html.slice(end, mark.index)));
    end = mark.index + mark[0].length;
    if (mark[1] === undefined) {
      if (open.length > 1) open.pop();
      continue;
    }
    const span = el("span", { class: mark[1] });
    open.at(-1).append(span);
    open.push(span);
  }
  open.at(-1).append(unescapeHTML(html.slice(end)));
  return root;
}

function unescapeHTML(text) {
  const characters = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&amp;": "&" };
  return text.replace(/&(?:lt|gt|quot|#x27|amp);/g, (entity) => characters[entity]);
}
