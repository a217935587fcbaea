// Drives the binary under test with a published client of pi's, unchanged: the
// one in the module that is the first argument. The model server behind it
// answers as rpcclient_test.go has laid out.
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const { RpcClient } = await import(process.argv[2]);

const client = new RpcClient({
  cliPath: fileURLToPath(new URL("../../docs/examples/clients/troupe.cjs", import.meta.url)),
  cwd: process.cwd(),
  provider: "mock",
  model: "mock-1",
  env: process.env,
});
const hung = () => new Promise((_, reject) => setTimeout(reject, 60_000, new Error("no end in a minute")).unref());
const step = async (name, run) => {
  try {
    await Promise.race([run(), hung()]);
    console.log("ok", name);
  } catch (error) {
    console.log("FAILED", name, error?.stack ?? error, client.getStderr());
    process.exitCode = 1;
  }
};
// What clients of other ages call otherwise.
client.getForkMessages ??= client.getBranchMessages;
client.fork ??= client.branch;
const seen = [];
await client.start();
client.onEvent((event) => seen.push(event.type));

await step("state", async () => {
  const state = await client.getState();
  assert.equal(state.model.id, "mock-1");
  assert.equal(state.isStreaming, false);
  assert.equal(state.messageCount, 0);
  assert.equal(state.steeringMode, "one-at-a-time");
});
await step("prompt with a tool", async () => {
  const events = await client.promptAndWait("run it");
  const types = events.map((event) => event.type);
  for (const type of ["agent_start", "turn_start", "message_start", "message_update", "tool_execution_start", "tool_execution_end", "turn_end", "agent_end"]) {
    assert.ok(types.includes(type), type);
  }
  assert.equal(await client.getLastAssistantText(), "It says hi.");
});
await step("messages, statistics, fork messages", async () => {
  assert.deepEqual((await client.getMessages()).map((message) => message.role), ["user", "assistant", "toolResult", "assistant"]);
  const stats = await client.getSessionStats();
  assert.equal(stats.userMessages, 1);
  assert.equal(stats.toolCalls, 1);
  assert.ok(stats.cost > 0);
});
await step("bash", async () => {
  const result = await client.bash("echo from bash; exit 7");
  assert.equal(result.output, "from bash\n");
  assert.equal(result.exitCode, 7);
  assert.equal(result.cancelled, false);
  const slow = client.bash("sleep 600");
  await client.getState();
  await client.abortBash();
  assert.equal((await slow).cancelled, true);
});
await step("models and thinking", async () => {
  const models = await client.getAvailableModels();
  assert.ok(models.some((model) => model.provider === "compat" && model.id === "chat-1"));
  await client.setModel("mock", "think");
  await client.setThinkingLevel("high");
  assert.equal((await client.getState()).thinkingLevel, "high");
  assert.ok((await client.cycleThinkingLevel()).level);
  assert.ok((await client.cycleModel()).model);
  await assert.rejects(client.setModel("nobody", "nothing"), /Model not found/);
});
await step("queue modes, retry", async () => {
  await client.setAutoRetry(false);
  if (client.setQueueMode) { // one queue
    await client.setQueueMode("all");
    assert.equal((await client.getState()).queueMode, "all");
    return;
  }
  await client.setSteeringMode("all");
  await client.setFollowUpMode("all");
  assert.equal((await client.getState()).followUpMode, "all");
});
await step("steer, follow up and abort while streaming", async () => {
  await client.setModel("mock", "mock-1");
  const streaming = new Promise((resolve) => client.onEvent((event) => event.type === "message_update" && resolve()));
  const done = client.waitForIdle();
  await client.prompt("long one");
  await streaming;
  for (const [send, message] of [[client.steer ?? client.queueMessage, "turn left"], [client.followUp ?? client.queueMessage, "and then right"]]) {
    await send.call(client, message);
  }
  const state = await client.getState();
  assert.equal(state.pendingMessageCount ?? state.queuedMessageCount, 2);
  await client.abort();
  await done;
  assert.equal((await client.getState()).isStreaming, false);
});
let talk;
await step("new session and switch back", async () => {
  const old = talk = (await client.getState()).sessionFile;
  assert.equal((await client.newSession()).cancelled, false);
  assert.equal((await client.getState()).messageCount, 0);
  assert.equal((await client.switchSession(old)).cancelled, false);
  assert.notEqual((await client.getState()).messageCount, 0);
});
await step("export", async () => {
  const { path } = await client.exportHtml("out.html");
  assert.ok(path.endsWith("out.html"));
});
await step("fork", async () => {
  const [first] = await client.getForkMessages();
  assert.equal(first.text, "run it");
  const forked = await client.fork(first.entryId);
  assert.equal(forked.text, "run it");
  assert.equal((await client.getState()).messageCount, 0);
});
// Newer clients know more commands.
if (client.setSessionName) {
  await step("name, commands", async () => {
    await client.setSessionName("a name");
    assert.equal((await client.getState()).sessionName, "a name");
    assert.deepEqual(await client.getCommands(), []);
  });
}
if (client.getEntries) {
  await step("levels", async () => assert.deepEqual(await client.getAvailableThinkingLevels(), ["off"]));
  await step("queue", async () => {
    await client.switchSession(talk);
    const streaming = new Promise((resolve) => client.onEvent((event) => event.type === "message_update" && resolve()));
    const done = client.waitForIdle();
    await client.prompt("another long one");
    await streaming;
    await client.steer("left");
    await client.followUp("then right");
    assert.deepEqual(await client.clearQueue(), { steering: ["left"], followUp: ["then right"] });
    await client.abort();
    await done;
  });
  await step("entries and tree", async () => {
    const { entries, leafId } = await client.getEntries();
    assert.equal(entries.at(-1).id, leafId);
    assert.deepEqual((await client.getEntries(entries.at(-3).id)).entries, entries.slice(-2));
    let depth = 0;
    for (let { tree } = await client.getTree(); tree.length; tree = tree[0].children) depth++;
    assert.equal(depth, entries.length);
  });
}
if (client.clone) {
  await step("clone", async () => {
    await client.switchSession(talk);
    const before = await client.getState();
    assert.equal((await client.clone()).cancelled, false);
    const after = await client.getState();
    assert.notEqual(after.sessionFile, before.sessionFile);
    assert.equal(after.messageCount, before.messageCount);
  });
}
await step("compaction switch", async () => {
  await client.setAutoCompaction(false);
  assert.equal((await client.getState()).autoCompactionEnabled, false);
});
await client.stop();
