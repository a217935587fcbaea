package protocol

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// Command is the decoded form of one command: its parameters. The envelope
// (type and id) is in [Request]. Tags: json names the member, req makes it
// required, doc explains it in the reference.
//
//sumtype:decl
type Command interface{ command() }

// QueueMode says how many queued messages one delivery takes.
type QueueMode string

const (
	QueueAll        QueueMode = "all"
	QueueOneAtATime QueueMode = "one-at-a-time"
)

// InterruptMode says whether steering is looked for between tool calls.
type InterruptMode string

const (
	InterruptImmediate InterruptMode = "immediate"
	InterruptWait      InterruptMode = "wait"
)

// StreamingBehavior says what becomes of a prompt while a run is active.
type StreamingBehavior string

const (
	BehaviorNone     StreamingBehavior = ""
	BehaviorSteer    StreamingBehavior = "steer"
	BehaviorFollowUp StreamingBehavior = "followUp"
)

// Prompting.
type (
	Prompt struct {
		Message           string            `json:"message" req:"true" doc:"The user's text; templates and skills are expanded. What begins with / and is neither goes to the model as it is."`
		Images            []Image           `json:"images" doc:"Pictures, as {type:image,data,mimeType} or {type:image,source:{type:base64,mediaType,data}}; also {type:image,source:{type:url,url}} and {type:image,url} with a data: URL."`
		StreamingBehavior StreamingBehavior `json:"streamingBehavior" since:"S0 S1 S2 S4 P O" enum:"steer,followUp,follow-up" doc:"What to do while a run is active: steer or followUp (also follow-up). Ignored when idle."`
		IdempotencyKey    string            `json:"idempotencyKey" since:"T" doc:"A repeat with the same key gets the first answer and runs nothing."`
	}
	Steer struct {
		Message        string  `json:"message" req:"true" doc:"The user's text; templates and skills are expanded as in prompt. What begins with / and is neither is a message like any other, but refused in s4."`
		Images         []Image `json:"images" since:"S1 P O" doc:"Pictures, as in prompt."`
		IdempotencyKey string  `json:"idempotencyKey" since:"T" doc:"As in prompt."`
	}
	FollowUp struct {
		Message        string  `json:"message" req:"true" doc:"As in steer."`
		Images         []Image `json:"images" since:"S1 P O" doc:"Pictures, as in prompt."`
		IdempotencyKey string  `json:"idempotencyKey" since:"T" doc:"As in prompt."`
	}
	QueueMessage struct {
		Message string  `json:"message" req:"true" doc:"Text to inject at the next turn, taken as it is; never starts a run."`
		Images  []Image `json:"images" since:"T" doc:"Pictures, as in prompt."`
	}
	Abort          struct{}
	AbortAndPrompt struct {
		Message string  `json:"message" req:"true" doc:"The text of the new prompt; templates and skills are expanded."`
		Images  []Image `json:"images" doc:"Pictures, as in prompt."`
	}
	ClearQueue struct{}
)

// State, model and modes.
type (
	GetState    struct{}
	GetMessages struct{}
	SetModel    struct {
		Provider string `json:"provider" req:"true" doc:"The model's provider."`
		ModelID  string `json:"modelId" req:"true" doc:"The model's id."`
	}
	CycleModel         struct{}
	GetAvailableModels struct{}
	SetThinkingLevel   struct {
		Level ThinkingLevel `json:"level" req:"true" enum:"off,minimal,low,medium,high,xhigh,max" doc:"The level; clamped to what the model supports. max needs the feature maxLevel and is else taken for the next lower level."`
	}
	CycleThinkingLevel         struct{}
	GetAvailableThinkingLevels struct{}
	SetSteeringMode            struct {
		Mode QueueMode `json:"mode" req:"true" enum:"all,one-at-a-time" doc:"How many steering messages one delivery takes."`
	}
	SetFollowUpMode struct {
		Mode QueueMode `json:"mode" req:"true" enum:"all,one-at-a-time" doc:"How many follow-up messages one delivery takes."`
	}
	SetQueueMode struct {
		Mode QueueMode `json:"mode" req:"true" enum:"all,one-at-a-time" doc:"The steering mode under its name in oh-my-pi 1.337."`
	}
	SetInterruptMode struct {
		Mode InterruptMode `json:"mode" req:"true" enum:"immediate,wait" doc:"immediate looks for steering between tool calls, wait only after the turn."`
	}
)

