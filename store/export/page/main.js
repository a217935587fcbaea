// Putting the page together and listening to the reader.

const session = readSession();
const conversation = new Conversation(session, byId("conversation"));
const tree = new Tree(session, byId("tree"));

// show puts a branch on the page.
function show(leaf) {
  conversation.show(leaf);
  tree.show(conversation.path);
  drawTotals(session, conversation.path);
}

// follow goes to the entry that the address names, on the branch that is shown
// if it is there, else on the newest one through it.
function follow() {
  const entry = session.byId.get(addressed());
  if (!entry) return;
  if (!conversation.has(entry)) show(session.pathTo(session.leaf).includes(entry) ? session.leaf : entry.tip);
  goTo(entry);
  if (narrow.matches) openTree(false);
}

// goTo scrolls to an entry and marks it in the tree. What the scrolling brings
// to the top of the window, if the page ends too early, is not what was asked
// for, so the mark stays for a moment.
function goTo(entry) {
  conversation.reveal(entry, tree.words);
  tree.mark(entry);
  markedUntil = performance.now() + 500;
}

let markedUntil = 0;

function addressed() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

// The side bar lies beside the text, or over it on narrow screens.
const narrow = matchMedia("(max-width: 60rem)");

function openTree(open) {
  document.body.classList.toggle("tree-closed", !open);
  byId("toggle-tree").setAttribute("aria-expanded", String(open));
  byId("sidebar").inert = !open;
  if (open) tree.mark(tree.current);
}

function treeIsOpen() {
  return !document.body.classList.contains("tree-closed");
}

function drawFilters() {
  const buttons = Object.keys(filters).map((name) =>
    el("button", { type: "button", "aria-pressed": String(name === tree.filter), click: () => choose(name) }, name));
  byId("filters").replaceChildren(...buttons);
}

function choose(name) {
  tree.filter = name;
  drawFilters();
  const everything = name === "All";
  if (everything !== conversation.everything) {
    conversation.everything = everything;
    show(conversation.path.at(-1) ?? null);
    if (tree.current) goTo(tree.current);
  }
  tree.draw();
}

let searching = 0;

function search() {
  clearTimeout(searching);
  searching = setTimeout(() => {
    tree.words = wordsOf(byId("search").value);
    tree.draw();
    mark(byId("conversation"), tree.words);
  }, 150);
}

function toggleFolds(kind) {
  const button = byId(kind === "tool" ? "toggle-tools" : "toggle-thinking");
  const open = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(open));
  const at = conversation.reading();
  conversation.unfold(kind, open);
  if (at && window.scrollY > 0) settle(conversation.places.get(at).article);
}

// Colours are the system's unless the reader chose others. Storage may be
// closed to a file; then the choice lasts as long as the page.
const themes = ["system", "light", "dark"];

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("toggle-theme").setAttribute("aria-label", "Colours: " + theme);
  byId("toggle-theme").replaceChildren(icon(theme));
}

function storedTheme() {
  try {
    const theme = localStorage.getItem("troupe-theme");
    return themes.includes(theme) ? theme : "system";
  } catch {
    return "system";
  }
}

function nextTheme() {
  const theme = themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length];
  setTheme(theme);
  try {
    localStorage.setItem("troupe-theme", theme);
  } catch {
    // see above
  }
}

function step(by) {
  const next = conversation.neighbour(conversation.target() ?? conversation.reading() ?? tree.current, by);
  if (!next) return;
  goTo(next);
}

const keys = {
  "/": () => {
    openTree(true);
    byId("search").focus();
  },
  j: () => step(1),
  k: () => step(-1),
  t: () => toggleFolds("thinking"),
  o: () => toggleFolds("tool"),
};

function pressed(event) {
  if (event.key === "Escape") return escape();
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea")) return;
  if (!Object.hasOwn(keys, event.key) || byId("viewer").open) return;
  event.preventDefault();
  keys[event.key]();
}

function escape() {
  const field = byId("search");
  if (field.value !== "") {
    field.value = "";
    search();
  } else if (narrow.matches && treeIsOpen()) {
    openTree(false);
    byId("toggle-tree").focus();
  }
}

// scrolled keeps the tree at the entry that is being read.
let scrolling = 0;

function scrolled() {
  cancelAnimationFrame(scrolling);
  scrolling = requestAnimationFrame(() => {
    byId("bar").classList.toggle("scrolled", window.scrollY > 80);
    const entry = performance.now() < markedUntil ? null : conversation.reading();
    if (entry && entry !== tree.current) tree.mark(entry);
  });
}

function listen() {
  byId("toggle-tree").addEventListener("click", () => openTree(!treeIsOpen()));
  byId("toggle-thinking").addEventListener("click", () => toggleFolds("thinking"));
  byId("toggle-tools").addEventListener("click", () => toggleFolds("tool"));
  byId("toggle-theme").addEventListener("click", nextTheme);
  byId("backdrop").addEventListener("click", () => openTree(false));
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
  byId("search").addEventListener("input", search);
  // A link to where one already is changes nothing the page could hear of.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash && link.id !== "skip") follow();
  });
  addEventListener("hashchange", follow);
  addEventListener("keydown", pressed);
  addEventListener("scroll", scrolled, { passive: true });
  addEventListener("beforeprint", () => conversation.buildAll());
  narrow.addEventListener("change", () => openTree(!narrow.matches));
}

// The address may ask for everything to be unfolded, for printing and saving:
// file.html?open
function unfoldAsAsked() {
  if (!new URLSearchParams(location.search).has("open")) return;
  toggleFolds("thinking");
  toggleFolds("tool");
  conversation.buildAll();
}

setTheme(storedTheme());
byId("toggle-tree").append(icon("menu"));
openTree(!narrow.matches);
byId("bar-title").textContent = session.title();
document.title = session.title();
drawOverview(session);
drawFilters();
show(session.leaf);
tree.draw();
listen();
unfoldAsAsked();
follow();
document.documentElement.dataset.ready = "true";
