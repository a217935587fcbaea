// The main column: one branch, drawn piece by piece as it comes into view.

const itemsPerChunk = 20;

// Branches up to this many items are drawn to the end in idle time, so that
// the browser's own search finds everything; longer ones as they are read.
const drawnWhole = 1500;

class Conversation {
  constructor(session, root) {
    this.session = session;
    this.root = root;
    this.everything = false; // show the books, too
    this.unfolded = { thinking: null, tool: null }; // true and false are the reader's wish
    this.path = [];
    this.steps = new Map(); // entry of the path to its place in it
    this.chunks = [];
    this.places = new Map(); // entry of the path to the item that shows it
    this.watcher = new IntersectionObserver((seen) => this.seen(seen), { rootMargin: "1500px 0px" });
  }

  has(entry) {
    return this.places.has(entry);
  }

  // show puts the branch up to an entry on the page.
  show(leaf) {
    this.path = this.session.pathTo(leaf);
    this.steps = new Map(this.path.map((e, i) => [e, i]));
    const items = this.itemsOf(this.path);
    this.watcher.disconnect();
    this.chunks = [];
    for (let i = 0; i < items.length; i += itemsPerChunk) this.chunks.push(new Chunk(this, items.slice(i, i + itemsPerChunk)));
    this.root.replaceChildren(...this.chunks.map((c) => c.section));
    if (items.length === 0) this.root.append(el("p", { class: "notice" }, "No messages yet."));
    this.root.prepend(...this.forksAtTop());
    this.chunks[0]?.build();
    for (const c of this.chunks) this.watcher.observe(c.section);
    if (items.length <= drawnWhole) this.drawIdle(this.chunks);
  }

  // itemsOf lists what is shown of a path. The result of a tool is shown with
  // its call; ids of calls come back, so a result belongs to the nearest call
  // before it.
  itemsOf(path) {
    const items = [];
    const open = new Map(); // call id to its slot
    this.places = new Map();
    for (const e of path) {
      const slot = e.role === "toolResult" ? open.get(e.message.toolCallId) : undefined;
      if (slot && !slot.result) {
        slot.result = e;
        this.places.set(e, slot.item);
        continue;
      }
      if (!this.shows(e)) {
        this.places.set(e, items.at(-1) ?? null);
        continue;
      }
      const item = new Item(e);
      item.continues = continues(items.at(-1)?.entry, e);
      for (const s of item.slots) open.set(s.call.id, Object.assign(s, { item }));
      items.push(item);
      this.places.set(e, item);
    }
    return items;
  }

  shows(e) {
    if (this.everything || e.talks) return true;
    return !["label", "custom", "context_edit", "custom_message", "session_info"].includes(e.type) && e.role !== "custom";
  }

  seen(list) {
    for (const { target, isIntersecting } of list) if (isIntersecting) target.chunk.build();
  }

  drawIdle(chunks) {
    const idle = globalThis.requestIdleCallback ?? ((f) => setTimeout(() => f({ timeRemaining: () => 8 }), 30));
    const step = (deadline) => {
      if (chunks !== this.chunks) return; // another branch is shown by now
      for (const c of chunks) {
        if (c.built) continue;
        if (deadline.timeRemaining() < 4) break;
        c.build();
      }
      if (chunks.some((c) => !c.built)) idle(step);
    };
    idle(step);
  }

  buildAll() {
    for (const c of this.chunks) c.build();
  }

  // reveal scrolls to an entry, or to where it would be.
  reveal(entry, words = []) {
    const item = this.places.get(entry);
    if (!item) return window.scrollTo(0, 0);
    const at = this.chunks.indexOf(item.chunk);
    for (const c of this.chunks.slice(Math.max(0, at - 1), at + 2)) c.build();
    if (item.folds.has(entry)) openFold(item.folds.get(entry), true);
    if (words.length > 0) showFound(item.article, words);
    settle(item.article);
    this.root.querySelector(".target")?.classList.remove("target");
    item.article.classList.add("target");
  }

  // unfold opens or closes all folds of a kind, those not drawn yet included.
  unfold(kind, open) {
    this.unfolded[kind] = open;
    for (const c of this.chunks) if (c.built) c.applyFolds();
  }

