// Writing messages: steer, queue, pictures, commands, drafts.

const imageLimit = 5 << 20; // bytes of one picture

class Composer {
  constructor(app) {
    this.app = app;
    this.text = byId("composer-text");
    this.pictures = [];
    this.commands = [];
    this.chosen = 0;
    byId("composer").addEventListener("submit", (e) => {
      e.preventDefault();
      this.send(this.running ? "steer" : "prompt");
    });
    byId("follow").addEventListener("click", () => this.send("follow_up"));
    byId("stop").addEventListener("click", () => app.stop());
    byId("files").addEventListener("change", (e) => {
      this.addFiles(e.target.files);
      e.target.value = "";
    });
    this.text.addEventListener("input", () => this.changed());
    this.text.addEventListener("keydown", (e) => this.pressed(e));
    this.text.addEventListener("paste", (e) => this.addFiles(e.clipboardData?.files));
    const area = byId("main");
    area.addEventListener("dragover", (e) => e.dataTransfer?.types.includes("Files") && e.preventDefault());
    area.addEventListener("drop", (e) => {
      if (!e.dataTransfer?.files.length) return;
      e.preventDefault();
      this.addFiles(e.dataTransfer.files);
    });
  }

  get running() {
    return this.view?.running === true;
  }

  show(view) {
    byId("composer").hidden = !view; // before it is fitted: what is hidden has no height
    if (view !== this.view) {
      this.view = view;
      this.text.value = view ? stored("troupe-draft-" + view.key) : "";
      this.pictures = [];
      this.commands = null;
      this.editing = null;
      this.fit();
      this.drawPictures();
      this.complete();
    }
    byId("composer").classList.toggle("running", this.running);
    const viewing = this.app.readOnly;
    this.text.disabled = viewing;
    byId("files").disabled = viewing;
    this.text.placeholder = viewing ? "This device may only watch" : this.running ? "Steer: the agent reads it next" : "Message, /command, @file";
    byId("send").disabled = viewing;
    byId("send").textContent = this.running ? "Steer" : "Send";
    byId("follow").hidden = !this.running || viewing;
    byId("stop").hidden = !this.running || viewing;
    this.drawQueue();
  }

  drawQueue() {
    const q = this.view?.queue ?? { steering: [], followUp: [] };
    const row = (kind, text) => el("p", { class: "queued" }, el("span", { class: "badge" }, kind), " ", firstLine(text));
    const rows = [...q.steering.map((t) => row("steer", t)), ...q.followUp.map((t) => row("queued", t)),
      ...this.app.unsent(this.view).map((t) => row("not sent yet", t))];
    const back = q.steering.length + q.followUp.length > 0 && !this.app.readOnly &&
      el("button", { type: "button", click: () => this.takeBack() }, "Take back");
    const editing = this.editing && el("p", { class: "queued" }, el("span", { class: "badge" }, "edit"), " The conversation continues from before this message. ",
      el("button", { type: "button", click: () => this.stopEditing() }, "Cancel"));
    const key = JSON.stringify([q, this.app.unsent(this.view), Boolean(back), this.editing?.id]);
    if (key === this.drawnQueue) return; // what has the focus keeps it
    this.drawnQueue = key;
    byId("queue").replaceChildren(...[editing, ...rows, back].filter(Boolean));
  }

  async takeBack() {
    const q = await this.app.tell("clear_queue", { sessionId: this.view.handle });
    if (!q) return;
    const texts = [...(q.steering ?? []), ...(q.followUp ?? [])];
    this.text.value = [...texts, this.text.value].filter(Boolean).join("\n\n");
    this.changed();
    this.text.focus();
  }

  // edit puts a message of the user into the composer. Sending it continues from before that message.
  async edit(item) {
    const { view } = this;
    if (item.entry.id.startsWith("live-")) await view.adopt(); // it gets its place in the file
    const pictures = [];
    for (const block of item.entry.content.filter((b) => b.type === "image")) pictures.push({ name: "Picture", ...(await this.app.link.imageData(block)) });
    if (view !== this.view) return;
    this.before = this.editing ? this.before : { text: this.text.value, pictures: this.pictures };
    this.editing = { id: item.entry.id };
    this.pictures = pictures;
    this.drawPictures();
    this.put(item.entry.text);
    this.drawQueue();
    this.text.focus();
  }

  stopEditing() {
    this.editing = null;
    this.pictures = this.before.pictures;
    this.drawPictures();
    this.put(this.before.text);
    this.drawQueue();
  }

  put(text) {
    this.text.value = text;
    this.changed();
  }

