// The side bar: sessions that are open, and those on disk.

const badges = {
  dialog: ["waiting for you", "!"],
  running: ["running", "●"],
  done: ["done", "✓"],
  failed: ["failed", "✗"],
};

class List {
  constructor(app) {
    this.app = app;
    this.open = new Map(); // handle to OpenSessionInfo
    this.files = [];
    this.words = [];
    this.marks = new Map(); // handle to "done" or "failed": finished while another was looked at
    byId("list-search").addEventListener("input", (e) => {
      this.words = wordsOf(e.target.value);
      this.draw();
      clearTimeout(this.searching);
      this.searching = setTimeout(() => this.refresh(), 150); // the daemon knows what was said in them
    });
    byId("new-session").addEventListener("click", () => app.newSession());
  }

  // load asks for everything. Where the daemon tells of changes it is asked once.
  async load() {
    const { link } = this.app;
    const watched = link.commands.has("watch_sessions") && link.features.has("sessionEvents");
    const open = await link.ask(watched ? "watch_sessions" : "list_open_sessions");
    this.open = new Map((open.sessions ?? []).map((s) => [s.sessionId, s]));
    await this.refresh();
    clearInterval(this.timer);
    if (!watched) this.timer = setInterval(() => this.poll(), 5_000);
  }

  // loadFiles asks for the sessions on disk that the words are about, the first page of
  // them, or with a cursor for the next.
  async loadFiles(cursor) {
    const { link } = this.app;
    if (!link.open) return;
    if (!link.commands.has("list_directories")) return this.loadFilesOfSession();
    const query = this.words.join(" ");
    const page = await link.ask("list_sessions", { scope: "all", withText: false, limit: 100, ...(query && { query }), ...(cursor && { cursor }) }).catch(() => null);
    if (!page || query !== this.words.join(" ")) return;
    this.files = cursor ? [...this.files, ...page.sessions] : page.sessions;
    this.found = query; // the daemon has chosen them
    this.next = page.nextCursor;
  }

  async refresh() {
    await this.loadFiles();
    this.draw();
  }

  // remove moves a session to the trash.
  async remove(file, name) {
    if (!(await this.app.sheets.sure("Delete this session?", `“${name}” moves to the trash.`, "Delete"))) return;
    if (!(await this.app.tell("delete_session", { sessionPath: file.path }))) return;
    this.files = this.files.filter((f) => f !== file);
    this.draw();
    byId("list-search").focus();
  }

  // loadFilesOfSession asks an older daemon. There it is a session that knows where they
  // are: where none is open, one in memory is asked.
  async loadFilesOfSession() {
    const { link, readOnly } = this.app;
    let handle = this.open.keys().next().value;
    let guest;
    if (!handle && !readOnly) {
      guest = await link.ask("open_session", { noSession: true }).catch(() => null);
      handle = guest?.sessionId;
    }
    if (!handle) return;
    const disk = await link.ask("list_sessions", { scope: "all", sessionId: handle }).catch(() => null);
    if (guest) {
      await link.ask("close_session", { sessionId: handle }).catch(() => null);
      this.open.delete(handle);
    }
    if (disk) this.files = disk.sessions ?? [];
  }

  async poll() {
    if (!this.app.link.open || document.visibilityState !== "visible") return;
    const open = await this.app.link.ask("list_open_sessions").catch(() => null);
    if (!open) return;
    this.open = new Map((open.sessions ?? []).map((s) => [s.sessionId, s]));
    this.draw();
  }

  status(info) {
    if (info.status === "closed") {
      this.open.delete(info.sessionId);
      this.app.later(() => this.app.gone(info.sessionId));
    } else {
      const before = this.open.get(info.sessionId);
      this.open.set(info.sessionId, { ...before, ...info });
      const text = { dialog: "Waiting for you", done: "A run is done", failed: "A run has failed" }[info.attention];
      const heard = this.app.views.get(info.sessionId)?.loaded; // its own events say more
      if (text && before && before.attention !== info.attention && !before.parentSessionId && !heard) this.app.notify(text, info.sessionId);
    }
    this.draw();
  }

  kindOf(info) {
    if (info.attention === "dialog" || (info.waitingFor ?? []).some((w) => /^(dialog|approval)/.test(w))) return "dialog";
    if (info.phase && info.phase !== "idle") return "running";
    return this.marks.get(info.sessionId) ?? (["done", "failed"].includes(info.attention) ? info.attention : "");
  }

