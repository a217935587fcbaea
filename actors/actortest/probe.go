package actortest

import (
	"log/slog"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// Probe is an actor that keeps what it is told. It stands in for the parent,
// client or child of the actor under test.
type Probe struct {
	PID *actor.PID

	mu       sync.Mutex
	messages []any
}

// Quiet keeps the actor system of a test from logging.
func Quiet() actor.ConfigOption {
	return actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) })
}

// NewProbe spawns a probe.
func NewProbe(sys *actor.ActorSystem) *Probe {
	p := &Probe{}
	p.PID = sys.Root.Spawn(actor.PropsFromFunc(p.receive))
	return p
}

// spawn asks a probe to be the parent of an actor.
type spawn struct {
	props *actor.Props
	pid   chan *actor.PID
}

// Spawn makes a child of the probe.
func (p *Probe) Spawn(sys *actor.ActorSystem, props *actor.Props) *actor.PID {
	pid := make(chan *actor.PID, 1)
	sys.Root.Send(p.PID, spawn{props, pid})
	return <-pid
}

func (p *Probe) receive(c actor.Context) {
	switch m := c.Message().(type) {
	case spawn:
		m.pid <- c.Spawn(m.props)
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.messages = append(p.messages, m)
	}
}

// Take returns what the probe was told since the last Take.
func (p *Probe) Take() []any {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := p.messages
	p.messages = nil
	return taken
}

// Expect returns the one message of type M among what the probe was told since
// the last Take.
func Expect[M any](t testing.TB, p *Probe) M {
	t.Helper()
	var found []M
	all := p.Take()
	for _, m := range all {
		if m, ok := m.(M); ok {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		var want M
		t.Fatalf("want one %T, got %#v", want, all)
	}
	return found[0]
}
