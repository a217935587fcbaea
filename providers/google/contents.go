package google

import (
	"troupe/protocol"
	"troupe/providers/wire"
)

// What is said in front of images that a tool result cannot hold, and the value
// that Google documents for calls whose signature is not known: without it newer
// models refuse a call that another model made.
const (
	imagesText    = "The images of the tool results above:"
	seeImagesText = "(see the image)"
	skipSignature = "skip_thought_signature_validator"
)

// writer puts parts into contents. A content has one role; parts of the same
// role and kind share one.
type writer struct {
	b     []byte
	start int    // where the contents begin in b
	open  string // the content that is open, "" for none
}

// Kinds of contents. Tool results and what the user says are both of the role
// user, but the results of one answer stand alone.
const (
	ofModel   = "model"
	ofUser    = "user"
	ofResults = "results"
)

// part begins one more part of a content of a kind.
func (w *writer) part(kind string) {
	if w.open == kind {
		w.b = append(w.b, ',')
		return
	}
	w.end()
	if len(w.b) > w.start {
		w.b = append(w.b, ',')
	}
	role := kind
	if kind == ofResults {
		role = ofUser
	}
	w.b = append(append(append(w.b, `{"role":"`...), role...), `","parts":[`...)
	w.open = kind
}

func (w *writer) end() {
	if w.open != "" {
		w.b = append(w.b, `]}`...)
		w.open = ""
	}
}

func (w *writer) text(kind, text string) {
	w.part(kind)
	w.b = append(wire.Str(w.b, `{"text":`, text), '}')
}

func (w *writer) image(kind string, image protocol.Image) {
	w.part(kind)
	w.b = appendImage(w.b, image)
}

func appendImage(b []byte, image protocol.Image) []byte {
	b = wire.Str(b, `{"inlineData":{"mimeType":`, image.MimeType)
	b = wire.Str(b, `,"data":`, image.Data)
	return append(b, `}}`...)
}

// contents appends the conversation, nothing if there is none.
func (e *encoder) contents(b []byte, messages []protocol.Message) []byte {
	w := &writer{b: b, start: len(b)}
	var images []protocol.Image // of the results of one answer
	flush := func() {
		if len(images) > 0 {
			w.text(ofUser, imagesText)
			for _, image := range images {
				w.image(ofUser, image)
			}
			w.end()
			images = nil
		}
	}
	for _, m := range messages {
		switch m := m.(type) {
		case *protocol.UserMessage:
			flush()
			for _, block := range m.Content {
				switch block := block.(type) {
				case protocol.Text:
					w.text(ofUser, block.Text)
				case protocol.Image:
					w.image(ofUser, block)
				case protocol.Thinking, protocol.ToolCall, protocol.UnknownBlock: // Convert leaves none where input stands
				}
			}
		case *protocol.AssistantMessage:
			flush()
			e.appendAnswer(w, m.Content)
		case *protocol.ToolResultMessage:
			images = append(images, e.appendResult(w, m)...)
		default: // Convert leaves no others
		}
	}
	flush()
	w.end()
	return w.b
}

// appendAnswer writes what the model said. A signature stands at the part it
// came with; the first of several calls carries the one of all.
func (e *encoder) appendAnswer(w *writer, content protocol.Content) {
	first := true
	for _, block := range content {
		switch block := block.(type) {
		case protocol.Text:
			e.appendText(w, block.Text, block.Signature, false)
		case protocol.Thinking:
			e.appendText(w, block.Thinking, block.Signature, true)
		case protocol.ToolCall:
			signature := block.ThoughtSignature
			if !validSignature(signature) {
				signature = ""
				if first && e.family.nested {
					signature = skipSignature
				}
			}
			e.appendCall(w, block, signature)
			first = false
		case protocol.Image, protocol.UnknownBlock: // Convert leaves none in an answer
		}
	}
}

// appendText writes text or thinking. Gemini signs empty texts, too, and wants
// them back; an empty text without a signature would be refused.
func (e *encoder) appendText(w *writer, text, signature string, thought bool) {
	if !validSignature(signature) {
		signature = ""
	}
	if text == "" && signature == "" {
		return
	}
	w.part(ofModel)
	w.b = wire.Str(w.b, `{"text":`, text)
	if thought {
		w.b = append(w.b, `,"thought":true`...)
	}
	w.b = append(appendSignature(w.b, signature), '}')
}

func appendSignature(b []byte, signature string) []byte {
	if signature == "" {
		return b
	}
	return wire.Str(b, `,"thoughtSignature":`, signature)
}

func (e *encoder) appendCall(w *writer, call protocol.ToolCall, signature string) {
	w.part(ofModel)
	w.b = append(w.b, `{"functionCall":{`...)
	w.b = e.appendFunction(w.b, call.ID, call.Name)
	w.b = append(w.b, `,"args":`...)
	w.b = append(w.b, call.Arguments...)
	w.b = append(appendSignature(append(w.b, '}'), signature), '}')
}

// appendFunction writes what a call and its result have in common.
func (e *encoder) appendFunction(b []byte, id, name string) []byte {
	if e.family.ids {
		b = append(wire.Str(b, `"id":`, id), ',')
	}
	return wire.Str(b, `"name":`, functionName(name))
}

// appendResult writes a tool result and returns the images that have no place
// in it.
func (e *encoder) appendResult(w *writer, m *protocol.ToolResultMessage) (outside []protocol.Image) {
	text, field := wire.TextOf(m.Content, "\n"), "output"
	if m.IsError {
		field = "error"
	}
	images := m.Content.Images()
	if text == "" && len(images) > 0 {
		text = seeImagesText
	}
	w.part(ofResults)
	w.b = append(w.b, `{"functionResponse":{`...)
	w.b = e.appendFunction(w.b, m.ToolCallID, m.ToolName)
	w.b = append(append(append(w.b, `,"response":{"`...), field...), `":`...)
	w.b = append(protocol.AppendString(w.b, text), '}')
	if e.family.nested {
		for i, image := range images {
			sep := `,`
			if i == 0 {
				sep = `,"parts":[`
			}
			w.b = appendImage(append(w.b, sep...), image)
		}
		if len(images) > 0 {
			w.b = append(w.b, ']')
		}
		images = nil
	}
	w.b = append(w.b, `}}`...)
	return images
}

var _ wire.Format = format{}
