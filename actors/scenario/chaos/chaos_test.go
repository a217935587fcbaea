package chaos

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/actortest"
	"troupe/actors/scenario/harness"
	"troupe/actors/session"
)

var (
	chaosSeed  = flag.Uint64("chaos.seed", 0, "run this seed only")
	chaosSeeds = flag.Int("chaos.seeds", envInt("TROUPE_CHAOS_SEEDS", 40), "how many seeds to run")
	chaosFree  = flag.Uint64("chaos.free", 2, "leave the interleaving of actors to the runtime in one of so many seeds; 0 for none")
	chaosFirst = flag.Uint64("chaos.first", 1, "the first of them")
)

func envInt(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// TestChaos runs random clients against random faults and judges the whole history. A seed
// determines the commands, the faults and which actor handles its next message. In every other seed
// the production scheduler picks the actor, whose goroutines also interleave within messages. A
// failure prints the seed and its plan; -chaos.seed runs it again.
func TestChaos(t *testing.T) {
	seeds := make([]uint64, 0, *chaosSeeds)
	for i := range *chaosSeeds {
		seeds = append(seeds, *chaosFirst+uint64(i))
	}
	if *chaosSeed != 0 {
		seeds = []uint64{*chaosSeed}
	}
	for _, group := range slices.Collect(slices.Chunk(seeds, max(1, len(seeds)/8))) {
		t.Run(fmt.Sprintf("seeds %d to %d", group[0], group[len(group)-1]), func(t *testing.T) {
			t.Parallel()
			for _, seed := range group {
				ok := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { playSeed(t, seed) })
				})
				if !ok {
					return
				}
			}
		})
	}
}

// chaos is one client of a seed.
type chaos struct {
	*harness.Client
	schedule *actortest.Schedule // nil leaves the interleaving to the runtime
	rng      *rand.Rand
	plan     chaosPlan
	sessions []string // handles
	marks    map[string]string
	draining map[string]bool // close_session was sent
	detached map[string]bool
	main     string   // the handle of the default session, "" if it is not used
	keys     []string // commands with an idempotency key, to send again
	crowd    *crowd
	drains   bool          // its runs finish when its input ends
	parted   bool          // its connection is ending, or will end when the daemon writes to it
	unheard  bool          // it sent a command that opens a session and has not seen the answer
	left     chan struct{} // closed when a further client's connection has ended
}

// chaosPlan holds the choices that a seed makes before the daemon starts.
type chaosPlan struct {
	faults   string // faults of actors
	disk     string // faults of the disk
	sessions int
	classic  bool // the first session is the connection's default session, which no command names
	steps    int
	confirm  bool
	features []string
	sync     bool
	dying    string // how the first daemon ends: "", kill or power
	dyingAt  int    // the half write at which it ends; see actortest.Disk.At
	lossy    bool
	park     time.Duration // idle time after which a session is parked; 0 for never
	output   int           // bytes that may be queued for the client; 0 for the default
	peers    int           // further connections
	children bool          // prompts may call the tool task
	limits   bool          // clients set budgets
	repeats  bool          // with peers: commands are sent again, and no session is replaced
}

func drawPlan(rng *rand.Rand, seed uint64) chaosPlan {
	p := chaosPlan{
		sessions: 1 + rng.IntN(3), steps: 5 + rng.IntN(45), confirm: rng.IntN(3) == 0, sync: rng.IntN(3) == 0,
	}
	var faults []string
	for range rng.IntN(4) {
		// Two equal faults would strike at the same message again after the restart.
		if f := drawFault(rng, seed); !slices.Contains(faults, f) {
			faults = append(faults, f)
		}
	}
	p.faults = strings.Join(faults, "; ")
	if rng.IntN(3) == 0 {
		p.disk = []string{
			"write *.jsonl p=0.05 EIO", "write *.jsonl p=0.1 ENOSPC", fmt.Sprintf("write *.jsonl #%d short=%d", 1+rng.IntN(30), rng.IntN(200)),
			fmt.Sprintf("write *.jsonl #%d+ ENOSPC", 1+rng.IntN(30)), "sync * p=0.1 EIO", "create * #1 EMFILE", "truncate * p=0.5 EIO; write *.jsonl p=0.1 short=7",
			"mkdir * #1 EACCES", "syncdir * p=0.2 EIO",
		}[rng.IntN(9)]
		p.disk = fmt.Sprintf("seed=%d; %s", seed, p.disk)
	}
	switch rng.IntN(4) {
	case 0:
		p.dying = "kill"
	case 1:
		p.dying = "power"
		p.lossy = !p.sync
	}
	p.dyingAt = rng.IntN(60)
	if rng.IntN(3) == 0 {
		p.park = time.Duration(1+rng.IntN(60)) * time.Second
	}
	if rng.IntN(3) == 0 {
		p.output = 200 + rng.IntN(5000)
	}
	if rng.IntN(3) == 0 {
		p.features = append(p.features, "parallelTools")
	}
	if rng.IntN(2) == 0 {
		p.features = append(p.features, "seq")
	}
	p.classic = rng.IntN(2) == 0
	if seed%3 == 0 {
		p.peers = 1 + rng.IntN(2)
		p.repeats = rng.IntN(2) == 0
	}
	p.children = rng.IntN(3) == 0
	p.limits = rng.IntN(3) == 0
	return p
}

