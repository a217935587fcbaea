package protocol

import (
	"maps"
	"slices"
)

// Dialect names one of the protocol's variants. The zero value is the union,
// against which every seed's client works without negotiating.
type Dialect string

const (
	DialectUnion Dialect = "union"
	DialectS0    Dialect = "s0"  // pi, January 2026
	DialectS1    Dialect = "s1"  // pisces
	DialectS2    Dialect = "s2"  // web parity
	DialectS3    Dialect = "s3"  // oh-my-pi 1.337
	DialectS4    Dialect = "s4"  // pi_agent_rust
	DialectPi1   Dialect = "pi1" // pi 1.x
)

// Feature is a part of the wire that a client can switch on or off.
type Feature string

const (
	FeatureDeltaUpdates       Feature = "deltaUpdates"       // message_update carries the step only
	FeatureQueueUpdate        Feature = "queueUpdate"        // queue_update instead of queue_changed
	FeatureSettled            Feature = "settled"            // agent_settled
	FeatureCompactionEvents   Feature = "compactionEvents"   // compaction_start/_end, also for manual compaction
	FeatureBashUpdates        Feature = "bashUpdates"        // bash_execution_update
	FeatureParallelTools      Feature = "parallelTools"      // tool calls of one message run at the same time and are never skipped
	FeatureHookErrorOnly      Feature = "hookErrorOnly"      // no extension_error
	FeatureExtensionErrorOnly Feature = "extensionErrorOnly" // no hook_error
	FeatureUIAck              Feature = "uiAck"              // extension_ui_response is answered
	FeatureSeq                Feature = "seq"                // every record of a session carries a rising seq
	FeatureEntryEvents        Feature = "entryEvents"        // entry_appended, summarization_retry_*
	FeatureMaxLevel           Feature = "maxLevel"           // the thinking level max
	FeatureSettingEvents      Feature = "settingEvents"      // session_info_changed, thinking_level_changed
	FeatureRunIDs             Feature = "runIds"             // runId on the events of a run
)

// Gates are the behaviours that differ between dialects. Every gate of troupe
// is here; nothing else asks for the dialect.
type Gates struct {
	Features map[Feature]bool

	IdleQueueWaits   bool // steer and follow_up while idle only queue; else they start a run
	OneBash          bool // a bash command is refused while another runs; else several run at once
	RetryEndEarly    bool // auto_retry_end{success:true} right after the answer; else after agent_end
	RejectPromptGap  bool // a prompt during a retry wait or a compaction is refused; else accepted
	OmitIDOnUnknown  bool // an unknown command is answered without its id
	IDOnMissingType  bool // a line without a type is answered with its id
	RustTexts        bool // the busy error and the end of a cancelled retry in pi_agent_rust's words
	RefuseSlash      bool // steer and follow_up refuse what begins with / and is neither a prompt nor a skill
	TodoTool         bool // a session begins with the tool todo_write active; else set_todos or --tools switches it on
	CreateOnSwitch   bool // switch_session to a missing path starts a session there; else an error
	ForkFromBranch   bool // get_fork_messages lists the current branch; else every one
	PendingStop      bool // an assistant message starts with stopReason pending; else stop
	SourceInfo       bool // get_commands has sourceInfo
	NoLocation       bool // get_commands has no location and path
	TemplateSource   bool // get_commands calls prompts "template"
	Nulls            bool // sessionFile, sessionName and the result of compaction_end are null where there is none; else left out
	OmitText         bool // get_last_assistant_text leaves the text out where there is none; else it is null
	CountRetried     bool // get_session_stats counts answers that were asked for again
	NoAutoCompaction bool // no auto_compaction_start and _end for a compaction that begins by itself
	ContextOnly      bool // a project that is not trusted brings context files only; else all its texts
	OverflowStands   bool // an answer to a request larger than the window stands; else it is made again after a compaction
	FailAtOnce       bool // a request that fails before its answer begins is not repeated by itself; else twice, unless the settings say
	FullErrors       bool // errors of providers read as in pi 1.x, with the whole error object; else as in pi up to 0.74
}

// AnswersWithID says whether a line that is no command, or none that there is,
// is answered with its id.
func (g Gates) AnswersWithID(code Code) bool {
	switch code {
	case CodeMissingType:
		return g.IDOnMissingType
	case CodeUnknownCommand:
		return !g.OmitIDOnUnknown
	default:
		return true
	}
}

// Has says whether a feature is on.
func (g Gates) Has(f Feature) bool { return g.Features[f] }

// everywhere are the features that are on in every dialect.
var everywhere = []Feature{FeatureSettled, FeatureRunIDs}

// dialects is the whole difference between them.
var dialects = map[Dialect]struct {
	features []Feature
	gates    Gates
}{
	DialectUnion: {append([]Feature{FeatureCompactionEvents, FeatureSettingEvents}, everywhere...), Gates{SourceInfo: true}},
	DialectS0: {append([]Feature{FeatureHookErrorOnly}, everywhere...), Gates{
		IdleQueueWaits: true, CreateOnSwitch: true,
	}},
	DialectS1: {append([]Feature{FeatureExtensionErrorOnly}, everywhere...), Gates{
		IdleQueueWaits: true, OmitIDOnUnknown: true, OmitText: true, TodoTool: true, FailAtOnce: true,
	}},
	DialectS2: {append([]Feature{FeatureExtensionErrorOnly}, everywhere...), Gates{OmitText: true}},
	DialectS3: {append([]Feature{FeatureHookErrorOnly}, everywhere...), Gates{}},
	DialectS4: {append([]Feature{FeatureUIAck}, everywhere...), Gates{
		OneBash: true, RustTexts: true, RefuseSlash: true, TemplateSource: true, ForkFromBranch: true, Nulls: true, FailAtOnce: true,
	}},
	DialectPi1: {append([]Feature{
		FeatureDeltaUpdates, FeatureQueueUpdate, FeatureCompactionEvents, FeatureBashUpdates,
		FeatureParallelTools, FeatureExtensionErrorOnly, FeatureEntryEvents, FeatureSettingEvents, FeatureMaxLevel,
	}, everywhere...), Gates{
		IdleQueueWaits: true, RetryEndEarly: true, RejectPromptGap: true, PendingStop: true, SourceInfo: true,
		NoLocation: true, NoAutoCompaction: true, OverflowStands: true, CountRetried: true, OmitText: true, IDOnMissingType: true, ContextOnly: true,
		FailAtOnce: true, FullErrors: true,
	}},
}

