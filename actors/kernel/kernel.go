package kernel

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/failpoint"
)

// Kernel is what every actor of a daemon is made with.
type Kernel struct {
	Log        zerolog.Logger
	Faults     *failpoint.Plan // nil injects none
	Dispatcher Dispatcher
}

// Dispatcher decides on which goroutine a mailbox or a job runs. The mailboxes
// are the actor library's, whoever dispatches them.
type Dispatcher interface {
	// Mailbox has the mailbox of an actor that is about to be spawned run by
	// this dispatcher.
	Mailbox() []actor.PropsOption
	// Schedule runs what has become ready, in the turn that is on or on another goroutine.
	Schedule(ready func())
	// Go runs a job that may take long on another goroutine.
	Go(job func())
	// Inline runs tell, and may then run the mailboxes that became ready by it
	// on the same goroutine. It returns false if that took too long: then
	// takeOver has been called on another goroutine, and the caller must not
	// read any further.
	Inline(tell, takeOver func()) (reads bool)
	// AtEnd has f done when the turn of Inline that is on is over, at once if none is.
	AtEnd(f func())
	// First runs f. In a turn of Inline the mailboxes that become ready by it are next.
	First(f func())
	// Inlining says whether the caller runs in the middle of Inline, so that
	// nobody reads input meanwhile. It may err.
	Inlining() bool
	// Close ends the goroutines that wait for work.
	Close()
}

// Props describes an actor whose children are not restarted when they crash. It
// is open to injected faults under its name, unless that is empty.
func (k *Kernel) Props(produce actor.Producer, name string) *actor.Props {
	options := append(k.Dispatcher.Mailbox(), actor.WithSupervisor(StopChildren))
	if k.Faults != nil && name != "" {
		options = append(options, actor.WithReceiverMiddleware(k.Faults.Middleware(name)))
	}
	return actor.PropsFromProducer(produce, options...)
}

// StopChildren is how actors supervise those who work for them: a crash ends the
// job, because nobody knows how much of it is done.
var StopChildren = actor.NewOneForOneStrategy(0, 0, func(any) actor.Directive { return actor.StopDirective })

// Crashed tells an actor to panic with the reason that a goroutine of it
// panicked with, so that its supervisor decides what becomes of it.
type Crashed struct{ Reason any }

// Go runs f on another goroutine for an actor. A panic there becomes the actor's,
// by [Crashed]: otherwise it would end the process.
func Go(root *actor.RootContext, self *actor.PID, f func()) {
	Beside(f, func(reason any) { root.Send(self, Crashed{reason}) })
}

// Beside runs f on a goroutine of no actor: that of a connection or a listener. A panic
// there ends f alone, and crashed hears its reason.
func Beside(f func(), crashed func(reason any)) {
	go guarded(f, crashed)
}

// Later is [Beside] when a time has passed, unless the timer is stopped.
func Later(d time.Duration, f func(), crashed func(reason any)) *time.Timer {
	return time.AfterFunc(d, func() { guarded(f, crashed) })
}

func guarded(f func(), crashed func(reason any)) {
	defer func() {
		if reason := recover(); reason != nil {
			crashed(reason)
		}
	}()
	f()
}

// Background does what takes long, as [Go], and sends the actor what comes out.
func Background(c actor.Context, work func() any) {
	root, self := c.ActorSystem().Root, c.Self()
	Go(root, self, func() { root.Send(self, work()) })
}

// After sends an actor a message when a time has passed, unless the timer is
// stopped.
func After(c actor.Context, d time.Duration, to *actor.PID, msg any) *time.Timer {
	root := c.ActorSystem().Root
	return time.AfterFunc(d, func() { root.Send(to, msg) })
}

// Lifecycle says whether a message is the actor library's own.
func Lifecycle(m any) bool {
	switch m.(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return true
	}
	return false
}
