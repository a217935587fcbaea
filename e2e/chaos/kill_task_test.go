package chaos

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"troupe/e2e/harness"
	"troupe/e2e/history"
)

var (
	taskKills     = flag.Int("kill.tasks", number("TROUPE_KILL_TASKS", 6), "how many daemons to kill that have isolated tasks under way")
	taskKillFirst = flag.Uint64("kill.tasks.first", 1, "the seed of the first")
)

// filesPerTask is the number of files that each task of TestKillTasks writes. It is large enough
// that a merge takes a while.
const filesPerTask = 40

// taskNames are the tasks that may write files. bad fails its verification, and d runs after the
// kill.
var taskNames = []string{"a", "bad", "c", "d"}

// TestKillTasks kills the process while isolated tasks run, while they are verified, during a merge
// and after the first merge.
//
// The work tree of the user then has all changes of a task or none of them. The repository is
// unchanged, or has one more commit in branch mode. Changes that failed verification are in
// neither. Half of the seeds use a budget with room for two answers at once.
//
// The next process opens the session. The interrupted call has one result that lists the remaining
// worktrees. No process and no unlisted worktree is left.
func TestKillTasks(t *testing.T) {
	moments := []string{"children", "verification", "merge", "merged"}
	seen := make([]map[string]int, len(moments))
	for lane := range moments {
		seen[lane] = map[string]int{}
		t.Run(moments[lane], func(t *testing.T) {
			t.Parallel()
			for i := lane; i == lane || i < *taskKills; i += len(moments) {
				seed := *taskKillFirst + uint64(i)
				hold := i == lane // the other tasks may end before the kill
				if !t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { killTasks(t, seed, moments[lane], hold, seen[lane]) }) {
					return
				}
			}
			t.Log(seen[lane])
			require.Positive(t, seen[lane]["killed in time"], "no kill came before the end")
		})
	}
}

// taskBrain computes the answers of the model. The parent calls task once, and a child writes the
// files of its assignment. Answers depend on the request only, so they are the same in every
// process.
func taskBrain(body gjson.Result) harness.Answer {
	said, rounds := lastSaid(body)
	switch m := childPattern.FindStringSubmatch(said); {
	case m != nil && rounds == 0:
		return harness.ToolCall("w", "bash", fmt.Sprintf(`{"command":"mkdir %[1]s && for k in $(seq %[2]d); do echo %[1]s $k > %[1]s/$k; done; echo %[1]s >> tracked-%[1]s; rm gone-%[1]s"}`, m[1], filesPerTask))
	case m == nil && strings.HasPrefix(said, "go") && rounds == 0:
		return harness.ToolCall("t", "task", `{"agent":"task","isolated":true,"verify":"check","tasks":[
			{"id":"A","description":"a","assignment":"MAKE=a"},{"id":"B","description":"b","assignment":"MAKE=bad"},{"id":"C","description":"c","assignment":"MAKE=c"}]}`)
	case m == nil && said == "again" && rounds == 0:
		return harness.ToolCall("u", "task", `{"agent":"task","isolated":true,"tasks":[{"id":"D","description":"d","assignment":"MAKE=d"}]}`)
	}
	return harness.Text("done")
}

var childPattern = regexp.MustCompile(`MAKE=(\w+)`)

