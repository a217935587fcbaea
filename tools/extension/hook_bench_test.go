package extension

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"troupe/actors/kernel"
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
	done := make(chan Said, 1)
	vm := h.Open(Spec{Cwd: b.TempDir(), Entries: []Entry{{Path: path}}}, func(s Said) {
		switch s.(type) {
		case Ready, Done:
			done <- s
		default:
		}
	})
	<-done
	event := json.RawMessage(`{"type":"input","text":"past","source":"rpc"}`)
	b.ReportAllocs()
	for id := uint64(2); b.Loop(); id += 2 {
		vm.Say(Call{ID: id, Event: event})
		if d, ok := (<-done).(Done); !ok || d.Result == nil {
			b.Fatal(d)
		}
	}
}
