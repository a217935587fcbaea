// Tool calls with their results, folded to one line each.

// toolViews says for each known tool what its line shows and what is inside.
// A view has brief (what the call is about), meta (what came of it) and body;
// open asks to be shown unfolded.
const toolViews = {
  bash(args, result) {
    const command = str(args.command);
    return {
      brief: firstLine(command),
      meta: exitCode(result) || (num(args.timeout) ? "timeout " + args.timeout + " s" : ""),
      body: () => terminal(command, plain(result.text)),
    };
  },
  read(args, result) {
    const from = Math.max(1, num(args.offset));
    const text = result.failed ? "" : result.text;
    const pictures = result.images.length > 0;
    return {
      brief: pathOf(args) + (num(args.offset) ? ":" + from : ""),
      meta: pictures ? "image" : text ? count(lineCount(text), "line") : "",
      body: () => [text ? codeBlock(text, { language: pictures ? "" : languageOf(pathOf(args)), from: pictures ? 0 : from }) : failure(result)],
    };
  },
  write(args, result) {
    const text = str(args.content);
    return {
      brief: pathOf(args),
      meta: result.denied ? "denied" : count(lineCount(text), "line"),
      body: () => [codeBlock(text, { language: languageOf(pathOf(args)), from: 1 }), failure(result)],
    };
  },
  edit(args, result) {
    const lines = editLines(args, result);
    const { added, removed } = changes(lines);
    return {
      brief: pathOf(args),
      meta: result.denied ? "denied" : sizeOf(added, removed),
      body: () => [lines.length > 0 && diffTable(lines), failure(result)],
      open: !result.failed && lines.length > 0 && lines.length <= 16,
    };
  },
  grep: listing,
  find: listing,
  ls: listing,
};

// editLines are the lines of the diff of an edit.
function editLines(args, result) {
  const reported = str(result.details.diff);
  return reported ? parseDiff(reported) : diffOfEdits(Array.isArray(args.edits) ? args.edits : [args]);
}

// sizeOf is the size of a change.
function sizeOf(added, removed) {
  return el("span", null, el("ins", null, "+" + added), " ", el("del", null, "−" + removed));
}

function listing(args, result) {
  const where = pathOf(args);
  const what = str(args.pattern);
  const none = /^No (matches|files)|^\(empty/i.test(result.text);
  return {
    brief: what && where ? what + "  in " + where : what || where || ".",
    meta: result.failed || !result.text ? "" : none ? "nothing" : count(lineCount(result.text), "line"),
    body: () => [codeBlock(result.text)],
  };
}

function otherTool(args, result) {
  const json = prettyJSON(args);
  return {
    brief: json === "{}" ? "" : firstLine(JSON.stringify(args)),
    meta: "",
    body: () => [
      json !== "{}" && labelled("Arguments", codeBlock(json, { language: "json" })),
      result.text !== "" && labelled("Result", codeBlock(plain(result.text))),
      !empty(result.details) && labelled("Details", codeBlock(prettyJSON(result.details), { language: "json" })),
    ],
  };
}

function labelled(name, ...nodes) {
  return el("div", { class: "labelled" }, el("h4", null, name), nodes);
}

function empty(object) {
  return Object.keys(object).length === 0;
}

function pathOf(args) {
  return str(args.path) || str(args.file_path);
}

// ToolResult is what came back of a call; without an entry nothing did.
class ToolResult {
  constructor(entry) {
    const message = entry?.message ?? {};
    const content = entry?.content ?? [];
    this.entry = entry;
    this.failed = message.isError === true;
    this.text = content.filter((b) => b.type === "text").map((b) => str(b.text)).join("\n");
    this.images = content.filter((b) => b.type === "image");
    this.details = isObject(message.details) ? message.details : {};
  }

  // denied reports whether the call did not run because a person or a permission rule said no.
  get denied() {
    return this.failed && /^(The user did not allow this tool call[.:]|This tool call is not permitted: )/.test(this.text);
  }

  get status() {
    if (!this.entry) return { kind: "pending", sign: "…", title: "No result" };
    if (this.denied) return { kind: "denied", sign: "⊘", title: "Denied" };
    if (this.failed) return { kind: "failed", sign: "✗", title: "Failed" };
    return { kind: "done", sign: "✓", title: "Done" };
  }
}

// toolFold shows a call and its result, which is null if there is none.
function toolFold(call, resultEntry) {
  const name = str(call.name) || "tool";
  const result = new ToolResult(resultEntry);
  const args = [result.details.approvedArgs, call.arguments, {}].find(isObject); // what has run
  const key = name.toLowerCase();
  const view = (Object.hasOwn(toolViews, key) ? toolViews[key] : otherTool)(args, result);
  const status = result.status;
  const brief = spelt(view.brief);
  const summary = [
    el("span", { class: "status", title: status.title, role: "img", "aria-label": status.title }, status.sign),
    el("span", { class: "tool-name" }, name),
    el("code", { class: "brief", title: brief }, brief),
    view.meta ? el("span", { class: "meta" }, view.meta) : null,
  ];
  const details = fold({ class: "tool " + status.kind }, summary, () =>
    el("div", { class: "tool-body" }, view.body(), result.images.map((b) => picture(b, "Image from " + name)), remarks(result)));
  if (view.open) openFold(details, true);
  return details;
}

function exitCode(result) {
  const m = /Command exited with code (\d+)\s*$/.exec(result.text);
  return m ? "exit " + m[1] : result.denied ? "denied" : result.failed ? "failed" : "";
}

// failure shows a result's text if the call failed.
function failure(result) {
  return result.failed && el("pre", { class: result.denied ? "refusal" : "failure" }, plain(result.text));
}

// remarks says what a tool left out of its result.
function remarks(result) {
  const cut = result.details.truncation;
  const notes = [];
  if (isObject(cut) && cut.truncated === true) {
    notes.push(`Shown: ${count(num(cut.outputLines), "line")} of ${num(cut.totalLines).toLocaleString("en")}.`);
  }
  if (str(result.details.fullOutputPath)) notes.push("Whole output: " + result.details.fullOutputPath);
  if (isObject(result.details.approvedArgs)) notes.push("The arguments were changed when the call was allowed.");
  if (!result.entry) notes.push("The file holds no result of this call.");
  return notes.length > 0 && el("p", { class: "remark" }, notes.join(" "));
}

// terminal shows a command and what it printed.
function terminal(command, output) {
  return el("div", { class: "terminal" },
    el("div", { class: "command" }, el("span", { class: "prompt", "aria-hidden": "true" }, "$ "),
      el("code", null, highlighted(spelt(command), "bash")), copyButton(() => command, "Copy the command")),
    output.trim() !== "" && el("pre", { class: "output" }, output.replace(/\s+$/, "")));
}
