// What waits for a person: approvals of tool calls and dialogs of extensions.

const tooSoon = 400; // ms: a card that has just appeared under a finger is not answered

const watching = () => el("p", { class: "why" }, "This device may only watch. Answer on another device.");

// inWords is the question of an approval: which tool, and what it would act on. It is a list of parts for el.
function inWords({ toolName, title, kind, preview, unsandboxed }) {
  const child = /^\[[^\]]*\] /.exec(str(title))?.[0] ?? ""; // the subagent that asks
  const cwd = str(preview.cwd).replace(/\/?$/, "/");
  const paths = (Array.isArray(preview.paths) ? preview.paths : []).map((p) => (str(p).startsWith(cwd) ? p.slice(cwd.length) : str(p)));
  const name = el("strong", null, spelt(str(toolName)));
  const about = { write: "to", edit: "of", read: "of" }[toolName] ?? "on";
  return [spelt(child), "Allow ", name, paths.length > 0 ? ` ${about} ${spelt(paths.join(", "))}` : kind === "execute" ? " to run this command" : "",
    unsandboxed === true && " without the sandbox", "?"];
}

// linesOf is the diff of a preview. The names of its one file are left out: the question has them.
function linesOf({ diff, paths }) {
  const lines = parseDiff(str(diff));
  const named = paths?.length === 1 && /^--- /.test(lines[0]?.text) && /^\+\+\+ /.test(lines[1]?.text);
  return named ? lines.slice(2) : lines;
}

// reasonOf returns the reason why a call needs approval.
function reasonOf(why) {
  const mode = /^the permission mode is (\w+)$/.exec(str(why?.reason))?.[1];
  if (mode) return ["Permission mode: ", permissionModes.find(([m]) => m === mode)?.[1] ?? mode];
  if (why?.rule) return ["Permission rule: ", el("code", null, spelt(str(why.rule))), why.source && ` (${spelt(str(why.source))})`];
  const reason = spelt(str(why?.reason));
  return [reason.charAt(0).toUpperCase() + reason.slice(1)];
}

class Dock {
  constructor(app, root) {
    this.app = app;
    this.root = root;
    this.cards = new Map(); // id to its element
    this.view = null;
  }

  // show draws the cards of a session. A card that stays keeps its element: what
  // is typed into it is not lost, and focus never moves by itself.
  show(view) {
    if (view !== this.view) this.cards.clear();
    this.view = view;
    const open = new Map();
    for (const [id, a] of view?.approvals ?? []) open.set("a" + id, () => this.approval(a));
    for (const [id, d] of view?.dialogs ?? []) open.set("d" + id, () => this.dialog(d));
    for (const id of this.cards.keys()) if (!open.has(id)) this.cards.delete(id);
    for (const [id, make] of open) if (!this.cards.has(id)) this.cards.set(id, make());
    const list = [...this.cards.values()];
    if (list.length !== this.root.children.length || list.some((c, i) => c !== this.root.children[i])) this.root.replaceChildren(...list);
    this.root.classList.toggle("several", list.length > 1);
    this.root.dataset.count = list.length > 1 ? count(list.length, "question") : "";
  }

  // card makes a question. title is a text or parts for el.
  card(title, ...content) {
    const shown = performance.now();
    const heading = el("h2", null, typeof title === "string" ? spelt(title) : title);
    const card = el("form", { class: "card", tabindex: "-1", "aria-label": heading.textContent, submit: (e) => e.preventDefault() }, heading, content);
    card.ripe = () => performance.now() - shown >= tooSoon && document.visibilityState === "visible";
    return card;
  }

