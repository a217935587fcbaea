// Sheets over the page: models, new session, branches, find, commands, help.

class Sheets {
  constructor(app) {
    this.app = app;
    this.dialog = byId("sheet");
    this.shown = false;
    this.dialog.addEventListener("click", (e) => e.target === this.dialog && this.close());
    this.dialog.addEventListener("close", () => this.closed());
  }

  // open shows a sheet in the place of the one that is there. left is called when it is gone.
  open(title, content, left = null) {
    this.close();
    this.shown = true;
    this.left = left;
    this.dialog.replaceChildren(el("div", { class: "sheet" },
      el("header", null, el("h2", { id: "sheet-title" }, title),
        el("button", { type: "button", "aria-label": "Close", click: () => this.close() }, icon("wrong"))),
      content));
    this.dialog.showModal();
  }

  close() {
    this.dialog.close();
    this.closed();
  }

  // closed is for each sheet that is gone, once. The browser tells of it late: the next
  // one may be there by then.
  closed() {
    if (this.dialog.open || !this.shown) return;
    this.shown = false;
    this.dialog.replaceChildren();
    mark(byId("conversation"), []);
    this.left?.();
  }

  // pick offers things by name, with a filter. things: {name, brief, group, run}.
  pick(title, things, placeholder = "Filter") {
    const field = el("input", { type: "search", placeholder, "aria-label": placeholder, autocomplete: "off", spellcheck: "false" });
    const list = el("div", { class: "picks", role: "group", "aria-label": title });
    const draw = () => {
      const words = wordsOf(field.value);
      const found = things.filter((t) => words.every((w) => (t.name + " " + str(t.brief) + " " + str(t.group)).toLowerCase().includes(w)));
      let group;
      list.replaceChildren(...found.slice(0, 300).flatMap((t) => {
        const button = el("button", { type: "button", class: "pick", "aria-pressed": t.current === undefined ? null : String(t.current), click: () => {
          this.close();
          t.run();
        } }, el("span", null, t.name), t.brief && el("span", { class: "meta" }, t.brief));
        const head = t.group && t.group !== group && el("h3", null, t.group);
        group = t.group;
        return head ? [head, button] : [button];
      }));
      if (found.length === 0) list.append(el("p", { class: "meta" }, "Nothing matches."));
    };
    field.addEventListener("input", draw);
    field.addEventListener("keydown", (e) => e.key === "Enter" && list.querySelector("button")?.click());
    list.addEventListener("keydown", (e) => {
      const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
      if (!by) return;
      e.preventDefault();
      const all = [...list.querySelectorAll("button")];
      all[Math.max(0, Math.min(all.length - 1, all.indexOf(document.activeElement) + by))]?.focus();
    });
    draw();
    this.open(title, [field, list]);
    field.focus();
  }

  async models() {
    const { view, link } = this.app;
    if (!view) return;
    const { models } = await link.ask("get_available_models", { sessionId: view.handle });
    const current = view.state.model;
    const price = (m) => (num(m.cost?.input) ? `$${m.cost.input} / $${m.cost.output}` : "");
    const things = [...models].sort((a, b) => str(a.provider).localeCompare(str(b.provider))).map((m) => ({
      name: str(m.name) || m.id, group: m.provider, current: current?.id === m.id && current?.provider === m.provider,
      brief: [m.id, num(m.contextWindow) && tokens(m.contextWindow), price(m)].filter(Boolean).join(" · "),
      run: async () => {
        const model = await this.app.tell("set_model", { sessionId: view.handle, provider: m.provider, modelId: m.id });
        if (model?.id) view.state.model = model;
        this.app.loadLevels(view);
      },
    }));
    if (!this.app.readOnly && link.commands.has("get_auth")) {
      things.push({ name: "Provider credentials", group: "Models of other providers", run: () => this.app.later(() => this.app.logins.list()) });
    }
    this.pick("Model", things, "Filter models");
  }

