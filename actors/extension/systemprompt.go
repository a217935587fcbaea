package extension

import (
	"encoding/json"

	"troupe/protocol"
)

// SystemPrompt is the one in force. Options are what it was made of, Make makes
// another of others; both may be nil.
type SystemPrompt struct {
	Text    string
	Options json.RawMessage
	Make    func(PromptOptions) string
}

// PromptOptions are what a system prompt is made of, as extensions see it and may
// change it.
type PromptOptions struct {
	CustomPrompt string              `json:"customPrompt,omitempty"` // in the place of the built-in one
	Tools        []string            `json:"selectedTools"`
	Snippets     map[string]string   `json:"toolSnippets"` // a line for each tool
	ToolLines    map[string][]string `json:"toolGuidelines"`
	Guidelines   []string            `json:"promptGuidelines"` // beside those of tools
	Append       string              `json:"appendSystemPrompt"`
	Sections     map[string]string   `json:"sections"` // further ones, by their titles
	Cwd          string              `json:"cwd"`
	ContextFiles []PromptFile        `json:"contextFiles"`
	Skills       []PromptSkill       `json:"skills"`
}

// PromptFile is a file of instructions.
type PromptFile struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// PromptSkill is a skill that the model may read.
type PromptSkill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Path        string `json:"filePath"`
	BaseDir     string `json:"baseDir"`
	Hidden      bool   `json:"disableModelInvocation"`
}

// SetTools describes tools in the options.
func (o *PromptOptions) SetTools(tools []protocol.ToolInfo) {
	o.Tools, o.Snippets, o.ToolLines = []string{}, map[string]string{}, map[string][]string{}
	for _, t := range tools {
		o.Tools = append(o.Tools, t.Name)
		if t.Snippet != "" {
			o.Snippets[t.Name] = t.Snippet
		}
		if len(t.Guidelines) > 0 {
			o.ToolLines[t.Name] = t.Guidelines
		}
	}
}

// ToolInfos are the tools as far as the system prompt names them.
func (o *PromptOptions) ToolInfos() (tools []protocol.ToolInfo) {
	for _, n := range o.Tools {
		tools = append(tools, protocol.ToolInfo{Name: n, Snippet: o.Snippets[n], Guidelines: o.ToolLines[n]})
	}
	return tools
}
