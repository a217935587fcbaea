package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pkg is what go list says of a package.
type pkg struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// rule says who may import what, and why.
type rule struct {
	from  string   // a package, or a tree with /...
	only  []string // the packages of ours it may import, trees allowed
	never []string // the foreign packages it must not import, trees allowed
	why   string
}

const aWire = "a wire knows no other wire, no file and no source of keys"

var rules = []rule{
	{"troupe/protocol", nil, []string{"os/exec", "net/http", "github.com/asynkron/..."},
		"protocol is the vocabulary: everything imports it, it imports nothing of ours"},
	{"troupe/protocol/pi", []string{"troupe/protocol"}, []string{"os", "os/exec", "net/...", "github.com/asynkron/..."},
		"a codec knows words and bytes: no file, no connection, no actor"},
	{"troupe/protocol/schema", []string{"troupe/protocol"}, []string{"os", "os/exec", "net/...", "github.com/asynkron/..."},
		"what describes the words knows nothing of who speaks them"},
	{"troupe/protocol/schema/exampletest", []string{"troupe/protocol/schema"}, []string{"os/exec", "net/...", "github.com/asynkron/..."},
		"tests of any package may record examples"},
	{"troupe/protocol/extension", nil, []string{"os", "os/exec", "net/...", "github.com/..."},
		"sessions and the engine of extensions meet in these words, and neither knows the other"},
	{"troupe/protocol/bounded", nil, []string{"os/exec", "net/...", "github.com/..."},
		"every room reads files of others through it"},
	{"troupe/actors/core", []string{"troupe/protocol"},
		[]string{"os", "io", "net/...", "sync/...", "sync", "os/exec", "context", "github.com/asynkron/...", "github.com/rs/..."},
		"the machine is a pure function: no files, clocks, goroutines, locks, loggers or actors"},
	{"troupe/providers", []string{"troupe/protocol"}, []string{"troupe/providers/...", "net/http", "os", "os/exec"},
		"the contract is what a session sees of models: no wire, no connection, no file"},
	{"troupe/providers/wire", []string{"troupe/protocol", "troupe/providers"}, []string{"os/exec"},
		"what all wires share knows none of them"},
	{"troupe/providers/auth", []string{"troupe/protocol", "troupe/protocol/bounded", "troupe/providers"}, []string{"os/exec", "golang.org/x/oauth2/..."},
		"the owner of auth.json knows no wire and no model, and is given what it needs to run pi"},
	{"troupe/providers/discover", []string{"troupe/protocol", "troupe/providers"}, []string{"os", "os/exec"},
		"what a server says of its models does not depend on what is configured"},
	{"troupe/providers/registry", []string{"troupe/protocol", "troupe/protocol/bounded", "troupe/providers", "troupe/providers/auth", "troupe/providers/discover"}, []string{"net/http", "os/exec"},
		"the registry knows models and keys, and speaks to no server"},
	{"troupe/providers/anthropic", []string{"troupe/protocol", "troupe/providers", "troupe/providers/wire"}, []string{"os", "os/exec"}, aWire},
	{"troupe/providers/openai", []string{"troupe/protocol", "troupe/providers", "troupe/providers/wire"}, []string{"os", "os/exec"}, aWire},
	{"troupe/providers/responses", []string{"troupe/protocol", "troupe/providers", "troupe/providers/wire"}, []string{"os", "os/exec"}, aWire},
	{"troupe/providers/google", []string{"troupe/protocol", "troupe/providers", "troupe/providers/wire"}, []string{"os", "os/exec"}, aWire},
	{"troupe/providers/bedrock", []string{"troupe/protocol", "troupe/providers", "troupe/providers/wire"}, []string{"os", "os/exec", "github.com/aws/..."}, aWire},
	{"troupe/providers/cloud", []string{"troupe/protocol", "troupe/protocol/bounded", "troupe/providers"}, []string{"os/exec"},
		"where credentials for clouds come from knows no wire and no model"},
	{"troupe/providers/catalog", nil, nil, "the catalogue is data"},
	{"troupe/providers/...", []string{"troupe/protocol", "troupe/protocol/bounded", "troupe/providers/..."}, []string{"github.com/asynkron/..."},
		"providers know models and nothing of sessions"},
	{"troupe/protocol/gitignore", nil, []string{"os", "os/exec", "net/..."},
		"an ignore file's rules mean one thing in every room, wherever they were read"},
	{"troupe/tools/search/regex", nil, []string{"os", "os/exec", "net/..."},
		"a pattern is a pure function of its text"},
	{"troupe/tools/search", []string{"troupe/protocol/bounded", "troupe/protocol/gitignore"}, []string{"os/exec", "net/..."},
		"looking through directories knows nothing of calls, processes or models"},
	{"troupe/tools/policy", nil, []string{"os", "os/exec", "net/...", "io"},
		"permission rules are a pure function of a call and what is configured"},
	{"troupe/tools/realpath", nil, []string{"os/exec", "net/...", "github.com/..."},
		"where a path leads is the same for rules and for tools"},
	{"troupe/tools/git", []string{"troupe/tools"}, []string{"os/exec", "net/...", "github.com/..."},
		"git is a binary that tools start; workspaces know nothing of tasks"},
	{"troupe/tools/testenv", nil, []string{"net/...", "testing"},
		"isolating tests needs nothing of ours, so that the tests of every package can have it"},
	{"troupe/tools", []string{"troupe/protocol", "troupe/protocol/bounded"}, []string{"net/http", "github.com/asynkron/..."},
		"tools know the machine they run on and nothing of sessions or models"},
	{"troupe/tools/extension", []string{"troupe/protocol", "troupe/protocol/extension", "troupe/tools"}, []string{"os/exec", "github.com/asynkron/..."},
		"extensions are run without knowing sessions; what they start, tools start"},
	{"troupe/tools/extension/bundle", nil, []string{"os/exec", "net/...", "github.com/asynkron/..."},
		"making one script of many files knows nothing of who runs it"},
	{"troupe/tools/extension/quick", nil, []string{"os", "os/exec", "net/...", "github.com/..."},
		"the engine knows values and time, nothing of files or extensions"},
	{"troupe/tools/extension/prelude", nil, []string{"os", "os/exec", "net/..."},
		"the prelude is text that the engine runs"},
	{"troupe/store", []string{"troupe/protocol", "troupe/protocol/bounded"}, []string{"os/exec", "net/http", "github.com/asynkron/..."},
		"the store knows files and nothing of who writes them"},
	{"troupe/store/config", []string{"troupe/protocol", "troupe/protocol/bounded", "troupe/protocol/gitignore"}, nil,
		"what people configure is read and never written, and knows nothing of sessions"},
	{"troupe/store/web", []string{"troupe/store/export"}, []string{"os", "os/exec", "net/..."},
		"the page is files; who serves them is another's matter"},
	{"troupe/store/...", []string{"troupe/protocol", "troupe/protocol/bounded", "troupe/protocol/gitignore", "troupe/store", "troupe/store/export"}, []string{"os/exec", "net/http", "github.com/asynkron/..."},
		"the store knows files and nothing of who writes them"},
	{"troupe/actors/kernel", []string{"troupe/actors/failpoint"}, []string{"os/exec", "net/http"},
		"the kernel runs actors and knows nothing of what they do"},
	{"troupe/actors/link", []string{"troupe/protocol", "troupe/actors/cluster", "troupe/actors/core", "troupe/store"}, []string{"os", "os/exec", "net/http"},
		"what connections and sessions tell each other: neither imports the other"},
	{"troupe/actors/worker", []string{"troupe/protocol", "troupe/actors/core", "troupe/actors/kernel", "troupe/actors/link", "troupe/providers", "troupe/tools", "troupe/store"},
		[]string{"os/exec", "net/http"},
		"a job knows what it needs to end, and no session"},
	{"troupe/actors/toolbox", []string{"troupe/protocol", "troupe/actors/core", "troupe/tools"},
		[]string{"os/exec", "net/http"},
		"tools are offered and run without a session"},
	{"troupe/actors/extension", []string{"troupe/protocol", "troupe/protocol/extension", "troupe/actors/core", "troupe/actors/kernel", "troupe/actors/toolbox",
		"troupe/actors/worker", "troupe/providers", "troupe/tools"},
		[]string{"os", "os/exec", "net/http"},
		"a session's extensions are spoken to here, whatever engine runs them; they may be providers"},
	{"troupe/actors/session", []string{"troupe/protocol", "troupe/protocol/bounded", "troupe/protocol/extension", "troupe/actors/cluster", "troupe/actors/core", "troupe/actors/extension", "troupe/actors/failpoint", "troupe/actors/kernel", "troupe/actors/link",
		"troupe/actors/toolbox", "troupe/actors/worker", "troupe/providers", "troupe/tools", "troupe/tools/git", "troupe/tools/policy", "troupe/tools/realpath", "troupe/store", "troupe/store/..."},
		[]string{"os/exec", "net/http"},
		"a session sees no connection, only the way to its clients"},
	{"troupe/actors/logins", []string{"troupe/protocol", "troupe/actors/kernel", "troupe/actors/link", "troupe/providers"},
		[]string{"os", "os/exec", "net/http"},
		"logins are led between connections and who makes them, and no session hears of it"},
	{"troupe/actors/relay", []string{"troupe/protocol", "troupe/actors/cluster", "troupe/actors/kernel", "troupe/actors/link"},
		[]string{"os", "os/exec", "net/..."},
		"a relay passes lines on and sees neither sessions nor what wires are made of"},
	{"troupe/actors/conn", []string{"troupe/protocol", "troupe/actors/cluster", "troupe/actors/core", "troupe/actors/failpoint", "troupe/actors/kernel", "troupe/actors/link", "troupe/actors/relay"},
		[]string{"os", "os/exec", "net/http"},
		"a connection sees no session, only where to send a command, and is given the codec of its client"},
	{"troupe/actors/remote", []string{"troupe/actors", "troupe/actors/cluster", "troupe/actors/cluster/peer", "troupe/actors/conn", "troupe/actors/kernel", "troupe/store/web"},
		[]string{"os/exec", "github.com/asynkron/..."},
		"who comes from outside becomes a connection, and sees nothing behind it"},
	{"troupe/actors", []string{"troupe/protocol", "troupe/actors/...", "troupe/providers", "troupe/tools", "troupe/store", "troupe/store/..."},
		[]string{"os/exec", "net/http", "troupe/actors/scenario/..."},
		"actors join the rooms, see providers only through the contract, and start processes only through tools"},
	{"troupe/actors/scenario/...", []string{"troupe/protocol", "troupe/protocol/...", "troupe/actors", "troupe/actors/...", "troupe/providers", "troupe/tools", "troupe/store", "troupe/store/..."},
		[]string{"os/exec", "net/http", "github.com/asynkron/..."},
		"tests of the whole daemon import the packages that it is made of, and reach actors through package actortest"},
	{"troupe/actors/cluster", nil, []string{"os", "os/exec", "net/...", "github.com/..."},
		"the log of a session that moves knows no engine, no file and no session"},
	{"troupe/actors/cluster/peer", []string{"troupe/actors/cluster"}, []string{"os/exec", "net/http"},
		"the wire between nodes knows certificates and lines, and nothing of what they say"},
	{"troupe/actors/cluster/clustertest", []string{"troupe/actors/cluster"}, []string{"os", "os/exec", "net/..."},
		"an engine knows the log it keeps, and nothing of sessions"},
	{"troupe/actors/cluster/postgres", []string{"troupe/actors/cluster"}, []string{"os/exec", "net/http", "github.com/asynkron/..."},
		"an engine knows the log it keeps, and nothing of sessions"},
	{"troupe/actors/cluster/jetstream", []string{"troupe/actors/cluster"}, []string{"os/exec", "net/http", "github.com/asynkron/..."},
		"an engine knows the log it keeps, and nothing of sessions"},
	{"troupe/actors/failpoint", nil, nil, "fault plans know actors in general, not ours"},
	{"troupe/e2e/need", nil, []string{"github.com/..."}, "a test of any package may find that it cannot run"},
	{"troupe/e2e/harness", []string{"troupe/protocol/schema", "troupe/e2e/browser", "troupe/e2e/history", "troupe/e2e/need"},
		[]string{"github.com/asynkron/..."}, outside},
}

