// One session: what is known of it, and its conversation on the page.

const pageOfEntries = 200;

class View {
  // app: changed(view), announce(text), alert(text), scrolls to the end.
  constructor(app, handle) {
    this.app = app;
    this.handle = handle;
    this.epoch = "";
    this.seq = 0;
    this.state = {};
    this.root = el("div", { class: "messages" });
    this.clear();
    this.approvals = new Map();
    this.dialogs = new Map();
    this.agents = new Map(); // by id: the children that work for it, and have
    this.statuses = new Map(); // setStatus of extensions
    this.widgets = new Map();
    this.loaded = false;
    this.says = ""; // what it does
  }

  clear() {
    this.entries = new Map(); // by id
    this.items = [];
    this.slots = new Map(); // call id to its slot, for results
    this.calls = new Map(); // call id to its Call
    this.answer = null;
    this.hasMore = false;
    this.newest = ""; // the id of the newest entry that the file is known to have
    this.queue = { steering: [], followUp: [] };
    this.running = false;
    this.phase = "";
    this.root.replaceChildren();
  }

  // unused reports whether nothing was said in the session.
  get unused() {
    return this.loaded && !this.parent && !this.running && !this.answer && this.items.length === 0 && this.queue.steering.length + this.queue.followUp.length === 0;
  }

  get position() {
    return this.loaded && this.epoch !== "" ? { epoch: this.epoch, seq: this.seq } : null;
  }

  // attached takes the answer to attach: the state, and where the client was
  // left behind a snapshot instead of what it missed.
  attached(answer) {
    this.epoch = str(answer.epoch);
    if (answer.replay !== "exact") {
      this.clear();
      const s = answer.snapshot;
      this.seq = num(answer.seq);
      if (s) this.take(s);
      this.agents.clear();
      this.app.later(() => this.app.agents.load(this));
    }
    this.setState(answer.state); // behind clear, which knows of no run
    this.asked(answer.snapshot ?? answer);
    if (answer.replay !== "exact") this.says = this.doing();
    this.loaded = true;
    this.app.changed(this);
  }

  // asked takes what is open, and nothing else.
  asked(open) {
    if (Array.isArray(open.dialogs)) this.dialogs = new Map(open.dialogs.map((d) => [d.id, d]));
    if (Array.isArray(open.approvals)) this.approvals = new Map(open.approvals.map((a) => [a.id, a]));
  }

  take(snapshot) {
    this.hasMore = snapshot.hasMore === true;
    this.add(snapshot.entries ?? []);
    this.leaf = snapshot.leafId;
    this.layOut(this.leaf);
    this.queue = { steering: snapshot.steering ?? snapshot.queue?.steering ?? [], followUp: snapshot.followUp ?? snapshot.queue?.followUp ?? [] };
    if (snapshot.partial?.message) this.begin(snapshot.partial.message, snapshot.partial.runId);
    for (const tool of snapshot.tools ?? []) {
      this.toolStart(tool);
      if (tool.partialResult) this.calls.get(tool.toolCallId)?.show(tool.partialResult, false, false);
    }
    this.answer?.draw();
  }

  add(list) {
    for (const raw of list) {
      const entry = new Entry(raw, this.entries.size);
      this.entries.set(entry.id, entry);
      this.newest = entry.id;
    }
  }

  // layOut draws the branch up to an entry, before what is there already.
  layOut(last) {
    const { root, items, slots, calls } = this;
    this.root = el("div");
    this.items = [];
    this.slots = new Map();
    this.calls = new Map();
    const path = [];
    for (let e = this.entries.get(last); e; e = this.entries.get(e.raw.parentId)) path.push(e);
    for (const entry of path.reverse()) this.put(entry);
    while (items.length > 0 && this.joins(items[0].entry)) items.shift().article.remove(); // it stood alone while its call was not here
    if (items.length > 0) items[0].article.classList.toggle("continued", continues(this.items.at(-1)?.entry, items[0].entry));
    root.prepend(...this.root.childNodes);
    this.root = root;
    this.items = [...this.items, ...items];
    this.slots = new Map([...this.slots, ...slots]);
    this.calls = new Map([...this.calls, ...calls]);
    this.hasMore = this.hasMore && path.length > 0;
  }

