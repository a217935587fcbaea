// The page: which session is shown, what is said to it, and the frame around it.

const narrow = matchMedia("(max-width: 60rem)"); // the list of sessions lies over the conversation

class App {
  constructor() {
    this.says = ""; // where no session is shown
    this.views = new Map(); // handle to View
    this.view = null;
    this.said = []; // messages on their way: {key and file of their session, command}
    this.link = new Link({
      up: (info) => this.up(info),
      down: (why) => this.down(why),
      refused: (withdrawn) => this.refused(withdrawn),
      event: (record) => this.event(record),
    });
    this.dock = new Dock(this, byId("dock"));
    this.agents = new Agents(this, byId("agents"));
    this.composer = new Composer(this);
    this.list = new List(this);
    this.sheets = new Sheets(this);
    this.logins = new Logins(this);
    this.scroll = byId("scroll");
    this.following = true; // what is said last is kept in view
    this.top = 0; // where that has led to
    this.lastSeen = Date.now();
    this.readOnly = false;
    this.fresh = sessionStorage.getItem("troupe-fresh") ?? ""; // the key of the session that the page opened by itself
    this.listen();
    this.start();
  }

  // Signing in.

  async start() {
    const code = new URLSearchParams(location.hash.slice(1)).get("c");
    let wrong = "";
    if (code) {
      history.replaceState(null, "", location.pathname);
      wrong = await this.login(code);
      if (!wrong) return;
    }
    const token = stored("troupe-token");
    if (token) this.link.connect(token); // a code that was used: this browser has been let in before
    else this.askForCode(wrong);
  }

