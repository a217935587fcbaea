package extensions

import (
	"os"
	"path/filepath"
	"strings"

	"troupe/e2e/harness"
)

const (
	confirmed = `"confirmed":true`
	refused   = `"confirmed":false`
	open      = "" // the dialog stays unanswered
)

func value(s string) string { return `"value":"` + s + `"` }

// dirty makes a repository with one commit and one untracked file.
func dirty(p *harness.Place) {
	p.WriteFile("kept.txt", "kept\n")
	p.Git("add", ".")
	p.Git("commit", "-q", "-m", "first")
	p.WriteFile("changed.txt", "changed\n")
}

// triggerFile is the file that the example file-trigger watches. No other test may write it.
const triggerFile = "/tmp/agent-trigger.txt"

// conflicting makes a clone with a commit that conflicts with a commit of its origin.
func conflicting(p *harness.Place) {
	p.WriteFile("kept.txt", "kept\n")
	p.Git("add", ".")
	p.Git("commit", "-q", "-m", "first")
	p.Git("clone", "-q", "--bare", ".", "../origin.git")
	p.Git("remote", "add", "origin", "../origin.git")
	p.WriteFile("kept.txt", "theirs\n")
	p.Git("commit", "-q", "-a", "-m", "theirs")
	p.Git("push", "-q", "-u", "origin", "main")
	p.Git("reset", "-q", "--hard", "HEAD~1")
	p.WriteFile("kept.txt", "ours\n")
	p.Git("commit", "-q", "-a", "-m", "ours")
}

// files returns a setup function that writes files. list alternates paths and contents.
func files(list ...string) func(p *harness.Place) {
	return func(p *harness.Place) {
		for i := 0; i+1 < len(list); i += 2 {
			p.WriteFile(list[i], list[i+1])
		}
	}
}