  // joins gives the result of a tool to its call, if there is one that has none.
  joins(entry) {
    const slot = entry.role === "toolResult" ? this.slots.get(entry.message.toolCallId) : undefined;
    if (!slot || slot.result) return false;
    slot.result = entry;
    const card = this.calls.get(entry.message.toolCallId);
    if (card) card.show(entry.message, true, entry.message.isError === true);
    return true;
  }

  // put appends an entry. The result of a tool goes to its call.
  put(entry) {
    if (this.joins(entry)) return null;
    if (!entry.talks && !["model_change", "thinking_level_change"].includes(entry.type)) return null;
    if (!entry.talks && this.items.length === 0) return null; // what a session began with is in the bar
    const item = new Item(entry);
    item.continues = continues(this.items.at(-1)?.entry, entry);
    this.items.push(item);
    const article = item.build();
    const when = article.querySelector("a.when");
    if (when && entry.time) {
      when.dataset.time = entry.time;
      when.textContent = ago(entry.time);
    }
    if (entry.role === "user" && !this.app.readOnly && !this.parent) {
      when?.before(el("button", { type: "button", class: "copy", title: "Edit and send again", "aria-label": "Edit and send again", click: () => this.app.later(() => this.app.composer.edit(item)) }, icon("edit")));
    }
    this.root.append(article);
    this.watch(item, article);
    return item;
  }

  // watch makes cards of the calls of an answer.
  watch(item, article) {
    const folds = [...article.querySelectorAll(":scope > .body > details.tool")];
    for (const [i, slot] of item.slots.entries()) {
      this.slots.set(slot.call.id, slot);
      if (folds[i]) this.calls.set(slot.call.id, new Call(slot.call, folds[i]));
    }
  }

  begin(message, runId) {
    this.drop();
    this.answer = new Answer(message, runId, this.items.at(-1)?.entry.role === "assistant");
    this.root.append(this.answer.article);
  }

  drop() {
    this.answer?.article.remove();
    this.answer = null;
  }

  toolStart({ toolCallId, toolName, args }) {
    let card = this.calls.get(toolCallId);
    if (!card) { // its message has not been seen: a card of its own
      const call = { id: toolCallId, name: toolName, arguments: args };
      const details = toolFold(call, null);
      this.root.append(el("article", { class: "entry assistant continued" }, el("div", { class: "body" }, details)));
      this.calls.set(toolCallId, (card = new Call(call, details)));
    }
    if (isObject(args)) card.call = { ...card.call, arguments: args };
    if (!card.over) card.show(null, false, false);
  }

  setState(state) {
    if (!isObject(state)) return;
    this.state = { ...this.state, ...state };
    this.running = state.isStreaming === true || state.isCompacting === true;
    this.phase = str(state.phase);
  }

  spent(snapshot) {
    if (snapshot) this.state.budget = { ...this.state.budget, snapshot };
  }

  // doing says what the session does, to who comes while it does it.
  doing() {
    if (this.approvals.size + this.dialogs.size > 0) return "Waiting for you";
    if (this.state.isCompacting === true) return "Summarising older messages";
    return this.running ? "Answering" : "";
  }

  // event takes one event of the session.
  event(ev) {
    if (typeof ev.seq === "number") this.seq = ev.seq;
    const handler = events[ev.type];
    if (handler) handler.call(this, ev);
  }

