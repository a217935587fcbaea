//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"troupe/e2e/figures"
)

// agent is something that is measured.
type agent struct {
	name    string
	title   string // as the report names it: a peer has its version there
	command func(p *place, o how) *exec.Cmd
	many    bool // holds many conversations in one process
	peer    bool // somebody else's: fewer samples, which take long
	// bare has no set_session_name: the row of appends sets the thinking level.
	bare bool
}

// how a row wants an agent to run.
type how struct {
	cumulative bool     // every update carries the whole message
	args       []string // for those that take pi's flags
}

// peer is a pi from npm: where `npm ci` puts it, and the Node that runs it.
type peer struct {
	name, folder, pkg, node string
	bare                    bool
}

// peers are the default target of the protocol, and the newest that installs.
var peers = []peer{
	{"pi", "e2e/rpcclient", "@mariozechner/pi-coding-agent", "node", true},
	{"newer", "e2e/rpcclient/newer", "@earendil-works/pi-coding-agent", "node_modules/.bin/node", false},
}

// agents finds what can be measured here.
func agents(module, troupe, relay string, withPeers bool) []*agent {
	list := []*agent{
		{name: "limit", title: "limit", command: func(p *place, o how) *exec.Cmd {
			cmd := exec.Command(relay)
			if o.cumulative {
				cmd.Args = append(cmd.Args, "-cumulative")
			}
			cmd.Env = []string{"RELAY_MODEL=" + p.model.addr()}
			return cmd
		}},
		daemon("troupe", troupe),
	}
	if !withPeers {
		return list
	}
	for _, p := range peers {
		folder := filepath.Join(module, p.folder)
		installed := filepath.Join(folder, "node_modules", p.pkg)
		raw, err := os.ReadFile(filepath.Join(installed, "package.json"))
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: no %s: run npm ci --prefix %s to have it as a peer\n", p.pkg, p.folder)
			continue
		}
		node := p.node
		if strings.Contains(node, "/") {
			node = filepath.Join(folder, node)
		}
		list = append(list, &agent{
			name: p.name, title: "pi " + gjson.GetBytes(raw, "version").Str, peer: true, bare: p.bare,
			command: func(_ *place, o how) *exec.Cmd {
				cmd := exec.Command(node, append([]string{filepath.Join(installed, "dist", "cli.js"), "--mode", "rpc", "--provider", "mock", "--model", "mock-1"}, o.args...)...)
				cmd.Env = []string{"PI_OFFLINE=1"}
				return cmd
			},
		})
	}
	return list
}

// before is the name of another build of the daemon.
const before = "before"

// daemon is a build of the daemon.
func daemon(name, binary string) *agent {
	return &agent{name: name, title: name, many: true, command: func(_ *place, o how) *exec.Cmd {
		return exec.Command(binary, append([]string{"--mode", "rpc", "--provider", "mock", "--model", "mock-1"}, o.args...)...)
	}}
}

// plays is the name by which rows know the agent.
func (a *agent) plays() string {
	if a.name == before {
		return "troupe"
	}
	return a.name
}

// place is a home of its own: agent directory, working directory, model server.
type place struct {
	root, home, work string
	model            *model
	procs            []*proc
}

func newPlace() *place {
	root := figures.Get(os.MkdirTemp("", "troupe-bench-"))
	p := &place{root: root, home: filepath.Join(root, "home"), work: filepath.Join(root, "work")}
	figures.Must(os.MkdirAll(filepath.Join(p.home, ".pi", "agent"), 0o700))
	figures.Must(os.MkdirAll(p.work, 0o700))
	p.model = newModel()
	p.write(filepath.Join(p.home, ".pi", "agent", "models.json"), `{"providers":{"mock":{"baseUrl":"http://`+p.model.addr()+`","api":"anthropic-messages","apiKey":"sk-mock",`+
		`"models":[{"id":"mock-1","name":"mock-1","reasoning":false,"input":["text","image"],"contextWindow":1000000000,"maxTokens":4096,`+
		`"cost":{"input":3,"output":15,"cacheRead":0.3,"cacheWrite":3.75}}]}}}`)
	return p
}

