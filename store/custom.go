package store

import (
	"encoding/json"

	"troupe/protocol"
)

// customPrefix begins the custom types of troupe's own entries. Those that the
// store reads are protocol.CustomQueue and protocol.CustomTool, and:
const (
	customPrefix = "troupe."
	CustomRun    = "troupe.run" // data is a RunOp
)

// RunOp brackets a run: a start without an end means that the process died in
// the middle.
type RunOp struct {
	Op     string `json:"op"`               // "start" or "end"
	Run    int    `json:"run,omitempty"`    // the run's number in its process
	Reason string `json:"reason,omitempty"` // end: how it ended, in the machine's words
}

// Entry wraps the op for Append.
func (op RunOp) Entry() protocol.Custom {
	return protocol.Custom{CustomType: CustomRun, Data: json.RawMessage(protocol.AppendValue(nil, op))}
}
