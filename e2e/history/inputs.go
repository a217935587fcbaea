package history

import (
	"fmt"
	"slices"

	"github.com/tidwall/gjson"
)

// input is one text that the client wanted said. Texts are unique, except that
// a command may be repeated with its idempotency key.
type input struct {
	text, mark string
	class      string // steer, followUp, or started
	conn       int    // of the connection that said it first
	at         int    // of the try that was accepted, in the order of commands
	unordered  bool   // it may have been an earlier one
	accepted   bool
	unknown    int  // tries that were not answered, or by an answer that leaves it open
	returned   bool // by clear_queue
}

// where texts are found in the files.
type whereabouts struct {
	delivered, queued, removed int
	position                   int // of the delivery
	file                       string
}

// isChild says whether a file is that of the child of another session.
func isChild(list []gjson.Result) bool {
	return slices.ContainsFunc(list, func(e gjson.Result) bool { return e.Get("customType").Str == "troupe.subagent" })
}

// inputs is S4.
func inputs(records []Record, o Options) (found []string) {
	said := tries(records, o)
	places := locate(o.Files, func(text string) bool { return said[text] != nil })
	for text := range places {
		if said[text] == nil && o.Canary != nil && o.Canary(text) != "" {
			found = append(found, "S4: a message that nobody sent: "+clip(text))
		}
	}
	for _, in := range said {
		at := places[in.text]
		if at == nil {
			at = &whereabouts{}
		}
		n := at.delivered + at.queued + at.removed
		switch {
		case n > 1:
			found = append(found, fmt.Sprintf("S4: %d times in the files: %s (%+v)", n, clip(in.text), *at))
		case in.accepted && n == 0 && !o.Lossy:
			found = append(found, "S4: accepted and lost: "+clip(in.text))
		case in.returned && at.removed == 0 && !o.Lossy:
			found = append(found, fmt.Sprintf("S4: returned and still there: %s (%+v)", clip(in.text), *at))
		case !in.accepted && in.unknown == 0 && n > 0:
			found = append(found, fmt.Sprintf("S4: refused and in the files: %s (%+v)", clip(in.text), *at))
		}
	}
	return append(found, order(said, places)...)
}

// order checks that the texts of one class were delivered as they were sent.
func order(said map[string]*input, places map[string]*whereabouts) (found []string) {
	lines := map[string][]*input{}
	for _, in := range said {
		if at := places[in.text]; in.accepted && !in.unordered && at != nil && at.delivered == 1 {
			key := fmt.Sprint(at.file, " ", in.mark, " ", in.class, " of ", in.conn)
			lines[key] = append(lines[key], in)
		}
	}
	for key, list := range lines {
		slices.SortFunc(list, func(a, b *input) int { return a.at - b.at })
		for i := 1; i < len(list); i++ {
			if places[list[i].text].position < places[list[i-1].text].position {
				found = append(found, fmt.Sprintf("S4: out of order (%s): %q before %q", key, clip(list[i].text), clip(list[i-1].text)))
			}
		}
	}
	return found
}

// tries collects what clients said and what they were told about it.
func tries(records []Record, o Options) map[string]*input {
	said := map[string]*input{}
	type try struct {
		*input
		n int
	}
	pending := map[string]try{} // by life and command id
	clears := map[string]bool{}
	life, n := 0, 0
	key := func(id string) string { return fmt.Sprint(life, " ", id) }
	for _, r := range records {
		switch r.Kind {
		case Life:
			life++
		case Command:
			c := parseCommand(r.Line)
			if c.kind == "clear_queue" {
				clears[key(c.id)] = true
			}
			class := classOf(c)
			if class == "" {
				continue
			}
			n++
			text := c.raw.Get("message").Str
			in := said[text]
			if in == nil {
				in = &input{text: text, class: class, conn: r.Conn}
				if o.Canary != nil {
					in.mark = o.Canary(text)
				}
				said[text] = in
			}
			in.unknown++ // until it is answered
			pending[key(c.id)] = try{in, n}
		case Output:
			v := gjson.Parse(r.Line)
			if !isResponse(v) {
				continue
			}
			id := key(v.Get("id").Raw)
			if t, is := pending[id]; is {
				t.answered(v, t.n)
				delete(pending, id)
			}
			if clears[id] && v.Get("success").Bool() {
				for _, queue := range []string{"steering", "followUp"} {
					for _, t := range v.Get("data." + queue).Array() {
						if in := said[t.Str]; in != nil {
							in.returned = true
						}
					}
				}
			}
		}
	}
	return said
}

// answered notes an answer. Some refusals are the ledger's: it does not know
// how far the command got.
func (in *input) answered(v gjson.Result, n int) {
	if v.Get("data.disposition").Str == "handled" { // by an extension: no session has it
		in.unknown--
		return
	}
	if v.Get("success").Bool() {
		in.unknown--
		if in.accepted {
			return
		}
		in.accepted, in.at, in.unordered = true, n, in.unknown > 0
		if d := v.Get("data.disposition").Str; d != "queued" && in.class != "queue" {
			in.class = "started"
		}
		if in.class == "queue" {
			in.class = "steer"
		}
		return
	}
	switch v.Get("code").Str {
	case "internal", "session_failed":
	default:
		in.unknown--
	}
}

// classOf is the queue that a command's text waits in, "" for no text.
func classOf(c command) string {
	switch c.kind {
	case "prompt":
		if c.raw.Get("streamingBehavior").Str == "steer" {
			return "steer"
		}
		return "followUp"
	case "steer":
		return "steer"
	case "queue_message":
		return "queue"
	case "follow_up":
		return "followUp"
	case "abort_and_prompt":
		return "started"
	}
	return ""
}

// locate finds every text in the files; in those of children, to whom others than clients
// have spoken as well, what clients have said.
func locate(files map[string][]byte, said func(text string) bool) map[string]*whereabouts {
	places := map[string]*whereabouts{}
	at := func(text string) *whereabouts {
		if places[text] == nil {
			places[text] = &whereabouts{}
		}
		return places[text]
	}
	for path, content := range files {
		list, _, _ := entries(content)
		child := isChild(list)
		queued := map[string]string{} // text by queue id
		for i, e := range list {
			switch {
			case e.Get("type").Str == "message" && e.Get("message.role").Str == "user":
				text := textOf(e.Get("message.content"))
				if child && !said(text) {
					continue
				}
				w := at(text)
				w.delivered++
				w.position, w.file = i, path
				delete(queued, e.Get("troupeQueueId").Str)
			case e.Get("customType").Str == "troupe.queue":
				op := e.Get("data")
				if op.Get("op").Str == "add" && op.Get("kind").Str != "bash" && (!child || said(op.Get("text").Str)) {
					queued[op.Get("id").Str] = op.Get("text").Str
				}
				for _, id := range op.Get("ids").Array() {
					if text, is := queued[id.Str]; is {
						at(text).removed++
						delete(queued, id.Str)
					}
				}
			}
		}
		for _, text := range queued {
			at(text).queued++
		}
	}
	return places
}

func textOf(content gjson.Result) string {
	if content.Type == gjson.String {
		return content.Str
	}
	return content.Get("0.text").Str
}