const outside = "the binary is tested from outside"

func init() {
	for _, part := range []string{"chaos", "compat", "extensions", "logins", "page", "process", "providers", "security", "serve", "sessions", "tasks", "wire"} {
		rules = append(rules, rule{"troupe/e2e/" + part, []string{"troupe/protocol", "troupe/protocol/schema", "troupe/protocol/schema/exampletest", "troupe/e2e/browser", "troupe/e2e/harness",
			"troupe/e2e/history", "troupe/e2e/need", "troupe/e2e/shape"}, []string{"github.com/asynkron/..."}, outside})
	}
}

// foreign says where a library may be imported at all.
var foreign = []struct {
	path string
	in   []string
	why  string
}{
	{"github.com/asynkron/protoactor-go/...", []string{"troupe/actors", "troupe/actors/kernel", "troupe/actors/link", "troupe/actors/worker", "troupe/actors/session", "troupe/actors/extension", "troupe/actors/conn", "troupe/actors/relay", "troupe/actors/logins",
		"troupe/actors/failpoint", "troupe/actors/actortest", "troupe/cmd/troupe"},
		"the actor library stays in the rooms of the actors, and out of core and toolbox; cmd sets its one global"},
	{"net/http", []string{"troupe/providers/wire", "troupe/providers/anthropic", "troupe/providers/openai", "troupe/providers/responses", "troupe/providers/google", "troupe/providers/bedrock", "troupe/providers/cloud", "troupe/providers/auth", "troupe/providers/discover",
		"troupe/providers/providertest", "troupe/actors/remote", "troupe/tools/extension", "troupe/e2e/...", "troupe/cmd/troupe"},
		"only providers talk to the network, extensions by fetch, and clients by the listener"},
	{"github.com/coder/websocket/...", []string{"troupe/actors/remote", "troupe/tools/extension", "troupe/e2e/bench", "troupe/e2e/browser"}, "WebSockets are for clients, for extensions, and for who measures and tests them"},
	{"github.com/jackc/...", []string{"troupe/actors/cluster/postgres"}, "an engine's client has one door"},
	{"github.com/nats-io/...", []string{"troupe/actors/cluster/jetstream"}, "an engine's client has one door"},
	{"github.com/aws/...", []string{"troupe/providers/cloud"}, "the clouds' libraries find credentials, and do nothing else"},
	{"github.com/Azure/...", []string{"troupe/providers/cloud"}, "the clouds' libraries find credentials, and do nothing else"},
	{"golang.org/x/oauth2/...", []string{"troupe/providers/cloud"}, "the clouds' libraries find credentials, and do nothing else"},
	{"modernc.org/...", []string{"troupe/tools/extension/quick"},
		"translated C has one door"},
	{"github.com/evanw/esbuild/...", []string{"troupe/tools/extension/bundle"},
		"the bundler has one door"},
	{"mvdan.cc/sh/...", []string{"troupe/tools/policy"},
		"the syntax of shells is read in one room"},
	{"os/exec", []string{"troupe/tools", "troupe/tools/testenv", "troupe/e2e/..."},
		"processes are started by tools"},
}

