package shape

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// Program is what the script is played to.
type Program struct {
	Command []string // how it is started; what the script needs is put behind it
	Dir     string   // an empty directory: its home and where it works are made below it
	Env     []string // in addition to a minimum
	// Settles says that agent_settled comes when all is over. Without it the script
	// waits until nothing has come for a while, as for old versions of pi.
	Settles bool
}

const (
	patience = 30 * time.Second
	quiet    = 500 * time.Millisecond // without agent_settled
)

// Play plays the script and says what came.
func Play(p Program) (Shapes, error) {
	shapes := Shapes{}
	model := NewModel()
	defer model.Close()
	for _, part := range parts {
		home := filepath.Join(p.Dir, part.name)
		if err := furnish(home, model.Config(), part.settings); err != nil {
			return nil, err
		}
		c, err := p.start(home, shapes, part.args)
		if err != nil {
			return nil, err
		}
		part.play(c)
		if err := c.end(); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		if err := shapes.addFiles(filepath.Join(home, "agent", "sessions")); err != nil {
			return nil, err
		}
	}
	shapes.Done()
	return shapes, nil
}

// part is one life of the program.
type part struct {
	name     string
	args     []string
	settings string
	play     func(c *client)
}

const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

const settings = `{"retry":{"baseDelayMs":%d},"compaction":{"keepRecentTokens":20,"reserveTokens":1000}}`

var mock = []string{"--provider", "mock", "--model", "plain"}

var parts = []part{
	{"conversation", mock, fmt.Sprintf(settings, 30), conversation},
	{"sessions", mock, fmt.Sprintf(settings, 30), sessions},
	{"compaction", []string{"--provider", "mock", "--model", "small"}, fmt.Sprintf(settings, 30), compaction},
	{"waits", mock, fmt.Sprintf(settings, 20000), waits},
	{"nowhere", append([]string{"--no-session"}, mock...), fmt.Sprintf(settings, 30), nowhere},
	{"scoped", []string{"--models", "mock/plain,mock/think:low"}, fmt.Sprintf(settings, 30), scoped},
}

var questions = []string{
	`{"type":"get_state"}`, `{"type":"get_messages"}`, `{"type":"get_session_stats"}`, `{"type":"get_last_assistant_text"}`,
	`{"type":"get_available_models"}`, `{"type":"get_available_thinking_levels"}`, `{"type":"get_commands"}`, `{"type":"get_entries"}`,
	`{"type":"get_tree"}`, `{"type":"get_fork_messages"}`, `{"type":"get_branch_messages"}`,
}

func (c *client) questions() {
	for _, q := range questions {
		c.ask(q)
	}
}

