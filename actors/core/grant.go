package core

import (
	"math"
	"strings"

	"troupe/protocol"
)

// A tree of sessions draws on one budget, that of its root. A session that is a task of
// another asks before each request to a model, before the calls of an answer and before
// each task of its own; what is between it and the root passes the question on, and the
// answer back. What a request has been given is given back with what it has cost, so that
// all requests in flight together pass a limit by one answer at most.

// Drawing is whose budget a session draws on.
type Drawing uint8

const (
	DrawsOwn    Drawing = iota // a root's, or of a task whose parent has left it
	DrawsFreely                // a task's, where nothing is limited above it
	DrawsAbove                 // a task's, where something is
)

// Ticket is what a question is known by to who has asked it.
type Ticket struct {
	Child string // the ids of tasks below who is told, with slashes between them; "" for its own
	N     int    // of a request to a model its attempt; below 0 of things that are counted
}

// below is the ticket as the parent of the session with an id knows it.
func (t Ticket) below(id string) Ticket {
	if t.Child != "" {
		id += "/" + t.Child
	}
	return Ticket{id, t.N}
}

// split is the task whose ticket it is, and the ticket as that knows it.
func (t Ticket) split() (id string, own Ticket) {
	id, rest, _ := strings.Cut(t.Child, "/")
	return id, Ticket{rest, t.N}
}

// of says whether it is a task's, or that of one below it.
func (t Ticket) of(id string) bool { return t.Child == id || strings.HasPrefix(t.Child, id+"/") }

// Grant is the answer to [AskGrant].
type Grant struct {
	Ticket Ticket
	N      int64  // how many of the things that are counted
	Denied string // why no more, "" for granted whole
}

// above is what a task has asked for of the budget that it draws on.
type above struct {
	requested Attempt     // a request to a model for which something may be reserved; 0 for none
	awaits    *budgetWait // nil for nothing
	calls     int64       // of tools, where its agent may make so many
	counts    TokenCounts // of requests since the machine exists; at first the parent's
}

// budgetWait is what waits for a [Grant].
type budgetWait struct {
	ticket Ticket
	effect Effect // a request to a model; nil for the calls of an answer
}

// limited says whether what the session uses up counts for a budget.
func (m *Machine) limited() bool { return m.budget != nil || m.draws == DrawsAbove }

// request has something sent to a model, as soon as a budget allows it; or it says why
// there is to be nothing. Work of the session's own meets no other in its pool: tasks are
// at work only while it waits for them.
func (m *Machine) request(attempt Attempt, e Effect) (why protocol.BudgetReason) {
	if most := m.callsOfAgent(); most != nil && m.calls > *most {
		return protocol.BudgetToolCalls
	}
	if b := m.budget; b != nil {
		m.checkBudget()
		if b.exceeded != "" {
			return b.exceeded
		}
		b.hold(Ticket{N: int(attempt)}, amountsOf(m.need()))
		b.request = attempt
	}
	if m.draws != DrawsAbove {
		m.do(e)
		return ""
	}
	m.requested = attempt
	m.await(Ticket{N: int(attempt)}, e)
	ask := AskGrant{Ticket: m.awaits.ticket, Need: m.need()}
	if !priced(m.model) {
		ask.Unpriced = m.model
	}
	m.do(ask)
	return ""
}

func (m *Machine) await(t Ticket, e Effect) { m.awaits = &budgetWait{t, e} }

// askCount asks for so many of what is counted.
func (m *Machine) askCount(need protocol.BudgetUsed) Ticket {
	m.tickets++
	t := Ticket{N: -m.tickets}
	m.do(AskGrant{Ticket: t, Need: need})
	return t
}

// apply goes on with what has waited for a budget, or ends it.
func (in Granted) apply(m *Machine) {
	if in.Ticket.Child != "" {
		m.passOn(in.Grant)
		return
	}
	if w := m.awaits; w != nil && w.ticket == in.Ticket {
		m.awaits = nil
		m.goOnWith(w, in.Grant)
		return
	}
	m.itemGranted(in.Grant)
}

// passOn gives a task the answer to its question.
func (m *Machine) passOn(g Grant) {
	id, own := g.Ticket.split()
	g.Ticket = own
	m.do(AnswerGrant{Attempt: m.activity.begun(), ID: id, Grant: g})
}