// unlinked are libraries that tests compare with and that are not to be in the program, where
// what they do as it starts would be for everybody who never uses them.
var unlinked = []struct{ path, why string }{
	{"troupe/tools/testenv", "tests only"},
	{"troupe/protocol/schema/exampletest", "tests only"},
}

// inTests says what the tests of a package may import besides.
var inTests = map[string][]string{
	"troupe/actors/core":             {"troupe/protocol/pi"}, // its stories have commands as clients write them
	"troupe/actors/conn":             {"troupe/protocol/pi"},
	"troupe/tools/policy":            {"troupe/tools/realpath"},                  // its rules are held against links on a disk
	"troupe/store/export":            {"troupe/e2e/browser"},                     // its pages are looked at in one
	"troupe/tools/extension/prelude": {"troupe/tools", "troupe/tools/extension"}, // its modules are tried in the engine
	"troupe/tools/extension":         {"troupe/actors/kernel"},                   // its process hears in turns
	"troupe/providers/wire":          {"troupe/providers/providertest"},
	"troupe/providers/anthropic":     {"troupe/providers/providertest"},
	"troupe/providers/openai":        {"troupe/providers/providertest"},
	"troupe/providers/responses":     {"troupe/providers/providertest"},
	"troupe/providers/google":        {"troupe/providers/providertest"},
	"troupe/providers/bedrock":       {"troupe/providers/providertest"},
	"troupe/providers/catalog":       {"troupe/protocol", "troupe/providers", "troupe/providers/registry"}, // what the registry makes of it
}

