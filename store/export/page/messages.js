// The elements of the conversation, one article for an entry.

// Item is an entry that has an article, and the calls in it with their results.
class Item {
  constructor(entry) {
    this.entry = entry;
    this.slots = entry.calls.map((call) => ({ call, result: null }));
    this.continues = false; // the answer before it
    this.article = null;
    this.folds = new Map(); // result entry to its fold
  }

  // height is a guess in pixels, good enough for a scroll bar.
  get height() {
    const text = this.entry.text.length;
    return 48 + this.slots.length * 44 + Math.ceil(text / 90) * 26;
  }

  build() {
    if (this.article) return this.article;
    try {
      this.article = draw(this);
    } catch (error) {
      console.warn("entry", this.entry.id, error);
      this.article = frame(this, "unknown", "Entry", rawFold("Entry that could not be drawn", this.entry.raw));
    }
    return this.article;
  }
}

function draw(item) {
  const e = item.entry;
  if (e.message) return (Object.hasOwn(roles, e.role) ? roles[e.role] : otherMessage)(item);
  return (Object.hasOwn(types, e.type) ? types[e.type] : otherEntry)(item);
}

const roles = {
  user: (item) => frame(item, "user", "User", contentOf(item.entry, "user")),
  assistant: drawAssistant,
  toolResult: (item) =>
    frame(item, "assistant", "Tool", toolFold({ name: item.entry.message.toolName }, item.entry)),
  bashExecution: drawBash,
  system: drawSystem,
  custom: (item) => frame(item, "custom", str(item.entry.message.customType) || "Note", contentOf(item.entry)),
};

const types = {
  custom_message: (item) => frame(item, "custom", str(item.entry.raw.customType) || "Note", contentOf(item.entry)),
  compaction: drawCompaction,
  branch_summary: drawBranchSummary,
  model_change: ({ entry }) => note(entry, "Model", [str(entry.raw.provider), str(entry.raw.modelId)].filter(Boolean).join(" / ")),
  thinking_level_change: ({ entry }) => note(entry, "Thinking", str(entry.raw.thinkingLevel)),
  session_info: ({ entry }) => note(entry, "Named", str(entry.raw.name) || "—"),
  label: ({ entry }) => note(entry, entry.raw.label ? "Labelled" : "Label removed", str(entry.raw.label), entry.raw.targetId),
  context_edit: ({ entry }) =>
    note(entry, entry.raw.replacement === null ? "Left out of the context" : "Changed in the context", "", entry.raw.targetId),
  unreadable: (item) => frame(item, "unknown", "Unreadable line", el("pre", { class: "plain" }, str(item.entry.raw.line))),
};

function drawAssistant(item) {
  const { entry } = item;
  const message = entry.message;
  let calls = 0;
  const parts = entry.content.map((block) => {
    if (block.type !== "toolCall") return blockOf(block);
    const slot = item.slots[calls++];
    const tool = toolFold(slot.call, slot.result);
    if (slot.result) item.folds.set(slot.result, tool);
    return tool;
  });
  return frame(item, "assistant", "Assistant", parts, ending(message));
}

// ending says why an answer is not whole.
function ending(message) {
  const why = str(message.errorMessage);
  switch (message.stopReason) {
    case "error":
      return el("p", { class: "notice bad" }, el("strong", null, "The provider failed. "), why);
    case "aborted":
      return el("p", { class: "notice" }, el("strong", null, "Aborted. "), why);
    case "length":
      return el("p", { class: "notice" }, "Cut off at the output limit.");
  }
  return null;
}

function contentOf(entry, dialect) {
  return entry.content.map((block) => blockOf(block, dialect));
}

function blockOf(block, dialect = "model") {
  switch (block.type) {
    case "text":
      return str(block.text).trim() === "" ? null : markdown(str(block.text), dialect);
    case "thinking":
      return thinkingFold(block);
    case "image":
      return picture(block);
  }
  return rawFold(str(block.type) || "block", block);
}

function thinkingFold(block) {
  const text = str(block.thinking);
  if (block.redacted === true || text.trim() === "") {
    return el("p", { class: "remark" }, block.redacted === true ? "Thinking, redacted by the provider" : "Thinking, without text");
  }
  const summary = ["Thinking ", el("span", { class: "brief" }, firstLine(unmarked(text)))];
  return fold({ class: "thinking" }, summary, () => markdown(text));
}

