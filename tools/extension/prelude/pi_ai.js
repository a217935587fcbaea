// provides: @mariozechner/pi-ai, @earendil-works/pi-ai, @oh-my-pi/pi-ai, @mariozechner/pi-ai/*, @earendil-works/pi-ai/*, @oh-my-pi/pi-ai/*
"use strict";

const { Type } = require("typebox");

const StringEnum = (values, options) => Type.Unsafe({ type: "string", enum: [...values], ...(options?.description ? { description: options.description } : {}), ...(options?.default ? { default: options.default } : {}) });

// EventStream is a queue that one reads while another writes, with a result at its end.
class EventStream {
  #queue = [];
  #waiting = [];
  #resolve;
  #result;
  constructor(isComplete, extractResult) {
    this.isComplete = isComplete;
    this.extractResult = extractResult;
    this.done = false;
    this.#result = new Promise((resolve) => { this.#resolve = resolve; });
  }
  push(event) {
    if (this.done) return;
    if (this.isComplete(event)) {
      this.done = true;
      this.#resolve(this.extractResult(event));
    }
    const next = this.#waiting.shift();
    if (next) next({ value: event, done: false });
    else this.#queue.push(event);
  }
  end(result) {
    this.done = true;
    if (result !== undefined) this.#resolve(result);
    for (const next of this.#waiting.splice(0)) next({ value: undefined, done: true });
  }
  async *[Symbol.asyncIterator]() {
    for (;;) {
      if (this.#queue.length) yield this.#queue.shift();
      else if (this.done) return;
      else {
        const { value, done } = await new Promise((resolve) => this.#waiting.push(resolve));
        if (done) return;
        yield value;
      }
    }
  }
  result() { return this.#result; }
}

class AssistantMessageEventStream extends EventStream {
  constructor() {
    super((e) => e.type === "done" || e.type === "error", (e) => {
      if (e.type === "done") return e.message;
      if (e.type === "error") return e.error;
      throw new Error("Unexpected event type for final result");
    });
  }
}

const zero = () => ({ input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } });
const failedMessage = (model, reason, errorMessage) => ({ role: "assistant", content: [], api: model?.api, provider: model?.provider, model: model?.id, usage: zero(), stopReason: reason, errorMessage, timestamp: Date.now() });

// APIs that extensions of this session brought themselves.
const own = new Map();

// plain is what of options and context can travel: no functions, no signals.
const plain = (v) => JSON.parse(JSON.stringify(v ?? {}));

// grow adds an event to the message that streams show with each.
function grow(partial, e) {
  const at = e.contentIndex, b = partial.content[at];
  switch (e.type) {
    case "text_start": partial.content[at] = { type: "text", text: "" }; break;
    case "thinking_start": partial.content[at] = { type: "thinking", thinking: "" }; break;
    case "toolcall_start": partial.content[at] = { type: "toolCall", id: e.id, name: e.toolName, arguments: {} }; break;
    case "text_delta": b.text += e.delta; break;
    case "thinking_delta": b.thinking += e.delta; break;
    case "text_end": partial.content[at] = e.block; e.content = e.block.text; break;
    case "thinking_end": partial.content[at] = e.block; e.content = e.block.thinking; break;
    case "toolcall_end": partial.content[at] = e.toolCall = e.block; break;
  }
  e.partial = partial;
  return e;
}

// stream asks the daemon, which makes the request and sends the parts.
function stream(model, context, options) {
  const brought = own.get(model?.api);
  if (brought) return (brought.streamSimple ?? brought.stream)(model, context, options);
  const out = new AssistantMessageEventStream(), signal = options?.signal;
  let id, over = false;
  const finish = (event) => {
    if (over) return;
    over = true;
    signal?.removeEventListener("abort", stop);
    if (id !== undefined) host.close(id);
    out.push(event);
    out.end();
  };
  const fail = (reason, text) => finish({ type: "error", reason, error: failedMessage(model, reason, text) });
  const stop = () => fail("aborted", "Request was aborted");
  if (signal?.aborted) {
    stop();
    return out;
  }
  const partial = { role: "assistant", content: [], api: model?.api, provider: model?.provider, model: model?.id, usage: zero(), stopReason: "stop", timestamp: Date.now() };
  const { signal: _, onPayload, onResponse, ...rest } = options ?? {};
  void _, onPayload, onResponse;
  try {
    id = host.open("llm", [{ model: plain(model), context: plain(context), options: plain(rest) }], (event, v) => {
      if (over) return;
      if (event === "part") out.push(grow(partial, v));
      else if (event === "end") finish(v.stopReason === "error" || v.stopReason === "aborted" ? { type: "error", reason: v.stopReason, error: v } : { type: "done", reason: v.stopReason, message: v });
      else if (event === "error") fail("error", v.message);
    });
    signal?.addEventListener("abort", stop, { once: true });
  } catch (e) {
    fail("error", e.message);
  }
  return out;
}
const complete = (model, context, options) => stream(model, context, options).result();

const registry = () => host.context().modelRegistry;
const getModels = (provider) => registry().getAll().filter((m) => provider === undefined || m.provider === provider);
const getModel = (provider, id) => registry().find(provider, id);
const getProviders = () => [...new Set(registry().getAll().map((m) => m.provider))];

const levels = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];
function getSupportedThinkingLevels(model) {
  if (!model?.reasoning) return ["off"];
  const map = model.thinkingLevelMap;
  return levels.filter((l) => map && l in map ? map[l] !== null : l !== "xhigh" && l !== "max");
}
function clampThinkingLevel(model, level) {
  const has = getSupportedThinkingLevels(model), at = levels.indexOf(level);
  if (has.includes(level)) return level;
  for (let i = at; i < levels.length; i++) if (has.includes(levels[i])) return levels[i];
  for (let i = at; i >= 0; i--) if (has.includes(levels[i])) return levels[i];
  return has[0] ?? "off";
}

function calculateCost(model, usage) {
  const rate = model?.cost ?? {}, c = {};
  for (const k of ["input", "output", "cacheRead", "cacheWrite"]) c[k] = (rate[k] ?? 0) / 1e6 * (usage[k] ?? 0);
  c.total = c.input + c.output + c.cacheRead + c.cacheWrite;
  if (usage.cost && typeof usage.cost === "object") Object.assign(usage.cost, c);
  else usage.cost = c;
  return usage.cost;
}

const overflow = [
  /prompt is too long/i, /request_too_large/i, /input is too long for requested model/i, /exceeds the context window/i, /exceeds (?:the )?model'?s? maximum context length/i, /input token count.*exceeds the maximum/i,
  /maximum prompt length is \d+/i, /reduce the length of the messages/i, /maximum context length is \d+ tokens/i, /input length \d+ exceeds the maximum allowed input length/i, /is longer than the model's context length/i,
  /exceeds the available context size/i, /greater than the context length/i, /exceeded model token limit/i, /too large for model with \d+ maximum context length/i, /configured context size is \d+ tokens/i, /range of input length should be/i,
  /prompt too long/i, /context[_ ]length[_ ]exceeded/i, /too many tokens/i, /token limit exceeded/i, /^4(?:00|13)\s*(?:status code)?\s*\(no body\)/i, /413.*failed to parse request/i,
];
function isContextOverflow(message, contextWindow) {
  if (message.stopReason === "error" && message.errorMessage && !/rate limit|too many requests/i.test(message.errorMessage) && overflow.some((r) => r.test(message.errorMessage))) return true;
  const u = message.usage;
  if (!contextWindow || !u) return false;
  const input = (u.input ?? 0) + (u.cacheRead ?? 0);
  return message.stopReason === "stop" && input > contextWindow || message.stopReason === "length" && u.output === 0 && input >= contextWindow * 0.99;
}
const transient = /overloaded|rate.?limit|too many requests|429|5\d\d|server.?error|internal.?error|service.?unavailable|connection|network|fetch failed|socket|timed? ?out|terminated|ECONN|ETIMEDOUT|stream ended|retry/i;
const finalError = /insufficient_quota|quota exceeded|billing|credit balance|usage limit|invalid api key|unauthorized|401|403/i;
const isRetryableAssistantError = (m) => m.stopReason === "error" && !!m.errorMessage && !isContextOverflow(m) && transient.test(m.errorMessage) && !finalError.test(m.errorMessage);

let lastTime = 0, counter = 0;
// uuidv7 counts within a millisecond, so that ids sort as they were made.
function uuidv7(at) {
  const bytes = host.op("crypto.randomBytes", 16);
  const t = at ?? Date.now();
  counter = t === lastTime ? counter + 1 & 0xfff : (bytes[6] << 8 | bytes[7]) & 0x7ff;
  lastTime = t;
  for (let i = 0; i < 6; i++) bytes[i] = Math.floor(t / 2 ** (8 * (5 - i))) & 255;
  bytes[6] = 0x70 | counter >> 8;
  bytes[7] = counter & 255;
  bytes[8] = bytes[8] & 0x3f | 0x80;
  const h = Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  return `${h.slice(0, 8)}-${h.slice(8, 12)}-${h.slice(12, 16)}-${h.slice(16, 20)}-${h.slice(20)}`;
}

const contentText = (content, separator = "\n") => typeof content === "string" ? content : (content ?? []).filter((c) => c.type === "text").map((c) => c.text).join(separator);

// repairJson makes strings right that models write wrong: raw line breaks and backslashes
// before what needs none.
function repairJson(json) {
  let out = "", inside = false;
  for (let i = 0; i < json.length; i++) {
    const c = json[i];
    if (!inside) {
      if (c === '"') inside = true;
      out += c;
    } else if (c === "\\") {
      const next = json[i + 1];
      if (next !== undefined && /["\\/bfnrt]/.test(next) || next === "u" && /^[0-9a-fA-F]{4}$/.test(json.slice(i + 2, i + 6))) {
        out += c + next;
        i++;
      } else {
        out += "\\\\";
      }
    } else {
      if (c === '"') inside = false;
      out += c < " " ? JSON.stringify(c).slice(1, -1) : c;
    }
  }
  return out;
}
function parseJsonWithRepair(json) {
  try {
    return JSON.parse(json);
  } catch (e) {
    const better = repairJson(json);
    if (better === json) throw e;
    return JSON.parse(better);
  }
}

// closed completes JSON that breaks off.
function closed(json) {
  const ends = [];
  let inside = false;
  for (let i = 0; i < json.length; i++) {
    const c = json[i];
    if (inside) {
      if (c === "\\") i++;
      else if (c === '"') inside = false;
    } else if (c === '"') inside = true;
    else if (c === "{") ends.push("}");
    else if (c === "[") ends.push("]");
    else if (c === "}" || c === "]") ends.pop();
  }
  return (inside ? json.replace(/\\$/, "") + '"' : json) + ends.reverse().join("");
}
function parseStreamingJson(partial) {
  if (!partial?.trim()) return {};
  for (let text = partial; text; text = text.slice(0, Math.max(text.lastIndexOf(","), text.lastIndexOf("{"), text.lastIndexOf("[")))) {
    for (const t of [text, closed(text), closed(text.replace(/[,:]\s*$/, "")), closed(text.replace(/,?\s*"(?:[^"\\]|\\.)*"?\s*:?\s*$/, "")), closed(text.replace(/:\s*(?:t|tr|tru|f|fa|fal|fals|n|nu|nul|-|\d+\.|\d+[eE][+-]?)$/, ":null"))]) {
      try {
        const v = parseJsonWithRepair(t);
        if (v !== null && typeof v === "object") return v;
      } catch { /* a shorter one may do */ }
    }
  }
  return {};
}
function parseToolCallArguments(json) {
  if (!json?.trim()) return { arguments: {} };
  try {
    const v = parseJsonWithRepair(json);
    if (v !== null && typeof v === "object" && !Array.isArray(v)) return { arguments: v };
  } catch { /* said below */ }
  return { arguments: {}, argumentsError: `The arguments are not a JSON object: ${json.slice(0, 500)}` };
}

// ToolCallArgumentsStream grows the arguments of a call from the pieces that come.
class ToolCallArgumentsStream {
  text = "";
  push(delta) {
    this.text += delta;
    return parseStreamingJson(this.text);
  }
  append(delta) { return this.push(delta); }
  get arguments() { return parseStreamingJson(this.text); }
  end() { return parseToolCallArguments(this.text); }
  finish() { return this.end(); }
}

// ---- system messages among the others (pi 0.87) ----

const systems = (messages) => messages.filter((m) => m.role === "system");
function getCurrentTools(messages) {
  const tools = new Map();
  for (const m of systems(messages)) {
    for (const r of m.toolsRemoved ?? []) tools.delete(typeof r === "string" ? r : r.name);
    for (const t of m.toolsAdded ?? m.tools ?? []) tools.set(t.name, t);
  }
  return [...tools.values()];
}
function getCurrentSystemMessage(messages) {
  const list = systems(messages);
  if (!list.length) return undefined;
  const sections = new Map(), texts = [];
  for (const m of list) {
    const t = contentText(m.content);
    if (t) texts.push(t);
    for (const [name, text] of Array.isArray(m.sections) ? m.sections.map((s) => [s.name, s.content]) : Object.entries(m.sections ?? {})) text === null || text === undefined ? sections.delete(name) : sections.set(name, text);
  }
  const tools = getCurrentTools(messages);
  return { role: "system", content: texts.join("\n\n"), ...(sections.size ? { sections: Object.fromEntries(sections) } : {}), ...(tools.length ? { toolsAdded: tools } : {}), timestamp: list[0].timestamp };
}
const getSystemMessageText = (m) => [contentText(m.content), ...Object.values(m.sections ?? {})].filter(Boolean).join("\n\n");
const getCurrentSystemPrompt = (messages) => {
  const m = getCurrentSystemMessage(messages);
  return m ? getSystemMessageText(m) : "";
};
const createInitialSystemMessage = (prompt, tools) => prompt || tools?.length ? { role: "system", content: prompt ?? "", ...(tools?.length ? { toolsAdded: tools } : {}), timestamp: 0 } : undefined;
function collapseSystemMessages(context) {
  const first = getCurrentSystemMessage(context.messages);
  return { ...context, messages: [...(first ? [first] : []), ...context.messages.filter((m) => m.role !== "system")] };
}
function normalizeContext(context) {
  const first = createInitialSystemMessage(context.systemPrompt, context.tools), { systemPrompt, tools, ...rest } = context;
  void systemPrompt, tools;
  return { ...rest, messages: [...(first ? [first] : []), ...context.messages] };
}

function validateToolArguments(tool, call) {
  const r = host.op("schema.check", plain(tool.parameters), call.arguments ?? {});
  if (r.ok) return r.value;
  throw new Error(`Validation failed for tool "${call.name}":\n${r.errors.map((e) => `  - ${e.path || "root"}: ${e.message}`).join("\n")}\n\nReceived arguments:\n${JSON.stringify(call.arguments, null, 2)}`);
}
function validateToolCall(tools, call) {
  const tool = tools.find((t) => t.name === call.name);
  if (!tool) throw new Error(`Tool "${call.name}" not found`);
  return validateToolArguments(tool, call);
}

// The wires of pi by their names: the daemon speaks them.
const apis = {};
for (const [short, name] of [["Anthropic", "anthropicMessages"], ["OpenAIResponses", "openAIResponses"], ["OpenAICompletions", "openAICompletions"], ["AzureOpenAIResponses", "azureOpenAIResponses"], ["OpenAICodexResponses", "openAICodexResponses"],
  ["Google", "googleGenerativeAI"], ["GoogleVertex", "googleVertex"], ["GoogleGeminiCli", "googleGeminiCli"], ["Mistral", "mistralConversations"], ["Bedrock", "bedrockConverseStream"]]) {
  apis[`stream${short}`] = apis[`streamSimple${short}`] = stream;
  apis[`${name}Api`] = () => ({ stream, streamSimple: stream });
}

const unavailable = (what) => () => { throw new Error(`${what} is not available in this host: log in with pi`); };
module.exports = {
  Type, StringEnum, EventStream, AssistantMessageEventStream, createAssistantMessageEventStream: () => new AssistantMessageEventStream(), stream, streamSimple: stream, complete, completeSimple: complete, getModel, getModels, getProviders,
  getBuiltinModel: getModel, getBuiltinModels: getModels, getBuiltinProviders: getProviders, getSupportedThinkingLevels, clampThinkingLevel, calculateCost, isContextOverflow, isRetryableAssistantError, getOverflowPatterns: () => [...overflow],
  isRecoverableLength: (m, most) => m.stopReason === "length" && (m.usage?.output ?? 0) < most, uuidv7, contentText, repairJson, parseJsonWithRepair, parseStreamingJson, parseToolCallArguments, ToolCallArgumentsStream, getCurrentTools, getCurrentSystemMessage,
  getCurrentSystemPrompt, getSystemMessageText, createInitialSystemMessage, getInitialSystemMessage: (m) => m[0]?.role === "system" ? m[0] : undefined, withoutInitialSystemMessage: (m) => m[0]?.role === "system" ? m.slice(1) : m, collapseSystemMessages, normalizeContext,
  validateToolArguments, validateToolCall, supportsXhigh: (m) => getSupportedThinkingLevels(m).includes("xhigh"), modelsAreEqual: (a, b) => !!a && !!b && a.id === b.id && a.provider === b.provider, hasApi: (m, api) => m.api === api, ...apis,
  registerApiProvider: (p) => { own.set(p.api, p); }, getApiProvider: (api) => own.get(api) ?? { api, stream, streamSimple: stream }, getApiProviders: () => [...own.values()], unregisterApiProviders: () => own.clear(), registerBuiltInApiProviders() {}, resetApiProviders: () => own.clear(),
  lazyStream(model, setup) {
    const out = new AssistantMessageEventStream();
    (async () => {
      try {
        for await (const e of await setup()) out.push(e);
        out.end();
      } catch (e) {
        out.push({ type: "error", reason: "error", error: failedMessage(model, "error", e.message) });
      }
    })();
    return out;
  },
  createProvider: (o) => ({ getModels: () => o.models ?? [], ...o }), createModels: () => ({ getAll: () => registry().getAll(), find: getModel }), getEnvApiKey: (provider) => require("process").env[`${String(provider).toUpperCase().replace(/[^A-Z0-9]/g, "_")}_API_KEY`],
  retryDelayMs: (p, n) => Math.min(p.baseDelayMs * 2 ** (n - 1), p.maxAgentDelayMs ?? 60000), DEFAULT_MAX_AGENT_RETRY_DELAY_MS: 60000, getOAuthProvider: () => undefined, getOAuthProviders: () => [], registerOAuthProvider() {}, getOAuthApiKey: async () => null,
  loginAnthropic: unavailable("a login"), loginOpenAICodex: unavailable("a login"), loginGitHubCopilot: unavailable("a login"), loginGeminiCli: unavailable("a login"), PI_AI_VERSION: host.boot.piVersion,
};