func (p *place) write(path, content string) {
	figures.Must(os.MkdirAll(filepath.Dir(path), 0o700))
	figures.Must(os.WriteFile(path, []byte(content), 0o600))
}

// sessions is where the sessions of the working directory are.
func (p *place) sessions() string {
	return filepath.Join(p.home, ".pi", "agent", "sessions", "--"+strings.ReplaceAll(p.work[1:], "/", "-")+"--")
}

// start runs an agent here.
func (p *place) start(a *agent, o how) *proc {
	cmd := a.command(p, o)
	cmd.Dir = p.work
	cmd.Env = append(cmd.Env, "HOME="+p.home, "PATH="+filepath.Join(p.root, "bin")+":"+os.Getenv("PATH"), "TMPDIR="+p.root)
	q := spawn(cmd)
	p.procs = append(p.procs, q)
	return q
}

// ready runs an agent and waits until it has answered.
func (p *place) ready(a *agent, o how) *proc {
	q := p.start(a, o)
	if a.plays() == "troupe" && !o.cumulative {
		q.call(`{"type":"hello","features":["deltaUpdates"]}`)
	}
	q.call(`{"type":"get_state"}`)
	return q
}

func (p *place) close() {
	p.model.hangUp()
	for _, q := range p.procs {
		q.end()
	}
	p.model.close()
	os.RemoveAll(p.root)
}

// session writes a session file of n messages in turns of four: a question, an
// answer that calls a tool, its result, an answer. size is roughly how many
// bytes of text a message has. With words all entries are short and plain.
func (p *place) session(path string, n, size int, id int) {
	const stamp = "2026-11-21T01:04:26.000Z"
	var b strings.Builder
	cwd, _ := json.Marshal(p.work)
	fmt.Fprintf(&b, `{"type":"session","version":3,"id":"%08x-0cac-777d-9222-07d0c3020a70","timestamp":"%s","cwd":%s}`+"\n", id, stamp, cwd)
	parent := "null"
	text := strings.Repeat("All work and no play makes a dull day. ", size/39+1)[:size]
	const usage = `"usage":{"input":100,"output":10,"cacheRead":0,"cacheWrite":0,"totalTokens":110,"cost":{"input":0.0003,"output":0.00015,"cacheRead":0,"cacheWrite":0,"total":0.00045}}`
	const from = `"api":"anthropic-messages","provider":"mock","model":"mock-1",` + usage
	for i := range n {
		entry := fmt.Sprintf("%08x", i*7919+1)
		fmt.Fprintf(&b, `{"type":"message","id":"%s","parentId":%s,"timestamp":"%s","message":`, entry, parent, stamp)
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, `{"role":"user","content":[{"type":"text","text":"%d %s"}],"timestamp":1795223066000}`, i, text)
		case 1:
			fmt.Fprintf(&b, `{"role":"assistant","content":[{"type":"text","text":"%d %s"},{"type":"toolCall","id":"toolu_%d","name":"bash","arguments":{"command":"true"}}],%s,"stopReason":"toolUse","timestamp":1795223066000}`, i, text[:size/2], i, from)
		case 2:
			fmt.Fprintf(&b, `{"role":"toolResult","toolCallId":"toolu_%d","toolName":"bash","content":[{"type":"text","text":"%d %s"}],"isError":false,"timestamp":1795223066000}`, i-1, i, text)
		case 3:
			fmt.Fprintf(&b, `{"role":"assistant","content":[{"type":"text","text":"%d %s"}],%s,"stopReason":"stop","timestamp":1795223066000}`, i, text[:size/2], from)
		}
		b.WriteString("}\n")
		parent = `"` + entry + `"`
	}
	p.write(path, b.String())
}

// fill makes many small sessions of the working directory.
func (p *place) fill(n int) {
	for i := range n {
		at := time.Unix(1_795_000_000+int64(i)*60, 0).UTC()
		path := filepath.Join(p.sessions(), fmt.Sprintf("%s_%08x-0cac-777d-9222-07d0c3020a70.jsonl", at.Format("2006-01-02T15-04-05-000Z"), i))
		p.session(path, 8, 200, i)
		figures.Must(os.Chtimes(path, at, at))
	}
}
