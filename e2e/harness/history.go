package harness

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/history"
)

// RecordHistory starts recording the history that [Place.CheckHistory] checks: the lines of all
// daemons of the place and the requests to its model server. The daemons must run one after
// another.
func (p *Place) RecordHistory() {
	p.history = &history.History{}
	p.Model.mu.Lock()
	defer p.Model.mu.Unlock()
	p.Model.history = p.history
}

// record adds a line to the history if one is being recorded.
func (p *Place) record(kind history.Kind, line string) {
	if p.history != nil {
		p.history.Add(kind, line)
	}
}

// CheckHistory checks the history and the session files against the invariants of tasks in package
// history.
func (p *Place) CheckHistory(o history.Options) {
	p.T.Helper()
	o.Files = map[string][]byte{}
	root := filepath.Join(p.AgentDir(), "sessions")
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, ".jsonl") {
			o.Files[path], err = os.ReadFile(path)
			require.NoError(p.T, err)
		}
		return nil
	})
	found := slices.DeleteFunc(history.Check(p.history, o), func(wrong string) bool { return wrong[0] != 'T' })
	assert.Empty(p.T, found, "%s", p.history.Last(60))
}