// unlimited is the start of a command that removes the limits of a session.
const unlimited = `{"type":"set_budget","limits":{"maxTotalTokens":null,"maxToolCalls":null,"maxSubagents":null,"maxWallTimeMs":null}`

func drawFault(rng *rand.Rand, seed uint64) string {
	pick := func(list ...string) string { return list[rng.IntN(len(list))] }
	// Supervisors and connections do not survive repeated faults. The number is even, because an
	// odd message may be a second attempt at the one before.
	if rng.IntN(5) == 0 {
		return fmt.Sprintf("%s %q * %d", pick("Panic", "PanicAfter"), pick("sessions", "conn", "*/router", "*/writer"), 2*rng.IntN(30))
	}
	where := pick("s1", "s2", "s?", "s?", "s?/turn/*", "s?/tool/*", "s?/bash/*", "s?/retry", "s?/ui", "s?/sub/*", "*")
	action := pick("Panic", "Panic", "PanicAfter", "PanicAfter", fmt.Sprintf("Delay %dms", 1+rng.IntN(3000)), "Stall")
	// The connection's actors may only be slow: a crash of one ends the connection.
	if where == "*" {
		action = fmt.Sprintf("Delay %dms", 1+rng.IntN(50))
	}
	when := pick(fmt.Sprintf("* %d", rng.IntN(40)), fmt.Sprintf("* %g/%d", []float64{0.002, 0.01, 0.05}[rng.IntN(3)], seed))
	if where == "s1" || where == "s?" {
		point := pick(append([]string{"", ""}, harness.SessionPoints...)...)
		if point != "" {
			when = fmt.Sprintf("%s %d", point, rng.IntN(8))
		}
	}
	if action == "Stall" { // once: a session that stalls repeatedly does nothing else
		when = fmt.Sprintf("* %d", rng.IntN(60))
	}
	return fmt.Sprintf("%s %s %s", action, where, when)
}

// playSeed runs a daemon under faults, which may end suddenly, and then a daemon without faults on
// the files that the first one left.
func playSeed(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	plan := drawPlan(rng, seed)
	h := &actortest.History{}
	defer func() {
		if t.Failed() {
			t.Logf("\nreplay: go test ./actors/scenario/chaos -run TestChaos -chaos.seed=%d\nplan: %+v", seed, plan)
		}
	}()
	c := newChaos(rng, &crowd{})
	c.plan = plan
	c.crowd.all = []*chaos{c}
	if *chaosFree == 0 || seed%*chaosFree != 0 {
		c.schedule = actortest.NewSchedule(seed)
		defer func() {
			if t.Failed() {
				t.Log(c.schedule.Trace())
			}
		}()
		t.Cleanup(c.schedule.Stop) // after the cleanups that end the daemons
	}
	models := actortest.NewModels()
	c.Client = harness.StartWith(t, c.schedule, h, actortest.NewDisk(), models, harness.Faults(plan.faults), func(cfg *actors.Config) {
		cfg.Conn.Features, cfg.Sessions.ParkAfter, cfg.Conn.MaxOutput = plan.features, plan.park, plan.output
		if plan.children {
			harness.WithTasks(cfg)
		}
		if plan.confirm {
			cfg.Sessions.Confirm = []string{"danger"}
		}
		if plan.sync {
			cfg.Sessions.Durability = "sync"
		}
	})
	image := c.expectDeath()
	if plan.classic {
		c.useDefault()
	}
	for range plan.sessions {
		c.openAnother("")
	}
	for range plan.peers {
		// So that a client that opens a session has its expected handle before another connects.
		c.Advance(time.Second)
		c.crowd.join()
	}
	c.Disk.Fail(plan.disk)
	for range plan.steps {
		c.crowd.act()
	}
	select {
	case after := <-image:
		c.crowd.vanish()
		c.Abandon()
		h, disk := after.History, after.Disk
		h.Add(actortest.Killed, plan.dying)
		c.secondLife(t, h, disk, models)
		return
	default:
		c.Disk.At(-1, nil)
	}
	c.recover()
	c.End()
	c.crowd.ended()
	c.secondLife(t, h, c.Disk, models)
}

