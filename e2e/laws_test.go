package e2e

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

// watched has a place keep the history of its daemons, one after the other, and of what models are
// asked, for [place.judge].
func (p *place) watched() {
	p.h = &history.History{}
	p.llm.mu.Lock()
	defer p.llm.mu.Unlock()
	p.llm.h = p.h
}

func (p *place) tell(kind history.Kind, line string) {
	if p.h != nil {
		p.h.Add(kind, line)
	}
}

// judge holds the history of a place, the session files and what else there is against the laws of
// tasks.
func (p *place) judge(o history.Options) {
	p.t.Helper()
	o.Files = map[string][]byte{}
	root := filepath.Join(p.agent(), "sessions")
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, ".jsonl") {
			o.Files[path], err = os.ReadFile(path)
			require.NoError(p.t, err)
		}
		return nil
	})
	found := slices.DeleteFunc(history.Check(p.h, o), func(wrong string) bool { return wrong[0] != 'T' })
	assert.Empty(p.t, found, "%s", p.h.Last(60))
}
