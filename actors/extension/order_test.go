package extension

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol/extension"
)

// recorder is a virtual machine that notes in which order it is told things. Updates wait until it is let go.
type recorder struct {
	say  func(extension.Said)
	free chan struct{}

	mu    sync.Mutex
	heard []string
}

func (r *recorder) note(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, what)
}

func (r *recorder) Say(w extension.Word) {
	switch w := w.(type) {
	case extension.Update:
		<-r.free
		r.note("update")
	case extension.Appended:
		r.note("entry")
	case extension.Call:
		r.note("call")
		r.say(extension.Done{ID: w.ID})
	default:
	}
}

// recorded is its host.
type recorded struct{ vm *recorder }

func (h recorded) Open(_ extension.Spec, say func(extension.Said)) extension.VM {
	h.vm.say = say
	return h.vm
}
func (recorded) Close() error { return nil }

// TestJobsAskBehindEntries: a question of a job is heard behind the entries that were written before it,
// however long those are on their way: a handler must not see less of the session than there is.
func TestJobsAskBehindEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actor.NewActorSystem()
		tools, vm := NewTools(), &recorder{free: make(chan struct{})}
		pid := sys.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
			return New(zerolog.Nop(), recorded{vm}, extension.Spec{}, tools, 1)
		}))
		synctest.Wait()
		sys.Root.Send(pid, extension.Update{Snapshot: json.RawMessage(`{}`)})
		sys.Root.Send(pid, extension.Appended{Entry: json.RawMessage(`{}`)})
		answered := make(chan error, 1)
		go func() {
			_, err := tools.ask(t.Context(), map[string]any{"type": "session_before_compact"})
			answered <- err
		}()
		synctest.Wait()
		close(vm.free)
		require.NoError(t, <-answered)
		vm.mu.Lock()
		defer vm.mu.Unlock()
		assert.Equal(t, []string{"update", "entry", "call"}, slices.Clone(vm.heard))
	})
}