// killTasks kills a daemon at a moment of its tasks and checks the state that the next daemon
// restores. With hold, the last task cannot end before the kill.
func killTasks(t *testing.T, seed uint64, moment string, hold bool, seen map[string]int) {
	rng := rand.New(rand.NewPCG(seed, 18))
	p := harness.NewPlace(t)
	p.RecordHistory()
	mark := fmt.Sprintf("TROUPE_CHAOS=tasks.%d.%d", os.Getpid(), seed)
	verifying := filepath.Join(p.Root, "verifying")
	cache := filepath.Join(p.Root, "workspaces")
	p.Env = append(p.Env, mark, "TROUPE_WORKTREE_DIR="+cache)
	branch := rng.IntN(2) == 0
	budget, limit := `{}`, int64(0)
	if rng.IntN(2) == 0 {
		limit = 2*4096 + 500
		budget = fmt.Sprintf(`{"maxOutputTokens":%d}`, limit)
	}
	merge := map[bool]string{false: "patch", true: "branch"}[branch]
	p.Model.Decide(func(body gjson.Result) harness.Answer {
		if said, _ := lastSaid(body); hold && strings.Contains(said, "MAKE=c") {
			return harness.Gate("killed").Then(taskBrain(body))
		}
		return taskBrain(body)
	})
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), fmt.Sprintf(`{"task":{"enabled":true,"budget":%s,"isolation":{"enabled":true,"merge":%q},"verification":{"enabled":true,"profiles":{
		"check":{"commands":[{"name":"begins","command":"touch %s; sleep 0.02"},{"name":"good","command":"test ! -e bad"}]}}}}}`, budget, merge, verifying))
	for _, name := range taskNames {
		p.WriteFile("tracked-"+name, "one\n")
		p.WriteFile("gone-"+name, "one\n")
	}
	p.WriteFile("edited", "one\n")
	p.Git("init", "-q", "-b", "main")
	p.Git("add", "-A")
	p.Git("commit", "-q", "-m", "first")
	p.WriteFile("edited", "the user's\n") // not committed
	p.WriteFile("untracked", "the user's, too\n")
	before, had := repositoryOf(t, p, branch), workOf(t, p)

	session := killedLife(t, p, rng, moment, cache, verifying, seen)
	p.Model.OpenGate("killed")
	harness.Eventually(t, "the end of every child", func() bool { return len(withEnv(mark)) == 0 })

	d := p.Start("--session", session)
	d.OK(`{"type":"get_state"}`)
	d.OK(`{"type":"get_budget"}`)
	text, err := os.ReadFile(session)
	require.NoError(t, err)
	results := gjson.GetBytes(text, `..#(message.role=="toolResult")#.message`).Array()
	require.LessOrEqual(t, len(results), 1)
	merged := landed(t, p)
	seen["merged "+strconv.Itoa(len(merged))]++
	if len(results) == 1 {
		var told []string
		for _, r := range results[0].Get("details.results").Array() {
			if r.Get("merged").Bool() {
				told = append(told, strings.TrimPrefix(r.Get("assignment").Str, "MAKE="))
			}
		}
		assert.ElementsMatch(t, merged, told, "what landed is what the result says")
		if strings.Contains(results[0].Raw, "its merge was cut off") {
			seen["cut merges"]++
		}
	}
	assert.Equal(t, before, repositoryOf(t, p, branch), "the repository")
	d.OK(`{"type":"prompt","message":"and on"}`)
	assert.Equal(t, "completed", d.Event("agent_settled").Get("outcome").Str)
	assert.ElementsMatch(t, merged, landed(t, p), "nothing is merged later")

	d.OK(`{"type":"prompt","message":"again"}`)
	assert.Equal(t, "completed", d.Event("agent_settled").Get("outcome").Str)
	assert.ElementsMatch(t, append(merged, "d"), landed(t, p))
	assert.Equal(t, before, repositoryOf(t, p, branch), "the repository")
	if branch {
		commits := strings.Fields(p.Git("log", "--format=%s"))
		assert.Equal(t, "first", commits[len(commits)-1])
	}
	d.OK(`{"type":"get_budget"}`)
	d.OK(`{"type":"get_session_stats"}`)
	require.Equal(t, 0, d.Close())
	p.CheckHistory(history.Options{Concurrency: 32, Output: limit, Work: &history.Work{Before: had, After: workOf(t, p), There: exists}})
	left, err := filepath.Glob(filepath.Join(cache, "*", "*"))
	require.NoError(t, err)
	kept := strings.Contains(fmt.Sprint(left), "-A ") || strings.Contains(fmt.Sprint(left), "-B ") || strings.Contains(fmt.Sprint(left), "-C ")
	for _, dir := range left {
		snapshot, err := filepath.Match("*-t-*.base", filepath.Base(dir))
		require.NoError(t, err)
		if filepath.Base(dir) == "lock" || kept && snapshot { // a kept worktree needs its snapshot
			continue
		}
		_, id, _ := strings.Cut(filepath.Base(dir), "-")
		assert.True(t, named(results, dir) || exists(filepath.Join(strings.TrimSuffix(session, ".jsonl"), id+".patch")), "nothing is left of %s, and nobody names it\n%s", dir, results)
	}
	harness.Eventually(t, "the end of every child", func() bool { return len(withEnv(mark)) == 0 })
}