  // adopt gives what has just been said its place in the file, and shows what
  // no event tells of.
  async adopt() {
    if (!this.loaded || !this.app.link.open) return;
    const { entries } = await this.app.link.ask("get_entries", { sessionId: this.handle, ...(this.newest && { since: this.newest }) });
    const fresh = this.items.filter((i) => i.entry.id.startsWith("live-"));
    for (const raw of entries) {
      const entry = new Entry(raw, this.entries.size);
      if (this.entries.has(entry.id)) continue;
      this.entries.set(entry.id, entry);
      this.newest = entry.id;
      this.leaf = entry.id;
      const at = fresh.findIndex((i) => i.entry.role === entry.role && i.entry.message?.timestamp === entry.message?.timestamp);
      if (at < 0) {
        const known = entry.role === "toolResult" && this.slots.get(entry.message.toolCallId)?.result;
        if (!known) this.put(entry);
        continue;
      }
      const [item] = fresh.splice(at, 1);
      item.entry.id = entry.id;
      item.entry.raw = entry.raw;
      item.article.querySelector("a.when")?.setAttribute("href", hashOf(entry.id));
    }
    this.app.changed(this);
  }

  // earlier fetches the page of entries before the first one.
  async earlier() {
    const oldest = this.entries.keys().next().value;
    const { entries, hasMore } = await this.app.link.ask("get_entries", { sessionId: this.handle, before: oldest, limit: pageOfEntries });
    if (this.entries.keys().next().value !== oldest) return; // asked twice, or attached anew meanwhile
    const later = [...this.entries.values()];
    const older = entries.filter((raw) => !this.entries.has(raw.id));
    this.entries = new Map();
    this.add(older);
    for (const e of later) this.entries.set(e.id, e);
    this.newest = later.at(-1)?.id ?? this.newest;
    this.hasMore = hasMore === true && older.length > 0;
    const first = this.items[0]?.entry.raw;
    this.layOut(first && "parentId" in first ? first.parentId : this.leaf); // what has just been said has no place in the file yet
  }
}

// continues reports whether an answer goes on where the one before it stopped
// for tools.
function continues(before, e) {
  return e.role === "assistant" && before?.role === "assistant" && !before.failed && before.message.model === e.message.model;
}

let liveNumber = 0;