func conversation(c *client) {
	c.questions()
	for _, q := range []string{
		`{"type":"set_session_name","name":"a name"}`, `{"type":"set_session_name","name":""}`, `{"type":"set_steering_mode","mode":"all"}`,
		`{"type":"set_follow_up_mode","mode":"all"}`, `{"type":"set_queue_mode","mode":"one-at-a-time"}`, `{"type":"set_auto_compaction","enabled":true}`,
		`{"type":"set_auto_retry","enabled":true}`, `{"type":"set_model","provider":"mock","modelId":"nosuch"}`, `{"type":"cycle_thinking_level"}`,
		`{"type":"set_model","provider":"mock","modelId":"think"}`, `{"type":"set_thinking_level","level":"high"}`, `{"type":"cycle_thinking_level"}`,
		`{"type":"cycle_model"}`, `{"type":"set_model","provider":"mock","modelId":"think"}`, `{"type":"abort"}`, `{"type":"abort_retry"}`,
		`{"type":"abort_bash"}`, `{"type":"clear_queue"}`, `{"type":"nosuch"}`,
	} {
		c.ask(q)
	}
	c.raw("{no JSON")
	c.run(`{"type":"prompt","message":"TEXT"}`)
	c.run(`{"type":"prompt","message":"THINK"}`)
	c.ask(`{"type":"set_model","provider":"mock","modelId":"plain"}`)
	c.run(`{"type":"prompt","message":"TEXT with a picture","images":[{"type":"image","data":"` + pixel + `","mimeType":"image/png"}]}`)
	c.run(`{"type":"prompt","message":"TOOLS"}`)
	c.run(`{"type":"prompt","message":"/hello you"}`)
	c.run(`{"type":"prompt","message":"/skill:demo please"}`)
	c.run(`{"type":"prompt","message":"LENGTH"}`)
	c.run(`{"type":"prompt","message":"REFUSED"}`)
	c.run(`{"type":"prompt","message":"OVERLOADED"}`)
	c.run(`{"type":"prompt","message":"CUT"}`)
	c.questions()
	for _, q := range []string{
		`{"type":"bash","command":"echo out"}`, `{"type":"bash","command":"echo wrong >&2; exit 3"}`, `{"type":"bash","command":"seq 1 5000"}`,
		`{"type":"bash","command":"echo hidden","excludeFromContext":true}`,
	} {
		c.ask(q)
	}
	slow := c.send(`{"type":"bash","command":"echo begun; sleep 30"}`)
	c.pause()
	c.ask(`{"type":"abort_bash"}`)
	c.answer(slow, "bash")
	c.run(`{"type":"prompt","message":"TEXT"}`)
	c.questions()
	c.busy(`{"type":"prompt","message":"HANGING"}`, "message_update",
		`{"type":"steer","message":"a steer"}`, `{"type":"follow_up","message":"a follow-up"}`, `{"type":"queue_message","message":"queued"}`,
		`{"type":"prompt","message":"refused"}`, `{"type":"prompt","message":"TEXT","streamingBehavior":"steer"}`, `{"type":"get_state"}`, `{"type":"clear_queue"}`,
		`{"type":"abort"}`)
	c.run(`{"type":"prompt","message":"TEXT"}`)
	c.busy(`{"type":"prompt","message":"SLEEP"}`, "tool_execution_start", `{"type":"get_state"}`, `{"type":"abort"}`)
	c.run(`{"type":"prompt","message":"TEXT"}`)
	c.questions()
	c.ask(`{"type":"export_html"}`)
	c.ask(`{"type":"export_html","outputPath":"page.html"}`)
}

func sessions(c *client) {
	c.run(`{"type":"prompt","message":"TEXT one"}`)
	c.run(`{"type":"prompt","message":"TEXT two"}`)
	file := c.ask(`{"type":"get_state"}`).Get("data.sessionFile").Str
	for _, name := range []string{"fork", "branch"} {
		list := c.ask(`{"type":"get_` + name + `_messages"}`)
		first := list.Get("data.messages.1.entryId").Str
		if first == "" {
			continue
		}
		c.ask(`{"type":"` + name + `","entryId":"` + first + `"}`)
		c.ask(`{"type":"` + name + `","entryId":"nosuch"}`)
		c.run(`{"type":"prompt","message":"TEXT in the ` + name + `"}`)
		c.questions()
		c.ask(`{"type":"switch_session","sessionPath":` + quoted(file) + `}`)
	}
	c.ask(`{"type":"clone"}`)
	c.ask(`{"type":"new_session"}`)
	c.ask(`{"type":"get_state"}`)
	c.run(`{"type":"prompt","message":"TEXT"}`)
	c.ask(`{"type":"new_session","parentSession":` + quoted(file) + `}`)
	c.ask(`{"type":"switch_session","sessionPath":` + quoted(file) + `}`)
	c.questions()
}

func compaction(c *client) {
	long := strings.Repeat("long ", 40)
	c.run(`{"type":"prompt","message":"TEXT one ` + long + `"}`)
	c.run(`{"type":"prompt","message":"TOOLS two ` + long + `"}`)
	c.ask(`{"type":"compact","customInstructions":"be short"}`)
	c.questions()
	c.ask(`{"type":"compact"}`)
	c.run(`{"type":"prompt","message":"TEXT three ` + long + `"}`)
	c.run(`{"type":"prompt","message":"TEXT four ` + long + `"}`)
	c.run(`{"type":"prompt","message":"FULL ` + long + `"}`)
	c.questions()
	c.run(`{"type":"prompt","message":"TEXT five ` + long + `"}`)
	c.run(`{"type":"prompt","message":"OVERFLOW ` + long + `"}`)
	c.run(`{"type":"prompt","message":"TEXT six ` + long + `"}`)
	slow := c.send(`{"type":"compact","customInstructions":"HANG"}`)
	c.pause()
	c.ask(`{"type":"abort"}`)
	c.answer(slow, "compact")
	c.ask(`{"type":"set_auto_compaction","enabled":false}`)
	c.run(`{"type":"prompt","message":"FULL again"}`)
	c.questions()
}