func (m *Machine) goOnWith(w *budgetWait, g Grant) {
	denied := protocol.CodeBudgetExceeded.Errorf("%s", g.Denied)
	switch a := m.activity.(type) {
	case *runningTools:
		a.run.allowance = &g
		m.runCalls(a.run)
	case *streaming:
		if g.Denied == "" {
			m.do(w.effect)
			return
		}
		m.breakOff(a.run, a.stream, protocol.StopError, g.Denied, ending{outcome: failed})
	case *compacting:
		if g.Denied == "" {
			m.do(w.effect)
			return
		}
		m.compactionOver(a, protocol.AutoCompactionEnd{}, denied)
	case *leavingBranch:
		if g.Denied == "" {
			m.do(w.effect)
			return
		}
		m.abandonSwitch(denied)
	case idle, *asking, *retrying, *activating:
	}
}

// callsOfAgent is how many calls of tools a child of an agent may make, nil for any number.
func (m *Machine) callsOfAgent() *int64 {
	if m.set.Child == nil {
		return nil
	}
	return m.set.Child.Self.Limits.MaxToolCalls
}

// callBeyondAgent ends a call that is more than the agent of a child may make, and says
// whether it was. Nothing follows the answer that it is of.
func (m *Machine) callBeyondAgent(r *run, c *call) bool {
	most := m.callsOfAgent()
	if most == nil {
		return false
	}
	if m.calls++; m.calls <= *most {
		return false
	}
	m.announceCall(r, c)
	m.finishCall(r, c, errorResult(protocol.BudgetToolCalls.Error()), true)
	return true
}

// callNotGranted ends a call that is one too many, and says whether it was.
func (m *Machine) callNotGranted(r *run, c *call) bool {
	g := r.allowance
	if g == nil { // asked for when nothing was limited
		return false
	}
	if g.N > 0 {
		g.N--
		return false
	}
	m.announceCall(r, c)
	m.finishCall(r, c, errorResult(g.Denied), true)
	return true
}

// itemGranted begins an item that has waited for its turn to count, or leaves it out.
func (m *Machine) itemGranted(g Grant) {
	var of *item
	r, c := m.findCall(func(c *call) bool {
		if c.tasks == nil {
			return false
		}
		for _, it := range c.tasks.items {
			if s, asks := it.state.(itemAsking); asks && s.ticket == g.Ticket {
				of = it
			}
		}
		return of != nil
	})
	if of == nil {
		return
	}
	if g.N == 0 {
		m.leaveOut(c, of, g.Denied)
	} else {
		m.beginItem(c, of)
	}
	m.goOn(r, c)
}

// apply answers the question of a task, or passes it on to who knows.
func (in GrantAsked) apply(m *Machine) {
	_, c, it := m.childCall(in.Attempt, in.ID)
	if it == nil { // it is being stopped
		return
	}
	t, b := in.Ask.Ticket.below(in.ID), m.budget
	if m.draws == DrawsAbove {
		m.do(AskGrant{Ticket: t, Need: in.Ask.Need, Unpriced: in.Ask.Unpriced})
		return
	}
	need := amountsOf(in.Ask.Need)
	if b == nil {
		m.passOn(Grant{Ticket: t, N: in.Ask.Need.ToolCalls + in.Ask.Need.Subagents})
		return
	}
	m.checkBudget()
	switch unpriced := m.unpriced(in.Ask.Unpriced); {
	case need[toolCalls] > 0: // of an answer that is there
		m.count(c, t, toolCalls, need[toolCalls])
	case b.exceeded != "" && need[subagents] > 0:
		m.deny(c, Grant{Ticket: t}, b.exceeded)
	case b.stopsTasks() != "":
		m.deny(c, Grant{Ticket: t}, b.stopsTasks())
	case unpriced != nil:
		m.passOn(Grant{Ticket: t, Denied: unpriced.Message})
	case need[subagents] > 0:
		m.count(c, t, subagents, need[subagents])
	case b.ask(t, need) == granted:
		m.passOn(Grant{Ticket: t})
	default: // it waits: what is reserved is given back some time
	}
}

// deny answers a question with what is used up.
func (m *Machine) deny(c *call, g Grant, why protocol.BudgetReason) {
	m.tellTaskOfBudget(c)
	g.Denied = why.Error()
	m.passOn(g)
}

// count gives as many of what is counted as there are.
func (m *Machine) count(c *call, t Ticket, dimension int, wanted float64) {
	b := m.budget
	taken := b.used[dimension]
	if dimension == subagents {
		taken += m.beginning()
	}
	given := math.Max(0, math.Min(wanted, math.Floor(b.pool.limits[dimension]-taken)))
	if given > 0 {
		var used amounts
		used[dimension] = given
		b.used.add(used, 1)
		m.noteBudget(protocol.BudgetOp{Op: protocol.BudgetOpUsed, Used: new(used.used())})
	}
	if given < wanted {
		if b.exceeded == "" {
			m.exceed(dimension)
		}
		m.deny(c, Grant{Ticket: t, N: int64(given)}, protocol.BudgetReasons[dimension])
		return
	}
	m.checkBudget()
	m.passOn(Grant{Ticket: t, N: int64(given)})
}

