"use strict";

// What Node has nothing to compare with: the network's classes, typebox, pi's packages.
// Each check says ok or what is wrong.
module.exports = async (r, dir, out) => {
  const assert = r("assert/strict"), fs = r("fs"), path = r("path");
  const check = async (what, f) => {
    try {
      await f();
      out(what, "ok");
    } catch (e) {
      out(what, `${e.name}: ${e.message}\n${e.stack}`);
    }
  };
  const plain = (v) => JSON.parse(JSON.stringify(v));

  await check("streams of the web", async () => {
    const read = async (s) => {
      const list = [];
      for await (const x of s) list.push(x);
      return list;
    };
    const of = (...list) => new ReadableStream({ start(c) { list.forEach((x) => c.enqueue(x)); c.close(); } });
    assert.deepEqual(await read(of("a", "b").pipeThrough(new TransformStream({ transform(v, c) { c.enqueue(v + "!"); } }))), ["a!", "b!"]);
    const [one, two] = of("q").tee();
    assert.deepEqual(await Promise.all([read(one), read(two)]), [["q"], ["q"]]);
    assert.deepEqual(await read(of(new Uint8Array([0xe2, 0x82]), new Uint8Array([0xac])).pipeThrough(new TextDecoderStream())), ["€"]);
    assert.equal((await read(of(new TextEncoder().encode("zip")).pipeThrough(new CompressionStream("gzip")).pipeThrough(new DecompressionStream("gzip")).pipeThrough(new TextDecoderStream()))).join(""), "zip");
    await assert.rejects(read(new ReadableStream({ pull() { throw new Error("pull"); } })), /pull/);
  });

  await check("message channels", async () => {
    const { port1, port2 } = new MessageChannel(), got = [];
    port2.onmessage = (e) => got.push(e.data);
    port1.postMessage({ a: [1] });
    port1.postMessage("b");
    await new Promise((f) => setTimeout(f, 1));
    assert.deepEqual(got, [{ a: [1] }, "b"]);
  });

  await check("headers and bodies", async () => {
    const h = new Headers({ A: "1" });
    h.append("a", "2");
    assert.equal(h.get("A"), "1, 2");
    assert.throws(() => h.set("x y", "1"), TypeError);
    assert.deepEqual(await Response.json({ x: 1 }).json(), { x: 1 });
    const res = new Response("hi"), copy = res.clone();
    assert.equal(await res.text(), "hi");
    assert.equal(await copy.text(), "hi");
    await assert.rejects(res.text(), /already been read/);
    const form = new FormData();
    form.append("k", "v");
    form.append("f", new Blob(["data"], { type: "text/plain" }), "n.txt");
    assert.match(await new Response(form).text(), /name="f"; filename="n.txt"\r\nContent-Type: text\/plain\r\n\r\ndata/);
    assert.throws(() => new Request("http://h", { body: "x" }), TypeError);
  });

  await check("fetch", async () => {
    const url = process.env.TROUPE_TEST_URL;
    const res = await fetch(`${url}/echo?q=1`, { method: "POST", headers: { "x-own": "yes" }, body: JSON.stringify({ a: 1 }) });
    assert.equal(res.status, 201);
    assert.equal(res.ok, true);
    assert.equal(res.headers.get("content-type"), "text/echo");
    assert.equal(await res.text(), 'POST /echo?q=1 yes text/plain;charset=UTF-8 {"a":1}');
    const moved = await fetch(`${url}/moved`);
    assert.equal(moved.redirected, true);
    assert.ok(moved.url.startsWith(`${url}/echo`));
    assert.equal((await fetch(`${url}/moved`, { redirect: "manual" })).status, 302);
    let n = 0;
    for await (const part of (await fetch(`${url}/large`)).body) n += part.length;
    assert.equal(n, 300000);
    const stop = new AbortController();
    const endless = await fetch(`${url}/endless`, { signal: stop.signal });
    const reader = endless.body.getReader();
    await reader.read();
    stop.abort();
    await assert.rejects(reader.read(), (e) => e.name === "AbortError");
    await assert.rejects(fetch("http://127.0.0.1:1/"), (e) => e instanceof TypeError && e.message === "fetch failed" && e.cause.code === "ECONNREFUSED");
    assert.equal(await (await fetch("data:text/plain;base64,aGk=")).text(), "hi");
    const sent = await fetch(`${url}/echo`, { method: "PUT", duplex: "half", body: new ReadableStream({ start(c) { c.enqueue("str"); c.enqueue("eam"); c.close(); } }) });
    assert.match(await sent.text(), /^PUT .* stream$/);
  });

  await check("codings, brotli, navigator", async () => {
    assert.throws(() => new TextDecoder("gbk", { fatal: true }).decode(new Uint8Array([0xff, 0xff])), (e) => e.name === "TypeError" && e.code === "ERR_ENCODING_INVALID_ENCODED_DATA");
    assert.equal(new TextDecoder("gbk", { fatal: true }).decode(new Uint8Array([0xc4, 0xe3])), "你");
    for (const f of [() => r("zlib").brotliCompressSync("x"), () => r("zlib").brotliDecompressSync("x")]) assert.throws(f, /^Error: Brotli is not available in the built-in engine\. Use gzip/);
    assert.ok(navigator.hardwareConcurrency > 0);
    assert.equal(typeof WebAssembly, "undefined");
    assert.match(navigator.userAgent, /^Node\.js\/\d+$/);
    assert.deepEqual(await Array.fromAsync({ length: 2, 0: "a", 1: Promise.resolve("b") }, (x, i) => x + i), ["a0", "b1"]);
    await assert.rejects(Array.fromAsync([1], "no"), TypeError);
  });

  await check("the process of spawn", async () => {
    const { spawn } = r("child_process"), { once } = r("events");
    const child = spawn("sh", ["-c", "echo $$"]), { pid } = child;
    assert.ok(pid > 0);
    let text = "";
    child.stdout.on("data", (b) => { text += b; });
    await once(child, "close");
    assert.equal(text, `${pid}\n`);
    assert.equal(child.pid, pid);
    const none = spawn("no-such-program");
    assert.equal(none.pid, undefined);
    await once(none, "error").then(([e]) => assert.equal(e.code, "ENOENT"));
  });

  await check("using", async () => {
    const order = [], named = (name) => ({ [Symbol.dispose]() { order.push(name); } });
    {
      using a = named("a");
      using b = named("b");
      order.push("body", typeof a, typeof b);
    }
    {
      await using c = { async [Symbol.asyncDispose]() { order.push("c"); } };
      order.push(typeof c);
    }
    assert.deepEqual(order, ["body", "object", "object", "b", "a", "object", "c"]);
    assert.deepEqual([typeof Symbol.dispose, typeof Symbol.asyncDispose], ["symbol", "symbol"]);
    let rang = false;
    {
      using timer = setTimeout(() => { rang = true; }, 1);
      assert.equal(typeof timer[Symbol.dispose], "function");
    }
    await new Promise((f) => setTimeout(f, 2));
    assert.equal(rang, false);
  });

  await check("crypto of the web", async () => {
    assert.equal(Buffer.from(await crypto.subtle.digest("SHA-256", new TextEncoder().encode("x"))).toString("hex"), r("crypto").createHash("sha256").update("x").digest("hex"));
    assert.match(crypto.randomUUID(), /^[0-9a-f]{8}-[0-9a-f]{4}-4/);
    assert.notDeepEqual(crypto.getRandomValues(new Uint8Array(8)), new Uint8Array(8));
    const key = await crypto.subtle.importKey("raw", new TextEncoder().encode("k"), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    assert.equal(Buffer.from(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode("d"))).toString("hex"), r("crypto").createHmac("sha256", "k").update("d").digest("hex"));
  });

  await check("Intl", () => {
    assert.equal(new Intl.NumberFormat("en-US").format(1234567.891), "1,234,567.891");
    assert.equal(new Intl.NumberFormat("en", { notation: "compact" }).format(12345), "12K");
    assert.equal(new Intl.NumberFormat("en", { style: "currency", currency: "USD" }).format(5), "$5.00");
    assert.equal(Intl.DateTimeFormat("en-US", { timeZone: "UTC", dateStyle: "medium" }).format(new Date(0)), "Jan 1, 1970");
    const zone = { timeZone: "America/New_York", hour: "2-digit", minute: "2-digit", hour12: false };
    assert.equal(new Intl.DateTimeFormat("en-US", zone).format(Date.UTC(2026, 0, 15, 12)), "07:00");
    assert.equal(new Intl.DateTimeFormat("en-US", zone).format(Date.UTC(2026, 6, 15, 12)), "08:00");
    assert.throws(() => new Intl.DateTimeFormat("en-US", { timeZone: "No/Where" }).format(0), RangeError);
    for (const f of [() => new Date(0).toLocaleDateString("ar-EG"), () => (1).toLocaleString("xx-YY"), () => new Date(0).toLocaleString("ja-JP", { weekday: "short", hour: "numeric" }), () => new Date(0).toLocaleTimeString("en", { timeStyle: "full" }),
      () => new Intl.DateTimeFormat("en", { era: "short" }), () => new Intl.NumberFormat("de", { notation: "compact" }), () => new Intl.PluralRules("ru"), () => new Intl.DisplayNames("en", { type: "region" }), () => new Date(0).toLocaleDateString("th-TH-u-ca-buddhist")]) {
      assert.throws(f, /^RangeError: The built-in engine .* run the extension in Node\.js/);
    }
    assert.deepEqual(["b", "a10", "a2"].sort(new Intl.Collator("en", { numeric: true }).compare), ["a2", "a10", "b"]);
    assert.equal([...new Intl.Segmenter().segment("e\u0301👍🏽x")].length, 3);
    assert.equal(new Intl.PluralRules("en", { type: "ordinal" }).select(22), "two");
  });

  await check("typebox", () => {
    for (const name of ["typebox", "@sinclair/typebox"]) {
      const { Type } = r(name), { Value } = r(`${name}/value`);
      const schema = Type.Object({ a: Type.String({ description: "d" }), n: Type.Optional(Type.Integer({ minimum: 1 })), k: Type.Union([Type.Literal("x"), Type.Null()]), l: Type.Array(Type.Boolean(), { default: [] }) }, { additionalProperties: false });
      assert.deepEqual(plain(schema), {
        type: "object", required: ["a", "k", "l"], properties: { a: { type: "string", description: "d" }, n: { type: "integer", minimum: 1 }, k: { anyOf: [{ type: "string", const: "x" }, { type: "null" }] }, l: { type: "array", items: { type: "boolean" }, default: [] } },
        additionalProperties: false,
      });
      assert.ok(Value.Check(schema, { a: "", k: null, l: [true] }));
      for (const bad of [null, {}, { a: 1, k: "x", l: [] }, { a: "", k: "y", l: [] }, { a: "", k: "x", l: [1] }, { a: "", k: "x", l: [], n: 0 }, { a: "", k: "x", l: [], z: 1 }]) assert.ok(!Value.Check(schema, bad), JSON.stringify(bad));
      assert.deepEqual([...Value.Errors(schema, { k: "x", l: [], z: 1 })].map((e) => e.path), ["/a", "/z", "/a"]);
      assert.deepEqual(Value.Parse(schema, { a: 5, k: "x", n: "3", z: 1 }), { a: "5", k: "x", n: 3, l: [] });
      assert.throws(() => Value.Parse(schema, { k: "x" }));
      assert.deepEqual(Value.Create(schema), { a: "", k: "x", l: [] });
    }
    const { Compile } = r("typebox/compile"), { Type } = r("typebox");
    assert.ok(Compile(Type.Record(Type.String(), Type.Number())).Check({ a: 1 }));
    assert.deepEqual(plain(Type.Partial(Type.Pick(Type.Object({ a: Type.String(), b: Type.Number() }), ["a"]))), { type: "object", properties: { a: { type: "string" } } });
  });

  await check("pi-ai", async () => {
    const ai = r("@earendil-works/pi-ai");
    assert.equal(r("@mariozechner/pi-ai/compat"), ai);
    assert.deepEqual(plain(ai.StringEnum(["a", "b"], { description: "d" })), { type: "string", enum: ["a", "b"], description: "d" });
    for (const [text, want] of [['{"a":[1,{"b":"xy', { a: [1, { b: "xy" }] }], ['{"a":1,"b":tr', { a: 1, b: null }], ['{"a":1,"lo', { a: 1 }], ["", {}], ['{"a":"x\\', { a: "x" }], ["[1,2", [1, 2]]]) assert.deepEqual(ai.parseStreamingJson(text), want, text);
    assert.deepEqual(ai.parseJsonWithRepair('{"a":"x\ny\\d"}'), { a: "x\ny\\d" });
    assert.match(ai.uuidv7(), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/);
    assert.ok(ai.uuidv7() < ai.uuidv7());
    assert.ok(ai.isContextOverflow({ stopReason: "error", errorMessage: "prompt is too long: 5 tokens > 4 maximum" }));
    assert.ok(!ai.isContextOverflow({ stopReason: "error", errorMessage: "overloaded" }));
    assert.ok(ai.isRetryableAssistantError({ stopReason: "error", errorMessage: "overloaded_error" }));
    assert.deepEqual(ai.getSupportedThinkingLevels({ reasoning: true, thinkingLevelMap: { minimal: null, xhigh: "max" } }), ["off", "low", "medium", "high", "xhigh"]);
    assert.equal(ai.clampThinkingLevel({ reasoning: false }, "high"), "off");
    const s = ai.createAssistantMessageEventStream();
    setTimeout(() => {
      s.push({ type: "text_delta", delta: "x" });
      s.push({ type: "done", message: { m: 1 } });
    }, 1);
    const seen = [];
    for await (const e of s) seen.push(e.type);
    assert.deepEqual(seen, ["text_delta", "done"]);
    assert.deepEqual(await s.result(), { m: 1 });
    ai.registerApiProvider({ api: "own", streamSimple: () => s });
    assert.equal(ai.streamSimple({ api: "own" }, {}), s);
    ai.unregisterApiProviders();
    assert.deepEqual(ai.validateToolArguments({ parameters: { type: "object", required: ["n"], properties: { n: { type: "number" } } } }, { name: "t", arguments: { n: "3" } }), { n: 3 });
    assert.throws(() => ai.validateToolArguments({ parameters: { type: "object", required: ["n"], properties: { n: { type: "number" } } } }, { name: "t", arguments: {} }), /Validation failed for tool "t"/);
  });

  await check("pi-tui", () => {
    const t = r("@earendil-works/pi-tui");
    for (const [text, n] of [["a\u001b[31mb\u001b[0m日", 4], ["👍🏽", 2], ["👨‍👩‍👧", 2], ["e\u0301", 1], ["🇩🇪", 2], ["\u001b]8;;http://x\u0007l\u001b]8;;\u0007", 1], ["", 0]]) assert.equal(t.visibleWidth(text), n, text);
    assert.equal(t.truncateToWidth("hello world", 8), "hello\u001b[0m...");
    assert.equal(t.truncateToWidth("hi", 5, "...", true), "hi   ");
    assert.deepEqual(t.wrapTextWithAnsi("the quick brown fox", 9), ["the quick", "brown fox"]);
    assert.deepEqual(t.wrapTextWithAnsi("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    assert.deepEqual(t.wrapTextWithAnsi("\u001b[31mred text\u001b[0m x", 4), ["\u001b[31mred\u001b[0m", "\u001b[31mtext\u001b[0m", "x"]);
    assert.equal(t.sliceByColumn("abcdef", 2, 2), "cd");
    for (const [data, key] of [["\u001b", "escape"], ["\r", "enter"], ["\u0003", "ctrl+c"], ["\u001b[A", "up"], ["\u001b[1;5C", "ctrl+right"], ["a", "a"], ["A", "shift+a"], ["\u001b[Z", "shift+tab"], ["\u001b[97;5u", "ctrl+a"], ["\u001bx", "alt+x"], [" ", "space"], ["\u007f", "backspace"], ["\u001b[3~", "delete"]]) {
      assert.equal(t.parseKey(data), key);
      assert.ok(t.matchesKey(data, key), key);
    }
    assert.ok(t.matchesKey("\u0003", t.Key.ctrl("c")) && !t.matchesKey("c", "ctrl+c") && t.isKeyRelease("\u001b[97;1:3u"));
    assert.deepEqual(t.fuzzyFilter(["src/foo.ts", "bar", "xfxox"], "foo", (x) => x), ["src/foo.ts"]);
    class Own extends t.Text {
      render(w) { return [...super.render(w), "x"]; }
    }
    const c = new t.Container();
    c.addChild(new Own("q", 1, 0));
    assert.deepEqual(c.render(3), ["x"]);
    for (const name of ["Box", "Editor", "Input", "Loader", "Markdown", "SelectList", "SettingsList", "Spacer", "Image", "ScrollView"]) assert.deepEqual(new t[name]([], {}, {}).render(80), [], name);
  });

  await check("pi-coding-agent", async () => {
    const pi = r("@mariozechner/pi-coding-agent");
    assert.equal(r("@earendil-works/pi-coding-agent"), pi);
    assert.deepEqual(pi.parseFrontmatter('---\nname: x\ndescription: "a: b"\ntools: read, bash\nlist:\n  - a\n  - b: 1\n    c: 2\nflow: [x, "y, z", 3]\nmap:\n  k: v\n  n: true\ntext: |\n  l1\n  l2\nfold: >-\n  f1\n  f2\n---\nbody\n'), {
      frontmatter: { name: "x", description: "a: b", tools: "read, bash", list: ["a", { b: 1, c: 2 }], flow: ["x", "y, z", 3], map: { k: "v", n: true }, text: "l1\nl2\n", fold: "f1 f2" }, body: "body",
    });
    assert.equal(pi.formatSize(1536), "1.5KB");
    assert.equal(pi.VERSION, "1.5.2");
    assert.equal(pi.serializeConversation([{ role: "user", content: "hi" }, { role: "assistant", content: [{ type: "text", text: "yo" }, { type: "toolCall", name: "read", arguments: { path: "foo.ts" } }] }, { role: "toolResult", content: [{ type: "text", text: "x".repeat(2001) }] }]),
      `[User]: hi\n\n[Assistant]: yo\n\n[Assistant tool calls]: read(path="foo.ts")\n\n[Tool result]: ${"x".repeat(2000)}\n\n[... 1 more characters truncated]`);
    assert.equal(pi.convertToLlm([{ role: "bashExecution", command: "ls", output: "", exitCode: 1 }])[0].content[0].text, "Ran `ls`\n(no output)\n\nCommand exited with code 1");
    const cut = pi.truncateHead("a\nb\nc", { maxLines: 2 });
    assert.deepEqual([cut.content, cut.truncated, cut.truncatedBy, cut.totalLines], ["a\nb", true, "lines", 3]);
    assert.equal(pi.truncateTail("a\nb\nc", { maxLines: 1 }).content, "c");
    assert.match(pi.generateDiffString("a\nb\n", "a\nc\n").diff, /c/);
    assert.match(pi.generateUnifiedPatch("f", "a\n", "b\n"), /^--- /m);
    const order = [];
    await Promise.all([pi.withFileMutationQueue(`${dir}/q`, async () => { await new Promise((f) => setTimeout(f, 10)); order.push(1); }), pi.withFileMutationQueue(`${dir}/q`, async () => order.push(2))]);
    assert.deepEqual(order, [1, 2]);
    const file = path.join(dir, "s.jsonl");
    fs.writeFileSync(file, '{"type":"session","id":"s","cwd":"/x","version":3,"timestamp":"2026-01-01T00:00:00Z"}\n{"type":"message","id":"1","parentId":null,"message":{"role":"user","content":"hi"}}\n{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":[],"provider":"p","model":"m"}}\n{"type":"compaction","id":"3","parentId":"2","summary":"S","firstKeptEntryId":"2","tokensBefore":5,"timestamp":"2026-01-01T00:00:00Z"}\n');
    const manager = pi.SessionManager.open(file);
    assert.equal(manager.getBranch().length, 3);
    assert.deepEqual(manager.buildSessionContext().messages.map((m) => m.role), ["compactionSummary", "assistant"]);
    assert.throws(() => manager.appendMessage(), /not available/);
    assert.equal((await pi.SessionManager.list(dir, dir))[0].firstMessage, "hi");
    assert.throws(() => pi.createAgentSession(), /not available/);
    assert.equal(pi.getMarkdownTheme().heading("t"), "t");
  });

  await check("tools of pi", async () => {
    const pi = r("@earendil-works/pi-coding-agent");
    const read = pi.createReadTool(dir), write = pi.createWriteTool(dir), edit = pi.createEditToolDefinition(dir), bash = pi.createBashTool(dir);
    assert.equal(read.name, "read");
    assert.equal(read.parameters.type, "object");
    await write.execute("1", { path: "f.txt", content: "one\ntwo\n" });
    assert.equal(fs.readFileSync(path.join(dir, "f.txt"), "utf8"), "one\ntwo\n");
    assert.equal((await read.execute("2", { path: "f.txt" })).content[0].text, "one\ntwo\n");
    await edit.execute("3", { path: "f.txt", edits: [{ oldText: "two", newText: "2" }] });
    assert.equal(fs.readFileSync(path.join(dir, "f.txt"), "utf8"), "one\n2\n");
    await assert.rejects(read.execute("4", { path: "none" }));
    assert.match((await bash.execute("5", { command: "pwd" })).content[0].text, new RegExp(path.basename(dir)));
    const stop = new AbortController(), slow = bash.execute("6", { command: "sleep 20" }, stop.signal);
    setTimeout(() => stop.abort(), 20);
    await assert.rejects(slow, /aborted/);
    const hooked = pi.createBashTool(dir, { commandPrefix: "A=prefix", spawnHook: (c) => ({ ...c, env: { ...c.env, B: "hook" } }) });
    assert.equal((await hooked.execute("7", { command: "echo $A $B" })).content[0].text, "prefix hook\n");
    const shell = path.join(dir, "shell");
    fs.writeFileSync(shell, "#!/bin/sh\necho own shell\n", { mode: 0o700 });
    for (const more of [{}, { spawnHook: (c) => c }]) {
      const own = pi.createBashTool(dir, { shellPath: shell, ...more });
      assert.match((await own.execute("9", { command: "true" })).content[0].text, /own shell/);
    }
    await assert.rejects(hooked.execute("8", { command: "echo x; exit 3" }), /^Error: x\n\n\nCommand exited with code 3$|exited with code 3/);
  });

  await check("tools over operations of an extension", async () => {
    const pi = r("@earendil-works/pi-coding-agent");
    const files = { "/far/a.txt": "alpha\nbeta\n" };
    const operations = {
      readFile: async (p) => Buffer.from(files[p]), writeFile: async (p, c) => { files[p] = c; }, mkdir: async () => {}, access: async (p) => { if (!(p in files)) throw new Error(`no ${p}`); },
      exists: async () => true, stat: async (p) => ({ isDirectory: () => p === "/far" }), readdir: async () => ["b", "A"], glob: async () => ["/far/a.txt"],
      exec: async (command, cwd, { onData }) => { onData(Buffer.from(`${cwd}: ${command}\n`)); return { exitCode: 0 }; },
    };
    const o = { operations };
    assert.equal((await pi.createReadTool("/far", o).execute("1", { path: "a.txt" })).content[0].text, "alpha\nbeta\n");
    await pi.createEditTool("/far", o).execute("2", { path: "a.txt", edits: [{ oldText: "beta", newText: "gamma" }] });
    assert.equal(files["/far/a.txt"], "alpha\ngamma\n");
    await assert.rejects(pi.createEditTool("/far", o).execute("3", { path: "a.txt", edits: [{ oldText: "zzz", newText: "" }] }), (e) => e.message.includes("a.txt") && !e.message.includes("troupe-"));
    await assert.rejects(pi.createReadTool("/far", o).execute("4", { path: "b.txt" }), /no \/far\/b.txt/);
    await pi.createWriteTool("/far", o).execute("5", { path: "new", content: "n" });
    assert.equal(files["/far/new"], "n");
    assert.equal((await pi.createLsTool("/far", o).execute("6", {})).content[0].text, "A\nb");
    assert.equal((await pi.createFindTool("/far", o).execute("7", { pattern: "*" })).content[0].text, "a.txt");
    assert.equal((await pi.createBashTool("/far", o).execute("8", { command: "ls" })).content[0].text, "/far: ls\n");
  });

  await check("what would end or leave the process", () => {
    assert.throws(() => process.exit(1), /ctx\.shutdown/);
    assert.throws(() => process.kill(process.pid), /not available/);
    assert.throws(() => r("child_process").fork("x.js"), /not available/);
    process.stdout.write("a line\n");
    const before = process.cwd();
    process.chdir(dir);
    assert.equal(process.cwd(), dir);
    assert.equal(path.resolve("x"), path.join(dir, "x"));
    process.chdir(before);
    assert.throws(() => r("left-pad"), (e) => /Cannot find module 'left-pad'/.test(e.message));
  });
};