// testenvPath is the package that isolates the tests of a package from the machine.
const testenvPath = "troupe/tools/testenv"

func within(path string, list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		if tree, ok := strings.CutSuffix(p, "/..."); ok {
			return path == tree || strings.HasPrefix(path, tree+"/")
		}
		return path == p
	})
}

// TestImports holds the house to who may import whom. Tests may import more of
// the outside, never more of ours.
func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "troupe/...").Output()
	require.NoError(t, err)
	dec := json.NewDecoder(strings.NewReader(string(out)))
	var seen []string
	for dec.More() {
		var p pkg
		require.NoError(t, dec.Decode(&p))
		seen = append(seen, p.ImportPath)
		for _, r := range rules {
			if !within(p.ImportPath, []string{r.from}) {
				continue
			}
			for _, imp := range p.Imports {
				require.False(t, within(imp, r.never), "%s imports %s: %s", p.ImportPath, imp, r.why)
			}
			for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				if imp == "troupe/actors/actortest" && within(p.ImportPath, []string{"troupe/actors/..."}) && !slices.Contains(p.Imports, imp) {
					continue // the fake world is there for the tests of every room
				}
				if (imp == testenvPath || imp == "troupe/e2e/need") && !slices.Contains(p.Imports, imp) {
					continue // isolates the tests of any package, and skips those that a machine cannot run
				}
				if within(imp, []string{"troupe/..."}) && imp != p.ImportPath {
					require.True(t, within(imp, r.only) || within(imp, []string{p.ImportPath + "/..."}) ||
						!slices.Contains(p.Imports, imp) && within(imp, inTests[p.ImportPath]),
						"%s imports %s: %s", p.ImportPath, imp, r.why)
				}
			}
		}
		for _, f := range foreign {
			for _, imp := range p.Imports {
				require.False(t, within(imp, []string{f.path}) && !within(p.ImportPath, f.in), "%s imports %s: %s", p.ImportPath, imp, f.why)
			}
		}
	}
	for _, r := range rules { // a rule about nothing protects nothing
		require.True(t, slices.ContainsFunc(seen, func(p string) bool { return within(p, []string{r.from}) }), r.from)
	}
}

// TestLinkedImports: what is in the program, however it came there.
func TestLinkedImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "troupe/cmd/troupe").Output()
	require.NoError(t, err)
	linked := strings.Fields(string(out))
	require.Subset(t, linked, []string{"troupe/providers/cloud", "github.com/aws/aws-sdk-go-v2/config"})
	for _, path := range linked {
		for _, u := range unlinked {
			require.False(t, within(path, []string{u.path}), "%s is linked into the program: %s", path, u.why)
		}
	}
}

// TestTopLevel: the house has these rooms and no others.
func TestTopLevel(t *testing.T) {
	out, err := exec.Command("git", "-C", "../..", "ls-files").Output()
	require.NoError(t, err)
	allowed := []string{"cmd", "actors", "protocol", "providers", "tools", "store", "e2e", "docs", ".ci", "go.mod", "go.sum", "Makefile", "README.md", "LICENSE"}
	for line := range strings.Lines(string(out)) {
		top, _, _ := strings.Cut(strings.TrimSpace(line), "/")
		require.True(t, slices.Contains(allowed, top) || strings.HasPrefix(top, "."), "%s does not belong to the top level", top)
	}
}