  // login trades a code for a token. It returns why that failed, "" if it did not.
  async login(code) {
    const answer = await fetch("/v1/login", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code, name: navigator.userAgent.slice(0, 100) }),
    }).catch(() => null);
    if (!answer) return "The server does not answer.";
    if (answer.status === 429) return "Too many attempts: wait a minute.";
    if (!answer.ok) return "That code does not work. It is valid once, for ten minutes.";
    const { token } = await answer.json();
    store("troupe-token", token);
    this.link.connect(token);
    return "";
  }

  // refused finds out whether it was the credential. It returns whether it was.
  async refused(withdrawn) {
    if (withdrawn) {
      store("troupe-token", "");
      this.link.leave();
      this.askForCode("This browser's access was withdrawn.");
      return true;
    }
    const answer = await fetch("/v1/rpc", { method: "POST", headers: { Authorization: "Bearer " + this.link.token }, body: "" }).catch(() => null);
    if (answer?.status !== 401) return false;
    return this.refused(true);
  }

  forget() {
    store("troupe-token", "");
    this.link.leave();
    this.askForCode();
  }

  // askForCode stays until a code was right: without one the page has nothing to show.
  askForCode(why = "") {
    const field = el("input", { type: "text", autocomplete: "one-time-code", spellcheck: "false", "aria-label": "Code" });
    const wrong = el("p", { class: "notice bad", role: "alert" }, why);
    wrong.hidden = !why;
    this.sheets.open("Sign in", el("form", { class: "fields", submit: async (e) => {
      e.preventDefault();
      const code = /(?:#c=)?([A-Za-z0-9_-]+)\s*$/.exec(field.value)?.[1];
      wrong.textContent = code ? await this.login(code) : "This is not a code.";
      wrong.hidden = !wrong.textContent;
      if (wrong.hidden) this.sheets.close();
    } },
    el("p", null, "Paste the code or the address that ", el("code", null, "troupe serve"), " or ", el("code", null, "troupe serve pair"), " printed."), wrong,
    el("label", null, "Code", field), el("button", { type: "submit", class: "primary" }, "Sign in")),
    () => this.link.token || this.askForCode());
    field.focus();
    document.documentElement.dataset.ready = "login";
  }

  // The connection.

  async up(info) {
    byId("banner").hidden = true;
    this.readOnly = info.scope === "view";
    byId("new-session").hidden = this.readOnly;
    try {
      const restarted = this.epoch && this.epoch !== info.epoch;
      this.epoch = info.epoch;
      if (restarted) await this.restarted();
      else await Promise.all([...this.views.values()].filter((v) => v.loaded).map((v) => this.attach(v, {})));
      this.link.ready();
      await this.list.load();
      if (!this.view) await this.choose();
      else this.show(this.view.handle);
    } catch (error) {
      this.alert(error.message);
    }
    document.documentElement.dataset.ready = "true";
  }

  // restarted: handles are of the process that is gone. The sessions that something is
  // to be said to are opened again, and later the one that was looked at.
  async restarted() {
    const { view } = this;
    const unsaid = view && ![...view.entries.values()].some((e) => e.raw.type === "message");
    const like = unsaid && { cwd: view.cwd, permissionMode: view.state.permissionMode };
    this.wanted = view && { file: view.state.sessionFile, key: view.key, like };
    this.views.clear();
    this.view = null;
    for (const { file, command } of [...this.said]) {
      const opened = file && (await this.link.ask("open_session", { sessionPath: file, retain: true }).catch(() => null));
      if (opened) command.sessionId = opened.sessionId;
      else this.link.refuse(command, "The server was restarted, and the session is gone.");
    }
  }

  // choose shows the session that the address or the last visit names, else the
  // newest one.
  async choose() {
    const open = [...this.list.open.values()];
    const wanted = new URLSearchParams(location.hash.slice(1)).get("s") || stored("troupe-last");
    const left = this.wanted;
    this.wanted = undefined;
    const found = open.find((s) => s.sessionFile && s.sessionFile === left?.file) ?? open.find((s) => s.durableId === wanted);
    const file = left?.file ?? this.list.files.find((f) => f.id === wanted)?.path;
    if (found) return this.show(found.sessionId);
    if (file) await this.openFile(file, left);
    else if (open.length > 0) return this.show(open.at(-1).sessionId);
    else if (!this.readOnly) await this.landing();
    if (!this.view) this.changed(null);
  }

  // landing opens a session in the directory of the server, so that the page starts with a composer.
  async landing() {
    try {
      await this.begin({}, !narrow.matches);
      this.fresh = this.view?.key ?? "";
      sessionStorage.setItem("troupe-fresh", this.fresh);
    } catch (error) {
      this.alert(error.message);
    }
  }

  down(why) {
    if (byId("banner").hidden) this.lastSeen = Date.now();
    byId("banner").hidden = false;
    const draw = () => {
      if (byId("banner").hidden) return clearInterval(this.ageTimer);
      byId("banner-text").textContent = `Offline: ${why} This page is ${duration(Math.abs(Date.now() - this.lastSeen))} old.`;
    };
    clearInterval(this.ageTimer);
    this.ageTimer = setInterval(draw, 1000);
    draw();
    document.documentElement.dataset.ready = "offline";
    if (this.view) this.changed(this.view);
  }

  event(record) {
    if (record.type === "session_status") {
      this.looksUp(record);
      return this.list.status(record);
    }
    if (record.type === "auth_changed") return this.logins.changed(record);
    if (record.type === "extension_ui_request" && !record.sessionId) return this.logins.request(record);
    if (record.type === "draining") return this.alert("The server is stopping.");
    const view = this.views.get(record.sessionId);
    if (!view || !view.loaded) return;
    view.event(record);
    if (view === this.view) this.draw(view);
  }

  // looksUp finds out what a session asks: a device that may only watch is not asked itself.
  async looksUp({ sessionId, attention }) {
    const view = this.views.get(sessionId);
    if (!this.readOnly || attention !== "dialog" || !view?.loaded) return;
    const open = await this.link.ask("get_dialogs", { sessionId }).catch(() => null);
    if (!open || !view.loaded) return;
    view.asked(open);
    if (view === this.view) this.draw(view);
  }

  // Sessions.

  async show(handle) {
    let view = this.views.get(handle);
    if (!view) this.views.set(handle, (view = new View(this, handle)));
    const info = this.list.open.get(handle);
    view.cwd = info?.cwd;
    view.parent = info?.parentSessionId;
    view.key = info?.durableId ?? handle;
    const before = this.view;
    this.view = view;
    if (before?.parent && !before.running) this.letGo(before.handle);
    if (before && before !== view) this.dropFresh(before);
    this.list.marks.delete(handle);
    [...byId("toasts").children].find((t) => t.dataset.session === handle)?.remove();
    this.following = true;
    byId("conversation").replaceChildren(view.root);
    this.remember(view);
    if (narrow.matches) this.openList(false);
    if (!view.loaded) await this.attach(view, { whole: true });
    this.changed(view);
    this.loadLevels(view);
    this.loadUsage(view);
    this.loadPlace(view);
    this.loadKeys(view);
    this.list.draw();
  }

  // dropFresh closes the session that landing opened, if it was not used before another one is shown.
  dropFresh(view) {
    if (view.key !== this.fresh || !view.unused || stored("troupe-draft-" + view.key) || this.list.open.get(view.handle)?.clients > 1) return;
    this.fresh = "";
    this.views.delete(view.handle);
    this.link.ask("close_session", { sessionId: view.handle }).catch(() => null);
  }

  // remember puts the session into the address: another one that was shown is a step back.
  remember(view, moved = false) {
    store("troupe-last", view.key);
    const address = "#s=" + encodeURIComponent(view.key);
    if (location.hash === address) return;
    if (location.hash.startsWith("#s=") && !moved) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  }

  // addressed follows an address: back, forward, or one that was typed or pasted.
  addressed() {
    if (!new URLSearchParams(location.hash.slice(1)).has("c")) return this.link.open && this.later(() => this.choose());
    if (!this.link.token) return this.start();
    history.replaceState(null, "", location.pathname); // it knows this browser
    if (this.view) this.remember(this.view);
  }

  // moved: another session has taken the place of the one that had this handle.
  moved(view, key) {
    if (key) view.key = key;
    if (view === this.view) this.remember(view, true);
    this.attach(view, { whole: true });
    this.later(() => this.list.refresh());
  }

  // gone: a session was closed, here or by somebody else; or it is on its way to another node, and answers.
  async gone(handle) {
    const view = this.views.get(handle);
    const why = view && (await this.link.ask("get_state", { sessionId: handle }).then(() => null, (error) => error));
    if (why?.code === "unknown_session" && this.views.get(handle) === view) {
      this.views.delete(handle);
      if (view === this.view) this.leave("The session was closed.");
    }
    await this.list.refresh();
  }

  // letGo leaves an agent that has done its work and is not looked at: it ends then.
  letGo(handle) {
    const view = this.views.get(handle);
    if (!view || view === this.view || !this.link.open) return;
    this.views.delete(handle);
    this.link.ask("detach", { sessionId: handle }).catch(() => null);
  }

  // leave shows no session any more.
  leave(why) {
    this.view = null;
    byId("conversation").replaceChildren();
    history.replaceState(null, "", location.pathname);
    this.changed(null);
    this.alert(why);
  }

  // attach takes up a session where it was left, or from a snapshot.
  async attach(view, { whole = false }) {
    const since = !whole && view.position;
    try {
      const answer = await this.link.ask("attach", { sessionId: view.handle, ...(since ? { since } : { snapshot: { limit: pageOfEntries } }) });
      view.attached(answer);
    } catch (error) {
      if (error.code === "offline") return;
      if (since) return this.attach(view, { whole: true });
      this.views.delete(view.handle);
      if (view === this.view) this.leave(error.message);
    }
  }

  // openFile opens a session's file. One that was left before anything was said in it has none: another one
  // like it takes its place, and goes on with what was being written.
  async openFile(sessionPath, left) {
    const open = (parameters) => this.link.ask("open_session", { ...parameters, retain: true });
    try {
      const { sessionId } = await open({ sessionPath }).catch((error) => {
        if (!left?.like || error.code !== "not_found") throw error;
        return open(left.like);
      });
      await this.list.poll();
      const key = this.list.open.get(sessionId)?.durableId;
      if (left && key && key !== left.key) store("troupe-draft-" + key, stored("troupe-draft-" + left.key));
      await this.show(sessionId);
    } catch (error) {
      this.alert(error.message);
    }
  }

  // begin opens a session and shows it. A draft in an unused session moves to the new one.
  async begin(parameters, focus = true) {
    const { sessionId } = await this.link.ask("open_session", { ...parameters, retain: true });
    await this.list.poll();
    const draft = this.view?.unused && stored("troupe-draft-" + this.view.key);
    const key = this.list.open.get(sessionId)?.durableId;
    if (draft && key) {
      store("troupe-draft-" + key, draft);
      store("troupe-draft-" + this.view.key, "");
    }
    await this.show(sessionId);
    if (focus) byId("composer-text").focus();
  }

  newSession() {
    if (this.readOnly) return;
    const directories = new Set([...this.list.open.values(), ...this.list.files].map((s) => s.cwd).filter(Boolean));
    this.sheets.newSession([...directories]);
  }

  // tell sends a command whose failure a person should hear of. It returns the data,
  // null if there is none because it failed.
  async tell(type, parameters) {
    try {
      return await this.link.ask(type, parameters);
    } catch (error) {
      this.alert(error.message);
      return null;
    }
  }

  // say sends a message, a command. It is kept until it was answered, over reconnections, too.
  async say(view, command) {
    const message = { key: view.key, file: view.state.sessionFile, command };
    this.said.push(message);
    this.following = true;
    this.changed(view);
    this.composer.show(this.view);
    try {
      await this.link.send(command);
    } catch (error) {
      this.alert(error.message);
      this.composer.giveBack(view.key, command);
    }
    this.said = this.said.filter((m) => m !== message);
    this.composer.show(this.view);
  }

  // unsent are messages to a session that wait for a connection.
  unsent(view) {
    return this.link.attached ? [] : this.said.filter((m) => m.key === view?.key).map((m) => m.command.message);
  }

  stop() {
    if (this.view) this.tell("abort", { sessionId: this.view.handle });
  }

  async loadLevels(view) {
    if (!this.link.open) return;
    const { levels } = await this.link.ask("get_available_thinking_levels", { sessionId: view.handle }).catch(() => ({ levels: [] }));
    view.levels = levels;
    if (view === this.view) this.changed(view);
  }

  // loadPlace asks for the branch of git in the directory of a session.
  async loadPlace(view) {
    if (!this.link.open || this.readOnly || !view.cwd || !this.link.commands.has("list_directories")) return;
    const found = await this.link.ask("list_directories", { sessionId: view.handle, path: view.cwd, query: ".git" }).catch(() => null);
    view.branch = str(found?.branch);
    if (view === this.view) this.drawBar();
  }

  // loadKeys finds out whether the model of an unused session has credentials.
  async loadKeys(view) {
    if (!this.link.open || this.readOnly || !view.unused) return;
    const answer = await this.link.ask("get_available_models", { sessionId: view.handle }).catch(() => null);
    if (!answer) return;
    const provider = view.state.model?.provider;
    view.keyless = provider === "scripted" ? "demo" : !answer.models.some((m) => !provider || m.provider === provider);
    view.maySignIn = Boolean(view.keyless) && (await this.logins.allowed());
    if (view === this.view) this.changed(view);
  }

  async loadUsage(view) {
    if (!this.link.open) return;
    const ask = (type) => this.link.ask(type, { sessionId: view.handle }).catch(() => null);
    const [usage, stats, budget] = await Promise.all([ask("get_context_usage"), ask("get_session_stats"), view.state.budget && ask("get_budget")]);
    view.usage = usage?.usage;
    view.stats = stats;
    if (budget) view.state.budget = budget;
    if (view === this.view) this.drawBar();
  }

  // What views tell.

  later(work) {
    setTimeout(() => Promise.resolve(work()).catch((error) => error.code !== "offline" && console.warn(error)), 0);
  }

  settled(view, outcome) {
    this.later(() => view.adopt());
    this.loadUsage(view);
    this.loadPlace(view);
    if (!this.list.titled(view.handle)) this.later(() => this.list.refresh());
    if (view !== this.view || document.visibilityState !== "visible") {
      this.list.marks.set(view.handle, outcome === "failed" ? "failed" : "done");
      this.notify(outcome === "failed" ? "A run has failed" : "A run is done", view.handle);
    }
    this.list.draw();
  }

  asks(view, title) {
    this.announce(view, "Waiting for you");
    if (view === this.view) byId("alert").textContent = "Waiting for you: " + title;
    this.notify("Waiting for you: " + title, view.handle);
  }

  // notify reports on a session: through the browser while the page is hidden, and on the page while it shows
  // another session.
  notify(text, handle) {
    const info = this.list.open.get(handle);
    const name = str(info?.sessionName) || str(info?.title) || this.saidFirst(handle) || str(info?.cwd);
    if (document.visibilityState === "visible") {
      if (handle !== this.view?.handle) this.toast(text, name, handle);
      return;
    }
    if (globalThis.Notification?.permission !== "granted") return;
    try {
      const n = new Notification(text, { body: name, tag: info?.durableId ?? handle });
      n.onclick = () => {
        focus();
        this.show(handle);
      };
    } catch {
      // Chrome on Android shows notifications of service workers only
    }
  }

  // toast offers a session that needs attention. There is one for each session, for a while.
  toast(text, name, handle) {
    const close = () => toast.remove();
    const toast = el("p", { class: "toast", "data-session": handle }, el("span", null, el("strong", null, text), " ", spelt(firstLine(name, 60))),
      el("button", { type: "button", click: () => {
        close();
        this.show(handle);
      } }, "Show"), el("button", { type: "button", "aria-label": "Dismiss", click: close }, icon("wrong")));
    [...byId("toasts").children].find((t) => t.dataset.session === handle)?.remove();
    byId("toasts").append(toast);
    setTimeout(close, 20_000);
  }

  // announce says what a session does; what was urgent before is over.
  announce(view, text) {
    view.says = text;
    if (view !== (this.view ?? this)) return;
    byId("status").textContent = text;
    byId("alert").textContent = "";
  }

  alert(text) {
    this.announce(this.view ?? this, text);
    byId("alert").textContent = text;
  }

  editorText(view, text) {
    if (view === this.view) this.composer.put(text);
    else store("troupe-draft-" + view.key, text);
  }

  attention(n) {
    this.waiting = n;
    this.drawTitle();
  }

  listChanged() {
    this.list.draw();
  }

  // Drawing.

  draw(view) {
    if (view !== this.view) return;
    if (this.frame) return;
    const drawNow = () => {
      if (!this.frame) return;
      cancelAnimationFrame(this.frame);
      clearTimeout(this.late);
      this.frame = 0;
      this.changed(this.view);
    };
    this.frame = requestAnimationFrame(drawNow);
    this.late = setTimeout(drawNow, 250); // a page that is not in view has no frames
  }

  changed(view) {
    if (view !== this.view) return;
    if (view) {
      view.answer?.draw();
      for (const card of view.calls.values()) {
        if (!card.next || card.over) continue;
        card.show(card.next, false, false);
        card.next = null;
      }
    }
    this.dock.show(view);
    this.agents.show(view);
    this.composer.show(view);
    this.drawBar();
    const { says } = view ?? this;
    if (byId("status").textContent !== says) this.announce(view ?? this, says);
    byId("earlier").hidden = !view?.hasMore;
    this.drawEmpty(view);
    byId("widgets").replaceChildren(...(view ? [...view.widgets.values()].map((lines) => el("pre", { class: "plain" }, lines.map(plain).join("\n"))) : []),
      ...(view ? [...view.statuses.values()].map((text) => el("span", { class: "badge" }, plain(text))) : []));
    this.follow();
    byId("to-end").hidden = this.following || !view;
  }

  // drawEmpty fills the place of a conversation that has not started. It keeps what is there already, and
  // with it the focus.
  drawEmpty(view) {
    const empty = !view || (view.loaded && view.items.length === 0 && !view.answer);
    const key = !empty ? "" : JSON.stringify([view?.key, view?.cwd, view?.branch, view?.keyless, view?.maySignIn, this.readOnly]);
    if (key === this.emptyKey) return;
    this.emptyKey = key;
    const button = (text, click, kind = "") => el("button", { type: "button", class: kind, click }, text);
    const content = !empty ? []
      : !view ? [el("p", null, "No session is open. ", !this.readOnly && button("New session", () => this.newSession(), "primary"))]
        : this.readOnly || view.parent ? [el("p", null, "No messages yet.")]
          : [el("h2", null, "What should the agent do?"),
            el("p", null, "It works in ", el("code", null, spelt(str(view.cwd))), view.branch && [" on the branch ", el("code", null, spelt(view.branch))], ". ",
              button("Choose another directory", () => this.newSession())),
            view.keyless && el("p", { class: "notice", id: "no-key" }, view.keyless === "demo" ? "No provider has an API key, so a built-in demo answers. For a real model, " : "No key for this model is configured: ",
              view.maySignIn ? button("sign in to a provider", () => this.later(() => this.logins.list())) : ["run ", el("code", null, "troupe login"), " on the machine of the server"],
              ", or set a variable such as ", el("code", null, "ANTHROPIC_API_KEY"), " for ", el("code", null, "troupe serve"), " and restart it.")];
    byId("empty").replaceChildren();
    add(byId("empty"), content);
  }

  follow() {
    if (!this.following) return;
    this.scroll.scrollTop = this.scroll.scrollHeight;
    this.top = this.scroll.scrollTop;
  }

  drawBar() {
    const { view } = this;
    this.drawTitle();
    const state = view?.state ?? {};
    byId("model").disabled = this.readOnly;
    byId("model").textContent = state.model ? str(state.model.name) || state.model.id : "No model";
    const select = (node, options, value) => {
      const key = JSON.stringify(options);
      if (node.dataset.key !== key) {
        node.dataset.key = key;
        node.replaceChildren(...options.map(([v, text]) => el("option", { value: v }, text)));
      }
      if (document.activeElement !== node) node.value = value ?? "";
      node.disabled = !view || this.readOnly;
    };
    const levels = view?.levels?.length > 0 ? view.levels : [state.thinkingLevel ?? "off"];
    select(byId("level"), levels.map((l) => [l, l]), state.thinkingLevel);
    select(byId("mode"), state.permissionMode ? permissionModes : [["", "—"], ...permissionModes], state.permissionMode ?? "");
    const used = num(view?.usage?.percent);
    byId("window").value = used;
    byId("window").hidden = !view?.usage;
    byId("window-text").textContent = view?.usage ? `${tokens(num(view.usage.tokens))} of ${tokens(num(view.usage.contextWindow))} (${Math.round(used)} %)` : "";
    const cost = view?.stats?.session?.cost ?? view?.stats?.cost;
    byId("cost").textContent = cost === undefined ? "" : money(num(cost));
    const [next] = budgetOf(state.budget);
    byId("budget").textContent = next ? `budget: ${next.text}` : "";
    byId("budget").className = next?.share >= 1 ? "failed" : "";
    byId("budget").title = budgetOf(state.budget).map((b) => b.text).join("\n");
  }

  drawTitle() {
    const { view } = this;
    const info = view && this.list.open.get(view.handle);
    const title = view ? view.title || str(view.state.sessionName) || info?.title || this.saidFirst(view.handle) || "New session" : "troupe";
    byId("bar-title").textContent = title;
    byId("bar-place").textContent = view?.cwd ? shortPath(view.cwd) + (view.branch ? " · " + spelt(view.branch) : "") : "";
    byId("bar-place").title = str(view?.cwd);
    document.title = (this.waiting > 0 ? `(${this.waiting}) ` : "") + title + (view ? " – troupe" : "");
  }

  // saidFirst is what a session began with, as far as the page has seen it.
  saidFirst(handle) {
    const first = this.views.get(handle)?.items.find((i) => i.entry.role === "user");
    return firstLine(str(first?.entry.text), 80);
  }

  openList(open) {
    document.body.classList.toggle("list-closed", !open);
    byId("toggle-list").setAttribute("aria-expanded", String(open));
    byId("list").inert = !open;
  }

  unfold(kind) {
    const folds = [...this.view.root.querySelectorAll("details." + kind)];
    const open = !folds.every((f) => f.open);
    for (const f of folds) f.fill ? openFold(f, open) : (f.open = open);
  }

  step(by) {
    const articles = [...byId("conversation").querySelectorAll("article")];
    const top = this.scroll.getBoundingClientRect().top;
    const at = articles.findIndex((a) => a.getBoundingClientRect().bottom > top + 40);
    articles[Math.max(0, Math.min(articles.length - 1, at + by))]?.scrollIntoView({ block: "start" });
  }

  listen() {
    byId("toggle-list").append(icon("menu"));
    byId("toggle-list").addEventListener("click", () => this.openList(document.body.classList.contains("list-closed")));
    byId("backdrop").addEventListener("click", () => this.openList(false));
    byId("reconnect").addEventListener("click", () => this.link.again());
    byId("show-tree").addEventListener("click", () => this.later(() => this.sheets.branches()));
    byId("show-changes").addEventListener("click", () => this.later(() => this.sheets.changes()));
    byId("show-find").addEventListener("click", () => this.sheets.find());
    byId("show-palette").addEventListener("click", () => this.sheets.palette());
    byId("toggle-theme").addEventListener("click", nextTheme);
    byId("model").addEventListener("click", () => this.later(() => this.sheets.models()));
    byId("level").addEventListener("change", async (e) => {
      if (await this.tell("set_thinking_level", { sessionId: this.view.handle, level: e.target.value })) this.view.state.thinkingLevel = e.target.value;
      this.drawBar();
    });
    byId("mode").addEventListener("change", async (e) => {
      const mode = e.target.value;
      if (mode && (await this.tell("set_permission_mode", { sessionId: this.view.handle, mode }))) this.view.state.permissionMode = mode;
      this.drawBar();
    });
    byId("earlier").addEventListener("click", () => this.later(async () => {
      const height = this.scroll.scrollHeight;
      this.following = false;
      await this.view.earlier();
      this.changed(this.view);
      this.scroll.scrollTop += this.scroll.scrollHeight - height;
    }));
    byId("to-end").addEventListener("click", () => {
      this.following = true;
      this.changed(this.view);
    });
    this.scroll.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = this.scroll;
      if (scrollHeight - scrollTop - clientHeight < 60) this.following = true;
      else if (scrollTop < this.top) this.following = false; // up: what has only grown is followed
      this.top = scrollTop;
      byId("to-end").hidden = this.following || !this.view;
    }, { passive: true });
    const resized = new ResizeObserver(() => this.follow());
    resized.observe(this.scroll);
    resized.observe(byId("conversation")); // what comes into view gets its height then
    addEventListener("keydown", (e) => this.pressed(e));
    byId("conversation").addEventListener("click", (e) => this.jumped(e));
    addEventListener("popstate", () => this.addressed());
    narrow.addEventListener("change", (e) => this.openList(!e.matches));
    setTheme(storedTheme());
    setInterval(retime, 30_000);
    this.openList(!narrow.matches);
  }

  // jumped goes to the entry of a link, whose address would take the session's place.
  jumped(event) {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    event.preventDefault();
    const id = decodeURIComponent(link.hash.slice(1));
    this.view.items.find((i) => i.entry.id === id)?.article.scrollIntoView({ block: "start" });
  }

  pressed(event) {
    if (!this.link.token) return;
    if ((event.ctrlKey || event.metaKey) && event.key === "k") {
      event.preventDefault();
      return this.sheets.palette();
    }
    if (event.key === "Escape" && !this.sheets.dialog.open) {
      if (narrow.matches && !document.body.classList.contains("list-closed")) {
        this.openList(false);
        return byId("toggle-list").focus();
      }
      const again = event.timeStamp - this.escaped < 800; // a clock that nobody sets
      this.escaped = again ? undefined : event.timeStamp;
      if (again && this.view?.running) this.stop();
      else if (this.view?.running) this.announce(this.view, "Esc again stops the run");
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select") || this.sheets.dialog.open) return;
    const after = this.prefix;
    this.prefix = "";
    const keys = {
      "?": () => this.sheets.help(),
      "/": () => this.sheets.find(),
      g: () => (this.prefix = "g"),
      s: () => after === "g" && (this.openList(true), byId("list-search").focus()),
      n: () => this.newSession(),
      m: () => this.readOnly || this.later(() => this.sheets.models()),
      b: () => this.later(() => this.sheets.branches()),
      c: () => this.later(() => this.sheets.changes()),
      j: () => this.step(1),
      k: () => this.step(-1),
      t: () => this.view && this.unfold("thinking"),
      o: () => this.view && this.unfold("tool"),
    };
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    keys[event.key]();
  }
}

