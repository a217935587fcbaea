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
      this.fit();
      this.drawPictures();
      this.complete();
    }
    const viewing = this.app.readOnly;
    this.text.disabled = viewing;
    byId("files").disabled = viewing;
    this.text.placeholder = viewing ? "This device may only watch" : this.running ? "Steer: read at the next step" : "Message, /command, @file";
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
    byId("queue").replaceChildren(...rows, ...(back ? [back] : []));
  }

  async takeBack() {
    const q = await this.app.tell("clear_queue", { sessionId: this.view.handle });
    if (!q) return;
    const texts = [...(q.steering ?? []), ...(q.followUp ?? [])];
    this.text.value = [...texts, this.text.value].filter(Boolean).join("\n\n");
    this.changed();
    this.text.focus();
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

  // What is found: its name, the text before the cursor once it is written, and what goes behind that.
  async findCommands(word) {
    if (!this.commands) {
      this.commands = [];
      const answer = await this.app.link.ask("get_commands", { sessionId: this.view.handle }).catch(() => null);
      this.commands = answer?.commands ?? [];
    }
    return this.commands.filter((c) => str(c.name).toLowerCase().includes(word.toLowerCase())).slice(0, 12)
      .map((c) => ({ name: "/" + c.name, brief: c.description, written: "/" + c.name, behind: " " }));
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

  take({ written, behind }, rest) {
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
      const address = await new Promise((done) => {
        const reader = new FileReader();
        reader.onload = () => done(reader.result);
        reader.readAsDataURL(file);
      });
      this.pictures.push({ name: file.name, size: file.size, mimeType: file.type, data: address.slice(address.indexOf(",") + 1) });
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
