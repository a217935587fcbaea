package harness

import (
	"time"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/failpoint"
)

// Faults is an option: the daemon runs under a plan of faults; see [failpoint.Parse].
func Faults(plan string) func(*actors.Config) {
	return func(c *actors.Config) {
		p, err := failpoint.Parse(plan)
		if err != nil {
			panic(err)
		}
		c.Faults = p
	}
}

// ConfirmDanger is an option: a call of the tool "danger" needs consent.
func ConfirmDanger(c *actors.Config) { c.Sessions.Confirm = []string{"danger"} }

// SyncWrites is an option: every write to a session file is synced.
func SyncWrites(c *actors.Config) { c.Sessions.Durability = "sync" }

// ParkSoon is an option: a session is parked after two idle hours.
func ParkSoon(c *actors.Config) { c.Sessions.ParkAfter = 2 * time.Hour }

// WithTasks is an option: sessions have the tool "task", and so have children with the agent
// "helper".
func WithTasks(c *actors.Config) {
	c.Sessions.Default.Tools, c.Sessions.AgentDir = append([]string{"task"}, actortest.ToolNames...), AgentDir
}

// AskMode is an option: the permission mode of sessions is "ask".
func AskMode(c *actors.Config) { c.Sessions.PermissionMode = "ask" }

// SessionPoints are the messages and effects of a session at which faults are injected at random.
// The common ones are listed twice. A test of actors/scenario/supervision checks that each is
// reached.
var SessionPoints = []string{
	"Request", "StreamParts", "StreamEnd", "ToolDone", "Append", "Append", "Reply", "Reply", "Emit", "StartStream", "StartTool",
	"LoadSession", "ActivateSession", "Cancel", "AskUI", "StartChild", "TellChild", "ChildOpened", "ChildSettled",
}
