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

var rules = []rule{
	{"troupe/protocol", nil, []string{"os/exec", "net/http", "github.com/asynkron/..."},
		"protocol is the vocabulary: everything imports it, it imports nothing of ours"},
	{"troupe/protocol/bounded", nil, []string{"os/exec", "net/...", "github.com/..."},
		"every room reads files of others through it"},
	{"troupe/actors/session", []string{"troupe/protocol"},
		[]string{"os", "io", "net/...", "sync/...", "sync", "os/exec", "context", "github.com/asynkron/...", "github.com/rs/..."},
		"the machine is a pure function: no files, clocks, goroutines, locks, loggers or actors"},
	{"troupe/providers", []string{"troupe/protocol", "troupe/protocol/bounded", "troupe/providers/..."}, []string{"github.com/asynkron/..."},
		"providers know models and nothing of sessions"},
	{"troupe/providers/...", []string{"troupe/protocol", "troupe/protocol/bounded", "troupe/providers/..."}, []string{"github.com/asynkron/..."},
		"providers know models and nothing of sessions"},
	{"troupe/tools", []string{"troupe/protocol", "troupe/protocol/bounded"}, []string{"net/http", "github.com/asynkron/..."},
		"tools know the machine they run on and nothing of sessions or models"},
	{"troupe/store", []string{"troupe/protocol"}, []string{"os/exec", "net/http", "github.com/asynkron/..."},
		"the store knows files and nothing of who writes them"},
	{"troupe/store/...", []string{"troupe/protocol", "troupe/protocol/bounded", "troupe/store"}, []string{"os/exec", "net/http", "github.com/asynkron/..."},
		"the store knows files and nothing of who writes them"},
	{"troupe/actors", []string{"troupe/protocol", "troupe/protocol/bounded", "troupe/actors/...", "troupe/providers", "troupe/tools", "troupe/store", "troupe/store/..."},
		[]string{"os/exec", "net/http"},
		"actors join the rooms, see providers only through the contract, and start processes only through tools"},
	{"troupe/actors/failpoint", nil, nil, "fault plans know actors in general, not ours"},
	{"troupe/e2e", []string{"troupe/protocol"}, []string{"github.com/asynkron/..."},
		"the binary is tested from outside"},
}

// foreign says where a library may be imported at all.
var foreign = []struct {
	path string
	in   []string
	why  string
}{
	{"github.com/asynkron/protoactor-go/...", []string{"troupe/actors", "troupe/actors/failpoint", "troupe/actors/actortest", "troupe/cmd/troupe"},
		"the actor library stays in the room of the actors; cmd sets its one global"},
	{"net/http", []string{"troupe/providers", "troupe/providers/...", "troupe/e2e", "troupe/e2e/...", "troupe/cmd/troupe", "troupe/cmd/troupe-bench"},
		"only providers talk to the network"},
	{"os/exec", []string{"troupe/tools", "troupe/e2e", "troupe/e2e/..."},
		"processes are started by tools"},
}

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
				if within(imp, []string{"troupe/..."}) && imp != p.ImportPath {
					require.True(t, within(imp, r.only) || within(imp, []string{p.ImportPath + "/..."}),
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
		require.True(t, slices.ContainsFunc(seen, func(p string) bool { return within(p, []string{r.from}) }) || strings.HasSuffix(r.from, "e2e"), r.from)
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
