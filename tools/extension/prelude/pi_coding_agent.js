// provides: @mariozechner/pi-coding-agent, @earendil-works/pi-coding-agent, @oh-my-pi/pi-coding-agent, @mariozechner/pi-coding-agent/*, @earendil-works/pi-coding-agent/*, @oh-my-pi/pi-coding-agent/*
"use strict";

const path = require("path");
const fs = require("fs");
const { Buffer } = require("buffer");
const process = require("process");
const boot = host.boot;

const DEFAULT_MAX_LINES = 2000, DEFAULT_MAX_BYTES = 50 * 1024;

// ---- text ----

const formatSize = (n) => n < 1024 ? `${n}B` : n < 1024 * 1024 ? `${(n / 1024).toFixed(1)}KB` : `${(n / (1024 * 1024)).toFixed(1)}MB`;
const limits = (o) => ({ maxLines: o?.maxLines ?? DEFAULT_MAX_LINES, maxBytes: o?.maxBytes ?? DEFAULT_MAX_BYTES });
const truncated = (op) => (text, options) => {
  const o = limits(options);
  return { maxLines: o.maxLines, maxBytes: o.maxBytes, ...host.op(op, text, o) };
};
const truncateHead = truncated("text.truncateHead"), truncateTail = truncated("text.truncateTail");
const truncateLine = (line, max = 500) => line.length <= max ? { text: line, wasTruncated: false } : { text: `${line.slice(0, max)}... [truncated]`, wasTruncated: true };
const generateDiffString = (before, after) => host.op("text.diff", before, after);
const generateUnifiedPatch = (name, before, after) => host.op("text.patch", name, before, after);

const languages = {
  ts: "typescript", tsx: "typescript", js: "javascript", jsx: "javascript", mjs: "javascript", cjs: "javascript", py: "python", rb: "ruby", rs: "rust", go: "go", java: "java", kt: "kotlin", swift: "swift", c: "c", h: "c", cpp: "cpp", cc: "cpp", hpp: "cpp",
  cs: "csharp", php: "php", sh: "bash", bash: "bash", zsh: "bash", fish: "fish", ps1: "powershell", sql: "sql", html: "html", htm: "html", css: "css", scss: "scss", less: "less", json: "json", yaml: "yaml", yml: "yaml", toml: "toml", xml: "xml", md: "markdown",
  markdown: "markdown", dockerfile: "dockerfile", makefile: "makefile", cmake: "cmake", lua: "lua", perl: "perl", r: "r", scala: "scala", clj: "clojure", ex: "elixir", exs: "elixir", erl: "erlang", hs: "haskell", ml: "ocaml", vim: "vim", graphql: "graphql", proto: "protobuf", tf: "hcl", hcl: "hcl",
};
const getLanguageFromPath = (p) => languages[p.split(".").pop()?.toLowerCase()];

// ---- frontmatter: as much of YAML as heads of files have ----

