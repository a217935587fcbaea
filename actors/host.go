package actors

import (
	"encoding/json"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/tools"
)

func (s *Session) hostTool(name string) (protocol.HostTool, bool) {
	for _, t := range s.m.HostTools() {
		if t.Name == name {
			return t, true
		}
	}
	return protocol.HostTool{}, false
}

// checkCall says what is wrong with the arguments of a call.
func (c *Config) checkCall(call protocol.ToolCall, host *protocol.HostTool) error {
	if host == nil {
		return c.Tools.Check(call.Name, call.Arguments)
	}
	if _, err := tools.ValidateArgs(host.Parameters, call.Arguments); err != nil {
		return tools.InvalidArgsError(host.Name, call.Arguments, err)
	}
	return nil
}

// checkHostCall checks the arguments of a call before the host gets it.
func checkHostCall(host protocol.HostTool, e session.StartTool) session.Input {
	args, err := tools.ValidateArgs(host.Parameters, e.Call.Arguments)
	if err != nil {
		why := tools.InvalidArgsError(host.Name, e.Call.Arguments, err)
		return session.ToolDone{
			Run: e.Run, CallID: e.Call.ID, IsError: true, Result: protocol.ToolResult{Content: protocol.TextContent(why.Error())},
		}
	}
	return session.HostReady{Run: e.Run, CallID: e.Call.ID, Args: args}
}

var anyObject = json.RawMessage(`{"type":"object"}`)

// toolInfos describes tools to a model or a client: the daemon's own, the
// session's and the host's, in the order asked for.
func (s *Session) toolInfos(names []string) []protocol.ToolInfo {
	var infos []protocol.ToolInfo
	for _, n := range names {
		if t, ok := s.work.tools.Lookup(n); ok {
			infos = append(infos, t.Info())
		} else if host, ok := s.hostTool(n); ok {
			info := protocol.ToolInfo{Name: host.Name, Description: host.Description, Parameters: host.Parameters}
			if len(info.Parameters) == 0 {
				info.Parameters = anyObject
			}
			infos = append(infos, info)
		} else if n == session.TodoTool.Name {
			infos = append(infos, session.TodoTool)
		}
	}
	return infos
}

// allTools are the tools that can be active.
func (s *Session) allTools() []protocol.ToolInfo {
	names := append(s.work.tools.Names(), session.TodoTool.Name)
	for _, t := range s.m.HostTools() {
		names = append(names, t.Name)
	}
	return s.toolInfos(names)
}
