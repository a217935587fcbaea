package wire

import (
	"encoding/json"
	"slices"
	"strings"

	"troupe/protocol"
)

// Str appends a piece of JSON, and behind it a string.
func Str(b []byte, lead, text string) []byte {
	return protocol.AppendString(append(b, lead...), text)
}

// Called lists the names of the tools that messages call, in order.
func Called(messages []protocol.Message) []string {
	var names []string
	for _, m := range messages {
		if m, ok := m.(*protocol.AssistantMessage); ok {
			for _, call := range m.Content.ToolCalls() {
				if !slices.Contains(names, call.Name) {
					names = append(names, call.Name)
				}
			}
		}
	}
	return names
}

// Schema is the JSON Schema of a tool's parameters, of no parameters if it has
// none.
func Schema(tool protocol.ToolInfo) json.RawMessage {
	if len(tool.Parameters) == 0 {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return CleanObject(tool.Parameters)
}

// Buffer is an empty buffer with room for the request that shows the model
// messages, about input tokens of them: growing a large one takes as long as
// writing it.
func Buffer(messages []protocol.Message, input int64) []byte {
	size := 4*int(input) + 160*len(messages) + 4<<10
	for _, m := range messages {
		var images []protocol.Image
		switch m := m.(type) {
		case *protocol.UserMessage:
			images = m.Content.Images()
		case *protocol.ToolResultMessage:
			images = m.Content.Images()
		default: // Convert leaves no others with images
		}
		for _, image := range images {
			size += len(image.Data)
		}
	}
	return make([]byte, 0, size+size/16)
}

// Endpoint is the URL of one operation of a service: its base URL, which may
// have a query, with path appended unless it ends so already.
func Endpoint(baseURL, path string) string {
	base, query, found := strings.Cut(baseURL, "?")
	base = strings.TrimRight(base, "/")
	if !strings.HasSuffix(base, path) {
		base += path
	}
	if found {
		base += "?" + query
	}
	return base
}