// budgetOf are the limits of a session with what is used up, the one that is nearest first.
function budgetOf(budget) {
  const { limits = {}, snapshot = {} } = budget ?? {};
  const of = (limit, used, write) => limits[limit] > 0 && { share: num(used) / limits[limit], text: write(num(used), limits[limit]) };
  const counted = (word) => (used, limit) => `${tokens(used)} of ${tokens(limit)} ${word}`;
  return [
    of("maxCostUsd", snapshot.costUsd, (used, limit) => `${money(used)} of ${money(limit)}`),
    of("maxTotalTokens", snapshot.totalTokens, counted("tokens")),
    of("maxInputTokens", snapshot.inputTokens, counted("tokens in")),
    of("maxOutputTokens", snapshot.outputTokens, counted("tokens out")),
    of("maxWallTimeMs", snapshot.wallTimeMs, (used, limit) => `${duration(used)} of ${duration(limit)}`),
    of("maxToolCalls", snapshot.toolCalls, counted("tool calls")),
    of("maxSubagents", snapshot.subagents, counted("subagents")),
  ].filter(Boolean).toSorted((a, b) => b.share - a.share);
}

// Colours are the system's unless the reader chose others.
const themes = ["system", "light", "dark"];

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("toggle-theme").setAttribute("aria-label", "Colours: " + theme);
  byId("toggle-theme").replaceChildren(icon(theme));
}

function storedTheme() {
  const theme = stored("troupe-theme");
  return themes.includes(theme) ? theme : "system";
}

function nextTheme() {
  const theme = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length];
  setTheme(theme);
  store("troupe-theme", theme);
}

globalThis.troupe = new App();
