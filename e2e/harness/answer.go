package harness

import "net/http"

// Pixel is a PNG picture of one point, in base64.
const Pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// Filler is a text of about thirty tokens.
const Filler = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

// LongPrompt is so long that a compaction in a [NewCompactingPlace] keeps only this prompt.
const LongPrompt = Filler + Filler + Filler

// Answer is the answer to one request of a model. The zero value is an empty stream.
type Answer struct {
	Status int    // of an answer that is not a stream; 0 for a stream
	Body   string // with Status
	Header http.Header
	Steps  []Step
	Stop   string // stop, length or toolUse; "" for the one that follows from Steps
	Cut    bool   // the connection closes before the closing event
	Input  int    // tokens of usage; 0 for 100
	Output int    // tokens of usage; 0 for 10
	// Raw, if set, writes the whole answer instead of Steps.
	Raw func(w http.ResponseWriter, r *http.Request)
}

// Step is a piece of a streamed answer.
type Step struct {
	Kind      string // text, thinking, tool, gate, stall or comment
	ID        string // of a tool call
	Name      string // of a tool, or of a gate
	Part      string // a text, or the arguments of a tool call as JSON
	Signature string // of thinking
}

// Text is an answer of one text, in chunks.
func Text(chunks ...string) Answer {
	a := Answer{}
	for _, c := range chunks {
		a.Steps = append(a.Steps, Step{Kind: "text", Part: c})
	}
	return a
}

// ToolCall is an answer that calls a tool, with arguments as JSON.
func ToolCall(id, name, args string) Answer {
	return Answer{Steps: []Step{{Kind: "tool", ID: id, Name: name, Part: args}}}
}

// Gate is an answer that waits until the test calls [ModelServer.OpenGate].
func Gate(name string) Answer { return Answer{Steps: []Step{{Kind: "gate", Name: name}}} }

// Fail is an answer with an HTTP status other than 200.
func Fail(status int, body string) Answer { return Answer{Status: status, Body: body} }

// WithHeader adds an HTTP header to an answer. Only answers with a Status send their headers.
func WithHeader(name, value string, a Answer) Answer {
	a.Header = http.Header{name: {value}}
	return a
}

// Then returns an answer with the steps of a followed by those of b.
func (a Answer) Then(b Answer) Answer {
	a.Steps = append(append([]Step(nil), a.Steps...), b.Steps...)
	return a
}

func (a Answer) usage() (in, out int) {
	in, out = a.Input, a.Output
	if in == 0 {
		in = 100
	}
	if out == 0 {
		out = 10
	}
	return in, out
}

func (a Answer) hasTools() bool {
	for _, st := range a.Steps {
		if st.Kind == "tool" {
			return true
		}
	}
	return false
}
