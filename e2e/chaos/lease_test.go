package chaos

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/e2e/harness"
	"troupe/e2e/history"
)

// TestLeases checks leases of session files while several processes open them, close them and die.
// The operations must have an order in which a file never has two owners, is only refused while it
// has one, and is free once its owner is dead.
func TestLeases(t *testing.T) {
	t.Parallel()
	const processes, files, rounds = 3, 2, 25
	p := harness.NewPlace(t)
	var paths []string
	for range files {
		p.Model.Enqueue(harness.Text("hello"))
		d := p.Start()
		d.Prompt("hello")
		path, _ := d.SessionFile()
		paths = append(paths, path)
		d.Close()
	}
	l := &leases{begin: time.Now()}
	var all sync.WaitGroup
	for n := range processes {
		all.Go(func() { l.live(t, p, n, paths, rounds) })
	}
	all.Wait()
	opened, refused := 0, 0
	for _, op := range l.ops {
		if done, is := op.Output.(bool); is && done {
			opened++
		} else if is {
			refused++
		}
	}
	assert.Positive(t, opened)
	assert.Positive(t, refused, "nobody was ever in the way")
	assert.True(t, history.Leases(l.ops), "%+v", l.ops)
	t.Logf("%d opened, %d refused", opened, refused)
}

// leases records the operations of several processes with one clock.
type leases struct {
	begin time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// note executes an operation and records its start and end.
func (l *leases) note(op history.LeaseOp, do func() any) any {
	call := time.Since(l.begin)
	out := do()
	end := time.Since(l.begin)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, porcupine.Operation{Input: op, Call: int64(call), Output: out, Return: int64(end)})
	return out
}

func (l *leases) live(t *testing.T, p *harness.Place, n int, paths []string, rounds int) {
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	life := 0
	who := func() string { return fmt.Sprintf("%d.%d", n, life) }
	d := p.Start("--multi-session")
	mine := map[string]string{} // handles by path
	for range rounds {
		path := paths[rng.IntN(len(paths))]
		switch k := rng.IntN(10); {
		case k < 6:
			l.note(history.LeaseOp{Path: path, Who: who(), Do: "open"}, func() any {
				v := d.Call(fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path))
				if v.Get("success").Bool() {
					mine[path] = v.Get("data.sessionId").Str
					return true
				}
				assert.Equal(t, "session_in_use", v.Get("code").Str, v.Raw)
				return false
			})
		case k < 9:
			if handle := mine[path]; handle != "" {
				l.note(history.LeaseOp{Path: path, Who: who(), Do: "close"}, func() any {
					return assert.True(t, d.Call(fmt.Sprintf(`{"type":"close_session","sessionId":%q}`, handle)).Get("success").Bool())
				})
				delete(mine, path)
			}
		default:
			kill := time.Since(l.begin)
			require.NoError(t, d.Cmd.Process.Signal(syscall.SIGKILL))
			<-d.Exited
			for _, path := range paths {
				l.crashed(history.LeaseOp{Path: path, Who: who(), Do: "crash"}, kill)
			}
			life++
			clear(mine)
			d = p.Start("--multi-session")
		}
	}
}

func (l *leases) crashed(op history.LeaseOp, since time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, porcupine.Operation{Input: op, Call: int64(since), Output: "gone", Return: int64(time.Since(l.begin))})
}
