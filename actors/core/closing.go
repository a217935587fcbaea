package core

// close stops taking commands. Work goes on to its end, or stops now.
func (m *Machine) close(in Closing) {
	if m.closing == nil {
		m.closing = &in
	}
	m.closing.Abort = m.closing.Abort || in.Abort
	m.closing.Deaf = m.closing.Deaf || in.Deaf
	if !in.Abort {
		if in.Deaf {
			m.nobodyAnswers()
		}
		return
	}
	m.stop(aborted)
	m.stopBashes()
}

// maybeClosed reports, once, that a closing machine has nothing left to do.
func (m *Machine) maybeClosed() {
	if m.closing == nil || m.closed || !m.AtRest() {
		return
	}
	m.closed = true
	m.do(Closed{})
}
