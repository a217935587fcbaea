package core

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"troupe/protocol"
)

// TestOutcomeOf: a log says how the last work has ended in the words in which a living session has told it.
func TestOutcomeOf(t *testing.T) {
	answer := func(stop protocol.StopReason, why string) protocol.Resume {
		return protocol.Resume{Last: &protocol.AssistantMessage{StopReason: stop, ErrorMessage: why}}
	}
	cut := answer(protocol.StopToolUse, "")
	cut.Interrupted = true
	for want, of := range map[string][]protocol.Resume{
		completed:   {answer(protocol.StopStop, ""), answer(protocol.StopLength, "")},
		aborted:     {answer(protocol.StopAborted, abortedMessage)},
		failed:      {answer(protocol.StopError, "overloaded")},
		interrupted: {answer(protocol.StopAborted, interruptedMessage), cut, {}, {Last: &protocol.UserMessage{}, Interrupted: true}},
	} {
		for _, to := range of {
			assert.Equal(t, want, OutcomeOf(to))
		}
	}
}