// events says what each event does to a View.
const events = {
  agent_start() {
    this.running = true;
    this.app.announce(this, "Answering");
  },
  message_start({ message, runId }) {
    if (message?.role === "assistant") this.begin(message, runId);
  },
  message_update({ message, assistantMessageEvent }) {
    if (!this.answer) this.begin(message ?? { role: "assistant", content: [] });
    if (message && !assistantMessageEvent) return;
    this.answer.step(assistantMessageEvent ?? {});
    this.app.draw(this);
  },
  message_end({ message }) {
    if (!isObject(message)) return;
    if (message.role === "assistant") this.drop();
    const entry = new Entry({ type: "message", id: "live-" + ++liveNumber, message, timestamp: message.timestamp }, this.entries.size);
    if (message.role === "toolResult" && this.slots.get(message.toolCallId)?.result) return;
    const item = this.put(entry);
    if (item && message.role === "assistant") {
      for (const slot of item.slots) this.calls.get(slot.call.id)?.show(null, false, false);
    }
  },
  tool_execution_start(ev) {
    this.toolStart(ev);
    this.app.announce(this, "Tool " + str(ev.toolName));
  },
  tool_execution_update({ toolCallId, partialResult }) {
    const card = this.calls.get(toolCallId);
    const { progress } = partialResult?.details ?? {};
    for (const p of Array.isArray(progress) ? progress : []) {
      const agent = this.agents.get(p.id);
      if (agent) agent.progress = p;
    }
    if (!card || card.over) return;
    card.next = partialResult;
    this.app.draw(this);
  },
  tool_execution_end({ toolCallId, result, isError }) {
    const card = this.calls.get(toolCallId);
    if (!card) return;
    card.next = null;
    card.show(result, true, isError === true);
  },
  subagent_start({ id, agent, childSessionId }) {
    this.agents.set(id, { id, agent, childSessionId, status: "running" });
  },
  subagent_end({ id, agent, exitCode, aborted }) {
    this.app.letGo(this.agents.get(id)?.childSessionId);
    this.agents.set(id, { id, agent, status: aborted ? "aborted" : exitCode === 0 ? "completed" : "failed" });
  },
  agent_end({ error, willRetry }) {
    this.drop();
    if (error && !willRetry) this.app.announce(this, str(error));
  },
  agent_settled({ outcome }) {
    this.running = false;
    for (const card of this.calls.values()) if (!card.over) card.show(null, true, true);
    const words = { completed: "Done", aborted: "Stopped", failed: "Failed", interrupted: "Interrupted" };
    this.app.announce(this, words[outcome] ?? "Done");
    this.app.settled(this, str(outcome));
  },
  queue_update({ steering, followUp }) {
    this.queue = { steering: steering ?? [], followUp: followUp ?? [] };
  },
  auto_retry_start({ attempt, maxAttempts, delayMs, errorMessage }) {
    this.app.announce(this, `${str(errorMessage) || "The provider failed."} Attempt ${num(attempt)} of ${num(maxAttempts)} in ${duration(num(delayMs))}.`);
  },
  auto_retry_end({ success, finalError }) {
    if (success === false) this.app.announce(this, str(finalError) || "The provider failed.");
  },
  compaction_start() {
    this.app.announce(this, "Summarising older messages");
  },
  compaction_end({ errorMessage }) {
    this.app.announce(this, str(errorMessage) || "Summarised");
    this.app.later(() => this.adopt());
  },
  entry_appended() {
    if (!this.running) this.app.later(() => this.adopt());
  },
  session_info_changed({ name }) {
    this.state.sessionName = str(name);
    this.app.listChanged();
  },
  thinking_level_changed({ level }) {
    this.state.thinkingLevel = level;
  },
  state_changed({ type, seq, sessionId, ...changes }) {
    Object.assign(this.state, changes);
  },
  session_changed({ durableId }) {
    this.app.moved(this, str(durableId));
  },
  resync() {
    this.app.attach(this, {});
  },
  session_failed({ error }) {
    this.running = false;
    this.app.announce(this, "The session has failed: " + str(error));
  },
  extension_ui_request(ev) {
    const show = dialogsOf[ev.method];
    if (show) show(this, ev);
    else {
      this.dialogs.set(ev.id, ev);
      this.app.asks(this, ev.title || "A question");
    }
  },
  dialog_resolved({ id, outcome, by }) {
    if (this.dialogs.delete(id) && outcome === "answered" && by) this.app.announce(this, "Answered by " + (by.name || by.clientId));
  },
  approval_request(ev) {
    this.approvals.set(ev.id, ev);
    this.app.asks(this, ev.title || ev.toolName);
  },
  approval_resolved({ id, outcome, by }) {
    if (this.approvals.delete(id)) this.app.announce(this, ({ allowed: "Allowed", denied: "Denied", cancelled: "The question was withdrawn", timeout: "The question timed out" }[outcome] ?? str(outcome)) + (by ? " by " + (by.name || by.clientId) : ""));
  },
  extension_error(ev) {
    this.app.announce(this, "An extension failed: " + str(ev.error));
  },
  budget_warning({ snapshot }) {
    this.spent(snapshot);
    this.app.announce(this, "The budget is nearly used up" + (snapshot?.reason ? ` (${snapshot.reason})` : ""));
  },
  budget_exceeded({ snapshot }) {
    this.spent(snapshot);
    this.app.announce(this, "The budget is used up" + (snapshot?.reason ? ` (${snapshot.reason})` : ""));
  },
};

// dialogsOf are the requests of extensions that want no answer.
const dialogsOf = {
  notify: (view, { message, title }) => view.app.announce(view, [title, message].filter(Boolean).join(": ")),
  setStatus: (view, { statusKey, statusText }) => (statusText ? view.statuses.set(statusKey, statusText) : view.statuses.delete(statusKey)),
  setWidget: (view, { widgetKey, widgetLines }) => (Array.isArray(widgetLines) ? view.widgets.set(widgetKey, widgetLines) : view.widgets.delete(widgetKey)),
  setTitle: (view, { title }) => (view.title = str(title)),
  set_editor_text: (view, { text }) => view.app.editorText(view, str(text)),
};
