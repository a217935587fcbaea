package toolbox

import (
	"encoding/json"

	"troupe/protocol"
)

// Host is the tools that the client runs itself.
type Host []protocol.HostTool

var anyObject = json.RawMessage(`{"type":"object"}`)

// Infos describes the tools. One without a schema takes any object.
func (h Host) Infos() []protocol.ToolInfo {
	infos := make([]protocol.ToolInfo, len(h))
	for i, t := range h {
		infos[i] = protocol.ToolInfo{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
		if len(t.Parameters) == 0 {
			infos[i].Parameters = anyObject
		}
	}
	return infos
}

// Start hands the call to the client.
func (h Host) Start(call protocol.ToolCall) (Work, error) {
	info, _ := Box{h}.find(call.Name)
	args, err := Fit(info, call)
	if err != nil {
		return nil, err
	}
	return ByClient{args}, nil
}