func newChaos(rng *rand.Rand, w *crowd) *chaos {
	return &chaos{rng: rng, crowd: w, marks: map[string]string{}, draining: map[string]bool{}, detached: map[string]bool{}}
}

// expectDeath takes an image of the disk at a certain write, together with the history until then.
// The second daemon starts from the image. Whatever the first daemon does after that write is
// ignored.
func (c *chaos) expectDeath() <-chan harness.Image {
	image := make(chan harness.Image, 1)
	if c.plan.dying == "" {
		return image
	}
	disk := c.Disk
	disk.At(c.plan.dyingAt, func() {
		h := c.History.Fork() // before the image: everything in the history has to be on the disk
		if c.plan.dying == "power" {
			image <- harness.Image{History: h, Disk: disk.PowerCut(uint64(c.plan.dyingAt))}
		} else {
			image <- harness.Image{History: h, Disk: disk.Killed()}
		}
	})
	return image
}

// useDefault makes the default session the first session. No command names it.
func (c *chaos) useDefault() {
	c.Send(`{"type":"get_state"}`)
	c.Advance(time.Millisecond)
	c.main = "s1"
	c.sessions = append(c.sessions, "")
	c.marks[""] = "~s1~"
	c.crowd.handles = append(c.crowd.handles, "s1")
}

// openAnother opens a session from a file, or a new one for an empty path.
func (c *chaos) openAnother(path string) {
	command := `{"type":"open_session","retain":true}`
	if path != "" {
		command = fmt.Sprintf(`{"type":"open_session","sessionPath":%q}`, path)
	}
	c.Send(command)
	c.Advance(time.Millisecond)
	c.know(fmt.Sprintf("s%d", len(c.sessions)+1))
}

func (c *chaos) text(session string) string {
	c.crowd.said++
	words := []string{
		"", "", "rounds=1", "rounds=2 calls=2", "rounds=1 calls=3 work=500", "rounds=1 tool=danger", "rounds=1 tool=boom calls=2",
		"rounds=1 tool=deaf work=5000", "fail=overloaded times=1", "fail=overloaded", "fail=auth", "stall", "cut", "panic", "parts=40 pace=20", "pace=300",
	}
	if c.plan.children {
		words = append(words, "tool=task rounds=1 children=2 each=rounds=1", "tool=task rounds=2 children=3 each=rounds=1,tool=danger",
			"tool=task rounds=1 each=stall", "tool=task rounds=1 children=2 each=parts=20,pace=50", "tool=task rounds=1 calls=2 each=rounds=1,work=500",
			"tool=task rounds=1 each=fail=auth", "tool=task rounds=1 each=panic", "tool=task rounds=1 children=2 each=tool=task,rounds=1,agent=helper,each=rounds=1")
	}
	return fmt.Sprintf("%s%d %s", c.marks[session], c.crowd.said, words[c.rng.IntN(len(words))])
}