// Compaction, retry and bash.
type (
	Compact struct {
		CustomInstructions string `json:"customInstructions" doc:"What the summary should attend to."`
	}
	SetAutoCompaction struct {
		Enabled bool `json:"enabled" req:"true" doc:"Whether a nearly full context is compacted by itself."`
	}
	SetAutoRetry struct {
		Enabled bool `json:"enabled" req:"true" doc:"Whether transient provider errors are retried by themselves."`
	}
	AbortRetry struct{}
	Bash       struct {
		Command            string `json:"command" req:"true" doc:"What the shell is to run."`
		ExcludeFromContext bool   `json:"excludeFromContext" since:"P" doc:"Record it, but never show it to a model."`
	}
	AbortBash struct{}
)

// Sessions and trees.
type (
	NewSession struct {
		ParentSession string `json:"parentSession" doc:"Path of the session file this one comes from."`
	}
	SwitchSession struct {
		SessionPath string `json:"sessionPath" req:"true" doc:"The session file to load."`
	}
	Fork struct {
		EntryID string `json:"entryId" req:"true" doc:"The user message to fork before."`
	}
	Clone           struct{}
	GetForkMessages struct{}
	SetSessionName  struct {
		Name string `json:"name" req:"true" doc:"The session's display name."`
	}
	GetSessionStats      struct{}
	GetLastAssistantText struct{}
	GetContextUsage      struct{}
	ExportHTML           struct {
		OutputPath string `json:"outputPath" doc:"Where to write; a name in the working directory by default. What is a session, and what exists and is no regular file, is refused (io_error) and left as it is."`
	}
	ListSessions struct {
		Scope      string `json:"scope" enum:"cwd,all" doc:"cwd (default): sessions of this working directory; all: every project."`
		SessionDir string `json:"sessionDir" doc:"The directory to list, with scope cwd."`
	}
	GetSessionTree struct{}
	GetTree        struct{}
	GetEntries     struct {
		Since string `json:"since" doc:"Only entries after this one."`
		Limit int    `json:"limit" since:"T" min:"1" max:"10000" doc:"At most this many; the answer then says whether there are more."`
	}
	NavigateTree struct {
		TargetID            string `json:"targetId" req:"true" doc:"The entry to go to."`
		Summarize           bool   `json:"summarize" doc:"Summarise the branch that is left."`
		CustomInstructions  string `json:"customInstructions" doc:"What the summary should attend to."`
		ReplaceInstructions bool   `json:"replaceInstructions" doc:"Use customInstructions instead of the built-in ones."`
		Label               string `json:"label" doc:"A label for the summary, or for the target without one."`
	}
	SetEntryLabel struct {
		TargetID string `json:"targetId" req:"true" doc:"The entry to name."`
		Label    string `json:"label" doc:"Its label; empty or absent clears it."`
	}
)

// Tools and resources.
type (
	GetCommands     struct{}
	ReloadResources struct{}
	GetTools        struct{}
	SetActiveTools  struct {
		ToolNames []string `json:"toolNames" req:"true" doc:"The tools a model may call; unknown names are dropped."`
	}
	SetTodos struct {
		Phases []TodoPhase `json:"phases" req:"true" doc:"The whole list, replacing the old one."`
	}
	SetHostTools struct {
		Tools []HostTool `json:"tools" req:"true" doc:"The tools the host runs itself, replacing the earlier list."`
	}
	HostToolUpdate struct {
		ID            string          `json:"id" req:"true" doc:"The id of the host_tool_call."`
		PartialResult json.RawMessage `json:"partialResult" doc:"The output so far, replacing earlier updates."`
	}
	HostToolResult struct {
		ID      string          `json:"id" req:"true" doc:"The id of the host_tool_call."`
		Result  json.RawMessage `json:"result" doc:"{content, details?}, or a string."`
		IsError bool            `json:"isError" doc:"The tool failed."`
	}
)

// Dialogs.
type ExtensionUIResponse struct {
	ID        string  `json:"id" doc:"The id of the extension_ui_request (also requestId)."`
	RequestID string  `json:"requestId" since:"S4" doc:"The id under its name in pi_agent_rust."`
	Value     *string `json:"value" doc:"The answer to select, input and editor."`
	Confirmed *bool   `json:"confirmed" doc:"The answer to confirm."`
	Cancelled bool    `json:"cancelled" doc:"The person closed the dialog."`
}

