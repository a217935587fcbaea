package protocol

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
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
	FeatureDeltaUpdates         Feature = "deltaUpdates"         // message_update carries the step only
	FeatureQueueUpdate          Feature = "queueUpdate"          // queue_update instead of queue_changed
	FeatureCompactionEvents     Feature = "compactionEvents"     // compaction_start/_end, also for manual compaction
	FeatureCompactionEventsOnly Feature = "compactionEventsOnly" // no auto_compaction_start/_end
	FeatureBashUpdates          Feature = "bashUpdates"          // bash_execution_update
	FeatureParallelTools        Feature = "parallelTools"        // tool calls of one message run at the same time and are never skipped
	FeatureHookErrorOnly        Feature = "hookErrorOnly"        // no extension_error
	FeatureExtensionErrorOnly   Feature = "extensionErrorOnly"   // no hook_error
	FeatureHookUI               Feature = "hookUI"               // hook_ui_request instead of extension_ui_request
	FeatureUIAck                Feature = "uiAck"                // extension_ui_response is answered
	FeatureSeq                  Feature = "seq"                  // events of a session are numbered
	FeatureEntryEvents          Feature = "entryEvents"          // entry_appended, summarization_retry_*
	FeatureMaxLevel             Feature = "maxLevel"             // the thinking level max
	FeatureApprovals            Feature = "approvals"            // approval_request, approval_resolved
	FeatureDialogEvents         Feature = "dialogEvents"         // dialog_resolved
	FeatureSessionEvents        Feature = "sessionEvents"        // session_status
	FeatureStateEvents          Feature = "stateEvents"          // state_changed, clients_changed
	FeatureAuth                 Feature = "auth"                 // auth_changed, auth_refresh_start, auth_refresh_end
	FeatureOpenURL              Feature = "openUrl"              // extension_ui_request with the method open_url
	FeatureSecretInput          Feature = "secretInput"          // extension_ui_request with secret
	FeatureHeartbeat            Feature = "heartbeat"            // heartbeat
	FeatureImageRefs            Feature = "imageRefs"            // pictures of entries by their address
	FeatureSettingEvents        Feature = "settingEvents"        // session_info_changed, thinking_level_changed
)

// Wire is how a connection is written to: the part of a dialect that a client
// chooses for itself, whoever else hears of its sessions.
type Wire struct {
	Dialect  Dialect
	Features map[Feature]bool
	UI       []string // the dialogs that the client can show; nil for all

	OmitIDOnUnknown bool `doc:"unknown commands are answered without their id"`
	IDOnMissingType bool `doc:"a line without a type is answered with its id"`
	PendingStop     bool `doc:"assistant messages start with stopReason pending"` // else stop
	SourceInfo      bool `doc:"get_commands has sourceInfo"`
	NoLocation      bool `doc:"get_commands has no location and path"`
	TemplateSource  bool `doc:"get_commands returns the source template for prompt templates"`
}

// Rules are how a session behaves: the part of a dialect that all its clients
// share. A session gets them when it is opened, from the connection that opens
// it.
type Rules struct {
	ParallelTools   bool // tool calls of one message run at the same time and are never skipped (feature parallelTools)
	MaxLevel        bool // there is the thinking level max (feature maxLevel)
	IdleQueueWaits  bool `doc:"steer and follow_up do not start a run when the session is idle; they are queued"` // else they start a run
	OneDialog       bool `doc:"one dialog is sent at a time, the others wait"`                                    // else all at once
	OneBash         bool `doc:"one bash command at a time"`                                                       // else several run at once
	RetryEndEarly   bool `doc:"auto_retry_end comes right after the answer of the model, not after agent_end"`    // else after agent_end
	RejectPromptGap bool `doc:"a prompt during a retry wait or a compaction is refused"`                          // else accepted
	RustTexts       bool `doc:"the errors of a busy session and of a cancelled retry have the texts of pi_agent_rust"`
	PiscesWords     bool `doc:"errors and results of the tool task have the texts of pisces"`
	AnswerTimes     bool `doc:"assistant messages have duration and ttft, also in the session file"`
	MessageTimes    bool `doc:"messages have durationMs, and assistant messages the name of their provider and the thinking level"`
	QuietNotes      bool `doc:"messages that a stream rule or a todo list adds at the start of a run have no events; get_messages returns them"`
	RefuseSlash     bool `doc:"steer and follow_up refuse a text that starts with / and names neither a prompt template nor a skill"`
	TodoTool        bool `doc:"the tool todo_write is active in new sessions"` // else set_todos or --tools switches it on
	TaskTool        bool `doc:"the tool task is active in new sessions"`
	TaskIfWanted    bool `doc:"the tool task is active in new sessions if an agent file or a setting below task exists"`
	CreateOnSwitch  bool `doc:"switch_session to a path without a file creates a session there"`                                              // else an error
	ForkFromBranch  bool `doc:"get_fork_messages lists the current branch only"`                                                              // else every one
	FullStart       bool `doc:"for an answer that fails before its first part, message_start has the failed message instead of an empty one"` // else as an empty answer, by providers that announce early
	CountRetried    bool `doc:"get_session_stats includes answers that failed and were repeated"`
	LastWithText    bool `doc:"get_last_assistant_text skips answers without text that failed, were cut off or called tools"` // else only over aborted ones without content
	ModelFallback   bool `doc:"if the model of a session is unknown or has no key, the default model is used"`                // else it refuses prompts until the model is back
	ContextOnly     bool `doc:"in an untrusted project, only AGENTS.md and CLAUDE.md are loaded"`                             // else all its texts
	OverflowStands  bool `doc:"an answer to a request beyond the context window is kept, not repeated after a compaction"`    // else it is made again after a compaction
	FailAtOnce      bool `doc:"a failed request is not repeated within the run"`                                              // else twice, unless the settings say
	AnswersAtOnce   bool `doc:"the first answer does not wait for session_start of extensions"`                               // else for 100 ms at most
	FullErrors      bool `doc:"errors of providers have the texts of pi 1.x"`                                                 // else as in pi up to 0.74
}

