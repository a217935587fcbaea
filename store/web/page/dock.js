// What waits for a person: approvals of tool calls and dialogs of extensions.

const tooSoon = 400; // ms: a card that has just appeared under a finger is not answered

const watching = () => el("p", { class: "why" }, "This device may only watch: somebody else has to answer.");

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

  card(title, id, ...content) {
    const shown = performance.now();
    title = spelt(title);
    const card = el("form", { class: "card", tabindex: "-1", "aria-label": title, submit: (e) => e.preventDefault() },
      el("h2", null, title), content);
    card.ripe = () => performance.now() - shown >= tooSoon && document.visibilityState === "visible";
    return card;
  }

  approval(a) {
    const preview = isObject(a.preview) ? a.preview : {};
    const feedback = el("input", { type: "text", placeholder: "With a refusal: what the model is told", "aria-label": "Reason for a refusal" });
    const answer = async (option) => {
      if (!card.ripe()) return;
      const parameters = { sessionId: this.view.handle, approvalId: a.id, optionId: option.id };
      if (option.kind === "reject_once" && feedback.value.trim()) parameters.feedback = feedback.value.trim();
      await this.app.tell("approval_response", parameters);
      this.view.approvals.delete(a.id);
      this.app.changed(this.view);
    };
    // Yes and no come first: of a long list a small screen shows no more.
    const order = { allow_once: 0, reject_once: 1 };
    const options = (Array.isArray(a.options) ? a.options : []).toSorted((x, y) => (order[x.kind] ?? 2) - (order[y.kind] ?? 2));
    const buttons = options.map((o) => el("button", { type: "button", class: o.kind === "reject_once" ? "reject" : o.kind === "allow_once" ? "primary" : "", click: () => answer(o) },
      spelt(str(o.label) || o.id), o.rules?.length > 0 && el("span", { class: "rules" }, o.rules.map((r) => el("code", null, spelt(r))))));
    const card = this.card(str(a.title) || str(a.toolName), a.id,
      a.why?.reason && el("p", { class: "why" }, str(a.why.reason), a.why.rule && [": ", el("code", null, spelt(a.why.rule))], a.why.source && ` (${a.why.source})`),
      el("div", { class: "preview", role: "region", tabindex: "0", "aria-label": "What would run" }, // it scrolls: the answers stay in view
        preview.command && terminal(str(preview.command), ""),
        preview.diff ? diffTable(parseDiff(str(preview.diff)))
          : preview.paths?.length > 0 ? el("p", { class: "why" }, spelt(preview.paths.join(", ")))
            : !preview.command && codeBlock(prettyJSON(a.args), { language: "json" })),
      this.app.readOnly ? watching() : [el("div", { class: "answers" }, buttons), feedback]);
    if (this.app.readOnly) return card;
    card.addEventListener("keydown", (event) => {
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
      await this.app.tell("extension_ui_response", { sessionId: this.view.handle, id: d.id, ...value });
      this.view.dialogs.delete(d.id);
      this.app.changed(this.view);
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
    const card = this.card(str(d.title) || "A question", d.id, this.app.readOnly ? [message, watching()] : parts);
    return card;
  }
}
