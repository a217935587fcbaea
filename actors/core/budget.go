package core

import (
	"bytes"
	"math"

	"troupe/protocol"
)

// budget is what a session may use up, where something is limited: its pool, and
// what clients have been told of it.
type budget struct {
	pool
	set      protocol.BudgetLimits
	warned   [len(protocol.BudgetReasons)]bool
	exceeded protocol.BudgetReason // clients have been told; "" for nothing
	cut      bool                  // the run is being stopped because its time is over
	request  Attempt               // in flight; 0 for none
	since    int64                 // when the work began, epoch milliseconds; 0 between work
}

// budgetTimer names the timer of the time that work may take.
const budgetTimer = "budget"

// limits are those that count: of the settings, or of a client. Those that a client has
// once given the session count in any case.
func (m *Machine) limits() protocol.BudgetLimits {
	l := m.set.Budget.Limits
	switch {
	case m.choices.limits != nil:
		l = *m.choices.limits
	case m.draws != DrawsOwn: // the settings limit the whole tree
		l = protocol.BudgetLimits{}
	}
	if m.kept != nil {
		l = l.Stricter(*m.kept)
	}
	return l
}

// restoreLimits makes what a client has set in an earlier process the choice of this one:
// it goes along to the sessions that take the place of this one.
func (m *Machine) restoreLimits() {
	if m.kept != nil {
		m.choices.limits = new(m.limits())
	}
}

// noteLimits has the log say which limits a client has brought along from another session.
func (m *Machine) noteLimits() {
	if m.choices.limits == nil {
		return
	}
	l := m.limits()
	if e := limitsEntry(&l); m.kept == nil || !bytes.Equal(e.Data, limitsEntry(m.kept).Data) {
		m.kept = &l
		m.note(e)
	}
}

func limitsEntry(l *protocol.BudgetLimits) protocol.Custom {
	return protocol.Custom{CustomType: protocol.CustomBudget, Data: encoded(protocol.BudgetOp{Op: protocol.BudgetOpLimits, Limits: l}, ownEntry)}
}

// keepLimits writes what a client has set.
func (m *Machine) keepLimits(l protocol.BudgetLimits) {
	was := &earlier{limits: m.choices.limits, set: m.limits(), budget: m.budget}
	m.choices.limits, m.kept = &l, &l
	m.add(Append{Entry: limitsEntry(&l), Durable: true, was: was})
	m.keepChoices(nil)
}

// Unlimited says that nothing is counted, for nothing is limited.
func (m *Machine) Unlimited() bool { return m.budget == nil }

// loadBudget begins with what the log of a session says was used up.
func (m *Machine) loadBudget(spent *protocol.BudgetSpent) {
	running := m.budget != nil && m.budget.since != 0
	m.budget = nil
	if limits := m.limits(); !limits.None() {
		m.budget = newBudget(spent)
		m.setLimits(limits)
	} else if running {
		m.do(CancelTimer{budgetTimer})
	}
}

func newBudget(spent *protocol.BudgetSpent) *budget {
	b := &budget{}
	if spent != nil {
		b.used = amountsOf(spent.Used)
		b.said(spent)
	}
	return b
}

// said takes on what clients have been told.
func (b *budget) said(spent *protocol.BudgetSpent) {
	b.warned, b.exceeded = [len(protocol.BudgetReasons)]bool{}, spent.Exceeded
	for i, reason := range protocol.BudgetReasons {
		for _, of := range spent.Warned {
			b.warned[i] = b.warned[i] || of == reason
		}
	}
}

// budgetUndone goes back to what clients have been told, where an entry that says so
// could not be written.
func (m *Machine) budgetUndone(spent *protocol.BudgetSpent) {
	if m.budget != nil && spent != nil {
		m.budget.said(spent)
	}
}

// limitsUndone goes back to the limits from before those that could not be written, and tells
// tasks so. What was used up is not read from the log: it knows of no work that goes on, and
// of nothing that is reserved.
func (m *Machine) limitsUndone(was *earlier) {
	m.choices.limits, m.budget = was.limits, was.budget
	if b := m.budget; b != nil {
		b.set, b.pool.limits = was.set, limitsOf(was.set)
	}
	m.tellTasks()
}

