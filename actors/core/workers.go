package core

import "troupe/protocol"

// workerGone turns the silent end of a worker into a result. A result that the
// worker sent before it ended has been handled already, and the job is closed.
func (m *Machine) workerGone(in WorkerGone) {
	const why = "internal error: the worker ended without a result"
	switch in.Kind {
	case WorkerStream:
		m.streamEnd(StreamEnd{Attempt: in.Attempt, Err: protocol.ErrorInternal.Errorf("%s", why)})
	case WorkerTool:
		m.toolDone(ToolDone{Attempt: in.Attempt, CallID: in.ID, Result: errorResult(why), IsError: true})
	case WorkerBash:
		m.bashDone(BashDone{Job: in.Job, Err: protocol.CodeInternal.Errorf("%s", why)})
	case WorkerRetry:
		if a := m.waitingRetry(in.Attempt); a != nil {
			m.retryGone(a, why)
		}
	case WorkerSummary:
		m.summarised(Summarised{Attempt: in.Attempt, Err: protocol.ErrorInternal.Errorf("%s", why)})
	case WorkerUI:
		m.dialogsLost()
	}
}