  // reading is the entry at the top of the window.
  reading() {
    const column = this.root.getBoundingClientRect();
    const at = document.elementFromPoint(column.left + column.width / 2, 90);
    return at?.closest("article")?.item?.entry ?? null;
  }

  // target is the entry that was last gone to, while it is in view.
  target() {
    const article = this.root.querySelector(".target");
    const box = article?.getBoundingClientRect();
    return box && box.top >= 0 && box.top < innerHeight ? article.item.entry : null;
  }

  // neighbour is the entry that is shown some places after another.
  neighbour(entry, by) {
    const items = this.chunks.flatMap((c) => c.items);
    const at = items.indexOf(this.places.get(entry));
    return items[Math.min(items.length - 1, Math.max(0, at + by))]?.entry;
  }

  // forksAtTop are those before the first item.
  forksAtTop() {
    const roots = branches(this.session.roots);
    const forks = [roots.length > 1 && forkOf(roots, this.steps)];
    for (let i = 0; i < this.path.length && this.places.get(this.path[i]) === null; i++) forks.push(this.forkAt(i));
    return forks.filter(Boolean);
  }

  // forkAt offers the ways on from an entry of the path, if there is a choice.
  forkAt(i) {
    const ways = branches(this.path[i].children);
    const choice = i === this.path.length - 1 ? ways.length > 0 : ways.length > 1;
    return choice && forkOf(ways, this.steps);
  }
}

// settle scrolls to an article. What comes into view takes its real height and
// moves it away again, so it looks for a few frames whether it is still there.
function settle(article, frames = 6) {
  article.scrollIntoView({ block: "start" });
  if (frames > 0) requestAnimationFrame(() => settle(article, frames - 1));
}

// continues reports whether an answer goes on where the one before it stopped
// for tools.
function continues(before, e) {
  return e.role === "assistant" && before?.role === "assistant" && !before.failed && before.message.model === e.message.model;
}

// Chunk is a part of the column that is drawn at once.
class Chunk {
  constructor(conversation, items) {
    this.conversation = conversation;
    this.items = items;
    this.built = false;
    this.height = items.reduce((sum, i) => sum + i.height, 0);
    this.section = el("section", { class: "chunk" });
    this.section.chunk = this;
    this.section.style.minHeight = this.height + "px";
    for (const i of items) i.chunk = this;
  }

  build() {
    if (this.built) return;
    this.built = true;
    const nodes = this.items.flatMap((item) => {
      const article = item.build();
      article.item = item;
      return [article, this.forkAfter(item)];
    });
    add(this.section, nodes);
    this.applyFolds();
    this.section.style.minHeight = "";
    this.section.style.containIntrinsicSize = "auto " + this.height + "px";
  }

  applyFolds() {
    for (const [kind, open] of Object.entries(this.conversation.unfolded)) {
      if (open === null) continue;
      for (const details of this.section.querySelectorAll("details." + kind)) openFold(details, open);
    }
  }

  // forkAfter offers the branches that leave the path after an item, or after
  // an entry that is not shown and comes before the next item.
  forkAfter(item) {
    const { path, places, steps } = this.conversation;
    const forks = [];
    for (let i = steps.get(item.entry); i < path.length && places.get(path[i]) === item; i++) {
      forks.push(this.conversation.forkAt(i));
    }
    return forks;
  }
}

// forkOf lists the ways on from a branching; one of them may be on the path.
function forkOf(ways, path) {
  const taken = ways.find((w) => path.has(w));
  const title = taken ? `Branch ${ways.indexOf(taken) + 1} of ${ways.length}` : "It goes on elsewhere";
  return el("nav", { class: "fork", "aria-label": title },
    el("span", { class: "fork-title" }, icon("branch"), " ", title),
    el("ol", null, ways.map((way) => {
      return el("li", null, el("a", { href: hashOf(way.id), "aria-current": way === taken ? "true" : null },
        outline(opening(way)).text), el("span", { class: "meta" }, count(way.weight, "entry", "entries")));
    })));
}

// opening is the entry of a branch that tells best what it is about: the first
// message, if it comes before the next branching.
function opening(way) {
  let best = way;
  for (let e = way; e; e = branches(e.children)[0]) {
    if (e.message && e.talks) return e;
    if (!best.talks) best = e;
    if (branches(e.children).length > 1) break;
  }
  return best;
}