func waits(c *client) {
	c.busy(`{"type":"prompt","message":"BUSY"}`, "auto_retry_start", `{"type":"get_state"}`, `{"type":"abort_retry"}`)
	c.busy(`{"type":"prompt","message":"BUSY"}`, "auto_retry_start", `{"type":"abort"}`)
	c.ask(`{"type":"set_auto_retry","enabled":false}`)
	c.run(`{"type":"prompt","message":"BUSY"}`)
}

func nowhere(c *client) {
	c.questions()
	c.run(`{"type":"prompt","message":"TEXT"}`)
	c.questions()
	c.ask(`{"type":"export_html"}`)
}

func scoped(c *client) {
	c.ask(`{"type":"get_state"}`)
	c.ask(`{"type":"cycle_model"}`)
	c.ask(`{"type":"cycle_model"}`)
	c.ask(`{"type":"get_state"}`)
}

// furnish makes a home.
func furnish(home, models, settings string) error {
	image, err := base64.StdEncoding.DecodeString(pixel)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"agent/models.json": models, "agent/settings.json": settings,
		"agent/prompts/hello.md":     "---\ndescription: says hello\n---\nTEXT hello $1\n",
		"agent/skills/demo/SKILL.md": "---\nname: demo\ndescription: a skill\n---\nTEXT do it\n",
		"work/text.txt":              "one\ntwo\n", "work/pixel.png": string(image),
	} {
		path := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// client talks to one life of the program.
type client struct {
	p      Program
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer

	mu     sync.Mutex
	more   *sync.Cond
	shapes Shapes
	lines  []gjson.Result
	last   time.Time
	over   bool
	late   []string // what was waited for in vain
	ids    int
}

func (p Program) start(home string, shapes Shapes, args []string) (*client, error) {
	c := &client{p: p, shapes: shapes, last: time.Now()}
	c.more = sync.NewCond(&c.mu)
	argv := append(append(append([]string{}, p.Command...), "--mode", "rpc"), args...)
	c.cmd = exec.Command(argv[0], argv[1:]...)
	c.cmd.Dir = filepath.Join(home, "work")
	c.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "PI_CODING_AGENT_DIR=" + filepath.Join(home, "agent"),
		"PI_OFFLINE=1", "PI_SKIP_VERSION_CHECK=1", "LANG=C.UTF-8"}, p.Env...)
	c.cmd.Stderr = &c.stderr
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go c.read(out)
	return c, nil
}

func (c *client) read(out io.Reader) {
	scan := bufio.NewScanner(out)
	scan.Buffer(nil, 256<<20)
	for scan.Scan() {
		v := gjson.Parse(scan.Text())
		c.mu.Lock()
		if kind := KindOf(v); kind != "" {
			c.shapes.Add(kind, v)
		}
		c.lines, c.last = append(c.lines, v), time.Now()
		c.more.Broadcast()
		c.mu.Unlock()
	}
	c.mu.Lock()
	c.over = true
	c.more.Broadcast()
	c.mu.Unlock()
}

// KindOf is what a record of the wire is, "" for one that says only that a
// command is not there.
func KindOf(v gjson.Result) string {
	kind := v.Get("type").Str
	switch kind {
	case "response":
		switch {
		case v.Get("success").Bool():
			return kind + " " + v.Get("command").Str
		case strings.HasPrefix(v.Get("error").Str, "Unknown command"):
			return ""
		}
		return "refusal"
	case "message_update":
		return kind + " " + v.Get("assistantMessageEvent.type").Str
	case "message_start", "message_end":
		return kind + " " + v.Get("message.role").Str
	case "extension_ui_request":
		return kind + " " + v.Get("method").Str
	}
	return kind
}