// keepLittle configures compaction to keep only a few words.
func keepLittle(p *harness.Place) {
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"compaction":{"keepRecentTokens":20}}`)
}

// onPath installs a program in front of all others of the same name in PATH.
func onPath(p *harness.Place, name, script string) {
	bin := filepath.Join(p.Root, "bin")
	p.WriteFile(filepath.Join(bin, name), "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(filepath.Join(bin, name), 0o700); err != nil {
		p.T.Fatal(err)
	}
	p.Env = append(p.Env, "PATH="+bin+":"+os.Getenv("PATH"))
}

var bash = func(command string) harness.Answer {
	return harness.ToolCall("c1", "bash", `{"command":"`+command+`"}`)
}

const lengthy = "A long answer, so that there is something to keep. "

// noUI explains why extensions that check hasUI show nothing in pi 0.31.
const noUI = "pi 0.31 says of its RPC mode that nobody is there, and troupe asks"

var nobody31 = map[string]string{"ui 31": noUI, "messages 31": noUI, "model 31": noUI, "responses 31": noUI}

// piExamples lists pi's example extensions and the client's steps for each.
var piExamples = []piExample{
	{name: "auto-commit-on-exit", in: "31 45 74 87 15", setup: dirty, model: []harness.Answer{harness.Text("All done.")}, steps: []string{"> do it"}},
	{name: "bash-spawn-hook", in: "74 87 15", setup: func(p *harness.Place) { p.WriteFile(filepath.Join(p.Home, ".profile"), "export FROM_PROFILE=yes\n") },
		model: []harness.Answer{bash("echo $PI_SPAWN_HOOK $FROM_PROFILE"), harness.Text("ok")}, steps: []string{"> go"}},
	{name: "bookmark", in: "74 87 15", model: []harness.Answer{harness.Text("an answer")},
		steps: []string{"! /bookmark none", "ui notify No assistant", "> hello", "! /bookmark here", "ui notify here", "! /unbookmark", "ui notify Removed", "! /unbookmark", "ui notify No bookmarked"}},
	{name: "border-status-editor", in: "74 87 15", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello"}},
	{name: "built-in-tool-renderer", in: "74 87 15", setup: files("a.txt", "one\ntwo\n"), steps: []string{"> hello"}, model: []harness.Answer{
		harness.ToolCall("c1", "read", `{"path":"a.txt"}`), harness.ToolCall("c2", "bash", `{"command":"echo hi"}`), harness.ToolCall("c3", "write", `{"path":"b.txt","content":"x\n"}`),
		harness.ToolCall("c4", "edit", `{"path":"b.txt","edits":[{"oldText":"x","newText":"y"}]}`), harness.ToolCall("c5", "bash", `{"command":"exit 3"}`), harness.ToolCall("c6", "read", `{"path":"none"}`), harness.Text("done")}, differs: map[string]string{"messages": "troupe's own words for the same", "model": "troupe's own words for the same"}},
	{name: "claude-rules", setup: files(".claude/rules/a.md", "rule", ".claude/rules/sub/b.md", "rule"), model: []harness.Answer{harness.Text("ok")},
		steps: []string{"ui notify Found", "> hello"}, system: []string{"- .claude/rules/a.md\n- .claude/rules/sub/b.md"}},
	{name: "commands", in: "74 87 15", answers: []string{value("/commands - List available slash commands"), confirmed},
		steps: []string{"! /commands", "ui notify commands.ts", "! /commands", "ui select Available", "! /commands skill", "ui notify No skill"}, differs: map[string]string{"ui 87 15": "pi has commands of its own since 0.87, /llama and /mcp"}},
	{name: "confirm-destructive", in: "31 45 74 87 15", model: []harness.Answer{harness.Text("ok")}, answers: []string{refused, refused, value("No, stay in current session"), confirmed},
		steps: []string{"> hello", `{"type":"new_session"}`, "switch", "fork hello", `{"type":"new_session"}`}, differs: nobody31},
	{name: "custom-compaction", in: "31 45 74 87 15", setup: keepLittle, model: []harness.Answer{harness.Text(lengthy), harness.Text(lengthy), harness.Text("the default summary"), harness.Text("another")},
		steps: []string{"> hello", "> " + strings.Repeat("hello ", 50), `{"type":"compact"}`}, differs: map[string]string{"model": "troupe's own words for the same", "tools": "likewise"}},
	{name: "custom-footer", steps: []string{"! /footer", "ui notify", "! /footer", "ui notify"}},
	{name: "custom-header", steps: []string{"! /builtin-header", "ui notify"}},
	{name: "debug-provider", in: "15", model: []harness.Answer{harness.Text("ok"), harness.Text("ok")}, steps: []string{"! /debug-provider on", "ui notify enabled", "> hello", "! /debug-provider", "ui notify disabled", "> again"}},
	{name: "dirty-repo-guard", in: "31 45 74 87 15", setup: dirty, model: []harness.Answer{harness.Text("ok")}, answers: []string{value("No, let me commit first"), value("Yes, proceed anyway")},
		steps: []string{"> hello", `{"type":"new_session"}`, `{"type":"new_session"}`}, differs: nobody31},
	{name: "dynamic-tools", in: "74 87 15", model: []harness.Answer{harness.ToolCall("c1", "echo_session", `{"message":"m"}`), harness.ToolCall("c2", "echo_t", `{"message":"m"}`), harness.Text("ok")},
		steps: []string{"ui notify echo_session", "! /add-echo-tool echo_t", "ui notify echo_t", "! /add-echo-tool", "ui notify Usage", "> go"}},
	{name: "entry-renderer", in: "87 15", steps: []string{"! /status-card"}, differs: map[string]string{"entries": "pi makes the file with the first answer"}},
	{name: "event-bus", in: "74 87 15", steps: []string{"ui notify Session started", "! /emit x", "ui notify x"}},
	{name: "file-trigger", in: "45 74 87 15", setup: func(p *harness.Place) {
		p.WriteFile(triggerFile, "")
		p.T.Cleanup(func() { os.Remove(triggerFile) })
	}, model: []harness.Answer{harness.Text("ok")}, steps: []string{"ui notify Watching", "touch " + triggerFile + " Run the tests", "settled"}},
	{name: "git-checkpoint", in: "31 45 74 87 15", setup: func(p *harness.Place) { dirty(p); p.WriteFile("kept.txt", "changed\n") },
		model: []harness.Answer{bash("echo more >> kept.txt"), harness.Text("ok"), harness.Text("ok")}, answers: []string{value("Yes, restore code to that point")}, steps: []string{"> one", "> two", "fork two"}},
	{name: "git-merge-and-resolve", in: "87 15", setup: conflicting, model: []harness.Answer{harness.Text("ok"), bash("git checkout --theirs kept.txt; git add kept.txt; git commit -q -m merged"), harness.Text("resolved")}, steps: []string{"> hello", "ui notify fetching"}},
	{name: "github-issue-autocomplete", in: "74 87 15", steps: []string{"ui notify"}},
	{name: "handoff", in: "45 74", model: []harness.Answer{harness.Text("ok"), harness.Text("the prompt")}, steps: []string{"! /handoff", "! /handoff x", "> hello", "! /handoff go on", "ui editor"}, differs: nobody31},
	{name: "handoff without a screen", path: "handoff", in: "87 15", steps: []string{"! /handoff go on", "ui notify"}},
	{name: "qna", in: "31 45 74 87 15", model: []harness.Answer{harness.Text("What do you want?"), harness.Text("Q: what?")}, steps: []string{"! /qna", "> hello", "! /qna", `{"type":"get_messages"}`}, differs: nobody31},
	{name: "snake", in: "31 45 74 87 15", steps: []string{"! /snake", `{"type":"get_messages"}`}, differs: nobody31},
	{name: "space-invaders", in: "74 87 15", steps: []string{"! /invaders", `{"type":"get_messages"}`}},
	{name: "doom-overlay", steps: []string{"! /doom-overlay /none.wad", "ui notify"}},
	{name: "overlay-test", steps: []string{"! /overlay-test", `{"type":"get_messages"}`}},
	{name: "tools", model: []harness.Answer{harness.Text("ok")}, steps: []string{"! /tools", "> hello"}},
	{name: "hello", in: "31 45 74 87 15", model: []harness.Answer{harness.ToolCall("c1", "hello", `{"name":"Ann"}`), harness.Text("ok")}, steps: []string{"> greet"}},
	{name: "hidden-thinking-label", in: "74 87 15", steps: []string{"! /thinking-label x", "ui notify"}},
	{name: "inline-bash", in: "74 87 15", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello !{echo hi} !{exit 2}", "ui notify Expanded"}},
	{name: "input-transform", in: "74 87 15", model: []harness.Answer{harness.Text("ok"), harness.Text("ok")}, steps: []string{"! ping", "ui notify pong", "> ?quick q", "! time", "ui notify", "> plain"}},
	{name: "input-transform-streaming", in: "87 15", setup: dirty, model: []harness.Answer{harness.Gate("held").Then(harness.Text("one")), harness.Text("two")},
		steps: []string{`{"type":"prompt","message":"go"}`, "request 0", "touch kept.txt other", `{"type":"steer","message":"look"}`, "open held", "settled"}},
	{name: "interactive-shell", in: "87 15", steps: []string{`{"type":"bash","command":"echo plain"}`, `{"type":"bash","command":"vim x"}`}},
	{name: "jev-router", in: "15", steps: []string{`{"type":"set_model","provider":"jev","modelId":"auto"}`, "> hello"}},
	{name: "mac-system-theme", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello"}},
	{name: "message-renderer", in: "74 87 15", model: []harness.Answer{harness.Text("ok")}, steps: []string{"! /status all is well", "see status-update", "> hello"}},
	{name: "minimal-mode", in: "74 87 15", setup: files("a.txt", "one\ntwo\n"), steps: []string{"> hello"}, model: []harness.Answer{
		harness.ToolCall("c1", "ls", `{}`), harness.ToolCall("c4", "read", `{"path":"a.txt"}`), harness.Text("done")}},
	{name: "modal-editor", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello"}},
	{name: "rainbow-editor", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello"}},
	{name: "model-status", steps: []string{`{"type":"set_model","provider":"mock","modelId":"think"}`, "ui setStatus model", `{"type":"cycle_model"}`, "ui setStatus model"}, differs: map[string]string{"errors 45": "pi breaks its own stdout"}},
	{name: "notify", in: "74 87 15", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello"}},
	{name: "overlay-qa-tests", steps: []string{"! /overlay-animation", "! /overlay-edge", `{"type":"get_messages"}`}},
	{name: "permission-gate", in: "31 45 74 87 15", model: []harness.Answer{bash("sudo rm -rf x"), harness.Text("no"), bash("rm -rf x"), harness.Text("yes"), bash("sudo true"), harness.Text("gone"), bash("echo fine"), harness.Text("ok")},
		answers: []string{value("No"), value("Yes")}, steps: []string{"> one", "> two", "> three", "> four"}, differs: nobody31},
	{name: "pirate", model: []harness.Answer{harness.Text("a"), harness.Text("b")}, steps: []string{"! /pirate", "ui notify enabled", "> hello", "! /pirate", "ui notify disabled", "> hello"}, system: []string{"PIRATE MODE"}},
	{name: "plan-mode", in: "45 74", model: []harness.Answer{bash("rm x"), harness.Text("Plan:\n1. Read the code carefully\n2. Write the new test\n"), harness.Text("[DONE:1] read"), harness.Text("[DONE:2] written")},
		answers: []string{value("Execute the plan (track progress)")},
		steps:   []string{"! /plan", "ui notify enabled", "> make a plan", "ui select next", "settled", "> go on", "! /todos", "ui notify"}, differs: map[string]string{"messages": "what agent_end handlers send: pi tells less and in another order", "entries": "likewise", "model": "likewise"}},
	{name: "plan-mode at start", path: "plan-mode", in: "45 74", args: []string{"--plan"}, model: []harness.Answer{bash("rm x"), harness.Text("no plan")}, answers: []string{value("Stay in plan mode")}, steps: []string{"> go", "ui select"}},
	{name: "preset", setup: files(".pi/presets.json", `{"x":{"provider":"mock","model":"think","thinkingLevel":"low","tools":["read","nope"],"instructions":"PRESET WORDS"}}`),
		args: []string{"--preset", "x"}, model: []harness.Answer{harness.Text("ok")}, steps: []string{"ui setStatus preset", "> hello", "! /preset none", "ui notify Unknown", "! /preset x", "ui setStatus preset"}, system: []string{"PRESET WORDS"}},
	{name: "project-trust", in: "87 15", setup: files(".pi/extensions/mine.ts", `export default function (pi) { pi.registerCommand("mine", { handler: async (a, ctx) => ctx.ui.notify("mine") }) }`),
		answers: []string{value("Trust this session")}, steps: []string{`{"type":"get_commands"}`, "! /mine"}, differs: map[string]string{"messages": "trust is decided without extensions, so the command is not there", "model": "likewise", "tools": "likewise", "ui": "likewise"}},
	{name: "prompt-customizer", in: "74", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello"}, args: []string{"--append-system-prompt", "APPENDED"}, system: []string{"Extension-Added Context", "Use the `read` tool for file contents"}},
	{name: "protected-paths", in: "31 45 74 87 15", model: []harness.Answer{harness.ToolCall("c1", "write", `{"path":".env","content":"x"}`), harness.Text("ok")}, steps: []string{"> write"}, differs: nobody31},
	{name: "provider-payload", in: "74 87 15", setup: files(".pi/keep", ""), model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello"}},
	{name: "provider-payload without directory", path: "provider-payload", in: "74 87 15", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello"}},
	{name: "question", in: "31 45 74 87 15", model: []harness.Answer{harness.ToolCall("c1", "question", `{"question":"Which?","options":["a","b"]}`), harness.Text("ok")}, answers: []string{value("a")}, steps: []string{"> ask"}, differs: map[string]string{"ui 31": noUI, "messages 31": noUI, "model 31": noUI, "responses 31": noUI, "errors 31": noUI, "messages 74 87 15": "troupe's own words for the same", "model 74 87 15": "troupe's own words for the same"}},
	{name: "question with labels", path: "question", in: "45 74 87 15", model: []harness.Answer{harness.ToolCall("c1", "question", `{"question":"Which?","options":[{"label":"a"},{"label":"b"}]}`), harness.Text("ok")}, steps: []string{"> ask"}},
	{name: "questionnaire", model: []harness.Answer{harness.ToolCall("c1", "questionnaire", `{"questions":[{"id":"q","prompt":"Which?","options":[{"value":"a","label":"a"}]}]}`), harness.Text("ok")}, steps: []string{"> ask"}, differs: map[string]string{"messages": "the words of the engine", "model": "likewise"}},
	{name: "reload-runtime", in: "74 87 15", model: []harness.Answer{harness.Text("ok")}, steps: []string{"! /reload-runtime", "> hello"}, differs: map[string]string{"errors": "pi answers when the handler is through, troupe at once, and a run that has begun is not reloaded under"}},
	{name: "rpc-demo", in: "74 87 15", answers: []string{value("typed"), value("one\\ntwo"), value("Block"), refused},
		model: []harness.Answer{bash("rm -rf x"), harness.Text("ok")},
		steps: []string{"ui setStatus Turns", "! /rpc-input", "ui notify entered", "! /rpc-editor", "ui notify submitted", "! /rpc-prefill", "ui notify prefilled", "> clean", `{"type":"new_session"}`, "ui notify Clear"}},
	{name: "send-user-message", model: []harness.Answer{harness.Gate("held").Then(harness.Text("one")), harness.Text("two"), harness.Text("three"), harness.Text("four")},
		steps: []string{"! /ask x", "request 0", "! /steer left", "! /followup later", "ui notify queued", "open held", "settled", "! /askwith y", "settled"}},
	{name: "session-name", in: "74 87 15", steps: []string{"! /session-name", "ui notify No session", "! /session-name x y", "ui notify named", "! /session-name", "ui notify Session:"}, differs: map[string]string{"entries": "pi makes the file with the first answer"}},
	{name: "shutdown-command", steps: []string{"! /quit", "exit"}},
	{name: "shutdown-command of a tool", path: "shutdown-command", in: "87 15" /* pi 0.45 and 0.74 end with the next command */, model: []harness.Answer{harness.ToolCall("c1", "deploy_and_exit", `{"environment":"test"}`), harness.Text("bye")}, steps: []string{`{"type":"prompt","message":"go"}`, "exit"}},
	{name: "ssh", setup: func(p *harness.Place) { onPath(p, "ssh", `shift; exec sh -c "$*"`); p.WriteFile("a.txt", "one\n") }, args: []string{"--ssh", "host"},
		model: []harness.Answer{bash("echo hi"), harness.ToolCall("c2", "read", `{"path":"a.txt"}`), harness.Text("ok")}, steps: []string{"ui notify SSH", "> go", `{"type":"bash","command":"echo user"}`}},
	{name: "status-line", in: "31 45 74 87 15", model: []harness.Answer{harness.Text("ok")}, steps: []string{"ui setStatus Ready", "> hello"}},
	{name: "structured-output", in: "74 87 15", model: []harness.Answer{harness.ToolCall("c1", "structured_output", `{"headline":"h","summary":"s","actionItems":["a"]}`)}, steps: []string{"> go"}},
	{name: "subagent", in: "31 45 74 87 15", setup: func(p *harness.Place) {
		p.WriteFile(filepath.Join(p.AgentDir(), "agents", "scout.md"), "---\nname: scout\ndescription: looks\nmodel: mock/mock-1\ntools: read\n---\nLook around.\n")
	},
		model: []harness.Answer{harness.ToolCall("c1", "subagent", `{"agent":"scout","task":"look"}`), harness.Text("what I saw"), harness.Text("ok")}, steps: []string{"> go"}},
	{name: "subagent of the project", path: "subagent", in: "45 74", setup: files(".pi/agents/scout.md", "---\nname: scout\ndescription: looks\n---\nLook around.\n"),
		model: []harness.Answer{harness.ToolCall("c1", "subagent", `{"agent":"scout","task":"look","agentScope":"project"}`), harness.Text("ok")}, answers: []string{refused}, steps: []string{"> go"}, differs: nobody31},
	{name: "summarize", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello", "! /summarize", "ui notify openai"}},
	{name: "system-prompt-header", in: "74 87 15", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello"}},
	{name: "tic-tac-toe", in: "74 87 15", model: []harness.Answer{harness.ToolCall("c1", "tic_tac_toe_look", `{}`), harness.Text("ok")}, steps: []string{"> play"}},
	{name: "tic-tac-toe without a screen", path: "tic-tac-toe", in: "87 15", steps: []string{"! /tic-tac-toe", "ui notify"}},
	{name: "timed-confirm", answers: []string{confirmed, value("Option B"), confirmed, open}, steps: []string{"! /timed", "ui notify Confirmed", "! /timed-select", "ui notify Option B", "! /timed-signal", "ui notify Confirmed", "! /timed", "ui notify Cancelled"}},
	{name: "titlebar-spinner", in: "74 87 15", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello"}, differs: map[string]string{"ui": "how many pictures fit into a run"}},
	{name: "todo", in: "31 45 74 87 15", differs: map[string]string{"messages 45 31": "the example changes what pi has in memory of the branch that was left", "model 45 31": "likewise"}, model: []harness.Answer{harness.ToolCall("c1", "todo", `{"action":"add","text":"a"}`), harness.Text("ok"), harness.ToolCall("c2", "todo", `{"action":"add","text":"b"}`), harness.ToolCall("c3", "todo", `{"action":"toggle","id":1}`), harness.Text("ok"), harness.ToolCall("c4", "todo", `{"action":"list"}`), harness.Text("ok")},
		steps: []string{"> one", "> two", "fork two", "> three"}},
	{name: "todo without a screen", path: "todo", in: "87 15", steps: []string{"! /todos", "ui notify"}},
	{name: "tool-override", setup: files(".env", "secret", "a.txt", "one\n"), model: []harness.Answer{harness.ToolCall("c1", "read", `{"path":".env"}`), harness.ToolCall("c2", "read", `{"path":"a.txt"}`), harness.ToolCall("c3", "read", `{"path":"none"}`), harness.Text("ok")},
		steps: []string{"> read", "! /read-log", "ui notify"}},
	{name: "trigger-compact", in: "74 87 15", setup: keepLittle, model: []harness.Answer{harness.Text(lengthy), harness.Text(lengthy), harness.Text("summary"), harness.Text("summary")}, steps: []string{"> hello", "> " + strings.Repeat("hello ", 50), "! /trigger-compact", "ui notify Compaction started", "ui notify Compaction"}, differs: map[string]string{"model": "troupe's own words for the same", "tools": "likewise"}},
	{name: "truncated-tool", setup: func(p *harness.Place) { onPath(p, "rg", "seq 1 3000") }, model: []harness.Answer{harness.ToolCall("c1", "rg", `{"pattern":"x"}`), harness.Text("ok")}, steps: []string{"> search"}, differs: map[string]string{"messages 45 74": "the empty line at the end counted", "model 45 74": "likewise"}},
	{name: "widget-placement", in: "74 87 15", steps: []string{"ui setWidget", "ui setWidget"}},
	{name: "with-deps", model: []harness.Answer{harness.ToolCall("c1", "parse_duration", `{"duration":"2h"}`), harness.Text("ok")}, steps: []string{"> how long"}},
	{name: "working-indicator", in: "74 87 15", steps: []string{"! /working-indicator", `{"type":"get_messages"}`}},
	{name: "working-message-test", in: "74 87 15", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello"}},
	{name: "custom-provider-anthropic", in: "74 87 15", steps: []string{`{"type":"get_available_models"}`}, differs: map[string]string{"errors": "troupe names what it does not use: the login"}},
	{name: "custom-provider-gitlab-duo", in: "74 87 15", steps: []string{`{"type":"get_available_models"}`}, differs: map[string]string{"errors": "troupe names what it does not use: the login"}},
	{name: "dynamic-resources", in: "74 87 15", steps: []string{`{"type":"get_commands"}`}},
	{name: "chalk-logger", in: "45", model: []harness.Answer{harness.Text("ok")}, steps: []string{"> hello"}, differs: map[string]string{"errors": "pi breaks its own stdout"}},
	{name: "sandbox", in: "74", args: []string{"--no-sandbox"}, steps: []string{"ui notify", `{"type":"bash","command":"echo hi"}`, "! /sandbox", "ui notify"}},
}
