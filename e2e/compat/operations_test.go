package compat

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
)

// readWithPi prints session files as pi's own session manager reads them: name, leaf, labels by
// entry, and every branch as a list of ids.
const readWithPi = `
import { SessionManager } from "INDEX";
const walk = (n, path, out) => {
  const here = [...path, n.entry.id];
  if (n.label) out.labels[n.entry.id] = n.label;
  if (n.children.length === 0) out.branches.push(here.join(" "));
  for (const c of n.children) walk(c, here, out);
};
const all = {};
for (const path of process.argv.slice(2)) {
  const s = SessionManager.open(path);
  const out = { name: s.getSessionName() ?? null, leaf: s.getLeafId(), parent: s.getHeader().parentSession ?? null, labels: {}, branches: [] };
  for (const root of s.getTree()) walk(root, [], out);
  all[path] = out;
}
console.log(JSON.stringify(all));
`

// TestPiOpensOperations checks that a session file opens in pi with the same messages, name, labels
// and tree after each operation on sessions.
func TestPiOpensOperations(t *testing.T) { eachPi(t, testPiOpensOperations) }

func testPiOpensOperations(t *testing.T, v harness.Pi) {
	node, dist := v.Install(t)
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"compaction":{"keepRecentTokens":5}}`)
	d := p.Start()
	files, order := operations(d)

	script := filepath.Join(p.Root, "read.mjs")
	index := filepath.Join(v.Program(dist), "index.js")
	p.WriteFile(script, strings.Replace(readWithPi, "INDEX", index, 1))
	var paths []string
	for _, name := range order {
		paths = append(paths, files[name])
	}
	cmd := exec.Command(node, append([]string{script}, paths...)...)
	cmd.Dir, cmd.Env, cmd.Stderr = p.Work, p.Environ(), os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	theirs := gjson.ParseBytes(out)
	pi := p.StartPi(v)
	for _, name := range order {
		path, _ := json.Marshal(files[name])
		d.OK(`{"type":"switch_session","sessionPath":` + string(path) + `}`)
		pi.OK(`{"type":"switch_session","sessionPath":` + string(path) + `}`)
		assert.Equal(t, contents(d), contents(pi), name)
		seen := theirs.Get(gjson.Escape(files[name]))
		ours := d.OK(`{"type":"get_tree"}`)
		assert.Equal(t, ours.Get("leafId").String(), seen.Get("leaf").String(), name)
		assert.Equal(t, d.OK(`{"type":"get_state"}`).Get("sessionName").String(), seen.Get("name").String(), name)
		labels, branches := map[string]string{}, []string(nil)
		for _, root := range ours.Get("tree").Array() {
			branches = walkTree(root, "", labels, branches)
		}
		seenLabels := map[string]string{}
		seen.Get("labels").ForEach(func(k, v gjson.Result) bool { seenLabels[k.Str] = v.Str; return true })
		assert.Equal(t, labels, seenLabels, name)
		var seenBranches []string
		for _, b := range seen.Get("branches").Array() {
			seenBranches = append(seenBranches, b.Str)
		}
		assert.ElementsMatch(t, branches, seenBranches, name)
	}
	assert.Equal(t, files["first"], theirs.Get(gjson.Escape(files["fork"])).Get("parent").Str)
	assert.Equal(t, files["first"], theirs.Get(gjson.Escape(files["clone"])).Get("parent").Str)
	pi.Stdin.Close()
	pi.WaitExit()
}

func walkTree(n gjson.Result, path string, labels map[string]string, branches []string) []string {
	id := n.Get("entry.id").Str
	path = strings.TrimSpace(path + " " + id)
	if l := n.Get("label"); l.Exists() {
		labels[id] = l.Str
	}
	children := n.Get("children").Array()
	if len(children) == 0 {
		return append(branches, path)
	}
	for _, c := range children {
		branches = walkTree(c, path, labels, branches)
	}
	return branches
}

// contents lists the role and content of each message in the context.
func contents(d *harness.Daemon) (list []string) {
	for _, m := range d.OK(`{"type":"get_messages"}`).Get("messages").Array() {
		list = append(list, strings.Join([]string{
			m.Get("role").Str, m.Get("content").String(), m.Get("summary").Str, m.Get("command").Str, m.Get("output").Str,
		}, " "))
	}
	return list
}

// operations runs each operation in a session and returns the session files.
func operations(d *harness.Daemon) (files map[string]string, order []string) {
	files = map[string]string{}
	done := func(name string) {
		files[name] = d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
		order = append(order, name)
	}
	say := func(prompt, answer string) {
		d.Place.Model.Enqueue(harness.Text(answer))
		d.Prompt(prompt)
	}
	points := func() []gjson.Result { return d.OK(`{"type":"get_fork_messages"}`).Get("messages").Array() }
	entry := func(i int) string { return points()[i].Get("entryId").Str }

	d.Place.Model.Enqueue(harness.ToolCall("c1", "bash", `{"command":"echo hi"}`))
	say("the first thing that is said", "answer one")
	d.OK(`{"type":"set_session_name","name":"the first"}`)
	say("the second thing that is said", "answer two")
	d.OK(`{"type":"bash","command":"echo mine"}`)
	done("first")
	d.OK(`{"type":"clone"}`)
	done("clone")
	d.OK(`{"type":"fork","entryId":"` + entry(1) + `"}`)
	say("another second thing", "answer three")
	d.OK(`{"type":"set_session_name","name":"a fork of the clone"}`)
	done("fork of a clone")
	d.OK(`{"type":"switch_session","sessionPath":"` + files["first"] + `"}`)
	d.OK(`{"type":"fork","entryId":"` + entry(1) + `"}`)
	done("fork")
	say("on the fork", "answer four")

	d.OK(`{"type":"new_session"}`)
	say("one", "1")
	say("two", "2")
	d.OK(`{"type":"set_entry_label","targetId":"` + entry(0) + `","label":"begin"}`)
	d.OK(`{"type":"set_entry_label","targetId":"` + entry(1) + `","label":"not kept"}`)
	d.OK(`{"type":"set_entry_label","targetId":"` + entry(1) + `"}`)
	done("labels")

	d.OK(`{"type":"new_session"}`)
	say("one", "1")
	say("two", "2")
	d.OK(`{"type":"navigate_tree","targetId":"` + entry(1) + `","label":"left here"}`)
	say("another two", "3")
	done("navigate")

	d.OK(`{"type":"new_session"}`)
	say("one", "1")
	say("two", "2")
	d.Place.Model.Enqueue(harness.Text("what was tried"))
	d.OK(`{"type":"navigate_tree","targetId":"` + entry(1) + `","summarize":true,"label":"summed up"}`)
	say("after the summary", "4")
	done("navigate with a summary")

	d.OK(`{"type":"new_session"}`)
	say("the first thing that is said", "1")
	say("the second thing that is said", "2")
	d.Place.Model.Enqueue(harness.Text("what there was"))
	d.OK(`{"type":"compact"}`)
	say("after the compaction", "5")
	d.OK(`{"type":"set_session_name","name":"compacted"}`)
	done("compact")
	return files, order
}

// TestOutputLogs checks the files with full command output: they have a size limit and are removed
// when their session is closed.
func TestOutputLogs(t *testing.T) {
	t.Parallel()
	p := harness.NewPlace(t)
	d := p.Start("--multi-session")
	open := func() string {
		return `,"sessionId":"` + d.OK(`{"type":"open_session"}`).Get("sessionId").Str + `"`
	}
	one, two := open(), open()
	path := d.OK(`{"type":"bash","command":"yes | head -c 150000000"` + one + `}`).Get("fullOutputPath").Str
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.EqualValues(t, 128<<20, info.Size())
	other := d.OK(`{"type":"bash","command":"seq 10000"` + two + `}`).Get("fullOutputPath").Str
	d.OK(`{"type":"new_session"` + one + `}`)
	assert.FileExists(t, path, "the session file may lead back to it")
	d.OK(`{"type":"close_session"` + one + `}`)
	assert.NoFileExists(t, path)
	assert.FileExists(t, other)
	require.Zero(t, d.Close())
	assert.NoFileExists(t, other)
	left, _ := filepath.Glob(filepath.Join(p.Root, "pi-bash-*"))
	assert.Empty(t, left)
}