// setLimits makes limits those of the budget. Raising one begins anew with what
// clients are told.
func (m *Machine) setLimits(l protocol.BudgetLimits) {
	b := m.budget
	was := b.pool.limits
	first := b.set.None()
	b.set, b.pool.limits, b.lax = l, limitsOf(l), m.set.Budget.Lax
	raised := false
	for i := range was {
		raised = raised || !first && b.pool.limits[i] > was[i]
	}
	stays := b.exceeded != "" && !b.hasRoom(b.exceeded, m.clock())
	told := b.exceeded != ""
	for _, warned := range b.warned {
		told = told || warned
	}
	if told && !stays && (raised || b.exceeded != "") {
		b.said(&protocol.BudgetSpent{})
		m.noteBudget(protocol.BudgetOp{Op: protocol.BudgetOpCleared})
	}
}

// hasRoom says whether more of a dimension may be used.
func (b *budget) hasRoom(reason protocol.BudgetReason, now int64) bool {
	used := b.usedBy(now)
	for i, r := range protocol.BudgetReasons {
		if r == reason {
			return used[i] < b.pool.limits[i]
		}
	}
	return true
}

// limitsChanged takes on limits that settings or a client have changed. spent is what
// the file says, for a session that nothing has been counted of.
func (m *Machine) limitsChanged(spent *protocol.BudgetSpent) {
	limits := m.limits()
	switch {
	case limits.None() && m.budget != nil:
		if m.budget.since != 0 {
			m.do(CancelTimer{budgetTimer})
			m.noteWork(m.budget.usedBy(m.clock()), false)
		}
		m.budget = nil
	case limits.None():
	case m.budget == nil:
		m.budget = newBudget(spent)
		m.budget.used[toolCalls] += float64(m.callsBegun())
		m.budget.set = protocol.BudgetLimits{}
		m.setLimits(limits)
		if m.work.unsettled {
			m.startClock()
		}
	default:
		m.setLimits(limits)
		m.armClock()
	}
	m.tellTasks()
	m.checkBudget()
	if m.budget != nil {
		m.hand(m.budget.next())
	}
}

// setBudget changes the limits on a client's command.
func (m *Machine) setBudget(c Command, s protocol.SetBudget) {
	limits, err := protocol.ParseBudgetLimits(m.limits(), s.Limits)
	if err != nil {
		m.fail(c, protocol.CodeInvalidParams.Errorf("%s", err))
		return
	}
	if err := PriceError(m.model, m.budgetSettings(limits)); err != nil {
		m.fail(c, err)
		return
	}
	m.keepLimits(limits)
	m.limitsChanged(c.Spent)
	m.reply(c, m.budgetReport())
}

// budgetReport is the answer to get_budget.
func (m *Machine) budgetReport() protocol.BudgetReport {
	b := m.budget
	if b == nil {
		return protocol.BudgetReport{Snapshot: protocol.BudgetSnapshot{Status: protocol.BudgetOK}, Warned: []protocol.BudgetReason{}}
	}
	why := m.exhausted()
	report := protocol.BudgetReport{Limits: b.set, Snapshot: m.snapshot(why), Warned: []protocol.BudgetReason{}, Exceeded: why}
	for i, warned := range b.warned {
		if warned {
			report.Warned = append(report.Warned, protocol.BudgetReasons[i])
		}
	}
	if len(b.held) > 0 {
		report.Reserved = new(b.reserved().used())
	}
	return report
}

// budgetState is the part of get_state, nil where nothing is limited.
func (m *Machine) budgetState() *protocol.BudgetState {
	if m.budget == nil {
		return nil
	}
	return &protocol.BudgetState{Limits: m.budget.set, Snapshot: m.snapshot(m.exhausted())}
}

// snapshot is what has been used up.
func (m *Machine) snapshot(reason protocol.BudgetReason) protocol.BudgetSnapshot {
	b := m.budget
	status := protocol.BudgetOK
	for _, warned := range b.warned {
		if warned {
			status = protocol.BudgetWarned
		}
	}
	if m.exhausted() != "" {
		status = protocol.BudgetStopped
	}
	s := b.usedBy(m.clock()).used().Snapshot(status, reason)
	s.Unpriced = b.set.MaxCostUSD != nil && m.model != nil && !priced(m.model)
	return s
}