// act is one random step of a client.
func (c *chaos) act() {
	s := c.sessions[c.rng.IntN(len(c.sessions))]
	pick := func(list ...string) string { return list[c.rng.IntN(len(list))] }
	send := func(command string) { c.Send(`{"type":"` + command + harness.At(s) + `}`) }
	switch c.rng.IntN(34) {
	case 0, 1, 2, 3:
		c.Say(s, "prompt", c.text(s))
	case 4, 5:
		c.Say(s, "prompt", c.text(s), `"streamingBehavior":"`+pick("steer", "followUp")+`"`)
	case 6, 7, 8:
		c.Say(s, "steer", c.text(s))
	case 9, 10:
		c.Say(s, "follow_up", c.text(s))
	case 11:
		c.Say(s, "queue_message", c.text(s))
	case 12, 13:
		send(`abort"`)
	case 14:
		c.Say(s, "abort_and_prompt", c.text(s))
	case 15:
		send(`clear_queue"`)
	case 16:
		send(pick("set_steering_mode", "set_follow_up_mode") + `","mode":"` + pick("all", "one-at-a-time") + `"`)
	case 17:
		send(`set_interrupt_mode","mode":"` + pick("immediate", "wait") + `"`)
	case 18:
		send(pick(`get_state"`, `get_messages"`, `get_session_stats"`, `get_last_assistant_text"`, `get_commands"`,
			`get_entries"`, `get_tree"`, `get_session_tree"`, `get_fork_messages"`))
	case 19:
		send(pick(`set_model","provider":"acme","modelId":"thinker"`, `cycle_model"`, `cycle_thinking_level"`, `set_session_name","name":"n"`, `abort_retry"`))
	case 20:
		c.Line(pick(`{`, `[]`, `{"type":"nonsense"}`, ``, `{"id":7}`, "\x00"))
	case 21, 22:
		c.AnswerDialogs(s, c.rng.IntN(3) > 0)
	case 23:
		c.Stop()
	case 24:
		c.Go()
	case 25:
		c.Crawl(time.Duration(1+c.rng.IntN(20)) * time.Millisecond)
	case 26:
		if c.plan.peers == 0 || c.plan.repeats {
			c.repeat(s)
		}
	case 27:
		c.Send(`{"type":"list_open_sessions"}`)
	case 28:
		if c.rng.IntN(3) == 0 && !c.plan.repeats {
			c.keys = nil // they belong to a session
			send(`new_session"`)
		} else {
			send(`reload_resources"`)
		}
	case 29:
		if s != "" && c.rng.IntN(3) == 0 && !c.crowd.isDefault(s) {
			c.Send(fmt.Sprintf(`{"type":"close_session","sessionId":%q,"mode":%q}`, s, pick("drain", "abort")))
			c.draining[s] = true
		}
	case 30:
		cmd := pick("", "", "sleep=700", "sleep=3000 out=20", "sleep=5000 deaf", "exit=3", "missing")
		c.crowd.said++
		c.Send(fmt.Sprintf(`{"type":"bash","command":"%sb%d %s","excludeFromContext":%t%s}`, c.marks[s], c.crowd.said, cmd, c.rng.IntN(3) == 0, harness.At(s)))
	case 31:
		send(`abort_bash"`)
	case 32:
		if s == "" {
			break
		}
		if c.detached[s] = !c.detached[s]; c.detached[s] {
			send(`detach"`)
		} else {
			send(`attach"`)
		}
	case 33:
		if c.plan.limits {
			send(`set_budget","limits":{` + pick(`"maxTotalTokens":40`, `"maxToolCalls":3`, `"maxSubagents":1`, `"maxWallTimeMs":900`, `"maxCostUsd":null`,
				`"maxTotalTokens":null,"maxToolCalls":null,"maxSubagents":null,"maxWallTimeMs":null`) + `}`)
		}
	}
	switch c.rng.IntN(6) {
	case 0:
		c.Settle()
	case 3:
		if c.schedule != nil { // the next step happens in the middle of the handling
			c.schedule.Steps(1 + c.rng.IntN(30))
		}
	case 1:
		time.Sleep(time.Duration(c.rng.IntN(50)) * time.Millisecond)
	case 2:
		c.Advance(time.Duration(c.rng.IntN(10000)) * time.Millisecond)
	}
}

// repeat sends a message with an idempotency key, or sends an earlier one again.
func (c *chaos) repeat(s string) {
	if len(c.keys) > 0 && c.rng.IntN(2) == 0 {
		c.Send(c.keys[c.rng.IntN(len(c.keys))])
		return
	}
	id := c.Say(s, "follow_up", c.text(s), fmt.Sprintf(`"idempotencyKey":"k%d"`, c.crowd.said))
	c.keys = append(c.keys, c.Command(id))
}

// recover removes the faults and checks that all commands are answered and all sessions work.
func (c *chaos) recover() {
	c.Config.Faults.Release()
	c.Disk.Fail("")
	c.crowd.readOn()
	c.Advance(time.Hour)
	c.crowd.bury()
	for _, m := range c.crowd.all {
		m.calm()
	}
	c.Advance(time.Hour)
	for _, m := range c.crowd.all {
		require.Empty(c.T, m.Unanswered(), "L1\n%s", c.History.Last(100))
	}
	for _, m := range c.crowd.all {
		for _, s := range m.sessions {
			m.revive(s)
		}
	}
	c.crowd.restarts()
	c.crowd.takeLeave()
}

