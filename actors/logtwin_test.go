package actors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/actors/core/logtwin"
	"troupe/protocol"
	"troupe/store"
	"troupe/store/storetest"
)

// requireTwin compares what the store says of a session file, at its end and at
// every entry before, with what the twin says on which the laws of the machine
// are tested. It is asked of every file that a test of the daemon has written.
func requireTwin(t require.TestingT, path string, content []byte) {
	disk := storetest.NewMem()
	require.NoError(t, disk.MkdirAll(filepath.Dir(path)))
	disk.WriteFile(path, content)
	log, err := store.OpenLog(disk, path, store.Options{})
	if err != nil { // torn at its beginning: there is no session in it
		return
	}
	defer log.Close()
	var file []protocol.Record
	for _, ref := range log.View().Refs() {
		r, err := log.View().Record(ref.ID)
		require.NoError(t, err)
		file = append(file, r)
	}
	step := 1 + len(file)/20
	for i := len(file); i > 0; i -= step {
		leaf := file[i-1].ID
		view, err := log.View().At(leaf)
		require.NoError(t, err)
		have, err := view.State()
		require.NoError(t, err)
		want := logtwin.Resume(file, leaf)
		require.Equal(t, text(want.Last), text(have.Last), "%s at %s: last message", path, leaf)
		have.Last, want.Last = nil, nil
		require.Equal(t, want, have.Resume, "%s at %s", path, leaf)
	}
}

func text(m protocol.Message) string {
	if m == nil {
		return ""
	}
	return string(m.AppendJSON(nil))
}

// TestTwinOfSamples: the two agree on sessions that pi and others have written.
func TestTwinOfSamples(t *testing.T) {
	samples, err := filepath.Glob("../store/testdata/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, samples)
	for _, path := range samples {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".jsonl"), func(t *testing.T) {
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			requireTwin(t, "/s/"+filepath.Base(path), content)
		})
	}
}