  newSession(directories) {
    const cwd = el("input", { type: "text", name: "cwd", list: "directories", placeholder: "The directory of the server", autocomplete: "off", spellcheck: "false" });
    const mode = el("select", { name: "mode" }, permissionModes.map((m) => el("option", { value: m[0] }, m[1])));
    const name = el("input", { type: "text", name: "name", autocomplete: "off" });
    const wrong = el("p", { class: "notice bad", role: "alert", hidden: true });
    mode.value = "ask";
    cwd.value = this.app.view?.cwd ?? "";
    const form = el("form", { class: "fields", submit: async (e) => {
      e.preventDefault();
      try {
        await this.app.begin({ ...(cwd.value.trim() && { cwd: cwd.value.trim() }), ...(name.value.trim() && { name: name.value.trim() }), permissionMode: mode.value });
        this.close();
      } catch (error) {
        wrong.hidden = false;
        wrong.textContent = error.message;
      }
    } },
    el("label", null, "Directory", cwd), el("datalist", { id: "directories" }, directories.map((d) => el("option", { value: d }))),
    el("label", null, "Permissions", mode), el("label", null, "Name", name), wrong,
    el("button", { type: "submit", class: "primary" }, "Create session"));
    this.open("New session", form);
    cwd.focus();
    if (!this.app.link.commands.has("list_directories")) return;
    const suggest = async () => { // the directories that what is written may go on to
      const [, dir, query] = /^(.*\/)?([^/]*)$/.exec(cwd.value.trim());
      const found = await this.app.link.ask("list_directories", { ...(dir && { path: dir }), ...(query && { query }) }).catch(() => null);
      if (!found) return;
      const base = found.path.replace(/\/$/, "");
      byId("directories")?.replaceChildren(...[...directories, ...found.directories.map((d) => base + "/" + d)].map((d) => el("option", { value: d })));
    };
    cwd.addEventListener("input", suggest);
    suggest();
  }

  // sure asks before something is done that is not easily taken back.
  sure(title, text, yes) {
    return new Promise((resolve) => {
      const answer = (ok) => {
        resolve(ok);
        this.close();
      };
      this.open(title, [el("p", { dir: "auto" }, text), el("p", { class: "row" },
        el("button", { type: "button", click: () => answer(false) }, "Cancel"), " ", el("button", { type: "button", class: "primary", id: "sure", click: () => answer(true) }, yes))],
      () => resolve(false));
      byId("sure").focus();
    });
  }

  // branches draws the tree of the session, from all its entries.
  async branches() {
    const { view, link } = this.app;
    if (!view) return;
    const { entries, leafId } = await link.ask("get_entries", { sessionId: view.handle });
    const session = new Session({ leaf: leafId ?? view.leaf }, entries.map((raw) => JSON.stringify(raw)));
    const nav = el("nav", { id: "tree", "aria-label": "Entries" });
    const found = el("p", { id: "found", role: "status" });
    const field = el("input", { type: "search", placeholder: "Search all branches", "aria-label": "Search all branches" });
    this.open("Branches", [field, el("div", { class: "filters", id: "filters" }), found, nav, el("div", { id: "entry-actions" })]);
    const tree = new Tree(session, nav);
    const drawFilters = () => byId("filters").replaceChildren(...Object.keys(filters).map((name) =>
      el("button", { type: "button", "aria-pressed": String(name === tree.filter), click: () => {
        tree.filter = name;
        drawFilters();
        tree.draw();
      } }, name)));
    field.addEventListener("input", () => {
      tree.words = wordsOf(field.value);
      tree.draw();
    });
    tree.show(session.pathTo(session.leaf));
    drawFilters();
    tree.draw();
    if (session.leaf) tree.mark(session.leaf);
    nav.addEventListener("click", (e) => {
      const link = e.target.closest("a");
      if (!link) return;
      e.preventDefault();
      const entry = session.byId.get(decodeURIComponent(link.hash.slice(1)));
      tree.mark(entry);
      this.actions(entry);
    });
  }

  actions(entry) {
    const { view } = this.app;
    const act = (text, run) => el("button", { type: "button", click: async () => {
      this.close();
      await run();
    } }, text);
    const go = (summarize) => async () => {
      const result = await this.app.tell("navigate_tree", { sessionId: view.handle, targetId: entry.id, summarize });
      if (result?.editorText) this.app.editorText(view, result.editorText);
    };
    const label = el("input", { type: "text", placeholder: "Label", "aria-label": "Label" });
    label.value = entry.label;
    byId("entry-actions").replaceChildren(
      el("p", null, el("strong", null, outline(entry).text)),
      el("div", { class: "answers" }, !this.app.readOnly && [
        act("Continue from here", go(false)), act("Continue, with a summary", go(true)),
        entry.role === "user" && act("Fork before this", () => this.forkBefore(view, entry.id)),
        label, act("Set label", () => this.app.tell("set_entry_label", { sessionId: view.handle, targetId: entry.id, label: label.value })),
      ]));
  }