function scalar(text) {
  text = text.trim();
  if (text === "" || text === "~" || text === "null") return null;
  if (/^(true|false)$/i.test(text)) return text.toLowerCase() === "true";
  if (/^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(text)) return Number(text);
  if (text[0] === '"' && text.endsWith('"')) {
    try {
      return JSON.parse(text);
    } catch {
      return text.slice(1, -1);
    }
  }
  if (text[0] === "'" && text.endsWith("'")) return text.slice(1, -1).replaceAll("''", "'");
  if (text[0] === "[" && text.endsWith("]")) return split(text.slice(1, -1)).map(scalar);
  if (text[0] === "{" && text.endsWith("}")) return Object.fromEntries(split(text.slice(1, -1)).map((p) => [String(scalar(p.slice(0, p.indexOf(":")))), scalar(p.slice(p.indexOf(":") + 1))]));
  return text.replace(/\s+#.*$/, "");
}
function split(text) {
  const out = [];
  let depth = 0, quote = "", from = 0;
  for (let i = 0; i <= text.length; i++) {
    const c = text[i];
    if (quote) {
      if (c === quote) quote = "";
    } else if (c === '"' || c === "'") quote = c;
    else if (c === "[" || c === "{") depth++;
    else if (c === "]" || c === "}") depth--;
    if (i === text.length || c === "," && depth === 0 && !quote) {
      if (text.slice(from, i).trim() !== "") out.push(text.slice(from, i));
      from = i + 1;
    }
  }
  return out;
}
const indentOf = (line) => line.length - line.trimStart().length;

function block(lines, at, indent) {
  const isList = /^-(\s|$)/.test(lines[at]?.trimStart() ?? "");
  const out = isList ? [] : {};
  while (at < lines.length) {
    const line = lines[at];
    if (line.trim() === "" || line.trim().startsWith("#")) {
      at++;
      continue;
    }
    if (indentOf(line) < indent || isList && !/^-(\s|$)/.test(line.trimStart())) break;
    const text = line.trimStart();
    if (isList) {
      const rest = text.slice(1).trim(), pair = /^([^\s"'[{][^:]*):(\s|$)/.exec(rest);
      if (rest === "") {
        const [v, next] = nested(lines, at + 1, indent);
        out.push(v);
        at = next;
      } else if (pair) {
        lines[at] = " ".repeat(indentOf(line) + 2) + rest;
        const [v, next] = block(lines, at, indentOf(line) + 2);
        out.push(v);
        at = next;
      } else {
        out.push(scalar(rest));
        at++;
      }
      continue;
    }
    const m = /^("(?:[^"\\]|\\.)*"|'[^']*'|[^:]+):(?:\s+(.*))?$/.exec(text);
    if (!m) throw new Error(`Invalid YAML: ${text}`);
    const name = String(scalar(m[1])), value = (m[2] ?? "").trim();
    const style = /^([|>])([-+]?)\d*$/.exec(value);
    if (style) {
      const body = [];
      let deep = 0;
      for (at++; at < lines.length && (lines[at].trim() === "" || indentOf(lines[at]) > indent); at++) {
        if (lines[at].trim() !== "") deep ||= indentOf(lines[at]);
        body.push(lines[at].slice(deep));
      }
      let t = style[1] === "|" ? body.join("\n") : body.join("\n").replace(/([^\n])\n(?=[^\n])/g, "$1 ").replace(/\n\n/g, "\n");
      t = t.replace(/\n+$/, "");
      out[name] = style[2] === "-" ? t : t + "\n";
    } else if (value === "" || value.startsWith("#")) {
      const [v, next] = nested(lines, at + 1, indent);
      out[name] = v;
      at = next;
    } else {
      out[name] = scalar(value);
      at++;
    }
  }
  return [out, at];
}
function nested(lines, at, indent) {
  let i = at;
  while (i < lines.length && lines[i].trim() === "") i++;
  if (i < lines.length && (indentOf(lines[i]) > indent || indentOf(lines[i]) === indent && /^-(\s|$)/.test(lines[i].trimStart()))) return block(lines, i, indentOf(lines[i]));
  return [null, at];
}

function parseFrontmatter(content) {
  const text = content.replace(/\r\n?/g, "\n");
  if (!text.startsWith("---")) return { frontmatter: {}, body: text };
  const end = text.indexOf("\n---", 3);
  if (end < 0) return { frontmatter: {}, body: text };
  const [frontmatter] = block(text.slice(4, end).split("\n"), 0, 0);
  return { frontmatter: frontmatter ?? {}, body: text.slice(end + 4).trim() };
}

// ---- messages ----

const summaryPrefix = "The conversation history before this point was compacted into the following summary:\n\n<summary>\n", summarySuffix = "\n</summary>";
const branchPrefix = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n", branchSuffix = "</summary>";

function bashExecutionToText(m) {
  let text = `Ran \`${m.command}\`\n${m.output ? `\`\`\`\n${m.output}\n\`\`\`` : "(no output)"}`;
  if (m.cancelled) text += "\n\n(command cancelled)";
  else if (m.exitCode !== null && m.exitCode !== undefined && m.exitCode !== 0) text += `\n\nCommand exited with code ${m.exitCode}`;
  if (m.truncated && m.fullOutputPath) text += `\n\n[Output truncated. Full output: ${m.fullOutputPath}]`;
  return text;
}
const asUser = (m, text) => ({ role: "user", content: [{ type: "text", text }], timestamp: m.timestamp });
function convertToLlm(messages) {
  return messages.flatMap((m) => {
    switch (m.role) {
      case "bashExecution":
        return m.excludeFromContext ? [] : [asUser(m, bashExecutionToText(m))];
      case "custom":
      case "hookMessage":
        return [{ role: "user", content: typeof m.content === "string" ? [{ type: "text", text: m.content }] : m.content ?? [], timestamp: m.timestamp }];
      case "branchSummary":
        return [asUser(m, branchPrefix + m.summary + branchSuffix)];
      case "compactionSummary":
        return [asUser(m, summaryPrefix + m.summary + summarySuffix)];
      case "user":
      case "assistant":
      case "toolResult":
      case "system":
        return [m];
    }
    return [];
  });
}

const texts = (content) => typeof content === "string" ? content : (content ?? []).filter((c) => c.type === "text").map((c) => c.text).join("");
function serializeConversation(messages) {
  const parts = [];
  for (const m of messages) {
    if (m.role === "user") {
      const t = texts(m.content);
      if (t) parts.push(`[User]: ${t}`);
    } else if (m.role === "assistant") {
      const said = m.content.filter((c) => c.type === "text").map((c) => c.text), calls = m.content.filter((c) => c.type === "toolCall");
      if (said.length) parts.push(`[Assistant]: ${said.join("\n")}`);
      if (calls.length) parts.push(`[Assistant tool calls]: ${calls.map((c) => `${c.name}(${Object.entries(c.arguments ?? {}).map(([k, v]) => `${k}=${JSON.stringify(v)}`).join(", ")})`).join("; ")}`);
    } else if (m.role === "toolResult") {
      const t = texts(m.content), more = t.length - 2000;
      if (t) parts.push(`[Tool result]: ${more > 0 ? `${t.slice(0, 2000)}\n\n[... ${more} more characters truncated]` : t}`);
    }
  }
  return parts.join("\n\n");
}

function estimateTokens(m) {
  let chars = 0;
  const add = (content) => {
    if (typeof content === "string") chars += content.length;
    else for (const c of content ?? []) chars += c.type === "text" ? c.text.length : c.type === "thinking" ? c.thinking.length : c.type === "toolCall" ? c.name.length + JSON.stringify(c.arguments ?? {}).length : c.type === "image" ? 4800 : 0;
  };
  if (m.role === "bashExecution") chars = m.command.length + m.output.length;
  else if (m.role === "branchSummary" || m.role === "compactionSummary") chars = m.summary.length;
  else add(m.content);
  return Math.ceil(chars / 4);
}
const calculateContextTokens = (u) => u.totalTokens || u.input + u.output + u.cacheRead + u.cacheWrite;
const getLastAssistantUsage = (entries) => entries.findLast((e) => e.type === "message" && e.message.role === "assistant" && !["aborted", "error"].includes(e.message.stopReason) && e.message.usage)?.message.usage;
const DEFAULT_COMPACTION_SETTINGS = { enabled: true, reserveTokens: 16384, keepRecentTokens: 20000 };

// ---- entries of sessions ----

const timeOf = (e) => typeof e.timestamp === "number" ? e.timestamp : Date.parse(e.timestamp);
function sessionEntryToContextMessages(e) {
  switch (e.type) {
    case "message":
      return [e.message];
    case "custom_message":
      return [{ role: "custom", customType: e.customType, content: e.content, display: e.display, details: e.details, timestamp: timeOf(e) }];
    case "branch_summary":
      return e.summary ? [{ role: "branchSummary", summary: e.summary, fromId: e.fromId, timestamp: timeOf(e) }] : [];
    case "compaction":
      return [{ role: "compactionSummary", summary: e.summary, tokensBefore: e.tokensBefore, timestamp: timeOf(e) }];
  }
  return [];
}
function branchOf(entries, leafId) {
  const byId = new Map(entries.filter((e) => e.id).map((e) => [e.id, e])), out = [];
  for (let e = leafId === null ? undefined : byId.get(leafId ?? entries[entries.length - 1]?.id); e; e = e.parentId ? byId.get(e.parentId) : undefined) out.unshift(e);
  return out;
}
// buildContextEntries leaves out what a compaction stands for: it comes first, then what
// it kept, then what followed.
function buildContextEntries(entries, leafId) {
  const branch = branchOf(entries.filter((e) => e.type !== "session"), leafId), at = branch.findLastIndex((e) => e.type === "compaction");
  if (at < 0) return branch;
  const kept = branch.findIndex((e) => e.id === branch[at].firstKeptEntryId);
  return [branch[at], ...(kept >= 0 && kept < at ? branch.slice(kept, at) : []), ...branch.slice(at + 1)];
}
function buildSessionContext(entries, leafId) {
  const branch = branchOf(entries.filter((e) => e.type !== "session"), leafId);
  let thinkingLevel = "off", model = null;
  for (const e of branch) {
    if (e.type === "thinking_level_change") thinkingLevel = e.thinkingLevel;
    else if (e.type === "model_change") model = { provider: e.provider, modelId: e.modelId };
    else if (e.type === "message" && e.message.role === "assistant") model = { provider: e.message.provider, modelId: e.message.model };
  }
  return { messages: buildContextEntries(entries, leafId).flatMap(sessionEntryToContextMessages), thinkingLevel, model };
}
const parseSessionEntries = (text) => text.split("\n").flatMap((line) => {
  if (!line.trim()) return [];
  try {
    return [JSON.parse(line)];
  } catch {
    return [];
  }
});

const notHere = (what) => () => { throw new Error(`${what} is not available in this host`); };

// SessionManager reads session files; writing is the daemon's.
class SessionManager {
  #entries;
  #file;
  #header;
  #leaf;
  constructor(file, header, entries) {
    this.#file = file;
    this.#header = header;
    this.#entries = entries;
    this.#leaf = entries[entries.length - 1]?.id ?? null;
  }
  static open(file) {
    const all = parseSessionEntries(fs.readFileSync(file, "utf8"));
    return new SessionManager(path.resolve(file), all.find((e) => e.type === "session"), all.filter((e) => e.type !== "session"));
  }
  static inMemory(cwd = process.cwd()) { return new SessionManager(undefined, { type: "session", version: 3, id: host.op("crypto.randomUUID"), timestamp: new Date().toISOString(), cwd }, []); }
  static async list(cwd = process.cwd(), dir) { return listIn(dir ?? sessionDir(cwd)); }
  static async listAll() {
    const root = path.join(boot.agentDir, "sessions");
    const dirs = fs.existsSync(root) ? fs.readdirSync(root, { withFileTypes: true }).filter((e) => e.isDirectory()).map((e) => path.join(root, e.name)) : [];
    return dirs.flatMap(listIn).sort((a, b) => b.modified - a.modified);
  }
  getCwd() { return this.#header?.cwd ?? process.cwd(); }
  getSessionDir() { return this.#file ? path.dirname(this.#file) : ""; }
  getSessionId() { return this.#header?.id; }
  getSessionFile() { return this.#file; }
  isPersisted() { return this.#file !== undefined; }
  getHeader() { return this.#header ?? null; }
  getEntries() { return [...this.#entries]; }
  getEntry(id) { return this.#entries.find((e) => e.id === id); }
  getLeafId() { return this.#leaf; }
  getLeafEntry() { return this.getEntry(this.#leaf); }
  getBranch(from) { return branchOf(this.#entries, from ?? this.#leaf); }
  getLabel(id) { return this.#entries.findLast((e) => e.type === "label" && e.targetId === id)?.label; }
  getChildren(id) { return this.#entries.filter((e) => e.parentId === id); }
  getSessionName() { return this.#entries.findLast((e) => e.type === "session_info")?.name; }
  buildSessionContext() { return buildSessionContext(this.#entries, this.#leaf); }
  buildContextEntries() { return buildContextEntries(this.#entries, this.#leaf); }
  getTree() {
    const node = (e) => ({ entry: e, children: this.getChildren(e.id).map(node), label: this.getLabel(e.id) });
    return this.#entries.filter((e) => !e.parentId).map(node);
  }
}
for (const name of ["create", "continueRecent", "forkFrom"]) SessionManager[name] = notHere(`SessionManager.${name}`);
for (const name of ["appendMessage", "appendThinkingLevelChange", "appendModelChange", "appendCompaction", "appendCustomEntry", "appendCustomMessageEntry", "appendSessionInfo", "appendLabelChange", "branch", "branchWithSummary", "resetLeaf", "newSession", "setSessionFile", "createBranchedSession"]) SessionManager.prototype[name] = notHere(`SessionManager.${name}`);
const sessionDir = (cwd) => path.join(boot.agentDir, "sessions", `--${path.resolve(cwd).replace(/^[/\\]/, "").replace(/[/\\:]/g, "-")}--`);
function listIn(dir) {
  if (!fs.existsSync(dir)) return [];
  return fs.readdirSync(dir).filter((n) => n.endsWith(".jsonl")).flatMap((n) => {
    try {
      const file = path.join(dir, n), s = SessionManager.open(file), st = fs.statSync(file), messages = s.getEntries().filter((e) => e.type === "message");
      const said = messages.filter((e) => ["user", "assistant"].includes(e.message.role)).map((e) => texts(e.message.content));
      if (!s.getHeader()) return [];
      return [{ path: file, id: s.getSessionId(), cwd: s.getHeader().cwd ?? "", name: s.getSessionName(), parentSessionPath: s.getHeader().parentSession, created: new Date(s.getHeader().timestamp), modified: st.mtime, messageCount: messages.length,
        firstMessage: texts(messages.find((e) => e.message.role === "user")?.message.content) || "(no messages)", allMessagesText: said.join(" ") }];
    } catch {
      return [];
    }
  }).sort((a, b) => b.modified - a.modified);
}

// ---- settings ----

function readSettings(file) {
  try {
    return JSON.parse(fs.readFileSync(file, "utf8"));
  } catch {
    return {};
  }
}
const merged = (a, b) => Object.fromEntries([...new Set([...Object.keys(a), ...Object.keys(b)])].map((k) => [k, b[k] !== null && typeof b[k] === "object" && !Array.isArray(b[k]) && a[k] !== null && typeof a[k] === "object" && !Array.isArray(a[k]) ? merged(a[k], b[k]) : b[k] ?? a[k]]));

// SettingsManager reads: getDefaultModel gives defaultModel, and so on. Nothing is written.
class SettingsManager {
  constructor(user, project) {
    this.user = user;
    this.project = project;
    this.all = merged(user, project);
    return new Proxy(this, {
      get(of, name) {
        if (name in of || typeof name !== "string" || name === "then") return of[name];
        const m = /^(get|is|set|add|remove)([A-Z])(.*)$/.exec(name);
        if (!m) return undefined;
        const key = m[2].toLowerCase() + m[3];
        return m[1] === "get" || m[1] === "is" ? () => of.all[key] ?? of.all[key.replace(/(Settings|Paths|Enabled)$/, "")] : notHere(`SettingsManager.${name}`);
      },
    });
  }
  static create(cwd = process.cwd(), agentDir = boot.agentDir) { return new SettingsManager(readSettings(path.join(agentDir, "settings.json")), readSettings(path.join(cwd, ".pi", "settings.json"))); }
  static inMemory(settings = {}) { return new SettingsManager(settings, {}); }
  getGlobalSettings() { return structuredClone(this.user); }
  getProjectSettings() { return structuredClone(this.project); }
  getCompactionSettings() { return { ...DEFAULT_COMPACTION_SETTINGS, ...this.all.compaction }; }
  getRetrySettings() { return { enabled: true, maxRetries: 3, baseDelayMs: 2000, ...this.all.retry }; }
  getExtensionPaths() { return [...(this.all.extensions ?? [])]; }
  applyOverrides(o) { this.all = merged(this.all, o); }
  async reload() {}
  async flush() {}
  drainErrors() { return []; }
}

function readStoredCredential(provider) { return readSettings(path.join(boot.agentDir, "auth.json"))[provider]; }

// ---- tools ----

const queues = new Map();
// withFileMutationQueue runs what changes a file one after the other.
async function withFileMutationQueue(file, f) {
  let key = path.resolve(file);
  try {
    key = fs.realpathSync(key);
  } catch { /* it is new */ }
  const before = queues.get(key) ?? Promise.resolve();
  const run = before.then(() => f());
  const settled = run.then(() => {}, () => {});
  queues.set(key, settled);
  try {
    return await run;
  } finally {
    if (queues.get(key) === settled) queues.delete(key);
  }
}

// runTool runs a tool of the daemon.
function runTool(name, args, options, signal, onUpdate) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(new Error("Operation aborted"));
    let id;
    const end = (f, v) => {
      signal?.removeEventListener("abort", stop);
      host.close(id);
      f(v);
    };
    const stop = () => end(reject, new Error("Operation aborted"));
    id = host.open("tool", [name, args, options], (event, v) => {
      if (event === "update") onUpdate?.(v);
      else if (event === "result") end(resolve, v);
      else if (event === "error") end(reject, new Error(v.message));
    });
    signal?.addEventListener("abort", stop, { once: true });
  });
}

const expand = (p, cwd) => path.resolve(cwd, p === "~" ? require("os").homedir() : p.replace(/^~(?=\/)/, require("os").homedir()).replace(/^@/, ""));

// onCopy runs a tool of the daemon on a copy of a file that lies elsewhere, so that its
// rules are the same there; done gets the copy when the tool has finished.
async function onCopy(name, args, content, options, signal, done) {
  const dir = await host.start("fs.mkdtemp", path.join(require("os").tmpdir(), "troupe-")), copy = path.join(dir, path.basename(args.path));
  const back = (t) => t.replaceAll(copy, args.path);
  try {
    await fs.promises.writeFile(copy, content);
    const r = await runTool(name, { ...args, path: copy }, options, signal);
    await done?.(copy);
    return { ...r, content: r.content.map((c) => c.type === "text" ? { ...c, text: back(c.text) } : c), ...(r.details ? { details: JSON.parse(back(JSON.stringify(r.details))) } : {}) };
  } catch (e) {
    throw new Error(back(e.message));
  } finally {
    await fs.promises.rm(dir, { recursive: true, force: true });
  }
}

const text = (t) => [{ type: "text", text: t }];
const withOperations = {
  async read(args, o, cwd, options, signal) {
    const file = expand(args.path, cwd);
    await o.access?.(file);
    return onCopy("read", args, await o.readFile(file), options, signal);
  },
  async write(args, o, cwd) {
    const file = expand(args.path, cwd);
    return withFileMutationQueue(file, async () => {
      await o.mkdir?.(path.dirname(file));
      await o.writeFile(file, args.content);
      return { content: text(`Successfully wrote ${Buffer.byteLength(args.content)} bytes to ${args.path}`), details: undefined };
    });
  },
  async edit(args, o, cwd, options, signal) {
    const file = expand(args.path, cwd);
    return withFileMutationQueue(file, async () => {
      await o.access?.(file);
      return onCopy("edit", args, await o.readFile(file), options, signal, async (copy) => o.writeFile(file, await fs.promises.readFile(copy, "utf8")));
    });
  },
  async ls(args, o, cwd) {
    const dir = expand(args.path ?? ".", cwd), limit = args.limit ?? 500;
    if (!await o.exists(dir)) throw new Error(`Path not found: ${dir}`);
    if (!(await o.stat(dir)).isDirectory()) throw new Error(`Not a directory: ${dir}`);
    const names = [...await o.readdir(dir)].sort((a, b) => a.toLowerCase() < b.toLowerCase() ? -1 : 1), out = [];
    for (const n of names.slice(0, limit)) {
      try {
        out.push((await o.stat(path.join(dir, n))).isDirectory() ? `${n}/` : n);
      } catch { /* gone meanwhile */ }
    }
    const cut = truncateHead(out.join("\n"), { maxLines: Number.MAX_SAFE_INTEGER });
    const notes = [...(names.length > limit ? [`${limit} entries limit reached. Use limit=${limit * 2} for more`] : []), ...(cut.truncated ? [`${formatSize(DEFAULT_MAX_BYTES)} limit reached`] : [])];
    return { content: text((cut.content || "(empty directory)") + (notes.length ? `\n\n[${notes.join(". ")}]` : "")), details: cut.truncated ? { truncation: cut } : undefined };
  },
  async find(args, o, cwd) {
    const dir = expand(args.path ?? ".", cwd), limit = args.limit ?? 1000;
    if (o.exists && !await o.exists(dir)) throw new Error(`Path not found: ${dir}`);
    const found = (await o.glob(args.pattern, dir, { ignore: ["**/node_modules/**", "**/.git/**"], limit })).map((p) => path.isAbsolute(p) ? path.relative(dir, p) : p);
    return { content: text(found.length ? found.slice(0, limit).join("\n") : "No files found matching pattern"), details: undefined };
  },
};

// localOperations runs commands here, as the bash tool does.
function createLocalBashOperations(options = {}) {
  return {
    exec: (command, cwd, { onData, signal, timeout, env }) => new Promise((resolve, reject) => {
      if (!fs.existsSync(cwd)) return reject(new Error(`Working directory does not exist: ${cwd}\nCannot execute bash commands.`));
      const child = require("child_process").spawn(options.shellPath ?? getShellConfig().shell, ["-c", command], { cwd, env: env ?? process.env, stdio: ["ignore", "pipe", "pipe"], detached: true });
      let timedOut = false;
      const kill = () => child.kill("SIGKILL");
      const timer = timeout > 0 ? setTimeout(() => { timedOut = true; kill(); }, timeout * 1000) : undefined;
      child.stdout.on("data", onData);
      child.stderr.on("data", onData);
      child.on("error", (e) => { clearTimeout(timer); reject(e); });
      child.on("close", (code, sig) => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", kill);
        if (signal?.aborted) reject(new Error("aborted"));
        else if (timedOut) reject(new Error(`timeout:${timeout}`));
        else resolve({ exitCode: code ?? 128 + (require("os").constants.signals[sig] ?? 0) });
      });
      if (signal?.aborted) kill();
      else signal?.addEventListener("abort", kill, { once: true });
    }),
  };
}

async function runBash(args, options, cwd, signal, onUpdate) {
  const operations = options.operations ?? createLocalBashOperations(options);
  let call = { command: options.commandPrefix ? `${options.commandPrefix}\n${args.command}` : args.command, cwd, env: { ...process.env } };
  if (options.spawnHook) call = options.spawnHook(call);
  const parts = [];
  let size = 0;
  const output = () => Buffer.concat(parts).toString("utf8").replace(/\r\n/g, "\n");
  onUpdate?.({ content: [], details: undefined });
  let last = 0, why = "";
  const onData = (d) => {
    parts.push(Buffer.from(d));
    size += d.length;
    const now = Date.now();
    if (onUpdate && now - last > 100) {
      last = now;
      const t = truncateTail(output());
      onUpdate({ content: text(t.content), details: t.truncated ? { truncation: t } : undefined });
    }
  };
  let exitCode = 0;
  try {
    ({ exitCode } = await operations.exec(call.command, call.cwd, { onData, signal, timeout: args.timeout, env: call.env }));
  } catch (e) {
    if (e.message === "aborted" || signal?.aborted) why = "Command aborted";
    else if (/^timeout:/.test(e.message)) why = `Command timed out after ${e.message.slice(8)} seconds`;
    else throw e;
  }
  const t = truncateTail(output());
  let shown = t.content, details;
  if (t.truncated) {
    const file = path.join(await host.start("fs.mkdtemp", path.join(require("os").tmpdir(), "troupe-bash-")), "output.log");
    await fs.promises.writeFile(file, output());
    details = { truncation: t, fullOutputPath: file };
    const from = t.totalLines - t.outputLines + 1;
    shown += t.lastLinePartial ? `\n\n[Showing last ${formatSize(t.outputBytes)} of line ${t.totalLines}. Full output: ${file}]`
      : `\n\n[Showing lines ${from}-${t.totalLines} of ${t.totalLines}${t.truncatedBy === "bytes" ? ` (${formatSize(DEFAULT_MAX_BYTES)} limit)` : ""}. Full output: ${file}]`;
  }
  if (!why && exitCode !== 0) why = `Command exited with code ${exitCode ?? "unknown"}`;
  if (why) throw new Error(shown ? `${shown}\n\n${why}` : exitCode !== 0 && why.startsWith("Command exited") ? `(no output)\n\n${why}` : why);
  return { content: text(shown || "(no output)"), details };
}

// makeTool gives a tool whose work the daemon does, or the extension's own operations
// under the daemon's rules.
function makeTool(name, cwd = process.cwd(), options = {}) {
  const info = host.op("tool.info", name);
  const travels = { cwd, ...(options.commandPrefix ? { prefix: options.commandPrefix } : {}), ...(options.shellPath ? { shellPath: options.shellPath } : {}) };
  return {
    name: info.name, label: name, description: info.description, parameters: info.parameters, promptSnippet: info.promptSnippet, promptGuidelines: info.promptGuidelines,
    async execute(callId, params, signal, onUpdate) {
      if (typeof signal === "function") [signal, onUpdate] = [onUpdate, signal]; // the order of 0.31 to 0.50
      if (!(signal && typeof signal.addEventListener === "function")) signal = undefined;
      const o = { ...travels, callId };
      if (name === "bash" && (options.operations || options.spawnHook)) return runBash(params, options, cwd, signal, onUpdate);
      if (options.operations && withOperations[name]) return withOperations[name](params, options.operations, cwd, o, signal);
      return runTool(name, params, o, signal, onUpdate);
    },
  };
}
const tools = {};
for (const [short, name] of [["Read", "read"], ["Bash", "bash"], ["Edit", "edit"], ["Write", "write"], ["Grep", "grep"], ["Find", "find"], ["Ls", "ls"]]) {
  tools[`create${short}Tool`] = tools[`create${short}ToolDefinition`] = (cwd, options) => makeTool(name, cwd, options);
  // As in versions that had the tools themselves.
  Object.defineProperty(tools, `${name}Tool`, { enumerable: true, get: () => makeTool(name) });
  tools[`is${short}ToolResult`] = (e) => e.toolName === name;
}
const several = (names) => (cwd, options) => names.map((n) => makeTool(n, cwd, options?.[n]));

function getShellConfig() { return { shell: SettingsManager.create().all.shellPath ?? (fs.existsSync("/bin/bash") ? "/bin/bash" : "sh"), args: ["-c"] }; }

// ---- what would be drawn ----

const tui = require("@mariozechner/pi-tui");
const plainText = (t) => t;
// A theme colours nothing: whatever it is asked, it gives the text that comes last.
class Theme {
  fg(_, t) { return t; }
  bg(_, t) { return t; }
  bold(t) { return t; }
  italic(t) { return t; }
  underline(t) { return t; }
  inverse(t) { return t; }
  strikethrough(t) { return t; }
  getFgAnsi() { return ""; }
  getBgAnsi() { return ""; }
  getColorMode() { return "256color"; }
  getThinkingBorderColor() { return plainText; }
  getBashModeBorderColor() { return plainText; }
}
const anyTheme = () => new Proxy({}, { get: (_, name) => typeof name === "symbol" || name === "then" ? undefined : name === "highlightCode" ? (code) => code.split("\n") : plainText });
const component = (name, Base = tui.Container) => ({ [name]: class extends Base {} })[name];
const drawn = {};
for (const name of ["ArminComponent", "AssistantMessageComponent", "BashExecutionComponent", "BranchSummaryMessageComponent", "CompactionSummaryMessageComponent", "CustomMessageComponent", "DynamicBorder", "ExtensionEditorComponent", "ExtensionInputComponent", "ExtensionSelectorComponent",
  "FooterComponent", "HookEditorComponent", "HookInputComponent", "HookSelectorComponent", "LoginDialogComponent", "ModelSelectorComponent", "OAuthSelectorComponent", "SessionSelectorComponent", "SettingsSelectorComponent", "ShowImagesSelectorComponent", "SkillInvocationMessageComponent",
  "ThemeSelectorComponent", "ThinkingSelectorComponent", "ToolExecutionComponent", "TreeSelectorComponent", "UserMessageComponent", "UserMessageSelectorComponent"]) drawn[name] = component(name);
drawn.CustomEditor = component("CustomEditor", tui.Editor);
drawn.BorderedLoader = component("BorderedLoader", tui.CancellableLoader);

function copyToClipboard() { throw new Error("There is no clipboard in this host"); }

function createEventBus() {
  const on = new Map();
  return {
    on(channel, f) {
      on.set(channel, [...(on.get(channel) ?? []), f]);
      return () => on.set(channel, on.get(channel).filter((x) => x !== f));
    },
    emit(channel, data) { for (const f of on.get(channel) ?? []) f(data); },
    clear: () => on.clear(),
  };
}

const needsPi = {};
for (const name of ["createAgentSession", "createAgentSessionFromServices", "createAgentSessionRuntime", "createAgentSessionServices", "discoverAndLoadExtensions", "main", "runPrintMode", "runRpcMode", "createMcpExtension", "createCodemodeExtension", "createToolSearchExtension", "compact", "generateSummary", "generateBranchSummary"]) {
  needsPi[name] = notHere(`${name} of pi`);
}
for (const name of ["AgentSession", "DefaultResourceLoader", "DefaultPackageManager", "InteractiveMode", "RpcClient", "ExtensionRunner", "ModelRuntime", "AgentSessionRuntime"]) {
  needsPi[name] = { [name]: class { constructor() { notHere(`${name} of pi`)(); } } }[name];
}

module.exports = {
  DEFAULT_MAX_LINES, DEFAULT_MAX_BYTES, formatSize, truncateHead, truncateTail, truncateLine, generateDiffString, generateUnifiedPatch, getLanguageFromPath, parseFrontmatter, stripFrontmatter: (t) => parseFrontmatter(t).body,
  convertToLlm, serializeConversation, bashExecutionToText, estimateTokens, calculateContextTokens, getLastAssistantUsage, DEFAULT_COMPACTION_SETTINGS, shouldCompact: (tokens, window, s) => !!s.enabled && tokens > window - s.reserveTokens,
  sessionEntryToContextMessages, buildContextEntries, buildSessionContext, parseSessionEntries, getLatestCompactionEntry: (entries) => entries.findLast((e) => e.type === "compaction") ?? null, CURRENT_SESSION_VERSION: 3, SessionManager, SettingsManager,
  VIRTUAL_MODEL_STATE_ENTRY: "pi.virtual-model-state", readStoredCredential, withFileMutationQueue, createLocalBashOperations, createCodingTools: several(["read", "bash", "edit", "write"]),
  createReadOnlyTools: several(["read", "grep", "find", "ls"]), getShellConfig, defineTool: (t) => t, isToolCallEventType: (name, e) => e.toolName === name, wrapRegisteredTool: (t) => t, wrapRegisteredTools: (t) => t,
  getAgentDir: () => boot.agentDir, CONFIG_DIR_NAME: ".pi", VERSION: boot.piVersion, APP_NAME: "pi", getPackageDir: () => path.dirname(boot.execPath), getDocsPath: () => path.join(path.dirname(boot.execPath), "docs"), getExamplesPath: () => path.join(path.dirname(boot.execPath), "examples"), getReadmePath: () => path.join(path.dirname(boot.execPath), "README.md"),
  getModelsPath: () => path.join(boot.agentDir, "models.json"), getSettingsPath: () => path.join(boot.agentDir, "settings.json"), getAuthPath: () => path.join(boot.agentDir, "auth.json"), getSessionsDir: () => path.join(boot.agentDir, "sessions"), getToolsDir: () => path.join(boot.agentDir, "tools"), getPromptsDir: () => path.join(boot.agentDir, "prompts"),
  ...drawn, ...needsPi, Theme, theme: new Theme(), initTheme() {}, getMarkdownTheme: anyTheme, getSelectListTheme: anyTheme, getSettingsListTheme: anyTheme, highlightCode: (code) => code.split("\n"), renderDiff: (t) => t, keyHint: (_, t) => t ?? "", keyText: (k) => String(k), rawKeyHint: (k, t) => `${k} ${t}`, editorKey: (k) => String(k), appKey: (_, k) => String(k),
  truncateToVisualLines: (t, n) => { const lines = t.split("\n"); return { visualLines: lines.slice(-n), skippedCount: Math.max(0, lines.length - n) }; }, copyToClipboard, createEventBus, createSyntheticSourceInfo: (p, o) => ({ path: p, source: "local", scope: "temporary", origin: "top-level", ...o }),
  formatReadLineRange: (offset, limit) => offset === undefined && limit === undefined ? "" : `:${offset ?? 1}${limit === undefined ? "" : `-${(offset ?? 1) + limit - 1}`}`, formatDimensionNote: () => undefined, resizeImage: async () => null, convertToPng: async () => null,
  get ModelRegistry() { return class ModelRegistry { constructor() { return host.context().modelRegistry; } static create() { return host.context().modelRegistry; } }; },
  get AuthStorage() { return class AuthStorage { constructor() { return host.context().modelRegistry.authStorage; } static create() { return host.context().modelRegistry.authStorage; } }; },
};
Object.defineProperties(module.exports, Object.getOwnPropertyDescriptors(tools));
