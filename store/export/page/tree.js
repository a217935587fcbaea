// The side bar: all entries of all branches as a list of links. A conversation
// goes straight down; where it branches, the branches are indented.

// filters choose the entries that are listed.
const filters = {
  Talk: (e) => e.talks && e.role !== "toolResult" && (e.role !== "assistant" || e.failed || e.text.trim() !== ""),
  Prompts: (e) => e.role === "user" || e.role === "bashExecution",
  Tools: (e) => e.calls.length > 0 || e.role === "toolResult" || e.role === "bashExecution",
  Labelled: (e) => e.label !== "",
  All: () => true,
};

const rowsPerGroup = 200;
const deepest = 8; // levels of indentation

class Tree {
  constructor(session, nav) {
    this.session = session;
    this.nav = nav;
    this.filter = "Talk";
    this.words = [];
    this.path = new Set();
    this.rows = new Map(); // entry to its link
    this.order = listed(session.roots);
    this.current = null;
  }

  draw() {
    const chosen = this.order.filter(({ entry }) => this.chooses(entry));
    this.rows.clear();
    const groups = [];
    let branch = chosen[0]?.branch;
    for (const row of chosen) {
      row.begins = row.branch !== branch && this.words.length === 0;
      branch = row.branch;
    }
    for (let i = 0; i < chosen.length; i += rowsPerGroup) {
      const part = chosen.slice(i, i + rowsPerGroup);
      const group = el("div", { class: "group" }, part.map((row) => this.row(row)));
      group.style.containIntrinsicSize = "auto " + part.length * 28 + "px";
      groups.push(group);
    }
    this.nav.replaceChildren(...groups);
    byId("found").textContent = this.words.length > 0 ? count(chosen.length, "entry", "entries") + " found" : "";
    this.mark(this.current);
  }

  chooses(entry) {
    if (this.words.length === 0) return filters[this.filter](entry);
    return (this.filter === "Talk" || filters[this.filter](entry)) && contains(entry, this.words);
  }

  row({ entry, depth, begins }) {
    const { kind, text } = outline(entry);
    const marks = (this.path.has(entry) ? " on-path" : "") + (begins ? " begins" : "");
    const link = el("a", { class: "row " + kind + marks, href: hashOf(entry.id), title: text },
      el("span", { class: "row-text", dir: "auto" }, text),
      entry.label && el("span", { class: "badge label" }, entry.label));
    link.style.setProperty("--depth", String(depth));
    this.rows.set(entry, link);
    return link;
  }

  // show marks the branch that is on the page.
  show(path) {
    this.path = new Set(path);
    for (const [entry, row] of this.rows) row.classList.toggle("on-path", this.path.has(entry));
  }

  // mark marks the entry that is being read, or the listed one before it.
  mark(entry) {
    this.rows.get(this.marked)?.removeAttribute("aria-current");
    this.current = entry;
    this.marked = entry;
    while (this.marked && !this.rows.has(this.marked)) this.marked = this.marked.parent;
    const row = this.rows.get(this.marked);
    if (!row) return;
    row.setAttribute("aria-current", "true");
    if (this.nav.getClientRects().length > 0) this.scrollTo(row);
  }

  // scrollTo moves the list and nothing else.
  scrollTo(row) {
    const list = this.nav.getBoundingClientRect();
    const at = row.getBoundingClientRect();
    if (at.top < list.top || at.bottom > list.bottom) this.nav.scrollTop += at.top - list.top - list.height / 3;
  }
}

// listed puts the entries in the order of the tree, with the number of
// branchings above each and the entry that begins its branch.
function listed(roots) {
  const order = [];
  const stack = roots.map((entry) => ({ entry, depth: 0, branch: entry })).reverse();
  while (stack.length > 0) {
    const { entry, depth, branch } = stack.pop();
    order.push({ entry, depth, branch });
    const splits = branches(entry.children).length > 1;
    const inner = splits ? Math.min(depth + 1, deepest) : depth;
    for (const child of [...entry.children].reverse()) {
      stack.push({ entry: child, depth: inner, branch: splits ? child : branch });
    }
  }
  return order;
}

// outline says in a few words what an entry is.
function outline(entry) {
  const { raw, message, role, type } = entry;
  if (message) {
    switch (role) {
      case "user":
        return { kind: "is-user", text: firstLine(unmarked(entry.text)) || "(image)" };
      case "assistant":
        return { kind: entry.failed ? "is-failed" : "is-assistant", text: answerOutline(entry) };
      case "toolResult":
        return { kind: message.isError === true ? "is-failed" : "is-tool", text: "↳ " + str(message.toolName) + "  " + firstLine(entry.text, 80) };
      case "bashExecution":
        return { kind: "is-user", text: "$ " + firstLine(str(message.command)) };
    }
    return { kind: "is-note", text: role + "  " + firstLine(entry.text, 80) };
  }
  switch (type) {
    case "compaction":
      return { kind: "is-divider", text: "Compacted" };
    case "branch_summary":
      return { kind: "is-divider", text: "Back from a branch" };
    case "custom_message":
      return { kind: "is-note", text: (str(raw.customType) || "note") + "  " + firstLine(unmarked(entry.text), 80) };
  }
  const value = ["modelId", "thinkingLevel", "label", "name", "customType"].map((key) => str(raw[key])).find(Boolean);
  return { kind: "is-note", text: type.replaceAll("_", " ") + (value ? "  " + value : "") };
}

function answerOutline(entry) {
  const text = firstLine(unmarked(entry.text));
  const names = entry.calls.map((c) => str(c.name)).join(", ");
  return text || (names ? "→ " + names : firstLine(str(entry.message.errorMessage)) || "(empty)");
}