  find() {
    const field = el("input", { type: "search", placeholder: "Find in the conversation", "aria-label": "Find in the conversation" });
    const found = el("p", { role: "status" });
    const list = el("div", { class: "picks" });
    const draw = () => {
      const words = wordsOf(field.value);
      const items = words.length > 0 ? (this.app.view?.items ?? []).filter((i) => contains(i.entry, words)) : [];
      const more = this.app.view?.hasMore ? ", earlier ones not counted: Branches finds them" : "";
      found.textContent = words.length > 0 ? count(items.length, "message") + more : "";
      list.replaceChildren(...items.slice(-200).map((item) => el("button", { type: "button", class: "pick", click: () => {
        this.close();
        showFound(item.article, words);
        item.article.scrollIntoView({ block: "center" });
      } }, outline(item.entry).text)));
    };
    field.addEventListener("input", draw);
    this.open("Find", [field, found, list]);
    field.focus();
  }

  // fork offers the messages before which a new session can start.
  async fork() {
    const { view, link } = this.app;
    if (!view) return;
    const { messages } = await link.ask("get_fork_messages", { sessionId: view.handle });
    this.pick("Fork before a message", messages.toReversed().map(({ entryId, text }) => ({ name: firstLine(str(text)), run: () => this.forkBefore(view, entryId) })), "Filter messages");
  }

  async forkBefore(view, entryId) {
    const result = await this.app.tell("fork", { sessionId: view.handle, entryId });
    if (result?.text) this.app.editorText(view, result.text);
  }

  // changes shows the files that calls of write and edit have changed on this branch, each with its diffs.
  async changes() {
    const { view, link } = this.app;
    if (!view) return;
    const { entries, leafId } = await link.ask("get_entries", { sessionId: view.handle });
    const files = changedFiles(new Session({ leaf: leafId ?? view.leaf }, entries.map((raw) => JSON.stringify(raw))), str(view.cwd));
    const rows = files.map(({ path, lines }, i) => {
      const { added, removed } = changes(lines);
      const row = fold({ class: "file" }, [el("code", null, spelt(path)), el("span", { class: "meta" }, sizeOf(added, removed))], () => diffTable(lines));
      if (i === 0) openFold(row, true);
      return row;
    });
    this.open("Changed files", [el("p", { class: "meta wide" }, files.length > 0 ? count(files.length, "file") + ". Changes by commands and subagents are not listed." : "The tools write and edit have not changed a file in this session."),
      el("div", { class: "picks" }, rows)]);
  }

  // session shows what the composer of a phone has no room for.
  session() {
    const { app } = this;
    const { view } = app;
    if (!view) return;
    const { state, usage } = view;
    const copyOf = (id) => { // the controls of the composer do the work
      const of = byId(id);
      const select = el("select", { "aria-label": of.labels[0].querySelector("span").textContent, disabled: of.disabled, change: () => {
        of.value = select.value;
        of.dispatchEvent(new Event("change"));
      } }, [...of.options].map((o) => el("option", { value: o.value }, o.textContent)));
      select.value = of.value;
      return select;
    };
    const cost = view.stats?.session?.cost ?? view.stats?.cost;
    const rows = [
      ["Directory", el("code", null, spelt(str(view.cwd)))], ["Branch", view.branch && el("code", null, spelt(view.branch))],
      ["Model", el("button", { type: "button", disabled: app.readOnly, click: () => app.later(() => this.models()) }, byId("model").textContent)],
      ["Thinking", copyOf("level")], ["Permissions", copyOf("mode")],
      ["Context", usage && `${tokens(num(usage.tokens))} of ${tokens(num(usage.contextWindow))} tokens`], ["Cost", cost !== undefined && money(num(cost))],
      ["Budget", budgetOf(state.budget).map((b) => b.text).join(", ")], ["File", state.sessionFile && el("code", null, spelt(state.sessionFile))],
    ];
    this.open("Session", el("dl", { class: "rows session-facts" }, rows.filter(([, what]) => what).map(([name, what]) => [el("dt", null, name), el("dd", null, what)])));
  }

