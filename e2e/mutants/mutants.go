package main

// mutant is a bug made on purpose: a piece of the source and what takes its
// place, and the tests that have to notice.
type mutant struct {
	name     string
	file     string
	old, new string // old occurs once in file
	test     []string
}

// The tests that notice: arguments of go test.
var (
	laws    = []string{"./actors/session"}
	shells  = []string{"./actors"}
	files   = []string{"./store"}
	configs = []string{"./store/resource"}
	models  = []string{"./providers"}
	ends    = []string{"./e2e", "-run", "TestAbortEnds|TestEOF"}
	pipes   = []string{"./e2e", "-run", "TestProcessSIGPIPE"}
	keys    = []string{"./e2e", "-run", "TestChildEnvironment|TestOwnEnvironment"}
	lines   = []string{"./protocol"}
	slash   = []string{"./e2e", "-run", "TestScripts/(steer|follow_up)$"}
	wires   = []string{"./providers/openai", "-run", "TestConformance"}
	words   = []string{"./providers", "-run", "TestErrorTexts"}
	forms   = []string{"./e2e", "-run", "TestShapes"}
	passes  = []string{"./e2e", "-run", "TestPassingFailure"}
)

// mutants are the bugs. Each was made by somebody once, here or elsewhere.
var mutants = []mutant{
	{"the terminal event is dropped", "actors/session/turn.go",
		"m.emit(protocol.AgentSettled{Aborted: outcome == aborted, Outcome: outcome, RunID: m.settle.last})", "", laws},
	{"acknowledged before it is written", "actors/session/prompt.go",
		"msg := m.accept(q)\n\tm.reply(c, protocol.Started)\n\tm.startRun(msg)",
		"m.reply(c, protocol.Started)\n\tmsg := m.accept(q)\n\tm.startRun(msg)", shells},
	{"a steer is lost when two wait", "actors/session/prompt.go",
		"*queue = slices.Delete(*queue, 0, n)", "*queue = slices.Delete(*queue, 0, min(2*n, len(*queue)))", laws},
	{"queued input is delivered last first", "actors/session/prompt.go",
		"*queue = append(*queue, q)\n\tundo", "*queue = append([]Queued{q}, *queue...)\n\tundo", laws},
	{"queued input is not on disk", "actors/session/prompt.go",
		"undo func()) {\n\tif m.set.Ephemeral {", "undo func()) {\n\tif true {", shells},
	{"a delivery does not leave the queue on disk", "actors/session/prompt.go", "QueueID: q.ID}", "}", shells},
	{"a command is answered twice after a crash", "actors/ledger.go", "delete(l.owed, seq)\n", "", shells},
	{"a run is not closed after a crash", "actors/session/restore.go",
		"if run != \"\" {\n\t\tsay(protocol.AgentEnd{", "if run == \"none\" {\n\t\tsay(protocol.AgentEnd{", shells},
	{"calls of a dead process get no results", "actors/session/restore.go", "dangling := m.dangling\n", "dangling := m.dangling[:0]\n", shells},
	{"memory runs ahead of the disk", "actors/session/restore.go", "if m.undo[i] != nil {", "if false {", shells},
	{"a result of an aborted run counts", "actors/session/turn.go",
		"func (m *Machine) streamEnd(in StreamEnd) {\n\tif in.Run != m.epoch || m.run", "func (m *Machine) streamEnd(in StreamEnd) {\n\tif m.run", laws},
	{"silence means yes", "actors/session/dialog.go", "if in.Confirmed {", "if in.Confirmed || in.Cancelled {", shells},
	{"run numbers are used again after a crash", "actors/session.go", "s.life.vitals, s.life.lived = s.m.Vitals(), true", "if !s.life.lived {\n\t\t\ts.life.vitals, s.life.lived = s.m.Vitals(), true\n\t\t}", shells},
	{"large answers pile up for who does not read", "actors/output.go", "func (s *Session) waits() bool { return len(s.output.answers) > 0 || s.full() }", "func (s *Session) waits() bool { return false }", shells},
	{"commands that waited for a slow client are forgotten", "actors/output.go", "s.take(c, m)", "_ = m", shells},
	{"small answers pile up for who does not read", "actors/window.go", "if w.closed || w.in+w.out < w.limit {", "if true {", shells},
	{"who waits for a window is not told", "actors/window.go", "w.waiting = append(w.waiting, pid)\n", "", shells},
	{"what is merged stays debited", "actors/writer.go", "w.window.give(debit - last.item.size)", "w.window.give(0 * debit)", shells},
	{"an update counts by its delta", "actors/output.go", "return recordSize + step + 2*o.message", "return recordSize + step", shells},
	{"a question that waited shows what came after it", "actors/answer.go", "answer := func(actor.Context) {\n\t\tdata, err := s.find(view, e)", "answer := func(actor.Context) {\n\t\tdata, err := s.find(s.file.View(), e)", shells},
	{"a closed session is not forgotten by the writer", "actors/writer.go", "delete(w.encoders, p.tag)", "", shells},
	{"queues have no bound", "actors/session/prompt.go", "have == 0 || have+more <= protocol.MaxQueued", "have >= 0", laws},
	{"commands that wait have no bound", "actors/session/machine.go", "len(m.waiting) > 0 && bytes > protocol.MaxWaiting", "false", laws},
	{"a session may crash once too little", "actors/ledger.go", "if len(l.crashes) > MaxRestarts {", "if len(l.crashes) >= MaxRestarts {", shells},
	{"crashes are never forgiven", "actors/ledger.go", "now.Sub(l.crashes[0]) > RestartWindow", "false", shells},
	{"commands on their way to a closed session are forgotten", "actors/session.go", "s.reply(m.Seq, nil, err)\n", "_, _ = m, err\n", shells},
	{"a file has two writers", "actors/assemble.go", "Exclusive: true", "Exclusive: false", shells},
	{"an actor that hangs takes the input with it", "actors/lead.go", "if relief != nil {", "if false {", shells},
	{"what waits for who hangs is forgotten", "actors/lead.go", "if mailbox != nil {", "if false {", shells},
	{"what a client did not take at once is forgotten", "actors/writer.go", "return w.buf[n:], err", "return w.buf[len(w.buf)*min(n, 1):], err", shells},
	{"progress of two calls is mixed up", "actors/output.go", "first.ToolCallID != next.ToolCallID || ", "", shells},
	{"responses are dropped for a slow client", "actors/writer.go",
		"w.waiting = append(w.waiting, pending{tag: tag, item: it})",
		"if len(w.waiting) > 50 && it.response != nil {\n\t\treturn\n\t}\n\tw.waiting = append(w.waiting, pending{tag: tag, item: it})", shells},
	{"output is cut off at the end", "actors/conn.go", "if !k.over {\n\t\t\tc.Request(k.writer, flush{})", "if !k.over {\n\t\t\tk.finish(nil)", shells},
	{"a child is leaked by an abort", "actors/perform.go", "j.stop.Now() // not by a goroutine that wakes up after all of the end is written\n\t\t\tc.Stop(j.pid)", "", ends},
	{"the end of the input cuts the run off", "actors/router.go", "closing{abort: !r.cfg.Drain, deaf: true}", "closing{abort: true}", ends},
	{"who cannot answer any more is waited for", "actors/router.go", "deaf: true", "deaf: false", ends},
	{"an abort stops only the summary", "actors/session/machine.go", "m.cancelNavigation()\n\t\tm.command(c)", "m.cancelNavigation()\n\t\tm.reply(c, nil)", laws},
	{"leftovers are overtaken", "actors/session/prompt.go", "case len(*m.queueOf(q.Kind)) > 0:", "case false:", laws},
	{"two calls have one id", "actors/session/turn.go", "id != \"\" && taken(own)", "taken(own) && false", laws},
	{"children ignore broken pipes", "cmd/troupe/main.go", "signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)", "signal.Ignore(syscall.SIGPIPE)", pipes},
	{"a session is said to be closed while commands still find it", "actors/session.go",
		"last = append(last, lastWord{to, resp})", "to.send(c.ActorSystem().Root, item{response: resp})", shells},
	{"an open_session is forgotten by a crash", "actors/open.go", "if s.ledger.opening != nil {", "if false {", shells},
	{"a panic of the router swallows its command", "actors/router.go", "if r.owed {", "if false {", shells},
	{"follow-ups overtake steering", "actors/session/turn.go",
		"next := take(&m.steering, m.steeringMode)", "next := take(&m.followUp, m.followUpMode)", laws},
	{"a group that could not be written is acknowledged", "actors/perform.go",
		"if err := s.file.Commit(); err != nil {\n\t\ts.dropContext()\n\t\treturn 0, err\n\t}", "_ = s.file.Commit()", shells},
	{"an id is given to two entries", "store/index.go", "f.bits[word] |= bit\n", "_, _ = word, bit\n", files},
	{"what another program has appended is overlooked", "store/write.go", "if size != l.end+l.junk {", "if false {", files},
	{"an idempotency key ends at its first #", "protocol/custom.go", "strings.LastIndexByte(s, '#')", "strings.IndexByte(s, '#')", laws},
	{"a file that was written over is believed", "store/write.go", "err = l.unaltered(at.Size)", "", files},
	{"an entry is acknowledged in a file that was moved", "store/write.go", "case !at.sameFile(file) || at.Size < end:", "case false:", files},
	{"a line of a session may be of any length", "store/lines.go", "if have >= protocol.MaxSessionLine {", "if false {", files},
	{"a session is exported over itself", "actors/lookup.go", "if err == nil && is {", "if err == nil && is && path == \"\" {", []string{"./e2e", "-run", "TestOutputPaths"}},
	{"on a full disk a file is emptied", "tools/files.go", "if errors.Is(err, why) {", "if errors.Is(err, why) || true {", []string{"./tools", "-run", "TestOnlyInPlace"}},
	{"a name is kept only once something was said", "actors/session/settings.go", "m.append(protocol.SessionInfo(s)", "m.note(protocol.SessionInfo(s)", shells},
	{"on a full disk questions are not answered", "actors/session/restore.go", "case e.instead != nil:", "case false:", laws},
	{"a parked session wakes up without its file", "actors/open.go",
		"return nil, protocol.CodeNotDurable.Errorf(\"Session file is gone: %s\", l.path)",
		"return store.NewLog(l.cfg.fs(), l.path, store.NewHeader(l.id, l.work.cwd, \"\", 0), l.cfg.logOptions()), nil", shells},
	{"a failure to wake up ends the session", "actors/open.go", "if s.mayWait() {", "if false {", shells},
	{"a file that was changed is not read again", "actors/park.go", "if s.stale && s.ready && s.parkable() {", "if false {", shells},
	{"two sessions have one chosen id", "store/write.go", "if l.opt.UniqueID {", "if false {", files},
	{"without locks there are no sessions", "store/log.go", "if noLocks(err) {", "if false {", files},
	{"what the kernel makes up is a session", "store/log.go", "st.Size() == 0 && k.isKernels(path)", "st.Size() < 0 && k.isKernels(path)", files},
	{"one session speaks in the name of another", "actors/router.go", "tag: to.tag}", "tag: \"\"}", shells},
	{"a tool that is switched off runs", "actors/session/turn.go",
		"if !slices.Contains(m.run.offered, c.Name) {", "if false {", laws},
	{"abort_bash stops one command of several", "actors/session/bash.go",
		"for i := range m.bashes {\n\t\tm.bashes[i].stopped = true", "for i := range m.bashes[:min(1, len(m.bashes))] {\n\t\tm.bashes[i].stopped = true", laws},
	{"wrong arguments are found when the next call runs", "actors/session/turn.go", "if m.set.Check != nil && ", "if false && ", laws},
	{"children see the keys of models", "actors/environ.go", "if inherit || !secrets[name] {", "if inherit || !secrets[name] || true {", keys},
	{"a model of another session does not count", "actors/session.go", "s.cfg.use(m)", "_ = m", keys},
	{"the environment is in /proc", "cmd/troupe/hide_linux.go", "clear(value)", "_ = value", keys},
	{"read shows environments", "tools/regular.go", "case kind == environFile:", "case false:", keys},
	{"a key of pi is missing in an entry", "protocol/entry.go", "o.bool(\"fromHook\", e.FromHook)", "o.optBool(\"fromHook\", e.FromHook)", forms},
	{"a key is null where pi leaves it out", "protocol/message.go", "o.optStr(\"errorMessage\", m.ErrorMessage)", "o.raw(\"errorMessage\", []byte(\"null\"))", forms},
	{"an answer has as many calls as it likes", "actors/session/turn.go", "s.asked++", "_ = s.asked", laws},
	{"an answer that has begun is asked for again", "providers/repeat.go", "return failed, false\n\t}\n\tx.drain", "return failed, true\n\t}\n\tx.drain", wires},
	{"a service that wants no repeat is asked again", "providers/repeat.go", "case \"false\":", "case \"no\":", wires},
	{"an abort waits for the repeat", "providers/repeat.go", "case <-ctx.Done():\n\t\treturn false", "case <-make(chan int):\n\t\treturn false", wires},
	{"a passing failure fails the run", "actors/assemble.go", "req.Repeats.Max = silentRepeats", "req.Repeats.Max = 0", passes},
	{"a key in a sentence is shown", "providers/errortext.go", "return shown(strings.ToValidUTF8(text, \"\\uFFFD\"))", "return strings.ToValidUTF8(text, \"\\uFFFD\")", words},
	{"a manual compaction is silent", "protocol/encode.go",
		"reason != \"manual\", e.gates.Has(FeatureCompactionEvents)", "reason != \"manual\", e.gates.Has(FeatureCompactionEvents) && reason != \"manual\"", lines},
	{"a compaction of nothing is announced", "actors/session/compact.go", "if c.reason == reasonManual { // who", "if true { // who", laws},
	{"a refused compaction does not say why", "actors/session/compact.go", "if why != nil && !end.Aborted {", "if false {", laws},
	{"an answer that does not fit is made again and again", "actors/session/compact.go",
		"m.mayRecover(m.overflowed) && !m.recovered:", "m.mayRecover(m.overflowed):", laws},
	{"null stands for what there is none of", "protocol/json.go", "if v != nil || null {", "if true {", lines},
	{"what a compaction leaves is known at once", "store/estimate.go", "return fresh || !c.compacted", "return fresh || true", files},
	{"an answer that was asked for again counts twice", "store/stats.go", "!omitted[string(l.head.id)]", "!omitted[\"\"]", files},
	{"every dialect has the level max", "protocol/model.go", "&& !g.Has(FeatureMaxLevel)", "&& false", lines},
	{"a broken line is answered with an id", "protocol/decode.go", "return unparsed(nil, err.Error())", "return unparsed(salvageID(line), err.Error())", lines},
	{"what a template says is looked up again", "actors/session/prompt.go",
		"m.set.Gates.RefuseSlash && c.Slash:", "m.set.Gates.RefuseSlash && q.Text != \"\" && q.Text[0] == '/':", slash},
	{"a tree has nodes that nobody made", "store/index.go", "return k >= kindTodos && k <= kindTroupe", "return false && k >= kindTodos", files},
	{"a model commands the terminal", "cmd/troupe/screen.go", "if unicode.IsControl(r) && ", "if false && ", []string{"./e2e", "-run", "TestTerminal"}},
	{"-p wins over --mode json", "cmd/troupe/main.go", "case o.mode == \"\" && (o.print || len(o.messages) > 0",
		"case o.print || o.mode == \"\" && (len(o.messages) > 0", []string{"./e2e", "-run", "TestJSONMode"}},
	{"what is piped in has no limit", "cmd/troupe/oneshot.go", "case len(text) > protocol.MaxAttached:", "case false:",
		[]string{"./e2e", "-run", "TestEndlessInput"}},
	{"words of pi go to the model", "cmd/troupe/main.go", "case slices.Contains(piCommands, word):", "case slices.Contains(piCommands, word) && false:", []string{"./e2e", "-run", "TestCommandWords"}},
	{"a project that nobody trusts starts programs", "store/resource/trust.go", "case Text, Tunes:", "case Text, Tunes, Starts:", configs},
	{"a project trusts itself", "store/resource/settings.go", "part.Effect == Reserved && l.location == Project", "false", configs},
	{"a store that cannot be read trusts", "store/resource/trust.go", "return refused, file, []Problem", "return Everything, file, []Problem", configs},
	{"a link leads out of the project", "store/resource/intake.go", "return in.project != \"\" && ", "return false && ", configs},
	{"a kind of file has no limit", "store/resource/intake.go", "in.files > protocol.MaxTextFiles || in.bytes > protocol.MaxTextTotal", "false", configs},
	{"a file of somebody else has no limit", "protocol/bounded/bounded.go", "return b[:limit], TooLarge{limit}", "return b, nil", []string{"./protocol/bounded"}},
	{"what the kernel makes up is read", "protocol/bounded/bounded.go", "case size == 0:", "case size < 0:", []string{"./protocol/bounded"}},
	{"queued input of anybody is the user's", "actors/open.go", "if path == \"\" || store.Holds(w.own, path) {", "if true {", []string{"./e2e", "-run", "TestForeignQueue"}},
	{"a proxy is everybody's", "providers/client.go", "who := route{cred.account(), proxy}", "who := route{cred.account(), \"\"}", models},
	{"a broken models.json takes models away", "providers/files.go", "f.err = fmt.Errorf(\"%s: %w\", f.path, err)\n\t\treturn true", "f.err = fmt.Errorf(\"%s: %w\", f.path, err)", models},
	{"a session goes on with another model", "actors/open.go", "return protocol.MissingModel(provider, id)", "return nil", []string{"./e2e", "-run", "TestModel"}},
	{"settings of a client are not checked", "actors/assemble.go", "return nil, protocol.CodeInvalidParams.Errorf(\"%s\", err)", "files, dirs, problems, _ = cfg.loadSettings(cwd, gates, nil)", []string{"./e2e", "-run", "TestOpenSessionSettings"}},
	{"a log has no limit", "tools/logs.go", "n = min(n, l.each-f.size)", "", []string{"./tools", "-run", "TestLogs"}},
	{"logs outlive their session", "tools/procs.go", "p.logs.removeAll()", "", []string{"./tools", "-run", "TestLogs"}},
	{"what runs in the background is read in a hurry", "tools/procs.go", "time.Sleep(sipPause)", "", []string{"./tools", "-run", "TestBackgroundOutput"}},
	{"edit begins before anybody could look", "actors/toolrun.go", "if !shown.wait(ctx) {", "if ctx.Err() != nil {", shells},
	{"queued is taken for written", "actors/writer.go", "w.waiting = append(w.waiting, pending{tag: tag, item: it})",
		"it.receipt.written()\n\tw.waiting = append(w.waiting, pending{tag: tag, item: it})", shells},
}