// hand gives tasks the answers for which they have waited.
func (m *Machine) hand(answers []answer) {
	for _, a := range answers {
		if a.verdict == granted {
			m.passOn(Grant{Ticket: a.Ticket})
			continue
		}
		id, _ := a.Ticket.split()
		if _, c, _ := m.childCall(m.activity.begun(), id); c != nil {
			m.deny(c, Grant{Ticket: a.Ticket}, m.budget.stopsTasks())
		}
	}
}

// apply takes back what a task was given, for what it has cost.
func (in ChildSpent) apply(m *Machine) {
	_, _, it := m.childCall(in.Attempt, in.ID)
	if it == nil {
		return
	}
	m.countSpent(it, amountsOf(in.Report.Used))
	t := in.Report.Ticket.below(in.ID)
	var next []answer
	switch b := m.budget; {
	case m.draws == DrawsAbove:
		m.do(ReportSpent{Ticket: t, All: in.Report.All, Used: m.reported})
	case b == nil:
	case in.Report.All:
		next = b.gone(t.Child)
	default:
		next = b.settle(t, amounts{})
	}
	m.checkBudget()
	m.hand(next)
}

// countSpent counts what a task has used up, and its own tasks with it. It is told of that
// in more than one way: what is known is the most of them.
func (m *Machine) countSpent(it *item, used amounts) {
	m.countMore(&it.spent, used)
}

// countMore counts what was used up and is not among what is known of it.
func (m *Machine) countMore(known *amounts, used amounts) {
	var more amounts
	for i := range more {
		if !counted(i) && i != wallTime && used[i] > known[i] {
			more[i], known[i] = used[i]-known[i], used[i]
		}
	}
	m.reported.Add(new(more.used()))
	if b := m.budget; b != nil {
		b.used.add(more, 1)
	}
}

// childOver ends all that a task was given or waits for: it makes no more requests.
func (m *Machine) childOver(it *item) {
	switch b := m.budget; {
	case m.draws == DrawsAbove:
		m.do(ReportSpent{Ticket: Ticket{Child: it.id}, All: true, Used: m.reported})
	case b != nil:
		m.hand(b.gone(it.id))
	}
}

// giveBack says what a request has cost that was asked for above.
func (m *Machine) giveBack() {
	if m.requested != 0 {
		m.do(ReportSpent{Ticket: Ticket{N: int(m.requested)}, Used: m.reported})
		m.requested = 0
	}
}

// apply says on whose budget a task draws from now on.
func (in Pooled) apply(m *Machine) {
	was := m.draws
	m.draws = in.Draws
	if was == m.draws {
		return
	}
	if was == DrawsAbove { // questions may come to a budget that has been set meanwhile
		m.requested = 0
		m.do(ReportSpent{All: true, Used: m.reported})
	}
	m.limitsChanged(in.Spent)
	if w := m.awaits; w != nil && m.draws != DrawsAbove {
		m.awaits = nil
		m.goOnWith(w, Grant{N: math.MaxInt64})
	}
}

// tellTasks tells the tasks at work whether there is anything to ask for, and what they may
// do unasked.
func (m *Machine) tellTasks() {
	m.eachTask(func(it *item) {
		if it.opened.ID != "" && !it.done() {
			m.tellLimited(it)
			m.tellMode(it)
		}
		if s, asks := it.state.(itemAsking); asks && !m.limited() {
			m.itemGranted(Grant{Ticket: s.ticket, N: 1})
		}
	})
}

// tellLimited tells a task whether it has to ask, unless it knows.
func (m *Machine) tellLimited(it *item) {
	if it.limited != m.limited() {
		it.limited = m.limited()
		m.do(LimitChild{Attempt: m.activity.begun(), ID: it.id, Draws: drawsBelow(it.limited)})
	}
}

// tellMode tells a task in which mode its calls are judged, unless it knows.
func (m *Machine) tellMode(it *item) {
	if it.mode != m.PermissionMode {
		it.mode = m.PermissionMode
		m.do(TellChild{Attempt: m.activity.begun(), ID: it.id, Cmd: protocol.SetPermissionMode{Mode: it.mode}})
	}
}

// drawsBelow is what a task draws on.
func drawsBelow(limited bool) Drawing {
	if limited {
		return DrawsAbove
	}
	return DrawsFreely
}