function drawBash(item) {
  const m = item.entry.message;
  const failed = m.cancelled === true || num(m.exitCode) !== 0;
  const badges = [
    m.cancelled === true && "cancelled",
    num(m.exitCode) !== 0 && "exit " + m.exitCode,
    m.truncated === true && "output cut",
    m.excludeFromContext === true && "not shown to the model",
  ].filter(Boolean);
  const body = terminal(str(m.command), plain(str(m.output)));
  if (failed) body.classList.add("failed");
  const article = frame(item, "user shell", "User, in the shell", body,
    str(m.fullOutputPath) && el("p", { class: "remark" }, "Whole output: " + m.fullOutputPath));
  article.querySelector(".badges").append(...badges.map(badge));
  return article;
}

// drawSystem shows a stored system message: text, named sections and the tools
// that came and went.
function drawSystem(item) {
  const m = item.entry.message;
  const sections = isObject(m.sections) ? Object.entries(m.sections) : [];
  return frame(item, "system", "System", fold({ class: "raw" }, "System prompt", () => el("div", null,
    contentOf(item.entry),
    sections.map(([name, text]) => labelled(name, el("pre", { class: "plain" }, typeof text === "string" ? text : prettyJSON(text)))),
    Array.isArray(m.toolsAdded) && labelled("Tools", toolList(m.toolsAdded)))));
}

function drawCompaction(item) {
  const { raw } = item.entry;
  const size = num(raw.tokensBefore) ? tokens(raw.tokensBefore) + " tokens of history" : "History";
  return divider(item, "compaction", "Compacted", size + " became a summary", str(raw.summary),
    jump(raw.firstKeptEntryId, "Kept word for word from here"));
}

function drawBranchSummary(item) {
  const { raw } = item.entry;
  return divider(item, "branch-summary", "Back from a branch", "what happened there, in short", str(raw.summary),
    jump(raw.fromId, "Go to that branch"));
}

// divider is an entry that stands for others: a rule with a summary in it.
function divider(item, kind, name, brief, summary, link) {
  const line = [el("strong", null, name), el("span", { class: "brief" }, brief)];
  return frame(item, "divider " + kind, "", fold({ class: "summary" }, line, () => el("div", null, markdown(summary), link)));
}

function note(entry, name, value, targetId) {
  return el("article", { class: "entry note" }, el("span", { class: "note-name" }, name), " ",
    value && el("strong", null, value), " ", targetId && jump(targetId, "↗", "The entry it is about"));
}

function otherMessage(item) {
  return frame(item, "unknown", item.entry.role || "Message", contentOf(item.entry), rawFold("As stored", item.entry.message));
}

function otherEntry(item) {
  const name = item.entry.type === "custom" ? str(item.entry.raw.customType) || "custom" : item.entry.type;
  return frame(item, "unknown", name, rawFold("As stored", item.entry.raw));
}

function rawFold(name, value) {
  return fold({ class: "raw" }, name, () => codeBlock(prettyJSON(value), { language: "json" }));
}

// jump is a link to another entry.
function jump(id, text, title) {
  return str(id) !== "" && el("a", { class: "jump", href: hashOf(id), title }, text);
}

function hashOf(id) {
  return "#" + encodeURIComponent(id);
}

function badge(text) {
  return el("span", { class: "badge" }, text);
}

// frame is the article of an entry: who, when, what it cost, and its body.
function frame(item, kind, who, ...body) {
  const { entry } = item;
  const text = entry.text;
  return el("article", { class: "entry " + kind + (item.continues ? " continued" : "") },
    el("header", null,
      who && el("span", { class: "who" }, who),
      entry.role === "assistant" && el("span", { class: "model" }, str(entry.message.model)),
      el("span", { class: "badges" }, entry.label && el("span", { class: "badge label" }, entry.label),
        entry.omitted && badge("left out of the context")),
      el("span", { class: "cost" }, costOf(entry)),
      text.trim() !== "" && copyButton(() => text, "Copy the text"),
      el("a", { class: "when", href: hashOf(entry.id), title: (entry.time ? dateAndTime(entry.time) + " · " : "") + "link to this entry" },
        entry.time ? clock(entry.time) : "#")),
    el("div", { class: "body" }, body));
}

function costOf(entry) {
  const usage = entry.message?.usage ?? entry.raw.usage;
  if (!isObject(usage)) return [];
  const parts = [];
  const cached = num(usage.cacheRead) + num(usage.cacheWrite);
  if (num(usage.input)) parts.push("↑" + tokens(usage.input));
  if (cached) parts.push("cache " + tokens(cached));
  if (num(usage.output)) parts.push("↓" + tokens(usage.output));
  if (num(usage.cost?.total)) parts.push(money(usage.cost.total));
  return parts.map((part) => el("span", null, part));
}