// usedBy is what has been used up at a moment, the work that goes on included.
func (b *budget) usedBy(now int64) amounts {
	used := b.used
	if b.since != 0 {
		used[wallTime] += float64(max(0, now-b.since))
	}
	return used
}

// exhausted is why the next prompt would be refused, "" if it would not: what clients have been
// told or, of a session that was opened beyond its limits, are told as soon as they ask for more.
func (m *Machine) exhausted() protocol.BudgetReason {
	if i := m.budget.spent(); m.budget.exceeded == "" && i >= 0 && !m.work.unsettled {
		return protocol.BudgetReasons[i]
	}
	return m.budget.exceeded
}

// noteBudget writes what became of the budget, before anybody is told.
func (m *Machine) noteBudget(op protocol.BudgetOp) { m.appendOwn(protocol.CustomBudget, op) }

// checkBudget tells clients what is nearly used up, and what is.
func (m *Machine) checkBudget() {
	b := m.budget
	if b == nil || b.exceeded != "" {
		return
	}
	used := b.usedBy(m.clock())
	for i, limit := range b.pool.limits {
		if used[i] >= limit && (!counted(i) || limit == 0) {
			m.exceed(i)
			return
		}
	}
	ratio := m.set.Budget.WarnAtRatio
	for i, limit := range b.pool.limits {
		if b.warned[i] || math.IsInf(limit, 1) || ratio <= 0 || used[i] < ratio*limit {
			continue
		}
		b.warned[i] = true
		reason := protocol.BudgetReasons[i]
		m.noteBudget(protocol.BudgetOp{Op: protocol.BudgetOpWarned, Reason: reason})
		m.emit(protocol.BudgetWarning{Scope: budgetOfSession, Snapshot: m.snapshot(reason)})
	}
}

// budgetOfSession is the scope of what is said about a session as a whole.
const budgetOfSession = "session"

// exceed says that a limit is reached. Nothing is sent to a model any more.
func (m *Machine) exceed(dimension int) {
	b := m.budget
	b.exceeded = protocol.BudgetReasons[dimension]
	m.noteBudget(protocol.BudgetOp{Op: protocol.BudgetOpExceeded, Reason: b.exceeded})
	m.emit(protocol.BudgetExceeded{Scope: budgetOfSession, Snapshot: m.snapshot(b.exceeded)})
	if b.stopsTasks() != "" {
		m.hand(b.deny())
	}
}

// stopsTasks is why tasks that have begun may send nothing to a model any more, "" if they
// may: that there are to be no more of them ends none. Beyond that limit others still hold.
func (b *budget) stopsTasks() protocol.BudgetReason {
	if b.exceeded != protocol.BudgetSubagents {
		return b.exceeded
	}
	if i := b.spent(); i >= 0 {
		return protocol.BudgetReasons[i]
	}
	return ""
}

// overBudget is why nothing may be sent to a model, "" if something may.
func (m *Machine) overBudget() protocol.BudgetReason {
	if m.budget == nil {
		return ""
	}
	return m.budget.exceeded
}

// cutBy is why the run is being stopped, "" if a budget is not the reason.
func (m *Machine) cutBy() protocol.BudgetReason {
	if m.budget == nil || !m.budget.cut {
		return ""
	}
	return m.budget.exceeded
}

// refusedByBudget refuses a command that would send something to a model, and says
// whether it has.
func (m *Machine) refusedByBudget(c Command) bool {
	m.checkBudget()
	why := m.overBudget()
	if why != "" {
		m.fail(c, refusedByBudget(why))
	}
	return why != ""
}

func refusedByBudget(why protocol.BudgetReason) *protocol.Error {
	return protocol.CodeBudgetExceeded.Errorf("Session budget exceeded (%s)", string(why))
}