// Connection: these concern no session and are answered by the router.
type (
	Hello struct {
		Dialect  string   `json:"dialect" doc:"union, s0, s1, s2, s3, s4 or pi1."`
		Features []string `json:"features" doc:"Features to switch on; unknown ones are dropped."`
	}
	GetProtocolInfo struct{}
	OpenSession     struct {
		SessionPath        string          `json:"sessionPath" doc:"An existing session file to open; a new session without it."`
		Cwd                string          `json:"cwd" doc:"Working directory; the daemon's own by default."`
		Provider           string          `json:"provider" doc:"The model's provider."`
		ModelID            string          `json:"modelId" doc:"The model's id."`
		ThinkingLevel      ThinkingLevel   `json:"thinkingLevel" enum:"off,minimal,low,medium,high,xhigh,max" doc:"The thinking level; see set_thinking_level."`
		Tools              []string        `json:"tools" doc:"The active tools; the default set without it."`
		SystemPrompt       string          `json:"systemPrompt" doc:"Replaces the built-in system prompt."`
		AppendSystemPrompt string          `json:"appendSystemPrompt" doc:"Is added to the system prompt."`
		Name               string          `json:"name" doc:"The session's display name."`
		NoSession          bool            `json:"noSession" doc:"Keep the session in memory only."`
		Retain             bool            `json:"retain" doc:"Keep the session open when its last client goes."`
		Settings           json.RawMessage `json:"settings" doc:"Members of settings.json that count for this session only."`
	}
	CloseSession struct {
		SessionID string `json:"sessionId" req:"true" doc:"The handle that open_session returned."`
		Mode      string `json:"mode" enum:"abort,drain" doc:"abort (default) stops an active run, drain lets it finish."`
	}
	AttachSession struct {
		SessionID string `json:"sessionId" req:"true" doc:"The handle of an open session."`
	}
	DetachSession struct {
		SessionID string `json:"sessionId" req:"true" doc:"The handle of an attached session."`
	}
	ListOpenSessions struct{}
)

func (Prompt) command()                     {}
func (Steer) command()                      {}
func (FollowUp) command()                   {}
func (QueueMessage) command()               {}
func (Abort) command()                      {}
func (AbortAndPrompt) command()             {}
func (ClearQueue) command()                 {}
func (GetState) command()                   {}
func (GetMessages) command()                {}
func (SetModel) command()                   {}
func (CycleModel) command()                 {}
func (GetAvailableModels) command()         {}
func (SetThinkingLevel) command()           {}
func (CycleThinkingLevel) command()         {}
func (GetAvailableThinkingLevels) command() {}
func (SetSteeringMode) command()            {}
func (SetFollowUpMode) command()            {}
func (SetQueueMode) command()               {}
func (SetInterruptMode) command()           {}
func (Compact) command()                    {}
func (SetAutoCompaction) command()          {}
func (SetAutoRetry) command()               {}
func (AbortRetry) command()                 {}
func (Bash) command()                       {}
func (AbortBash) command()                  {}
func (NewSession) command()                 {}
func (SwitchSession) command()              {}
func (Fork) command()                       {}
func (Clone) command()                      {}
func (GetForkMessages) command()            {}
func (SetSessionName) command()             {}
func (GetSessionStats) command()            {}
func (GetLastAssistantText) command()       {}
func (GetContextUsage) command()            {}
func (ExportHTML) command()                 {}
func (ListSessions) command()               {}
func (GetSessionTree) command()             {}
func (GetTree) command()                    {}
func (GetEntries) command()                 {}
func (NavigateTree) command()               {}
func (SetEntryLabel) command()              {}
func (GetCommands) command()                {}
func (ReloadResources) command()            {}
func (GetTools) command()                   {}
func (SetActiveTools) command()             {}
func (SetTodos) command()                   {}
func (SetHostTools) command()               {}
func (HostToolUpdate) command()             {}
func (HostToolResult) command()             {}
func (ExtensionUIResponse) command()        {}
func (Hello) command()                      {}
func (GetProtocolInfo) command()            {}
func (OpenSession) command()                {}
func (CloseSession) command()               {}
func (AttachSession) command()              {}
func (DetachSession) command()              {}
func (ListOpenSessions) command()           {}

