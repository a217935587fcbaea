// What is still growing: the open answer and calls that have not ended.

// cutOf is where the settled part of a growing Markdown text ends: behind the
// last blank line outside a fence. What is before it never changes its looks.
function cutOf(text, from) {
  let cut = from;
  let fenced = false;
  let start = from;
  for (;;) {
    const end = text.indexOf("\n", start);
    if (end < 0) return cut;
    const line = text.slice(start, end);
    if (/^ {0,3}(```|~~~)/.test(line)) fenced = !fenced;
    start = end + 1;
    const next = text.slice(start, start + 4);
    if (!fenced && line.trim() === "" && start > cut + 1 && next.length === 4 && !/^(\s|[-*+] |\d+[.)] |>|\|)/.test(next)) cut = start;
  }
}

// GrowingText draws Markdown as it comes: what is settled once, the rest again.
class GrowingText {
  constructor() {
    this.node = el("div", { class: "growing" });
    this.tail = el("div");
    this.node.append(this.tail);
    this.text = "";
    this.settled = 0;
  }

  draw() {
    const cut = cutOf(this.text, this.settled);
    if (cut > this.settled) {
      this.tail.before(markdown(this.text.slice(this.settled, cut)));
      this.settled = cut;
    }
    const rest = this.text.slice(this.settled);
    const tail = rest.trim() === "" ? el("div") : markdown(rest);
    this.tail.replaceWith(tail);
    this.tail = tail;
  }
}

class GrowingThought {
  constructor() {
    this.body = document.createTextNode("");
    this.brief = el("span", { class: "brief" });
    this.node = el("details", { class: "thinking" }, el("summary", null, "Thinking ", this.brief), el("div", { class: "prose plain" }, this.body));
    this.text = "";
  }

  draw() {
    this.body.data = this.text;
    this.brief.textContent = firstLine(unmarked(this.text));
  }
}

class GrowingCall {
  constructor(name) {
    this.name = str(name) || "tool";
    this.size = el("span", { class: "meta" });
    this.node = el("div", { class: "tool pending" }, el("p", { class: "coming" },
      el("span", { class: "status", "aria-hidden": "true" }, "…"), " ", el("span", { class: "tool-name" }, this.name), " ", this.size));
    this.text = "";
  }

  draw() {
    this.size.textContent = this.text === "" ? "" : tokens(this.text.length) + " characters of arguments";
  }
}

// Answer is the answer that a model is giving.
class Answer {
  constructor(message, runId, continues) {
    this.runId = runId;
    this.blocks = [];
    const item = new Item(new Entry({ type: "message", id: "live", message: { ...message, content: [] } }, 0));
    item.continues = continues;
    this.article = item.build();
    this.article.classList.add("live");
    this.body = this.article.querySelector(".body");
    this.dirty = new Set();
    for (const [i, block] of blocks(message.content).entries()) this.take(i, block);
  }

  // take shows a block as far as it has come.
  take(index, block) {
    const growing = this.block(index, block.type, block.name);
    growing.text = block.type === "text" ? str(block.text) : block.type === "thinking" ? str(block.thinking) : JSON.stringify(block.arguments ?? {});
    this.dirty.add(growing);
  }

  block(index, type, name) {
    if (!this.blocks[index]) {
      const growing = type === "thinking" ? new GrowingThought() : type === "toolCall" ? new GrowingCall(name) : new GrowingText();
      this.blocks[index] = growing;
      const after = this.blocks.slice(index + 1).find(Boolean);
      if (after) after.node.before(growing.node);
      else this.body.append(growing.node);
    }
    return this.blocks[index];
  }

  // step takes one assistantMessageEvent.
  step(event) {
    const [kind, phase] = str(event.type).split("_");
    const type = { text: "text", thinking: "thinking", toolcall: "toolCall" }[kind];
    if (!type) return;
    const growing = this.block(num(event.contentIndex), type, event.toolName ?? event.toolCall?.name);
    if (phase === "delta") growing.text += str(event.delta);
    if (phase === "end" && typeof event.content === "string") growing.text = event.content;
    this.dirty.add(growing);
  }

  draw() {
    for (const growing of this.dirty) growing.draw();
    this.dirty.clear();
  }
}

// Call is the card of a tool call that has not ended.
class Call {
  constructor(call, details) {
    this.call = call;
    this.details = details;
    this.over = false;
  }

  // show draws the card with what there is of a result.
  show(result, over, failed) {
    this.over = over;
    const content = blocks(result?.content);
    const message = { role: "toolResult", toolCallId: this.call.id, toolName: this.call.name, content, details: result?.details, isError: failed };
    const entry = new Entry({ type: "message", id: "live-" + this.call.id, message }, 0);
    const next = toolFold(this.call, entry);
    if (!over) {
      next.classList.remove("done");
      next.classList.add("pending");
      const status = next.querySelector(".status");
      status.textContent = "…";
      for (const name of ["title", "aria-label"]) status.setAttribute(name, "Running");
    }
    if (this.details.open) openFold(next, true);
    this.details.replaceWith(next);
    this.details = next;
    const output = !over && next.open && next.querySelector(".output");
    if (output) output.scrollTop = output.scrollHeight;
    return entry;
  }
}