// need is what an answer may cost: as much as the model may write, after all that it
// is shown, at the price of what no cache has.
func (m *Machine) need() protocol.BudgetUsed {
	u := protocol.Usage{Input: m.counts.input(m.size), Output: m.model.MaxTokens}
	if r := m.set.Budget.ReserveOutput; r > 0 {
		u.Output = min(r, u.Output)
	}
	var used protocol.BudgetUsed
	used.Spend(m.model.Price(u))
	return used
}

// requestOver gives back what a request has reserved that is no longer the current
// one.
func (m *Machine) requestOver(current Attempt) {
	if b := m.budget; b != nil && b.request != 0 && b.request != current {
		b.settle(Ticket{N: int(b.request)}, amounts{})
		b.request = 0
	}
	if m.awaits != nil && m.awaits.ticket.N != int(current) {
		m.awaits = nil
	}
	if m.requested != 0 && m.requested != current {
		m.giveBack()
	}
}

// spendAnswer counts what an answer has cost. Where its provider did not say, it is
// what the answer looks like.
func (m *Machine) spendAnswer(msg *protocol.AssistantMessage) {
	b := m.budget
	if b == nil && m.draws == DrawsOwn {
		return
	}
	usage := msg.Usage
	if usage.TotalTokens == 0 && len(msg.Content) > 0 && m.model != nil {
		usage = m.model.Price(protocol.Usage{Input: m.size.Tokens, Output: protocol.EstimateTokens(msg)})
		if b != nil {
			var used protocol.BudgetUsed
			used.Spend(usage)
			m.noteBudget(protocol.BudgetOp{Op: protocol.BudgetOpUsed, Used: &used})
		}
	}
	m.spend(usage)
	if b == nil {
		return
	}
	m.checkBudget()
}

// spendLost counts a request that was cut off with its node. What its provider has counted nobody knows: it
// is what the model was shown.
func (m *Machine) spendLost() {
	if m.budget == nil {
		return
	}
	var used protocol.BudgetUsed
	usage := m.model.Price(protocol.Usage{Input: m.size.Tokens})
	used.Spend(usage)
	m.noteBudget(protocol.BudgetOp{Op: protocol.BudgetOpUsed, Used: &used})
	m.spend(usage)
	m.checkBudget()
}

// spendSummary counts what a summary has cost, if its provider said so.
func (m *Machine) spendSummary(usage *protocol.Usage) {
	if usage != nil && (m.budget != nil || m.draws != DrawsOwn) {
		m.spend(*usage)
		m.checkBudget()
	}
}

func (m *Machine) spend(usage protocol.Usage) {
	var used protocol.BudgetUsed
	used.Spend(usage)
	if b := m.budget; b != nil {
		b.settle(Ticket{N: int(b.request)}, amountsOf(used))
		b.request = 0
	}
	if m.draws != DrawsOwn {
		m.reported.Add(&used)
		m.giveBack()
	}
}

// spendCall counts a call of a tool that was announced.
func (m *Machine) spendCall() {
	if b := m.budget; b != nil {
		b.used[toolCalls]++
		m.checkBudget()
	}
}

// callsBegun counts the calls that have begun and whose results are in no log yet.
func (m *Machine) callsBegun() (n int) {
	if a, ok := m.activity.(*runningTools); ok {
		for _, c := range a.run.calls {
			if c.state != callWaiting && c.entry == "" {
				n++
			}
		}
	}
	return n
}

// callRefusedByBudget ends a call that is one too many, and says whether it was.
func (m *Machine) callRefusedByBudget(r *run, c *call) bool {
	b := m.budget
	if m.callBeyondAgent(r, c) || m.draws == DrawsAbove && m.callNotGranted(r, c) {
		return true
	}
	if b == nil {
		return false
	}
	tooMany := b.used[toolCalls] >= b.pool.limits[toolCalls]
	if tooMany && b.exceeded == "" {
		m.exceed(toolCalls)
	}
	why := b.exceeded
	switch {
	case tooMany:
		why = protocol.BudgetToolCalls
	case why == protocol.BudgetToolCalls, why != "" && c.Name == TaskTool:
	default:
		return false
	}
	m.announceCall(r, c)
	b.used[toolCalls]--
	m.noteBudget(protocol.BudgetOp{Op: protocol.BudgetOpUsed, Used: &protocol.BudgetUsed{ToolCalls: -1}}) // it will have a result
	m.finishCall(r, c, errorResult(why.Error()), true)
	return true
}