// calm ends all activity in the sessions of a client.
func (c *chaos) calm() {
	for _, s := range c.sessions {
		if c.detached[s] || s != "" && c.plan.peers > 0 {
			c.Send(`{"type":"attach"` + harness.At(s) + `}`)
		}
		c.AnswerDialogs(s, true)
		c.Send(`{"type":"abort"` + harness.At(s) + `}`)
		if c.plan.limits {
			c.Send(unlimited + harness.At(s) + `}`)
		}
		c.Send(`{"type":"clear_queue"` + harness.At(s) + `}`)
		if c.draining[s] { // it accepts no more commands, and its run may never end
			c.Send(fmt.Sprintf(`{"type":"close_session","sessionId":%q,"mode":"abort"}`, s))
		}
	}
}

// revive checks law L5: an open session completes a prompt.
func (c *chaos) revive(s string) {
	id := c.Say(s, "prompt", fmt.Sprintf("%s last words of a healthy life%s", c.marks[s], strings.Repeat("!", c.Conn)))
	c.Advance(time.Hour)
	v := c.Answer(c.T, id)
	switch harness.Code(v) {
	case "unknown_session":
		require.NotContains(c.T, c.OpenSessions(), s, "L5")
	case "session_failed":
		require.Greater(c.T, c.Crashes(cmp.Or(s, c.main)), session.MaxRestarts, "L5: given up too early")
	default:
		require.True(c.T, v.Get("success").Bool(), "L5: %s\n%s", v.Raw, c.History.Last(100))
		settled := c.Events(s, "agent_settled")
		require.NotEmpty(c.T, settled, "L5\n%s", c.History.Last(100))
		require.Equal(c.T, "completed", settled[len(settled)-1].Get("outcome").Str, "L5\n%s", c.History.Last(100))
	}
}

// restarts checks law S12: sessions crashed exactly as often as faults made them crash.
func (w *crowd) restarts() {
	c := w.all[0]
	told := map[string]int{}
	for _, hit := range c.Config.Faults.Hits() {
		if strings.HasPrefix(hit.Fault, "Panic") {
			told[hit.Actor]++
		}
	}
	for _, s := range w.handles {
		require.Equal(c.T, told[s], c.Crashes(s), "S12: crashes of %s\n%s", s, c.History.Last(60))
	}
}

// secondLife starts a daemon without faults, opens every file again and completes a prompt in each.
// Then it judges the whole history.
func (c *chaos) secondLife(t *testing.T, h *actortest.History, disk *actortest.Disk, models *actortest.Models) {
	disk.Fail("")
	before := disk.Files()
	d := newChaos(c.rng, &crowd{})
	d.Client = harness.StartWith(t, c.schedule, h, disk, models, func(cfg *actors.Config) {
		cfg.Conn.MultiSession, cfg.Sessions.Confirm = true, c.Config.Sessions.Confirm
	})
	for path := range before {
		d.openAnother(path)
		s := d.sessions[len(d.sessions)-1]
		if d.marks[s] = harness.Canary(string(before[path])); d.marks[s] == "" {
			d.marks[s] = fmt.Sprintf("~new%d~", len(d.sessions))
		}
		opened := d.Last("open_session")
		if !opened.Get("success").Bool() {
			require.True(t, c.plan.dying == "power" && c.plan.lossy, "%s cannot be opened: %s\n%s\n%s", path, opened.Raw, before[path], h.Last(200))
			continue
		}
		if c.plan.limits { // limits are kept in the file
			d.Send(unlimited + harness.At(s) + `}`)
		}
		id := d.Say(s, "prompt", fmt.Sprintf("%s after all of %d", d.marks[s], len(d.sessions)))
		d.AdvanceApproving(s, time.Hour)
		require.True(t, d.Answer(t, id).Get("success").Bool(), "L5: %s", d.Answer(t, id).Raw)
	}
	d.End()
	after := disk.Files()
	for path := range before {
		require.True(t, actortest.Grown(before[path], after[path]) || c.plan.lossy, "S6: %s did not only grow", path)
	}
	d.Judge(actortest.Options{Files: after, Lossy: c.plan.lossy, Free: !c.plan.confirm, Mixed: true, Defaults: c.crowd.defaults(), Scarred: strings.Contains(c.plan.disk, "truncate")})
	letters := slices.DeleteFunc(c.Watch.Letters(), func(l string) bool {
		// Its client left, and the writer ended with it.
		return c.plan.dying != "" && strings.HasPrefix(l, "Records to ")
	})
	require.Empty(t, letters, "%s", h.Last(80))
}
