package export

import (
	"encoding/json"
	"io"
	"path"
	"strings"
	"time"

	"troupe/protocol"
)

// Document is a session to be exported.
type Document struct {
	Header protocol.Header
	Name   string // of the session, "" for none

	// Entries are the lines of all branches in the order of the file, without
	// the header. A line that is no JSON is shown as it is.
	Entries []json.RawMessage

	// Leaf is the id of the entry whose branch is shown first. If there is no
	// such entry it is the last one's.
	Leaf string

	// SystemPrompt and Tools are what the model is told at the time of the
	// export; files do not say. Both may be empty.
	SystemPrompt string
	Tools        []protocol.ToolInfo

	Exported  time.Time // zero to leave it out
	Generator string    // program and version
}

// session is the page's data beside the entries. The file's own header is kept
// as it is written, for readers who save the session from the page.
type session struct {
	Header       json.RawMessage     `json:"header"`
	Name         string              `json:"name,omitempty"`
	Leaf         string              `json:"leaf,omitempty"`
	SystemPrompt string              `json:"systemPrompt,omitempty"`
	Tools        []protocol.ToolInfo `json:"tools,omitempty"`
	Exported     string              `json:"exported,omitempty"`
	Generator    string              `json:"generator,omitempty"`
}

// Write renders a session as one HTML document. It writes in pieces; w should
// be buffered if a write is expensive.
func Write(w io.Writer, doc Document) error {
	p, err := pageParts()
	if err != nil {
		return err
	}
	info, err := json.Marshal(doc.session())
	if err != nil {
		return err
	}
	out := writer{w: w}
	out.text(p.head)
	out.html(doc.title())
	out.text(p.beforeSession)
	out.json(info)
	out.text(p.beforeEntries)
	for i, e := range doc.Entries {
		if i > 0 {
			out.text("\n")
		}
		out.json(e)
	}
	out.text(p.tail)
	return out.err
}

func (d Document) session() session {
	s := session{
		Header: d.Header.AppendJSON(nil), Name: d.Name, Leaf: d.Leaf,
		SystemPrompt: d.SystemPrompt, Generator: d.Generator,
	}
	for _, t := range d.Tools {
		if !json.Valid(t.Parameters) { // it comes from an extension
			t.Parameters = nil
		}
		s.Tools = append(s.Tools, t)
	}
	if !d.Exported.IsZero() {
		s.Exported = protocol.FormatTime(d.Exported.UnixMilli())
	}
	return s
}

// title names the page: after the session, or after where it took place.
func (d Document) title() string {
	if name := strings.TrimSpace(d.Name); name != "" {
		return name
	}
	where := path.Base(strings.ReplaceAll(d.Header.Cwd, `\`, "/"))
	if where == "." || where == "/" {
		return "Session " + d.Header.ID
	}
	return where + " · session " + d.Header.ID
}