// childRefusedByBudget leaves an item out for which nothing is left, and says whether
// it has. It has neither begun nor ended.
func (m *Machine) childRefusedByBudget(c *call, it *item) bool {
	b := m.budget
	if b == nil {
		return false
	}
	if m.childTooMany() {
		m.exceed(subagents)
	}
	if b.exceeded == "" {
		return false
	}
	m.leaveOut(c, it, b.exceeded.Error())
	return true
}

// childTooMany says whether one more child is what exceeds the budget.
func (m *Machine) childTooMany() bool {
	b := m.budget
	return b != nil && b.exceeded == "" && b.used[subagents]+m.beginning() >= b.pool.limits[subagents]
}

// countChild counts a child that begins.
func (m *Machine) countChild() {
	if m.budget != nil {
		m.budget.used[subagents]++
	}
}

// beginning is how many items of the run are on their way to begin.
func (m *Machine) beginning() (n float64) {
	for _, c := range m.activity.inRun().calls {
		if c.tasks == nil {
			continue
		}
		for _, it := range c.tasks.items {
			switch it.state.(type) {
			case itemPreparing, itemOpening:
				n++
			default:
			}
		}
	}
	return n
}

// openedBeyondBudget leaves an item out whose session is open, and says whether it
// has: the budget has been used up meanwhile.
func (m *Machine) openedBeyondBudget(c *call, it *item) bool {
	if m.budget == nil || m.budget.stopsTasks() == "" {
		return false
	}
	why := m.budget.stopsTasks()
	m.leaveOut(c, it, why.Error())
	m.do(CloseChild{Attempt: m.activity.begun(), ID: it.id})
	m.leave(it, LeaveWorkspace{})
	return true
}

// leaveOut ends an item that has not begun.
func (m *Machine) leaveOut(c *call, it *item, why string) {
	m.tellTaskOfBudget(c)
	result := it.result()
	result.ExitCode, result.Aborted, result.AbortReason, result.Error = 1, true, abortedByBudget, why
	it.state = itemDone{result}
}

// abortedByBudget is the reason of items that a budget did not let go on.
const abortedByBudget = "budget_exceeded"

// tellTaskOfBudget tells clients, once for each call, that a budget ends some of its
// items.
func (m *Machine) tellTaskOfBudget(c *call) {
	if m.budget != nil && !c.tasks.overBudget {
		c.tasks.overBudget = true
		m.emit(protocol.BudgetExceeded{Scope: "task", Snapshot: m.snapshot(m.budget.exceeded), ToolCallID: c.ID})
	}
}

// spendChild counts what a child has cost since that was counted last. Where that is
// too much, children end with their next request.
func (m *Machine) spendChild(it *item, usage protocol.Usage) {
	it.usage = usage
	if m.budget == nil && m.draws == DrawsOwn {
		return
	}
	var used protocol.BudgetUsed
	used.Spend(usage)
	m.countSpent(it, amountsOf(used))
	m.checkBudget()
}

// stoppedByBudget is the result of a child that was stopped because of a budget.
func (m *Machine) stoppedByBudget(c *call, r protocol.TaskResult) protocol.TaskResult {
	if m.budget == nil || !c.tasks.overBudget || r.ExitCode == 0 {
		return r
	}
	if why := m.budget.stopsTasks(); why != "" {
		r.Aborted, r.AbortReason, r.Error = true, abortedByBudget, why.Error()
	}
	return r
}

// beginClock notes that work begins, unless it goes on.
func (m *Machine) beginClock() {
	if m.budget != nil && !m.work.unsettled {
		m.startClock()
	}
}

func (m *Machine) startClock() {
	m.budget.since = m.clock()
	m.noteWork(m.budget.used, true)
	m.armClock()
}

// clock returns milliseconds of a clock that is never set: that of the wall without the steps that
// were made since the machine exists. Durations are differences of it; times that are shown or logged
// are m.now.
func (m *Machine) clock() int64 { return m.now - m.stepped }