// HostTool is a tool that the host process runs for the model.
type HostTool struct {
	Name        string          `json:"name"`
	Label       string          `json:"label,omitempty"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema
	Hidden      bool            `json:"hidden,omitempty"`
}

// TodoPhase is a named group of todo items.
type TodoPhase struct {
	ID    string     `json:"id,omitempty"`
	Name  string     `json:"name"`
	Tasks []TodoItem `json:"tasks"`
}

// TodoItem is one thing to do.
type TodoItem struct {
	ID         string `json:"id"`
	Content    string `json:"content"`
	ActiveForm string `json:"activeForm,omitempty"`
	Status     string `json:"status"` // pending, in_progress, completed
}

// validators check what a type alone cannot say. They run after decoding and
// may normalise the command.
func validate(cmd Command) (Command, *Error) {
	switch c := cmd.(type) {
	case Prompt:
		if c.StreamingBehavior == "follow-up" {
			c.StreamingBehavior = BehaviorFollowUp
		}
		return c, nil
	case SetEntryLabel:
		c.Label = strings.TrimSpace(c.Label)
		return c, nil
	case SetSessionName:
		name := oneLine(c.Name)
		switch name {
		case "":
			return nil, CodeInvalidParams.Errorf("Session name cannot be empty")
		case c.Name:
			return cmd, nil
		}
		return SetSessionName{name}, nil
	case ExtensionUIResponse:
		if c.ID == "" {
			c.ID = c.RequestID
		}
		if c.ID == "" {
			return nil, CodeInvalidParams.Errorf("Missing id")
		}
		return c, nil
	default:
		return cmd, nil
	}
}

// oneLine is s with one space in the place of all white space.
func oneLine(s string) string {
	before, plain := byte(' '), true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] > ' ' && s[i] < utf8.RuneSelf || s[i] == ' ' && before != ' '
		before = s[i]
	}
	if plain && before != ' ' {
		return s // as most are
	}
	return strings.Join(strings.Fields(strings.Map(lineBreakToSpace, s)), " ")
}

func lineBreakToSpace(r rune) rune {
	switch r {
	case '\n', '\r', '\u2028', '\u2029', '\u0085':
		return ' '
	}
	return r
}

// decodeImages reads both wire forms of a picture into the flat one.
func decodeImages(v gjson.Result) ([]Image, *Error) {
	if !v.IsArray() {
		return nil, CodeInvalidParams.Errorf("images must be an array")
	}
	var images []Image
	for i, item := range v.Array() {
		img, why := decodeImage(item)
		if why != "" {
			return nil, CodeInvalidParams.Errorf("Invalid image at index %d: %s", i, why)
		}
		images = append(images, img)
	}
	return images, nil
}

// dataURL begins a URL that is the data itself.
const dataURL = "data:"

func decodeImage(v gjson.Result) (img Image, why string) {
	if !v.IsObject() {
		return img, "not an object"
	}
	if kind := v.Get("type"); kind.String() != "image" {
		return img, fmt.Sprintf("type %q is not image", kind.String())
	}
	bytes := "data" // the member that has them
	if src := v.Get("source"); src.Exists() {
		switch kind := src.Get("type").String(); kind {
		case "base64":
			v = src
		case "url":
			v, bytes = src, "url"
		default:
			return img, fmt.Sprintf("unknown source type %q", kind)
		}
	} else if !v.Get("data").Exists() && v.Get("url").Exists() {
		bytes = "url"
	}
	if bytes == "url" && !strings.HasPrefix(v.Get("url").String(), dataURL) {
		return img, "URLs are not fetched; send the data"
	}
	for _, name := range []string{"mimeType", "mediaType", "media_type"} {
		if m := v.Get(name); m.Type == gjson.String && img.MimeType == "" {
			img.MimeType = strings.Clone(m.Str)
		}
	}
	data := v.Get(bytes)
	if data.Type != gjson.String || data.Str == "" {
		return img, "missing data"
	}
	img.Data = data.Str
	if rest, ok := strings.CutPrefix(img.Data, dataURL); ok {
		mime, payload, found := strings.Cut(rest, ";base64,")
		if !found {
			return img, "data URL without base64"
		}
		img.Data = payload
		if img.MimeType == "" {
			mime, _, _ = strings.Cut(mime, ";") // without its parameters
			img.MimeType = strings.Clone(mime)
		}
	}
	if img.MimeType == "" {
		return img, "missing mimeType"
	}
	if !strings.HasPrefix(img.MimeType, "image/") {
		return img, fmt.Sprintf("mimeType %q is not an image", img.MimeType)
	}
	img.Data = strings.Clone(img.Data)
	if _, err := base64.StdEncoding.DecodeString(img.Data); err != nil {
		return img, "data is not base64"
	}
	return img, ""
}
