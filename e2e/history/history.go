package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// Kind says what a record is.
type Kind string

const (
	Command Kind = "command" // a line that the client wrote
	Output  Kind = "output"  // a line that the daemon wrote
	Life    Kind = "life"    // a process, or a daemon in a test, begins
	End     Kind = "end"     // it ended in an orderly way: everything is answered
	Killed  Kind = "killed"  // it was ended in a disorderly way
	Left    Kind = "left"    // one of several connections ended in an orderly way
	Broken  Kind = "broken"  // one of several connections ended in a disorderly way
	Ran     Kind = "ran"     // a tool that needs consent ran; the line is its call id
	Note    Kind = "note"    // anything else that helps to understand a failure
)

// Record is one thing that happened.
type Record struct {
	At   time.Time
	Conn int // which of several connections it is about, from 0
	Kind Kind
	Line string
}

// History is what happened, in the order in which it was seen. It is safe for
// concurrent use.
type History struct {
	mu      sync.Mutex
	records []Record
}

// Add appends a record about the first connection, or about none.
func (h *History) Add(kind Kind, line string) { h.AddTo(0, kind, line) }

// AddTo appends a record about a connection.
func (h *History) AddTo(conn int, kind Kind, line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.records = append(h.records, Record{time.Now(), conn, kind, line})
}

// Notef adds a note.
func (h *History) Notef(format string, args ...any) { h.Add(Note, fmt.Sprintf(format, args...)) }

// Records is a copy of what has happened so far.
func (h *History) Records() []Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Record(nil), h.records...)
}

// Fork is a history that goes on from here on its own: what the dying say after
// the moment of their death belongs to nobody.
func (h *History) Fork() *History { return &History{records: h.Records()} }

// Last is Tail, made when it is printed: for messages of assertions that mostly
// hold.
func (h *History) Last(n int) fmt.Stringer { return tail{h, n} }

type tail struct {
	h *History
	n int
}

func (t tail) String() string { return t.h.Tail(t.n) }

// Tail prints the last n records as JSON lines, long lines cut.
func (h *History) Tail(n int) string {
	records := h.Records()
	var b strings.Builder
	for _, r := range records[max(0, len(records)-n):] {
		line := r.Line
		if len(line) > 160 {
			line = line[:110] + "…" + line[len(line)-40:]
		}
		kind := string(r.Kind)
		if r.Conn > 0 {
			kind = fmt.Sprint(kind, " ", r.Conn)
		}
		raw, _ := json.Marshal([]string{r.At.Format("15:04:05.000"), kind, line})
		b.Write(append(raw, '\n'))
	}
	return b.String()
}

// Options say what a check can rely on.
type Options struct {
	// Canary finds in a text the token that marks whose it is, "" for none. It
	// is what S4 and S8 tell sessions apart by.
	Canary func(text string) string
	// Secrets must not appear in any output.
	Secrets []string
	// Files are the session files at the end, by path.
	Files map[string][]byte
	// Lossy says that the files may lack what was acknowledged: they are what a
	// power cut left, and durability was "process".
	Lossy bool
	// Open says that the histories' files may end inside a run: the process was
	// killed and nobody opened them since.
	Open bool
	// Mixed says that after the first life several sessions may share a mark.
	Mixed bool
	// Scarred says that the disk refused to cut off torn lines: they stand where
	// they are, and readers pass over them.
	Scarred bool
	// Free says that no tool needed consent.
	Free bool
	// Extended says that there were extensions, whose messages wait in the queues,
	// too: what is counted there is not followed.
	Extended bool
	// Concurrency is how many children of a call may be at work at once, 0 for any number.
	Concurrency int
	// Output is the limit of output tokens of the tree of sessions that asked models, 0 for none.
	Output int64
	// Work is what there was beside the sessions, nil if nobody has looked.
	Work *Work
	// Defaults are the handles of default sessions, by connection, under which
	// other connections know them.
	Defaults map[int]string
}

// Check runs every checker and returns what is wrong, in the form "S1: …".
func Check(h *History, o Options) []string {
	var found []string
	records := h.Records()
	all := lives(records)
	for i, life := range all {
		for _, view := range views(life) {
			found = append(found, answers(view)...)
			found = append(found, nesting(view, o)...)
			found = append(found, closings(view)...)
			found = append(found, hygiene(view, o)...)
			found = append(found, aborts(view)...)
			found = append(found, sequence(view)...)
			if i == 0 || !o.Mixed {
				found = append(found, isolation(view, o)...)
			}
		}
		found = append(found, linear(life, i == 0, o)...)
		if !o.Free {
			found = append(found, consent(life, o)...)
		}
	}
	for path, content := range o.Files {
		found = append(found, file(path, content, o)...)
	}
	if !o.Lossy && !o.Open {
		found = append(found, costs(o.Files)...)
		if len(all) > 0 {
			found = append(found, stats(all[len(all)-1], o.Files)...)
		}
	}
	if o.Work != nil {
		found = append(found, works(o.Work, o.Files)...)
	}
	found = append(found, requests(records, o.Output)...)
	if !o.Lossy {
		found = append(found, counters(records)...)
	}
	if o.Files != nil {
		found = append(found, inputs(records, o)...)
	}
	return found
}

// life is one process's part of a history.
type life struct {
	records []Record
	orderly bool // it ended in an orderly way
	left    bool // and goes on without the client whose view this is
	of      int  // the connection whose view this is
}

// views are what each connection of a life said and heard.
func views(l life) (all []life) {
	conns := 0
	for _, r := range l.records {
		conns = max(conns, r.Conn)
	}
	for conn := range conns + 1 {
		v := life{orderly: l.orderly, of: conn}
		for _, r := range l.records {
			if r.Conn != conn && (r.Kind == Command || r.Kind == Output || r.Kind == Left || r.Kind == Broken) {
				continue
			}
			v.records = append(v.records, r)
			switch r.Kind {
			case Left:
				v.orderly, v.left = true, true
			case Broken:
				v.orderly, v.left = false, true
			default:
			}
		}
		all = append(all, v)
	}
	return all
}

// sessionOf is a name for a session that all connections use: the handle, and
// for what a client does not tag its default session.
func (o Options) sessionOf(conn int, handle string) string {
	return cmp.Or(handle, o.Defaults[conn], fmt.Sprintf("default of %d", conn))
}

func lives(records []Record) []life {
	var all []life
	for _, r := range records {
		if r.Kind == Life || len(all) == 0 {
			all = append(all, life{})
		}
		at := &all[len(all)-1]
		at.records = append(at.records, r)
		at.orderly = at.orderly || r.Kind == End
	}
	return all
}

// command is a client's line, as far as it can be read.
type command struct {
	id, kind, session string
	raw               gjson.Result
}

func parseCommand(line string) command {
	v := gjson.Parse(line)
	if !gjson.Valid(line) || !v.IsObject() {
		return command{}
	}
	return command{v.Get("id").Raw, v.Get("type").Str, v.Get("sessionId").Str, v}
}

func isResponse(v gjson.Result) bool { return v.Get("type").Str == "response" }

func clip(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
