// Making elements. Text always becomes a text node; nothing here parses HTML.

// el makes an element. Attributes that are null, undefined or false are left
// out, those that are functions listen to the event they are named after.
// Children are nodes, strings, or lists of them; null and false are skipped.
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  add(node, children);
  return node;
}

function add(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child);
  }
}

function byId(id) {
  return document.getElementById(id);
}

// Icons are drawn on a grid of 16 by 16: which fonts have the signs for them
// nobody knows.
const icons = {
  menu: "M2 4h12M2 8h12M2 12h12",
  copy: "M6 5.5h7.5v8H6zM10 5.5v-3H2.5v8H6",
  done: "M3 8.5l3.5 3.5L13 4.5",
  wrong: "M4 4l8 8M12 4l-8 8",
  edit: "M3 13l.7-3L10.5 3.2l2.3 2.3L6 12.3z",
  branch: "M4 2v12M4 10c0-4 7-2 7-7M9 4.5l2-2 2 2",
  system: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  light: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  dark: "M13 10A6 6 0 0 1 6 3a6 6 0 1 0 7 7z",
};

function icon(name) {
  const make = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const svg = make("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" });
  svg.append(make("path", { d: icons[name] }));
  return svg;
}

// fold is a section that can be opened. Its body is made when it is opened for
// the first time: most are never looked at.
function fold(attributes, summary, makeBody) {
  const details = el("details", attributes, el("summary", null, summary));
  let made = false;
  details.fill = () => {
    if (made) return;
    made = true;
    try {
      add(details, [makeBody()]);
    } catch (error) {
      console.warn("fold", error);
      add(details, [el("p", { class: "notice" }, "This part could not be drawn.")]);
    }
  };
  details.addEventListener("toggle", () => details.open && details.fill());
  return details;
}

// openFold opens or closes a fold at once, without waiting for its event.
function openFold(details, open) {
  if (open) details.fill();
  details.open = open;
}

// copyButton copies what text() returns.
function copyButton(text, title = "Copy") {
  const button = el("button", { type: "button", class: "copy", title, "aria-label": title, click: copy }, icon("copy"));
  async function copy() {
    const done = await copyText(text());
    button.replaceChildren(icon(done ? "done" : "wrong"));
    setTimeout(() => button.replaceChildren(icon("copy")), 1200);
  }
  return button;
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

// copyBySelection is for pages that may not use the clipboard API: those that
// were opened over plain HTTP.
function copyBySelection(text) {
  const area = el("textarea", { class: "offscreen", readonly: true });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