// Tells says whether the client is told of events under the name of a row.
func (w Wire) Tells(row *EventSpec) bool {
	return (row.Needs == "" || w.Has(row.Needs)) && (row.Unless == "" || !w.Has(row.Unless)) &&
		(row.Only == nil || slices.Contains(row.Only, w.Dialect))
}

// dialogs are what a client names in ui of hello. What extensions show beside them, like
// the status, is nobody's question.
var dialogs = []string{"select", "confirm", "input", "editor", "notify", "approval"}

// Asks says whether the request wants an answer: else it only shows something.
func (r ExtensionUIRequest) Asks() bool {
	return slices.Contains([]string{"select", "confirm", "input", "editor"}, r.Method)
}

// AsksOnce says of the id of a dialog that what has asked is gone with the life of its session: another one does not ask again, as it
// does about calls of the session itself.
func AsksOnce(id string) bool {
	kind, _, _ := strings.Cut(id, "_")
	return slices.Contains([]string{"ext", "trust", "child"}, kind)
}

// Shows says whether the client can show a dialog of a method; approval is that of an
// [ApprovalRequest].
func (w Wire) Shows(method string) bool {
	return w.UI == nil || slices.Contains(w.UI, method) || !slices.Contains(dialogs, method)
}

// ShowsRecord says whether the client can show a dialog or an approval, in the form in
// which it is told it.
func (w Wire) ShowsRecord(ev Event) bool {
	switch ev := ev.(type) {
	case ExtensionUIRequest:
		return w.Shows(ev.Method)
	case ApprovalRequest:
		if w.Has(FeatureApprovals) {
			return w.Shows("approval")
		}
		return w.Shows("select")
	}
	return true
}

// ShowOnly notes which dialogs the client can show, nil for all. One that shows a choice and no
// approval is asked about tool calls by a choice, as if it did not know approvals.
func (w *Wire) ShowOnly(ui []string) {
	if w.UI = ui; w.Shows("select") && !w.Shows("approval") {
		w.Features = maps.Clone(w.Features)
		delete(w.Features, FeatureApprovals)
	}
}

// Has says whether a feature is on.
func (w Wire) Has(f Feature) bool { return w.Features[f] }

// dialects is the whole difference between them: a dialect is a row.
var dialects = map[Dialect]struct {
	features []Feature
	wire     Wire
	rules    Rules
}{
	DialectUnion: {features: []Feature{FeatureCompactionEvents, FeatureSettingEvents}, wire: Wire{SourceInfo: true}, rules: Rules{TaskIfWanted: true}},
	DialectS0:    {features: []Feature{FeatureHookErrorOnly}, rules: Rules{IdleQueueWaits: true, CreateOnSwitch: true}},
	DialectS1: {
		features: []Feature{FeatureExtensionErrorOnly},
		wire:     Wire{OmitIDOnUnknown: true},
		rules:    Rules{IdleQueueWaits: true, TodoTool: true, TaskTool: true, FailAtOnce: true, PiscesWords: true, AnswerTimes: true, QuietNotes: true},
	},
	DialectS2: {features: []Feature{FeatureExtensionErrorOnly}},
	DialectS3: {features: []Feature{FeatureHookErrorOnly, FeatureHookUI}, rules: Rules{TaskTool: true}},
	DialectS4: {
		features: []Feature{FeatureUIAck},
		wire:     Wire{TemplateSource: true},
		rules:    Rules{OneDialog: true, OneBash: true, RustTexts: true, RefuseSlash: true, ForkFromBranch: true, FailAtOnce: true, AnswersAtOnce: true},
	},
	DialectPi1: {
		features: []Feature{
			FeatureDeltaUpdates, FeatureQueueUpdate, FeatureCompactionEvents, FeatureCompactionEventsOnly, FeatureBashUpdates,
			FeatureParallelTools, FeatureExtensionErrorOnly, FeatureEntryEvents, FeatureSettingEvents, FeatureMaxLevel,
		},
		wire: Wire{PendingStop: true, SourceInfo: true, NoLocation: true, IDOnMissingType: true},
		rules: Rules{
			IdleQueueWaits: true, RetryEndEarly: true, RejectPromptGap: true, FullStart: true, OverflowStands: true, CountRetried: true,
			ContextOnly: true, FailAtOnce: true, FullErrors: true, LastWithText: true, ModelFallback: true, MessageTimes: true,
		},
	},
}