  // titled says whether it is known what a session is about.
  titled(handle) {
    const info = this.open.get(handle);
    return !info || info.sessionName || info.title || this.files.some((f) => f.path === info.sessionFile);
  }

  draw() {
    const open = [...this.open.values()];
    const known = new Set(open.map((s) => s.sessionFile).filter(Boolean));
    const files = this.files.filter((f) => !known.has(f.path));
    const summary = (path) => this.files.find((f) => f.path === path);
    const rows = [
      ...open.map((s) => ({ cwd: s.cwd, text: s.sessionName || s.title || firstLine(str(summary(s.sessionFile)?.firstMessage), 80) || this.app.saidFirst(s.sessionId) || "New session", info: s, extra: s.lastText })),
      ...files.map((f) => ({ cwd: f.cwd, text: f.name || firstLine(str(f.firstMessage), 80) || f.id, file: f, extra: f.allMessagesText })),
    ].filter((r) => (r.file && this.found === this.words.join(" ")) || this.words.every((w) => (r.text + " " + r.cwd + " " + str(r.extra)).toLowerCase().includes(w)));
    const groups = new Map();
    for (const r of rows) {
      if (!groups.has(r.cwd)) groups.set(r.cwd, []);
      groups.get(r.cwd).push(r);
    }
    const sections = [...groups].map(([cwd, list]) => el("section", { class: "sessions" },
      el("h2", { title: cwd }, shortPath(cwd)),
      el("ul", null, list.map((r) => el("li", null, this.row(r), r.file && this.app.link.commands.has("delete_session") && !this.app.readOnly &&
        el("button", { type: "button", class: "remove", title: "Delete", "aria-label": "Delete " + r.text, click: () => this.remove(r.file, r.text) }, "×"))))));
    if (this.next && this.found === this.words.join(" ")) {
      sections.push(el("button", { type: "button", class: "more", click: () => this.loadFiles(this.next).then(() => this.draw()) }, "Older sessions"));
    }
    if (sections.length === 0) sections.push(el("p", { class: "meta none" }, this.words.length > 0 ? "No session matches." : "No sessions yet."));
    byId("list-body").replaceChildren(...sections);
    const waiting = open.filter((s) => this.kindOf(s) === "dialog").length;
    this.app.attention(waiting);
  }

  row({ text, info, file }) {
    const kind = info ? this.kindOf(info) : "";
    const current = info && info.sessionId === this.app.view?.handle;
    return el("a", {
      class: "session" + (info ? " open" : ""), href: "#s=" + encodeURIComponent(info ? info.durableId : file.id), "aria-current": current ? "page" : null,
      click: (e) => {
        e.preventDefault();
        if (info) this.app.show(info.sessionId);
        else this.app.openFile(file.path);
      },
    },
    el("span", { class: "row-text", dir: "auto" }, text),
    kind && el("span", { class: "mark " + kind }, el("span", { "aria-hidden": "true" }, badges[kind][1]), " ", badges[kind][0]),
    timeNode(info ? num(info.phaseSince) : timeOf(file.modified)));
  }
}

// shortPath is the end of a path, as much as tells two directories apart.
function shortPath(path) {
  return spelt(str(path).split("/").slice(-2).join("/")) || "/";
}

// ago is a time as readers count back to it, and after a week the date.
function ago(ms, now = Date.now()) {
  const minutes = Math.floor(Math.max(0, now - ms) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return minutes + " min ago";
  if (minutes < 24 * 60) return Math.floor(minutes / 60) + " h ago";
  if (minutes < 7 * 24 * 60) return count(Math.floor(minutes / 1440), "day") + " ago";
  return new Date(ms).toLocaleDateString(undefined, { dateStyle: "medium" });
}

// timeNode shows a time that retime keeps up to date.
function timeNode(ms) {
  return ms > 0 && el("time", { class: "meta", title: dateAndTime(ms), datetime: new Date(ms).toISOString(), "data-time": ms }, ago(ms));
}

function retime() {
  for (const node of document.querySelectorAll("[data-time]")) {
    const text = ago(Number(node.dataset.time));
    if (node.textContent !== text) node.textContent = text;
  }
}
