// What stands above the conversation: the session and its totals.

function drawOverview(session) {
  const { header, info } = session;
  const all = new Totals(session.entries);
  add(byId("overview"), [
    el("h1", { dir: "auto" }, session.title()),
    el("p", { class: "facts" }, [
      all.from ? dateAndTime(all.from) : "",
      all.to - all.from >= 1000 ? duration(all.to - all.from) : "",
      str(header.cwd) && breakable(header.cwd),
    ].filter((fact) => fact.length > 0).flatMap((fact, i) => [i > 0 && el("span", { class: "dot" }, " · "), el("span", null, fact)])),
    el("div", { id: "totals" }),
    el("div", { class: "folds" },
      str(info.systemPrompt) && fold({ class: "raw" }, "System prompt", () => el("pre", { class: "plain" }, info.systemPrompt)),
      Array.isArray(info.tools) && info.tools.length > 0 && fold({ class: "raw" }, count(info.tools.length, "tool"), () => toolList(info.tools)),
      fold({ class: "raw" }, "About the file", () => aboutFile(session, all))),
  ]);
  add(byId("colophon"), [
    el("p", null, [str(info.generator) && "Exported by " + info.generator, timeOf(info.exported) > 0 && dateAndTime(timeOf(info.exported))].filter(Boolean).join(", ")),
    el("p", null, "Drawn with marked, highlight.js " + hljs.versionString + " and DOMPurify " + DOMPurify.version + "."),
  ]);
}

// breakable lets a path break after its slashes.
function breakable(path) {
  return path.split(/(?<=[/\\])/).flatMap((part) => [part, el("wbr")]);
}

// drawTotals sums up a branch, and the file if it holds more.
function drawTotals(session, path) {
  const branch = new Totals(path);
  const file = path.length === session.entries.length ? branch : new Totals(session.entries);
  const more = (key, show) => (file[key] !== branch[key] ? "of " + show(file[key]) : "");
  const tile = (name, key, show = (n) => n.toLocaleString("en")) =>
    el("div", { class: "tile" }, el("dt", null, name), el("dd", null, show(branch[key]), el("small", null, more(key, show))));
  const models = [...branch.models].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  byId("totals").replaceChildren(
    el("dl", { class: "tiles" },
      tile("Prompts", "user"), tile("Answers", "assistant"), tile("Tool calls", "calls"),
      branch.failed > 0 && tile("Failed", "failed"),
      tile("Input", "input", tokens), tile("Output", "output", tokens),
      file.cacheRead > 0 && tile("Cache read", "cacheRead", tokens), file.cacheWrite > 0 && tile("Cache written", "cacheWrite", tokens),
      tile("Cost", "cost", money)),
    models.length > 0 ? el("p", { class: "models" }, models.map((m) => el("code", null, m))) : "");
}

function aboutFile(session, all) {
  const { header } = session;
  const rows = [
    ["Session", str(header.id)], ["Begun", str(header.timestamp)], ["Directory", str(header.cwd)],
    ["Forked from", str(header.parentSession)], ["Version", String(header.version ?? "")],
    ["Entries", session.entries.length.toLocaleString("en")], ["Compactions", String(all.compactions)],
  ].filter(([, value]) => value !== "");
  return el("div", null,
    el("dl", { class: "rows" }, rows.map(([name, value]) => [el("dt", null, name), el("dd", null, value)])),
    el("p", null, el("button", { type: "button", click: () => download(session) }, "Save the session as JSONL")));
}

// download gives the session file back: the header and the entries, with some
// characters of strings written as escapes.
function download(session) {
  const lines = JSON.stringify(session.header) + "\n" + byId("entries").textContent.trimEnd() + "\n";
  const address = URL.createObjectURL(new Blob([lines], { type: "application/x-ndjson" }));
  const name = (str(session.header.id).match(/[\w-]+/)?.[0] ?? "session") + ".jsonl";
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

function toolList(tools) {
  return el("dl", { class: "tool-list" }, tools.filter(isObject).map((tool) => [
    el("dt", null, el("code", null, str(tool.name))),
    el("dd", null, markdown(str(tool.description)), isObject(tool.parameters) && rawFold("Parameters", tool.parameters)),
  ]));
}