// killedLife runs one process and kills it at a moment of its tasks.
func killedLife(t *testing.T, p *harness.Place, rng *rand.Rand, moment, cache, verifying string, seen map[string]int) (session string) {
	d := p.Start()
	session = d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
	require.NotEmpty(t, session)
	d.OK(`{"type":"prompt","message":"go"}`)
	begins := func() bool { return true }
	switch moment {
	case "children":
		d.Event("subagent_start")
	case "verification":
		begins = func() bool { _, err := os.Stat(verifying); return err == nil }
	case "merge":
		begins = func() bool {
			found, _ := filepath.Glob(filepath.Join(cache, "*", "*", "merge"))
			return len(found) > 0
		}
	case "merged":
		begins = func() bool {
			log, _ := os.ReadFile(session)
			return bytes.Contains(log, []byte(`"op":"merged"`))
		}
	}
	for deadline := time.Now().Add(harness.Patience); !begins(); { // it is over in some milliseconds: to wait is to miss it
		if d.Has("agent_settled") {
			break
		}
		require.True(t, time.Now().Before(deadline), "%s never begins\n%s", moment, d.Stderr())
	}
	d.Send(`{"id":"used","type":"get_budget"}`)
	within := map[string]time.Duration{"children": 100 * time.Millisecond, "verification": 60 * time.Millisecond, "merge": 200 * time.Millisecond, "merged": 200 * time.Millisecond}[moment]
	part := rng.Float64() // mostly early, because the rest takes longer on some machines
	timer := time.NewTimer(time.Duration(part * part * float64(within)))
	<-timer.C
	require.NoError(t, d.Cmd.Process.Kill())
	<-d.Exited
	if !d.Has("tool_execution_end") {
		seen["killed in time"]++
	}
	return session
}

// landed returns the tasks whose changes are in the work tree. It checks that each change is
// complete and that the user's own changes are still there.
func landed(t *testing.T, p *harness.Place) (names []string) {
	t.Helper()
	assert.Equal(t, "the user's\n", harness.ReadFile(t, filepath.Join(p.Work, "edited")))
	assert.Equal(t, "the user's, too\n", harness.ReadFile(t, filepath.Join(p.Work, "untracked")))
	want := []string{"edited", "untracked"}
	for _, name := range taskNames {
		want = append(want, "tracked-"+name)
		files, _ := filepath.Glob(filepath.Join(p.Work, name, "*"))
		if len(files) == 0 {
			want = append(want, "gone-"+name)
			assert.Equal(t, "one\n", harness.ReadFile(t, filepath.Join(p.Work, "tracked-"+name)))
			continue
		}
		names = append(names, name)
		assert.NotEqual(t, "bad", name, "work that was not verified is in the user's tree")
		assert.Len(t, files, filesPerTask, "%s is there by halves", name)
		for _, file := range files {
			assert.Equal(t, name+" "+filepath.Base(file)+"\n", harness.ReadFile(t, file))
		}
		want = append(want, name)
		assert.Equal(t, "one\n"+name+"\n", harness.ReadFile(t, filepath.Join(p.Work, "tracked-"+name)))
	}
	var have []string
	entries, err := os.ReadDir(p.Work)
	require.NoError(t, err)
	for _, e := range entries {
		if e.Name() != ".git" {
			have = append(have, e.Name())
		}
	}
	assert.ElementsMatch(t, want, have)
	return names
}

// workOf returns all files of the user's working directory without .git.
func workOf(t *testing.T, p *harness.Place) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(p.Work, func(path string, e os.DirEntry, err error) error {
		switch {
		case err == nil && e.Name() == ".git":
			return filepath.SkipDir
		case err == nil && !e.IsDir():
			name, _ := filepath.Rel(p.Work, path)
			files[name] = harness.ReadFile(t, path)
		}
		return err
	}))
	return files
}

