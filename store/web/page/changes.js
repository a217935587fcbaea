// Changed files of a session, and the session as a file to download.

// changedFiles lists the files that successful calls of write and edit have changed on the branch of a
// Session, with the lines of all their diffs.
function changedFiles(session, cwd) {
  const files = new Map(); // by path
  const calls = new Map(); // by id, which may come again: the latest call before a result counts
  for (const entry of session.pathTo(session.leaf)) {
    for (const call of entry.calls) calls.set(call.id, call);
    const call = entry.role === "toolResult" && calls.get(entry.message.toolCallId);
    if (!call || entry.message.isError === true) continue;
    const result = new ToolResult(entry);
    const args = [result.details.approvedArgs, call.arguments, {}].find(isObject);
    const lines = { edit: editLines, write: writtenLines }[str(call.name).toLowerCase()]?.(args, result);
    if (!lines) continue;
    const path = pathOf(args).startsWith(cwd + "/") ? pathOf(args).slice(cwd.length + 1) : pathOf(args);
    const earlier = files.get(path);
    files.set(path, earlier ? [...earlier, { sign: "@", number: "", text: "…" }, ...lines] : lines);
  }
  return [...files].map(([path, lines]) => ({ path, lines }));
}

function writtenLines({ content }) {
  return spelt(str(content)).replace(/\n$/, "").split("\n").map((text, i) => ({ sign: "+", number: String(i + 1), text }));
}

const exportTemplate = document.currentScript?.dataset.export;

// exportOf makes the HTML file of a session from its entries and the template of exported pages.
async function exportOf(link, view) {
  const [[head, beforeSession, beforeEntries, tail], { entries, leafId }] = await Promise.all([
    fetch(exportTemplate).then((answer) => answer.json()), link.ask("get_entries", { sessionId: view.handle })]);
  for (const entry of entries) {
    for (const block of [...blocks(entry.message?.content), ...blocks(entry.content)]) {
      if (block.type !== "image" || !block.ref) continue;
      const { mimeType, data } = await link.imageData(block);
      Object.assign(block, { mimeType, data });
      delete block.ref;
      delete block.bytes;
    }
  }
  const name = str(view.state.sessionName);
  const title = name || shortPath(view.cwd) + " · session " + view.key;
  const session = {
    header: { type: "session", version: 3, id: view.key, timestamp: str(entries[0]?.timestamp), cwd: str(view.cwd) },
    name, leaf: leafId ?? view.leaf, exported: new Date().toISOString(), generator: "troupe",
  };
  return new Blob([head, el("i", null, title).innerHTML, beforeSession, scriptData(session), beforeEntries, entries.map(scriptData).join("\n"), tail], { type: "text/html" });
}

// scriptData is a value as JSON that cannot end the script element it stands in.
function scriptData(value) {
  return JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}