  // download saves the session as the HTML file that export_html writes. It is made here, so that the server writes nothing.
  async download() {
    const { view } = this.app;
    if (!view) return;
    const address = URL.createObjectURL(await exportOf(this.app.link, view));
    const link = el("a", { href: address, download: (str(view.state.sessionName) || "session-" + view.key.slice(0, 8)).replace(/[^\p{L}\p{N}._-]+/gu, "-") + ".html" });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    this.app.announce(view, "Downloaded: " + link.download);
  }

  palette() {
    const { app } = this;
    const { view } = app;
    const mine = view && !app.readOnly;
    const things = [
      !app.readOnly && { name: "New session", brief: "n", run: () => app.newSession() },
      mine && { name: "Model", brief: "m", run: () => this.models() },
      view && { name: "Branches", brief: "b", run: () => this.branches() },
      view && { name: "Agents", brief: "subagents of this session", run: () => app.later(() => app.agents.all(view)) },
      view && { name: "Find", brief: "/", run: () => this.find() },
      mine && { name: "Compact", brief: "replace older messages with a summary", run: () => app.tell("compact", { sessionId: view.handle }) },
      mine && { name: "Name this session", run: () => this.rename() },
      view && { name: "Changed files", brief: "c", run: () => app.later(() => this.changes()) },
      view && { name: "Session details", brief: "model, thinking, permissions, cost", run: () => this.session() },
      mine && { name: "Fork", brief: "a new session from before a message", run: () => app.later(() => this.fork()) },
      view && { name: "Download as HTML", run: () => app.later(() => this.download()) },
      view && { name: "Expand or collapse thinking", brief: "t", run: () => app.unfold("thinking") },
      view && { name: "Expand or collapse tool calls", brief: "o", run: () => app.unfold("tool") },
      mine && { name: "Close this session", run: () => app.tell("close_session", { sessionId: view.handle }) },
      globalThis.Notification?.permission === "default" && { name: "Enable notifications", brief: "when a session needs you or has finished", run: async () => app.alert((await Notification.requestPermission()) === "granted" ? "Notifications are enabled." : "The browser does not allow notifications.") },
      !app.readOnly && { name: "Provider credentials", run: () => app.logins.list() },
      { name: "Keys", brief: "?", run: () => this.help() },
      { name: "Sign out", brief: "this browser needs a new code afterwards", run: () => app.forget() },
    ].filter(Boolean);
    this.pick("Commands", things, "Filter commands");
  }

  rename() {
    const { view } = this.app;
    const field = el("input", { type: "text", "aria-label": "Name" });
    field.value = str(view.state.sessionName);
    this.open("Name of this session", el("form", { class: "fields", submit: async (e) => {
      e.preventDefault();
      this.close();
      await this.setName(field.value);
    } }, field, el("button", { type: "submit", class: "primary" }, "Save")));
    field.focus();
  }

  async setName(name) {
    const { view } = this.app;
    if (await this.app.tell("set_session_name", { sessionId: view.handle, name })) view.state.sessionName = name;
    this.app.changed(view);
  }

  help() {
    const keys = [["Enter", "send, or steer a run"], ["Alt+Enter", "queue until the run has ended"], ["Shift+Enter", "a new line"], ["Esc Esc", "stop the run"],
      ["g s", "sessions"], ["n", "new session"], ["m", "model"], ["b", "branches"], ["c", "changed files"], ["/", "find, or in the composer: commands"], ["j k", "next, previous message"],
      ["t", "thinking"], ["o", "tool calls"], ["a d", "allow once, deny: on a focused question"], ["Ctrl+K", "all commands"], ["?", "this list"]];
    this.open("Keys", [el("dl", { class: "rows" }, keys.map(([k, what]) => [el("dt", null, k.split(" ").map((x) => [el("kbd", null, x), " "])), el("dd", null, what)])),
      el("h3", null, "Commands"), el("dl", { class: "rows" }, ownCommands(this.app).map((c) => [el("dt", null, el("code", null, "/" + c.name)), el("dd", null, c.brief)]))]);
  }
}

const permissionModes = [["ask", "Ask"], ["edits", "Edits"], ["auto", "Auto"], ["readonly", "Read only"]];
