package extension

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"troupe/actors/kernel"
	words "troupe/protocol/extension"
)

// BenchmarkHook measures a hook that one handler is asked, inside the process.
func BenchmarkHook(b *testing.B) {
	path := filepath.Join(b.TempDir(), "hook.ts")
	source := `export default (pi) => { pi.on("input", async (event) => event.text === "past" ? { action: "handled" } : undefined); }`
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		b.Fatal(err)
	}
	o := testOptions()
	turns := kernel.New()
	defer turns.Close()
	o.Turns = turns
	h := NewInline(o)
	defer h.Close()
	done := make(chan words.Said, 1)
	vm := h.Open(words.Spec{Cwd: b.TempDir(), Entries: []words.Entry{{Path: path}}}, func(s words.Said) {
		switch s.(type) {
		case words.Ready, words.Done:
			done <- s
		default:
		}
	})
	<-done
	vm.Say(words.Start{N: 1})
	event := json.RawMessage(`{"type":"input","text":"past","source":"rpc"}`)
	b.ReportAllocs()
	for id := uint64(2); b.Loop(); id += 2 {
		vm.Say(words.Call{ID: id, Event: event})
		if d, ok := (<-done).(words.Done); !ok || d.Result == nil {
			b.Fatal(d)
		}
	}
}