// repositoryOf returns all files of the user's repository. With branch, it leaves out the files
// that a commit changes.
func repositoryOf(t *testing.T, p *harness.Place, branch bool) map[string]string {
	files := map[string]string{}
	root := filepath.Join(p.Work, ".git")
	require.NoError(t, filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(root, path)
		if branch && (name == "index" || name == "logs/HEAD" || strings.HasPrefix(name, "objects/") || strings.HasSuffix(name, "refs/heads/main")) {
			return nil
		}
		files[name] = harness.ReadFile(t, path)
		return nil
	}))
	return files
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// named reports whether one of the results contains the path dir.
func named(results []gjson.Result, dir string) bool {
	return slices.ContainsFunc(results, func(r gjson.Result) bool { return strings.Contains(r.Raw, dir) })
}

// TestMergeIsCut kills the process between two files of a merge. The next process either undoes or
// finishes the merge and reports which. If the user has edited one of the files in the meantime,
// nothing is changed, and the result names that file.
func TestMergeIsCut(t *testing.T) {
	for _, edited := range []bool{false, true} {
		t.Run(fmt.Sprintf("edited %t", edited), func(t *testing.T) {
			t.Parallel()
			for range 20 { // the kill may come too late
				if cutMerge(t, edited) {
					return
				}
			}
			t.Fatal("no kill came in the middle of a merge")
		})
	}
}

// cutMerge reports whether the kill came in the middle of the merge.
func cutMerge(t *testing.T, edited bool) bool {
	const files = 150
	p := harness.NewPlace(t)
	p.WriteFile(filepath.Join(p.AgentDir(), "settings.json"), `{"task":{"isolation":{"enabled":true}}}`)
	p.WriteFile("tracked", "one\n")
	p.Git("init", "-q", "-b", "main")
	p.Git("add", "-A")
	p.Git("commit", "-q", "-m", "first")
	had := repositoryOf(t, p, false)
	p.Model.Enqueue(harness.ToolCall("c1", "task", `{"agent":"task","isolated":true,"tasks":[{"id":"A","description":"a","assignment":"CHILDA do it"}]}`), harness.Text("thanks"))
	p.Model.EnqueueFor("CHILDA", harness.ToolCall("w1", "bash", fmt.Sprintf(`{"command":"mkdir d; for k in $(seq %d); do echo by A > d/$k; done; rm tracked"}`, files)))
	p.Model.EnqueueFor("CHILDA", harness.Text("this is A"))
	d := p.Start("--tools", "task,bash")
	session := d.OK(`{"type":"get_state"}`).Get("sessionFile").Str
	landed := func() (names []string) {
		entries, _ := os.ReadDir(filepath.Join(p.Work, "d"))
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") { // not yet renamed
				names = append(names, e.Name())
			}
		}
		return names
	}
	d.OK(`{"type":"prompt","message":"go"}`)
	for deadline := time.Now().Add(harness.Patience); len(landed()) == 0; {
		require.True(t, time.Now().Before(deadline), "nothing is merged\n%s", d.Stderr())
	}
	require.NoError(t, d.Cmd.Process.Kill())
	<-d.Exited
	names := landed()
	if len(names) == files {
		return false
	}
	if edited {
		p.WriteFile("d/"+names[0], "the user's\n")
	}

	d = p.Start("--tools", "task,bash", "--session", session)
	messages := d.OK(`{"type":"get_messages"}`).Get("messages").Array()
	require.Len(t, messages, 4, "the call has a result")
	said, result := messages[2].Get("content.0.text").Str, messages[2].Get("details.results.0")
	switch now := len(landed()); {
	case edited:
		assert.Equal(t, "the user's\n", harness.ReadFile(t, filepath.Join(p.Work, "d", names[0])))
		assert.Len(t, names, now, "nothing else is touched")
		assert.Contains(t, said, "d/"+names[0])
		assert.False(t, result.Get("merged").Bool())
	case now == 0:
		assert.Equal(t, "one\n", harness.ReadFile(t, filepath.Join(p.Work, "tracked")))
		assert.False(t, result.Get("merged").Bool(), result.Raw)
		assert.True(t, exists(result.Get("patchPath").Str), result.Raw)
	default:
		assert.Equal(t, files, now, "half a merge")
		assert.True(t, result.Get("merged").Bool(), result.Raw)
	}
	assert.Equal(t, had, repositoryOf(t, p, false), "the repository")
	require.Zero(t, d.Close())
	return true
}