// wait waits for a line from a position on, and returns the position behind it,
// or -1.
func (c *client) wait(from int, what string, ok func(gjson.Result) bool) (gjson.Result, int) {
	timer := time.AfterFunc(patience, func() { c.mu.Lock(); c.more.Broadcast(); c.mu.Unlock() })
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := from; ; {
		for ; at < len(c.lines); at++ {
			if ok(c.lines[at]) {
				return c.lines[at], at + 1
			}
		}
		if c.over || !time.Now().Before(deadline) {
			c.late = append(c.late, what)
			return gjson.Result{}, -1
		}
		c.more.Wait()
	}
}

func (c *client) raw(line string) {
	n := c.count()
	_, _ = io.WriteString(c.stdin, line+"\n")
	c.wait(n, line, func(v gjson.Result) bool { return v.Get("type").Str == "response" })
}

func (c *client) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lines)
}

// sent is a command on its way.
type sent struct {
	id   string
	from int
}

func (c *client) send(command string) sent {
	c.ids++
	s := sent{fmt.Sprintf("c%d", c.ids), c.count()}
	_, _ = io.WriteString(c.stdin, `{"id":"`+s.id+`",`+command[1:]+"\n")
	return s
}

// answer waits for a response. Old versions of pi leave the id out where a
// command fails.
func (c *client) answer(s sent, command string) gjson.Result {
	v, _ := c.wait(s.from, "the answer to "+command, func(v gjson.Result) bool {
		if v.Get("type").Str != "response" {
			return false
		}
		return v.Get("id").Str == s.id || !v.Get("id").Exists() && !v.Get("success").Bool()
	})
	return v
}

func (c *client) ask(command string) gjson.Result {
	return c.answer(c.send(command), gjson.Get(command, "type").Str)
}

// run asks for a run and waits for its end.
func (c *client) run(command string) {
	n := c.count()
	if !c.ask(command).Get("success").Bool() {
		return
	}
	c.wait(n, "the end of "+command, func(v gjson.Result) bool { return v.Get("type").Str == "agent_end" })
	c.settle(n)
}

// busy begins a run, waits for an event of it, sends commands, the last of which
// ends it, and waits for that.
func (c *client) busy(command, event string, then ...string) {
	n := c.count()
	c.ask(command)
	c.wait(n, event, func(v gjson.Result) bool { return v.Get("type").Str == event })
	for _, t := range then {
		c.ask(t)
	}
	c.settle(n)
}

// settle waits until nothing more comes by itself.
func (c *client) settle(from int) {
	if c.p.Settles {
		c.wait(from, "agent_settled", func(v gjson.Result) bool { return v.Get("type").Str == "agent_settled" })
		return
	}
	for {
		c.mu.Lock()
		left, over := quiet-time.Since(c.last), c.over
		c.mu.Unlock()
		if left <= 0 || over {
			return
		}
		time.Sleep(left)
	}
}

// pause lets a command begin that says nothing while it runs.
func (c *client) pause() {
	if !c.p.Settles {
		time.Sleep(quiet)
		return
	}
	c.ask(`{"type":"get_state"}`)
}

// end ends the program.
func (c *client) end() error {
	_ = c.stdin.Close()
	timer := time.AfterFunc(patience, func() { _ = c.cmd.Process.Kill() })
	defer timer.Stop()
	c.wait(0, "", func(gjson.Result) bool { return false }) // its output
	err := c.cmd.Wait()
	late := c.late[:len(c.late)-1]
	if len(late) > 0 || err != nil && c.p.Settles {
		return fmt.Errorf("%v did not come; %w; stderr: %s", late, err, c.stderr.String())
	}
	return nil
}

// addFiles adds the entries of all session files below a directory.
func (s Shapes) addFiles(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".jsonl" {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, line := range bytes.Split(raw, []byte("\n")) {
			if v := gjson.ParseBytes(line); v.IsObject() {
				s.Add(entryOf(v), v)
			}
		}
		return err
	})
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func entryOf(v gjson.Result) string {
	kind := "entry " + v.Get("type").Str
	if role := v.Get("message.role").Str; role != "" {
		kind += " " + role
	}
	if custom := v.Get("customType").Str; custom != "" {
		kind += " " + custom
	}
	return kind
}

func quoted(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}
