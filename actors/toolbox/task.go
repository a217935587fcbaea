package toolbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"troupe/actors/core"
	"troupe/protocol"
	"troupe/tools"
)

// Task is the tool with which a model starts other sessions. Their rules are the
// machine's.
type Task struct {
	info   protocol.ToolInfo
	strict bool // an empty id is refused, else one is made up
}

// ByMachine is a call that the machine of the session carries out, with these
// arguments.
type ByMachine struct{ Args json.RawMessage }

func (ByMachine) work() {}

// NewTask returns the tool as it is offered.
func NewTask(o core.TaskOffer) Task { return Task{core.TaskInfo(o), o.Strict} }

// Infos describes the tool, with the agents that there are.
func (t Task) Infos() []protocol.ToolInfo { return []protocol.ToolInfo{t.info} }

// Start checks the arguments, in whichever form the model was taught.
func (t Task) Start(call protocol.ToolCall) (Work, error) {
	call.Arguments = core.MendTask(call.Arguments, t.strict)
	args, err := Fit(t.info, call)
	if err != nil {
		return nil, err
	}
	return ByMachine{args}, nil
}

// Submit is the tool with which a child hands over what it was asked for.
type Submit struct {
	Schema json.RawMessage // of that; nil for anything
}

// Infos describes the tool.
func (s Submit) Infos() []protocol.ToolInfo {
	data := `{"description":"What you were asked for."}`
	if s.Schema != nil {
		data = string(s.Schema)
	}
	return []protocol.ToolInfo{{
		Name: core.SubmitTool, Description: "Hand over what you were asked for, or say why you cannot. This ends your work: call it once, at the end.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"result":{"type":"object","description":"Either data or error.",` +
			`"properties":{"data":` + data + `,"error":{"type":"string","description":"Why there is nothing to hand over."}}}},"required":["result"]}`),
		Snippet: "hand over what you were asked for; it ends your work",
	}}
}

// maxPaths is how many places the answer to a submission names that does not fit.
const maxPaths = 3

// Start reads what is handed over. What does not fit the schema is a submission, too:
// the machine knows how often that may happen.
func (s Submit) Start(call protocol.ToolCall) (Work, error) {
	var args struct {
		Result *struct {
			Data  json.RawMessage `json:"data"`
			Error *string         `json:"error"`
		} `json:"result"`
	}
	if json.Unmarshal(call.Arguments, &args) != nil || args.Result == nil || (args.Result.Data == nil) == (args.Result.Error == nil) {
		//lint:ignore ST1005 it is a sentence for the model
		return nil, fmt.Errorf("Pass {\"result\":{\"data\":…}} or {\"result\":{\"error\":\"…\"}}.")
	}
	done := Result{
		ToolResult: protocol.ToolResult{Content: protocol.TextContent("Handed over."), Details: json.RawMessage(`{"status":"success"}`)},
		Submission: &protocol.Submission{Data: args.Result.Data},
	}
	if args.Result.Error != nil {
		done.Submission.Error = *args.Result.Error
		done.Details = json.RawMessage(`{"status":"aborted"}`)
		return done, nil
	}
	if s.Schema != nil {
		if data, err := fitData(s.Schema, args.Result.Data); err != nil {
			done.Submission.Unfit = "Output does not match schema: " + misfit(err)
		} else {
			done.Submission.Data = data
		}
	}
	return done, nil
}

// fitData checks data against a schema, as the arguments of a tool are: as the one
// member of an object.
func fitData(schema, data json.RawMessage) (json.RawMessage, error) {
	wrap := func(raw json.RawMessage) json.RawMessage {
		return append(append(json.RawMessage(`{"data":`), raw...), '}')
	}
	args, err := tools.ValidateArgs(json.RawMessage(`{"type":"object","properties":`+string(wrap(schema))+`,"required":["data"]}`), wrap(data))
	if err != nil {
		return nil, err
	}
	var fit struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(args, &fit); err != nil {
		return nil, err
	}
	return fit.Data, nil
}

// misfit names the first places where data does not fit, from the data on.
func misfit(err error) string {
	var places tools.ArgsError
	if !errors.As(err, &places) {
		return err.Error()
	}
	var lines []string
	for _, p := range places[:min(maxPaths, len(places))] {
		lines = append(lines, cmp.Or(strings.TrimPrefix(p.Path, "data"), "/")+": "+p.Reason)
	}
	return strings.Join(lines, "; ")
}