// apply takes a step of the clock out of all durations. The time worked so far is logged, since a reader of the
// log has only the times of its entries.
func (in ClockStepped) apply(m *Machine) {
	m.stepped += in.ByMs
	if b := m.budget; b != nil && b.since != 0 {
		m.noteWork(b.usedBy(m.clock()), true)
	}
}

// armClock sets the timer for the next moment at which the time of work matters.
func (m *Machine) armClock() {
	b := m.budget
	if b == nil || b.since == 0 || math.IsInf(b.pool.limits[wallTime], 1) {
		return
	}
	limit := b.pool.limits[wallTime]
	next := limit
	if warn := m.set.Budget.WarnAtRatio * limit; b.exceeded == "" && !b.warned[wallTime] && warn > 0 {
		next = warn
	}
	left := next - b.usedBy(m.clock())[wallTime]
	m.do(SetTimer{Name: budgetTimer, AfterMs: max(1, int64(math.Ceil(left)))})
}

// stopClock notes that the work is over.
func (m *Machine) stopClock() {
	b := m.budget
	if b == nil || b.since == 0 {
		return
	}
	b.used, b.since = b.usedBy(m.clock()), 0
	if !math.IsInf(b.pool.limits[wallTime], 1) {
		m.do(CancelTimer{budgetTimer})
	}
	m.noteWork(b.used, false)
}

// noteWork writes how long was worked, and whether work goes on: when the process dies
// meanwhile, the entries behind it say how far it had come. It is not worth a write of its own.
func (m *Machine) noteWork(used amounts, goesOn bool) {
	m.noteOwn(protocol.CustomBudget, protocol.BudgetOp{Op: protocol.BudgetOpActive, ActiveMs: int64(used[wallTime]), Working: goesOn})
}

// workWasCut has the log say how long the work was that ended with its process, so that what
// comes later does not count for it.
func (m *Machine) workWasCut(to Loaded) {
	if to.Working && to.Spent != nil {
		m.noteWork(amountsOf(to.Spent.Used), false)
	}
}

// apply looks at the clock: a run whose time is over ends now.
func (in TimerDue) apply(m *Machine) {
	if in.Name == tasksTimer {
		m.tasksDue()
		return
	}
	b := m.budget
	if in.Name != budgetTimer || b == nil || b.since == 0 {
		return
	}
	m.checkBudget()
	if b.usedBy(m.clock())[wallTime] < b.pool.limits[wallTime] { // where something else is used up, tasks and tools may still be at work
		m.armClock()
		return
	}
	b.cut = true
	m.stop(failed)
	b.cut = false
}

// budgetSettings are the settings with other limits.
func (m *Machine) budgetSettings(l protocol.BudgetLimits) protocol.BudgetSettings {
	set := m.set.Budget
	set.Limits = l
	return set
}

// priced says whether it is known what a model costs.
func priced(model *protocol.Model) bool {
	return model.Cost != protocol.ModelCost{} || model.ProviderConfig != nil && len(model.ProviderConfig.Tiers) > 0
}

// PriceError refuses a model without a known price, where limits need one; nil is
// fine.
func PriceError(model *protocol.Model, set protocol.BudgetSettings) *protocol.Error {
	if model == nil || model.Missing || priced(model) || !set.NeedsPrice() {
		return nil
	}
	return noPrice(model)
}

// Unpriced says whether what a model costs counts as nothing towards a limit of the cost, since
// it is not known.
func Unpriced(model *protocol.Model, limits protocol.BudgetLimits) bool {
	return model != nil && !model.Missing && !priced(model) && limits.MaxCostUSD != nil
}

// unpriced refuses a model without a known price, where the cost is limited.
func (m *Machine) unpriced(model *protocol.Model) *protocol.Error {
	if m.budget == nil {
		return nil
	}
	return PriceError(model, m.budgetSettings(m.budget.set))
}

func noPrice(model *protocol.Model) *protocol.Error {
	return protocol.CodeInvalidParams.Errorf("The cost of this session is limited, and it is not known what %s/%s costs.\n\n"+
		"Add its cost to models.json, choose another model, or set task.budget.requirePrice to false.", model.Provider, model.ID)
}