  changed() {
    this.fit();
    if (this.view) store("troupe-draft-" + this.view.key, this.text.value);
    this.complete();
  }

  fit() {
    this.text.style.height = "auto";
    this.text.style.height = Math.min(this.text.scrollHeight + 2, innerHeight / 3) + "px";
  }

  async send(type) {
    const message = this.text.value.trim();
    if (!this.view || this.app.readOnly || (message === "" && this.pictures.length === 0)) return;
    const view = this.view;
    const [, name, rest] = /^\/(\S+)\s*([^]*)$/.exec(message) ?? [];
    const own = name && !this.editing && ownCommands(this.app).find((c) => c.name === name);
    if (own && !(await this.foreign()).some((c) => c.name === name)) { // an extension may have a command of that name
      if (view !== this.view || this.text.value.trim() !== message) return;
      this.put("");
      return this.app.later(() => own.run(rest));
    }
    if (this.editing) {
      const moved = await this.app.tell("navigate_tree", { sessionId: view.handle, targetId: this.editing.id, summarize: false });
      if (!moved || moved.cancelled || view !== this.view) return;
      this.editing = null;
      type = "prompt";
    }
    const images = this.pictures.map(({ mimeType, data }) => ({ type: "image", mimeType, data }));
    this.text.value = "";
    this.pictures = [];
    this.drawPictures();
    this.changed();
    const command = { type, sessionId: view.handle, message, idempotencyKey: randomId(), ...(images.length > 0 && { images }) };
    if (type === "prompt" && view.running) command.streamingBehavior = "followUp";
    this.app.say(view, command);
  }

  // giveBack puts a message that was refused before what was written since.
  giveBack(key, { message, images = [] }) {
    const join = (since) => [message, since].filter(Boolean).join("\n\n");
    if (this.view?.key !== key) return store("troupe-draft-" + key, join(stored("troupe-draft-" + key)));
    const again = ({ mimeType, data }) => ({ name: "Picture", size: (data.length / 4) * 3, mimeType, data });
    this.pictures = [...images.map(again), ...this.pictures];
    this.drawPictures();
    this.put(join(this.text.value));
  }

  pressed(event) {
    const list = byId("completions");
    if (!list.hidden && !event.isComposing) {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (by) {
        event.preventDefault();
        return this.choose(this.chosen + by);
      }
      const option = list.children[this.chosen];
      if (event.key === "Tab" || (event.key === "Enter" && this.text.value !== option.dataset.written)) { // else it is written out
        event.preventDefault();
        return option.click();
      }
      if (event.key === "Escape") {
        event.stopPropagation();
        list.hidden = true;
        return;
      }
    }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (event.altKey && this.running) this.send("follow_up");
    else this.send(this.running ? "steer" : "prompt");
  }