// Dialects lists the dialects by name.
func Dialects() []Dialect { return slices.Sorted(maps.Keys(dialects)) }

// Open returns how a connection is written to in a dialect, with the given
// features beside its own, and how the sessions behave that it opens; false if
// there is no such dialect. "" is the union. Unknown features are dropped.
func (d Dialect) Open(features ...string) (Wire, Rules, bool) {
	d = cmp.Or(d, DialectUnion)
	row, ok := dialects[d]
	if !ok {
		return Wire{}, Rules{}, false
	}
	wire, rules := row.wire, row.rules
	wire.Dialect, wire.Features = d, map[Feature]bool{}
	for _, f := range row.features {
		wire.Features[f] = true
	}
	for _, name := range features {
		if f := Feature(name); f.Doc() != "" {
			wire.Features[f] = true
		}
	}
	rules.ParallelTools, rules.MaxLevel = wire.Has(FeatureParallelTools), wire.Has(FeatureMaxLevel)
	return wire, rules, true
}

// Features lists every feature by name.
func Features() []Feature { return slices.Sorted(maps.Keys(featureDocs)) }

// On lists the features that are on, by name.
func (w Wire) On() []string {
	var on []string
	for _, f := range Features() {
		if w.Features[f] {
			on = append(on, string(f))
		}
	}
	return on
}

// Doc says what the feature does, for the reference.
func (f Feature) Doc() string { return featureDocs[f] }

var featureDocs = map[Feature]string{
	FeatureDeltaUpdates:         "`message_update` has only the new part, not the message so far.",
	FeatureQueueUpdate:          "`queue_update` instead of `queue_changed`.",
	FeatureCompactionEvents:     "`compaction_start` and `compaction_end` around every compaction, including that of `compact`. If the dialect also has `auto_compaction_start` and `auto_compaction_end`, these come first and last.",
	FeatureCompactionEventsOnly: "`compaction_start` and `compaction_end` only, no `auto_compaction_start` and `auto_compaction_end`.",
	FeatureBashUpdates:          "The event `bash_execution_update` while a `bash` command runs.",
	FeatureParallelTools:        "Tool calls of one message run at the same time and are never skipped.",
	FeatureHookErrorOnly:        "`hook_error` only, no `extension_error`.",
	FeatureExtensionErrorOnly:   "`extension_error` only, no `hook_error`.",
	FeatureHookUI:               "`hook_ui_request` instead of `extension_ui_request`.",
	FeatureUIAck:                "`extension_ui_response` gets a response.",
	FeatureSeq:                  "Events of a session are numbered by `seq`. A merged event has the first of its numbers in `seqFrom`. Responses have `at`, the number of the last event before them.",
	FeatureEntryEvents:          "The events `entry_appended` and `summarization_retry_*`.",
	FeatureMaxLevel:             "The thinking level `max`. Without the feature, `xhigh` is the highest level, and `max` selects it.",
	FeatureApprovals:            "`approval_request` and `approval_resolved`; without it, approvals are requested by `extension_ui_request`.",
	FeatureDialogEvents:         "The event `dialog_resolved`. The response of `attach` lists open dialogs and approvals; they are not sent again as events.",
	FeatureSessionEvents:        "The event `session_status`, after `watch_sessions`.",
	FeatureStateEvents:          "The events `state_changed`, `clients_changed` and `extension_command_end`.",
	FeatureAuth:                 "The events `auth_changed`, `auth_refresh_start` and `auth_refresh_end`.",
	FeatureOpenURL:              "`login` shows addresses by `extension_ui_request` with the method `open_url`; without it, by `notify`.",
	FeatureSecretInput:          "`login` may request keys and pasted addresses by `extension_ui_request` with `secret`. Without the feature, a login that needs one is refused.",
	FeatureHeartbeat:            "The event `heartbeat`, when nothing else was written for 15 seconds.",
	FeatureImageRefs:            "Images in `get_entries` and in snapshots have `ref` (`SESSIONID/ENTRYID/INDEX`) and `bytes` instead of `data`. `get_image` and `GET /v1/image` return the data.",
	FeatureSettingEvents:        "The events `session_info_changed` and `thinking_level_changed`.",
}

// Describe says in words what the dialect changes beside its features.
func (d Dialect) Describe() (list []string) {
	for _, part := range []any{dialects[d].rules, dialects[d].wire} {
		v := reflect.ValueOf(part)
		for i := range v.NumField() {
			if text := v.Type().Field(i).Tag.Get("doc"); text != "" && v.Field(i).Bool() {
				list = append(list, text)
			}
		}
	}
	return list
}