// Dialects lists the dialects by name.
func Dialects() []Dialect { return slices.Sorted(maps.Keys(dialects)) }

// Gates returns the behaviours of a dialect plus the given features; false if
// there is no such dialect. "" is the union. Unknown features are dropped.
func (d Dialect) Gates(features ...string) (Gates, bool) {
	if d == "" {
		d = DialectUnion
	}
	spec, ok := dialects[d]
	if !ok {
		return Gates{}, false
	}
	g := spec.gates
	g.Features = map[Feature]bool{}
	for _, f := range spec.features {
		g.Features[f] = true
	}
	for _, name := range features {
		if f := Feature(name); slices.Contains(Features(), f) {
			g.Features[f] = true
		}
	}
	return g, true
}

// Features lists every feature by name.
func Features() []Feature {
	return []Feature{
		FeatureBashUpdates, FeatureCompactionEvents, FeatureDeltaUpdates, FeatureEntryEvents,
		FeatureExtensionErrorOnly, FeatureHookErrorOnly, FeatureMaxLevel, FeatureParallelTools, FeatureQueueUpdate,
		FeatureRunIDs, FeatureSeq, FeatureSettingEvents, FeatureSettled, FeatureUIAck,
	}
}

// On lists the features that are on, by name.
func (g Gates) On() []string {
	var on []string
	for _, f := range Features() {
		if g.Features[f] {
			on = append(on, string(f))
		}
	}
	return on
}

// featureDocs says what each feature does, for the reference.
var featureDocs = map[Feature]string{
	FeatureDeltaUpdates:       "`message_update` carries the step only.",
	FeatureQueueUpdate:        "`queue_update` instead of `queue_changed`.",
	FeatureSettled:            "`agent_settled` when an accepted input and all it caused is done.",
	FeatureCompactionEvents:   "`compaction_start` and `compaction_end` around every compaction, also that of `compact`; inside `auto_compaction_start` and `auto_compaction_end` where a dialect has both.",
	FeatureBashUpdates:        "`bash_execution_update` while a `bash` command runs.",
	FeatureParallelTools:      "Tool calls of one message run at the same time and are never skipped.",
	FeatureHookErrorOnly:      "`hook_error` only, no `extension_error`.",
	FeatureExtensionErrorOnly: "`extension_error` only, no `hook_error`.",
	FeatureUIAck:              "`extension_ui_response` is answered.",
	FeatureSeq:                "Every record of a session carries a rising `seq`.",
	FeatureEntryEvents:        "`entry_appended`, `summarization_retry_*`.",
	FeatureMaxLevel:           "The thinking level `max`. Without it a model's levels end with `xhigh`, and `max` is taken for the next lower one.",
	FeatureSettingEvents:      "`session_info_changed`, `thinking_level_changed`.",
	FeatureRunIDs:             "`runId` on the events of a run.",
}

// describe says in words what the gates change.
func (g Gates) describe() []string {
	var list []string
	for _, gate := range []struct {
		on   bool
		text string
	}{
		{g.IdleQueueWaits, "steer and follow_up while idle only queue"},
		{g.OneBash, "one bash command at a time"},
		{g.RetryEndEarly, "auto_retry_end right after the answer"},
		{g.RejectPromptGap, "a prompt during a retry wait or a compaction is refused"},
		{g.IDOnMissingType, "a line without a type is answered with its id"},
		{g.OmitIDOnUnknown, "unknown commands are answered without their id"},
		{g.RustTexts, "the busy error and the end of a cancelled retry in pi_agent_rust's words"},
		{g.RefuseSlash, "steer and follow_up refuse what begins with / and is neither a prompt nor a skill"},
		{g.TodoTool, "a session begins with the tool todo_write active"},
		{g.CreateOnSwitch, "switch_session to a missing path starts a session there"},
		{g.ForkFromBranch, "get_fork_messages lists the current branch only"},
		{g.PendingStop, "assistant messages start with stopReason pending"},
		{g.SourceInfo, "get_commands has sourceInfo"},
		{g.NoLocation, "get_commands has no location and path"},
		{g.TemplateSource, "get_commands calls prompts template"},
		{g.Nulls, "null for a missing sessionFile and sessionName, and for the result of a compaction_end without one"},
		{g.OmitText, "get_last_assistant_text leaves text out where there is no answer"},
		{g.CountRetried, "get_session_stats counts answers that failed and were asked for again"},
		{g.NoAutoCompaction, "no auto_compaction_start and auto_compaction_end"},
		{g.ContextOnly, "of a project that is not trusted only AGENTS.md and CLAUDE.md load"},
		{g.OverflowStands, "an answer whose request was larger than the window stands"},
		{g.FailAtOnce, "a failed request is not repeated before the run fails"},
		{g.FullErrors, "errors of providers in the words of pi 1.x"},
	} {
		if gate.on {
			list = append(list, gate.text)
		}
	}
	return list
}
