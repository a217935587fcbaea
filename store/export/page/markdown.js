// Markdown becomes elements here, and nowhere else does a string become HTML.

// plainHTML turns off raw HTML: tags are text like any other.
const plainHTML = { html: () => undefined, tag: () => undefined };

const renderer = {
  // A picture from elsewhere would be a request that tells who reads what.
  image({ href, text }) {
    const name = escapeHTML(text || "image");
    if (dataImage(href)) return `<img src="${escapeHTML(href)}" alt="${name}">`;
    return `<a href="${escapeHTML(href)}">🖼 ${name}</a>`;
  },
  code({ text, lang }) {
    const language = str(lang).match(/^[\w+#.-]+/)?.[0] ?? "";
    return `<pre><code class="language-${language}">${escapeHTML(text)}</code></pre>`;
  },
  checkbox({ checked }) {
    return checked ? "☑ " : "☐ ";
  },
};

// What people type keeps its line breaks; what models write is Markdown proper.
const dialects = {
  user: new marked.Marked({ gfm: true, breaks: true }, { tokenizer: plainHTML, renderer }),
  model: new marked.Marked({ gfm: true }, { tokenizer: plainHTML, renderer }),
};

DOMPurify.setConfig({
  RETURN_DOM_FRAGMENT: true,
  ALLOWED_TAGS: [
    "a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "img", "li", "ol", "p",
    "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul", "#text",
  ],
  ALLOWED_ATTR: ["href", "title", "src", "alt", "class", "start", "align"],
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
});

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName === "A" && node.hasAttribute("href")) openElsewhere(node);
  if (node.nodeName === "IMG" && !dataImage(node.getAttribute("src"))) node.removeAttribute("src");
  if (node.nodeName !== "CODE") node.removeAttribute("class");
});

function openElsewhere(link) {
  link.setAttribute("target", "_blank");
  link.setAttribute("rel", "noopener noreferrer");
  link.setAttribute("title", link.getAttribute("href"));
}

function escapeHTML(text) {
  const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (c) => entities[c]);
}

// Longer texts are shown as they are: nobody wrote them as Markdown.
const maxMarkdown = 400_000;

// markdown renders a text. One that the parser chokes on is shown as it is.
function markdown(text, dialect = "model") {
  const box = el("div", { class: "prose", dir: "auto" });
  try {
    if (!DOMPurify.isSupported || text.length > maxMarkdown) throw new Error("not rendered");
    box.append(DOMPurify.sanitize(dialects[dialect].parse(text)));
    finish(box);
  } catch {
    box.replaceChildren(el("pre", { class: "plain" }, text));
  }
  return box;
}

// finish turns code into code blocks and lets wide tables scroll.
function finish(box) {
  for (const code of box.querySelectorAll("pre > code")) {
    const language = code.className.replace(/^language-/, "");
    code.parentNode.replaceWith(codeBlock(code.textContent, { language, named: true }));
  }
  for (const table of box.querySelectorAll("table")) {
    const wide = el("div", { class: "wide" });
    table.replaceWith(wide);
    wide.append(table);
  }
  for (const image of box.querySelectorAll("img")) makeZoomable(image);
}
