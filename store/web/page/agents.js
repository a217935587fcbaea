// Agents: the children that work for the session that is shown, and the way back from one of them.

class Agents {
  constructor(app, root) {
    this.app = app;
    this.root = root;
    this.rows = new Map(); // id to its row, which keeps what has the focus
    this.view = null;
  }

  // show draws who is at work. Those that have ended are in the list of all.
  show(view) {
    if (view !== this.view) this.rows.clear();
    this.view = view;
    const working = [...(view?.agents.values() ?? [])].filter((a) => a.childSessionId);
    const parent = view?.parent;
    for (const id of this.rows.keys()) if (!working.some((a) => a.id === id) && id !== parent) this.rows.delete(id);
    if (parent && !this.rows.has(parent)) this.rows.set(parent, el("p", { class: "agent" }, "Subagent of ", this.opens(parent, "the parent session")));
    for (const a of working) {
      if (!this.rows.has(a.id)) this.rows.set(a.id, this.row(a));
      this.rows.get(a.id).querySelector(".meta").textContent = this.doing(a);
    }
    const list = [...this.rows.values()];
    if (list.length !== this.root.children.length || list.some((r, i) => r !== this.root.children[i])) this.root.replaceChildren(...list);
  }

  opens(handle, text) {
    return el("button", { type: "button", click: () => this.app.show(handle) }, text);
  }

  row(a) {
    const name = spelt([a.id, a.agent].filter(Boolean).join(" · "));
    return el("p", { class: "agent" }, this.opens(a.childSessionId, name), " ", el("span", { class: "meta", dir: "auto" }), " ",
      !this.app.readOnly && el("button", { type: "button", "aria-label": "Stop " + name, click: () => this.stop(a) }, "Stop"));
  }

  // doing says what an agent does, in a line.
  doing({ status, description, progress }) {
    const tool = str(progress?.currentTool);
    return [tool ? `tool ${tool} ${str(progress.currentToolArgs)}` : str(progress?.status) || str(status), num(progress?.tokens) && tokens(progress.tokens) + " tokens", str(progress?.description) || str(description)]
      .filter(Boolean).map((t) => spelt(firstLine(t, 80))).join(" · ");
  }

  // stop ends the work of one agent: who is attached to it may.
  async stop({ childSessionId }) {
    const sessionId = childSessionId;
    if (this.app.views.has(sessionId)) return this.app.tell("abort", { sessionId });
    if (!(await this.app.tell("attach", { sessionId, snapshot: { limit: 1 } }))) return;
    await this.app.tell("abort", { sessionId });
    await this.app.tell("detach", { sessionId });
  }

  // load asks who works for a session: what came before its snapshot no event tells.
  async load(view) {
    const list = await this.ask(view);
    for (const a of list) if (!view.agents.get(a.id)?.childSessionId) view.agents.set(a.id, a);
    this.app.draw(view);
  }

  async ask(view) {
    const answer = await this.app.link.ask("get_subagents", { sessionId: view.handle }).catch(() => null);
    return answer?.subagents ?? [];
  }

  // all lists those that have ended, too.
  async all(view) {
    const list = await this.ask(view);
    this.app.sheets.pick("Agents", list.map((a) => ({
      name: spelt([a.id, a.agent].filter(Boolean).join(" · ")), brief: this.doing(a), group: a.childSessionId ? "Running" : "Ended",
      run: () => (a.childSessionId ? this.app.show(a.childSessionId) : a.sessionFile && !this.app.readOnly && this.app.openFile(a.sessionFile)),
    })), "Filter agents");
  }
}