  approval(a) {
    const preview = isObject(a.preview) ? a.preview : {};
    const feedback = el("input", { type: "text", placeholder: "Reason for denying (sent to the model)", "aria-label": "Reason for denying" });
    const edited = new Arguments(a.args, () => {
      for (const b of buttons) b.disabled = edited.changed && b.dataset.kind === "allow_always"; // it would allow what was asked, not what is written
    });
    const answer = async (option) => {
      if (!card.ripe()) return;
      const { view } = this;
      const parameters = { sessionId: view.handle, approvalId: a.id, optionId: option.id };
      if (option.kind === "reject_once" && feedback.value.trim()) parameters.feedback = feedback.value.trim();
      try {
        if (option.kind === "allow_once" && edited.changed) parameters.args = edited.value;
      } catch (error) {
        return this.app.alert("The arguments cannot be read: " + error.message);
      }
      if (await this.app.tell("approval_response", parameters)) view.approvals.delete(a.id); // what is over by now goes when that is told
      this.app.changed(view);
    };
    // Yes and no come first: of a long list a small screen shows no more.
    const order = { allow_once: 0, reject_once: 1 };
    const options = (Array.isArray(a.options) ? a.options : []).toSorted((x, y) => (order[x.kind] ?? 2) - (order[y.kind] ?? 2));
    const buttons = options.map((o) => el("button", { type: "button", "data-kind": str(o.kind), class: o.kind === "reject_once" ? "reject" : o.kind === "allow_once" ? "primary" : "", click: () => answer(o) },
      spelt(str(o.label) || o.id), o.rules?.length > 0 && el("span", { class: "rules" }, o.rules.map((r) => el("code", null, spelt(r))))));
    const always = buttons.filter((b) => b.dataset.kind === "allow_always");
    const card = this.card(inWords({ ...a, preview }),
      a.why?.reason && el("p", { class: "why" }, reasonOf(a.why)),
      el("div", { class: "preview", role: "region", tabindex: "0", "aria-label": "What would run" }, // it scrolls: the answers stay in view
        preview.command && terminal(str(preview.command), ""),
        preview.diff ? diffTable(linesOf(preview))
          : preview.paths?.length > 0 ? el("p", { class: "why" }, spelt(preview.paths.join(", ")))
            : !preview.command && codeBlock(prettyJSON(a.args), { language: "json" })),
      this.app.readOnly ? watching() : [
        el("div", { class: "answers" }, buttons.filter((b) => !always.includes(b))), feedback,
        el("div", { class: "folds" }, always.length > 0 && el("details", { class: "always" }, el("summary", null, "Always allow"), el("div", { class: "answers column" }, always)), edited.node)]);
    if (this.app.readOnly) return card;
    card.addEventListener("keydown", (event) => {
      if (edited.node.contains(event.target)) return; // it is written in
      if (event.target === feedback) {
        const reject = options.find((o) => o.kind === "reject_once");
        if (event.key === "Enter" && reject) answer(reject);
        return;
      }
      const kind = { a: "allow_once", d: "reject_once" }[event.key];
      const option = kind && !event.ctrlKey && !event.metaKey && !event.altKey && options.find((o) => o.kind === kind);
      if (!option) return;
      event.preventDefault();
      event.stopPropagation();
      answer(option);
    });
    return card;
  }

  dialog(d) {
    const answer = async (value) => {
      if (!card.ripe()) return;
      const { view } = this;
      if (await this.app.tell("extension_ui_response", { sessionId: view.handle, id: d.id, ...value })) view.dialogs.delete(d.id);
      this.app.changed(view);
    };
    const button = (text, value, kind = "") => el("button", { type: "button", class: kind, click: () => answer(value) }, spelt(text));
    const cancel = button("Cancel", { cancelled: true });
    const message = d.message && el("p", { class: "why" }, spelt(str(d.message)));
    let parts;
    switch (d.method) {
      case "confirm":
        parts = [message, el("div", { class: "answers" }, button("Yes", { confirmed: true }, "primary"), button("No", { confirmed: false }))];
        break;
      case "select":
        parts = [message, el("div", { class: "answers column" }, (d.options ?? []).map((o) => button(str(o), { value: o })), cancel)];
        break;
      default: {
        const field = d.method === "editor"
          ? el("textarea", { rows: 6, "aria-label": str(d.title) || "Text" })
          : el("input", { type: "text", placeholder: str(d.placeholder), "aria-label": str(d.title) || "Answer" });
        field.value = str(d.prefill);
        if (d.method !== "editor") field.addEventListener("keydown", (e) => e.key === "Enter" && answer({ value: field.value }));
        const ok = el("button", { type: "button", class: "primary", click: () => answer({ value: field.value }) }, "OK");
        parts = [message, field, el("div", { class: "answers" }, ok, cancel)];
      }
    }
    const card = this.card(str(d.title) || "A question", this.app.readOnly ? [message, watching()] : parts);
    return card;
  }
}

// Arguments are those of a call, to be changed before it is allowed: a field for each, in
// which texts stand as they are and other values as JSON.
class Arguments {
  constructor(args, changed) {
    this.fields = Object.entries(isObject(args) ? args : {}).map(([name, value]) => {
      const text = typeof value === "string" ? value : prettyJSON(value);
      const field = el("textarea", { rows: Math.min(8, text.split("\n").length), spellcheck: "false", "aria-label": name, input: changed });
      field.value = text;
      return { name, value, field, shown: field.value }; // a field has line ends of its own
    });
    this.node = el("details", { class: "arguments", hidden: this.fields.length === 0 }, el("summary", null, "Change arguments"),
      this.fields.map(({ name, field }) => el("label", null, spelt(name), field)));
  }

  get changed() {
    return this.fields.some((f) => f.field.value !== f.shown);
  }

  // value throws an error where what is written is no JSON.
  get value() {
    return Object.fromEntries(this.fields.map(({ name, value, field, shown }) =>
      [name, field.value === shown ? value : typeof value === "string" ? field.value : JSON.parse(field.value)]));
  }
}