  // complete offers commands while the text is one word that begins with a slash, and
  // files of the project for a word that begins with an @.
  async complete() {
    const list = byId("completions");
    const { value, selectionStart } = this.text;
    const before = value.slice(0, selectionStart);
    const command = /^\/(\S*)$/.exec(value);
    const file = /(?:^|\s)@(?:"([^"\n]*)|([^\s"]*))$/.exec(before);
    const { view } = this;
    const found = !view || this.app.readOnly ? [] : command ? await this.findCommands(command[1]) : file ? await this.findFiles(before, file[1] ?? file[2]) : [];
    if (view !== this.view || value !== this.text.value) return; // it is about what is written by now
    list.replaceChildren(...found.map((o) => el("div", { role: "option", class: "completion", "data-written": o.written, click: () => this.take(o, value.slice(selectionStart)) },
      el("strong", null, spelt(o.name)), " ", el("span", { class: "meta" }, firstLine(str(o.brief))))));
    list.hidden = found.length === 0;
    this.choose(Math.max(0, found.findIndex((o) => o.written === before)));
  }

  // foreign returns the commands of the session: those of extensions, prompts and skills.
  async foreign() {
    if (!this.commands) {
      const { view } = this;
      const answer = await this.app.link.ask("get_commands", { sessionId: view.handle }).catch(() => null);
      if (view !== this.view || !answer) return answer?.commands ?? [];
      this.commands = answer.commands ?? [];
    }
    return this.commands;
  }

  // What is found: its name, the text before the cursor once it is written, and what goes after that.
  async findCommands(word) {
    const foreign = await this.foreign();
    const own = ownCommands(this.app).filter((c) => !foreign.some((f) => f.name === c.name));
    const matches = (c) => str(c.name).toLowerCase().includes(word.toLowerCase());
    const first = (c) => !str(c.name).toLowerCase().startsWith(word.toLowerCase());
    return [...foreign, ...own].filter(matches).toSorted((a, b) => first(a) - first(b)).slice(0, 24)
      .map((c) => ({ name: "/" + c.name, brief: c.description ?? c.brief, written: "/" + c.name, behind: " ", run: c.takes ? null : c.run }));
  }

  async findFiles(before, path) {
    const { link } = this.app;
    const [, dir, query] = /^(.*\/)?([^/]*)$/.exec(path);
    const from = dir?.startsWith("/") ? dir : `${this.view.cwd}/${dir ?? ""}`;
    const found = await link.ask("list_directories", { sessionId: this.view.handle, path: from, files: true, ...(query && { query }) }).catch(() => null);
    const start = before.slice(0, before.lastIndexOf("@", before.length - path.length) + 1);
    const option = (name, end) => {
      const whole = (dir ?? "") + name;
      const quote = /\s/.test(whole) ? '"' : "";
      return { name: whole + end, written: start + quote + whole + (end || quote), behind: end ? "" : " " };
    };
    return [...(found?.directories ?? []).map((d) => option(d, "/")), ...(found?.files ?? []).map((f) => option(f, ""))]
      .toSorted((a, b) => !a.name.toLowerCase().startsWith(path.toLowerCase()) - !b.name.toLowerCase().startsWith(path.toLowerCase())).slice(0, 12);
  }

  choose(at) {
    const options = [...byId("completions").children];
    this.chosen = Math.max(0, Math.min(options.length - 1, at));
    for (const [i, o] of options.entries()) {
      o.id = "completion-" + i;
      o.setAttribute("aria-selected", String(i === this.chosen));
    }
    if (options.length > 0) this.text.setAttribute("aria-activedescendant", options[this.chosen].id);
    else this.text.removeAttribute("aria-activedescendant");
    options[this.chosen]?.scrollIntoView({ block: "nearest" });
  }

  take({ written, behind, run }, rest) {
    if (run) {
      this.put("");
      return this.app.later(() => run(""));
    }
    this.text.value = written + behind + rest;
    this.text.setSelectionRange(written.length + behind.length, written.length + behind.length);
    this.changed();
    this.text.focus();
  }

  async addFiles(files) {
    for (const file of files ?? []) {
      if (!imageTypes.includes(file.type)) {
        this.app.alert(file.name + " is not a PNG, JPEG, GIF or WebP picture.");
        continue;
      }
      if (file.size > imageLimit) {
        this.app.alert(`${file.name} has ${Math.round(file.size / (1 << 20))} MiB; a picture may have ${imageLimit >> 20}.`);
        continue;
      }
      this.pictures.push({ name: file.name, size: file.size, mimeType: file.type, data: await base64Of(file) });
    }
    this.drawPictures();
  }

  drawPictures() {
    byId("pictures").replaceChildren(...this.pictures.map((p, i) => el("figure", { class: "attached" },
      el("img", { src: `data:${p.mimeType};base64,${p.data}`, alt: p.name }),
      el("figcaption", null, Math.max(1, Math.round(p.size / 1024)) + " KB"),
      el("button", { type: "button", "aria-label": "Remove " + p.name, click: () => {
        this.pictures.splice(i, 1);
        this.drawPictures();
      } }, icon("wrong")))));
  }
}

// ownCommands are the commands of the page. One that takes text after its name says so in takes.
function ownCommands(app) {
  const { sheets, view } = app;
  const own = (name, brief, run, takes = false) => ({ name, brief, run, takes });
  const compact = (customInstructions) => app.tell("compact", { sessionId: view.handle, ...(customInstructions && { customInstructions }) });
  return [
    own("model", "Choose a model", () => sheets.models()),
    own("compact", "Replace older messages with a summary", compact, true),
    own("new", "New session", () => app.newSession()),
    own("fork", "New session from before one of your messages", () => sheets.fork()),
    own("tree", "Branches of this session", () => sheets.branches()),
    own("changes", "Files that this session has changed", () => sheets.changes()),
    own("export", "Download this session as an HTML file", () => sheets.download()),
    own("session", "Model, permissions, cost and place of this session", () => sheets.session()),
    own("name", "Name this session", (name) => (name ? sheets.setName(name) : sheets.rename()), true),
    own("agents", "Subagents of this session", () => app.agents.all(view)),
    own("find", "Find in the conversation", () => sheets.find()),
    own("login", "Credentials of providers", () => app.logins.list()),
    own("help", "Keys and commands", () => sheets.help()),
  ];
}

// Storage may be closed to a page; then drafts last as long as it does.
function stored(key) {
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

function store(key, value) {
  try {
    if (value === "") localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    // see above
  }
}
