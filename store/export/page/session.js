// The session: its entries, the tree they form, and what they say.

// Entry is one line of the file.
class Entry {
  constructor(raw, index) {
    this.raw = raw;
    this.index = index;
    this.id = str(raw.id) || "line-" + (index + 2);
    this.type = str(raw.type) || "unknown";
    this.message = this.type === "message" && isObject(raw.message) ? raw.message : null;
    this.role = this.message ? str(this.message.role) : "";
    this.time = timeOf(raw.timestamp) || timeOf(this.message?.timestamp);
    this.parent = null;
    this.children = [];
    this.label = "";
    this.omitted = false; // from the model's context
    this.weight = 0; // entries of the conversation from here on
    this.tip = this; // the newest entry from here on
  }

  get content() {
    return blocks(this.message ? this.message.content : this.raw.content);
  }

  // text is what was said, without thinking and tool calls.
  get text() {
    return this.content.filter((b) => b.type === "text").map((b) => str(b.text)).join("\n\n");
  }

  get calls() {
    return this.role === "assistant" ? this.content.filter((b) => b.type === "toolCall") : [];
  }

  get failed() {
    return this.role === "assistant" && ["error", "aborted"].includes(this.message.stopReason);
  }

  // talks reports whether the entry is part of the conversation, as opposed to
  // the books kept about it.
  get talks() {
    switch (this.type) {
      case "message":
        return this.role !== "system" && !(this.role === "custom" && this.message.display === false);
      case "compaction":
      case "branch_summary":
        return true;
      case "custom_message":
        return this.raw.display !== false;
    }
    return false;
  }
}

// blocks makes a list of content blocks of what a file may hold instead.
function blocks(content) {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return Array.isArray(content) ? content.filter(isObject) : [];
}

// Session is everything that was exported.
class Session {
  constructor(info, lines) {
    this.info = isObject(info) ? info : {};
    this.header = isObject(this.info.header) ? this.info.header : {};
    this.entries = lines.map(parseLine);
    this.byId = new Map(this.entries.map((e) => [e.id, e]));
    this.roots = growTree(this.entries);
    this.annotate();
    this.leaf = this.byId.get(this.info.leaf) ?? this.entries.at(-1) ?? null;
    this.name = str(this.info.name) || this.lastName();
  }

  // annotate carries over what entries say of others.
  annotate() {
    for (const e of this.entries) {
      const target = this.byId.get(e.raw.targetId);
      if (!target) continue;
      if (e.type === "label") target.label = str(e.raw.label);
      if (e.type === "context_edit") target.omitted = e.raw.replacement === null;
    }
  }

  lastName() {
    return str(this.entries.findLast((e) => e.type === "session_info")?.raw.name);
  }

  title() {
    const first = () => this.entries.find((e) => e.role === "user" && e.text.trim());
    return this.name || firstLine(first()?.text ?? "", 80) || "Session " + str(this.header.id);
  }

  // pathTo lists the entries from the root to one of them.
  pathTo(entry) {
    const path = [];
    for (let e = entry; e; e = e.parent) path.push(e);
    return path.reverse();
  }
}

function readSession() {
  const text = byId("entries").textContent;
  let info = {};
  try {
    info = JSON.parse(byId("session").textContent);
  } catch (error) {
    console.warn("session data", error);
  }
  return new Session(info, text === "" ? [] : text.split("\n"));
}

function parseLine(line, index) {
  try {
    const raw = JSON.parse(line);
    if (isObject(raw)) return new Entry(raw, index);
  } catch {
    // it is shown as it stands
  }
  return new Entry({ type: "unreadable", line }, index);
}

// growTree sets the parents and children of all entries and returns the roots.
// The parent of a duplicated id is the nearest one before the child. An entry
// whose parent is not in the file is a root, one that does not speak of a
// parent follows the entry before it. A ring of parents is cut.
function growTree(entries) {
  const all = new Map();
  for (const e of entries) if (!all.has(e.id)) all.set(e.id, e);
  const before = new Map();
  for (const [i, e] of entries.entries()) {
    const parent = e.raw.parentId;
    if (parent === undefined) e.parent = entries[i - 1] ?? null;
    else e.parent = before.get(parent) ?? all.get(parent) ?? null;
    if (e.parent === e) e.parent = null;
    before.set(e.id, e);
  }
  cutRings(entries);
  const roots = [];
  for (const e of entries) (e.parent ? e.parent.children : roots).push(e);
  weigh(roots);
  return roots;
}

function cutRings(entries) {
  const seen = new Map(); // entry to where the walk began that came by first
  for (const start of entries) {
    for (let e = start; e && !seen.has(e); e = e.parent) {
      seen.set(e, start);
      if (e.parent && seen.get(e.parent) === start) e.parent = null;
    }
  }
}

// weigh sums up each subtree, children before parents, without recursion: a
// session is easily thousands of entries deep.
function weigh(roots) {
  const order = [...roots];
  for (let i = 0; i < order.length; i++) for (const child of order[i].children) order.push(child);
  for (const e of order.reverse()) {
    if (e.talks) e.weight++;
    if (!e.parent) continue;
    e.parent.weight += e.weight;
    if (e.tip.index > e.parent.tip.index) e.parent.tip = e.tip;
  }
}

// branches lists the children with which a conversation goes on.
function branches(children) {
  return children.filter((e) => e.weight > 0);
}

// Totals sums up what entries cost.
class Totals {
  constructor(entries) {
    Object.assign(this, { user: 0, assistant: 0, calls: 0, failed: 0, compactions: 0 });
    Object.assign(this, { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, cost: 0 });
    this.models = new Map();
    for (const e of entries) this.add(e);
    const times = entries.map((e) => e.time).filter((t) => t > 0);
    this.from = times.reduce((a, b) => Math.min(a, b), times[0] ?? 0);
    this.to = times.reduce((a, b) => Math.max(a, b), 0);
  }

  add(e) {
    if (e.role === "user") this.user++;
    if (e.type === "compaction") this.compactions++;
    if (e.role === "toolResult" && e.message.isError === true) this.failed++;
    if (e.role === "assistant") {
      this.assistant++;
      this.calls += e.calls.length;
      const model = str(e.message.model);
      if (model) this.models.set(model, (this.models.get(model) ?? 0) + 1);
    }
    this.addUsage(e.message?.usage ?? e.raw.usage);
  }

  addUsage(usage) {
    if (!isObject(usage)) return;
    for (const kind of ["input", "output", "cacheRead", "cacheWrite"]) this[kind] += num(usage[kind]);
    this.cost += num(usage.cost?.total);
  }
}
