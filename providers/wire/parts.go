package wire

import (
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"troupe/protocol"
	"troupe/providers"
)

// Parts is where a wire's decoder puts an answer. Whatever a server sends, what
// comes out keeps the order that [protocol.Part] prescribes: one start, blocks
// numbered as they open, deltas that end at character boundaries and belong to
// an open block, every block closed before the end.
type Parts struct {
	model   *protocol.Model
	req     *providers.Request // whose answer this is, nil where nobody needs to know
	out     []protocol.Part
	blocks  []block
	usage   protocol.Usage // the last that was reported
	said    int64          // [protocol.TextSize] of the answer, for an estimate of its length
	started bool
	done    bool
	closing bool
	called  bool // a tool
	content bool // something of the answer came since the exchange last asked
}

type block struct {
	kind   protocol.BlockKind
	closed bool
	held   string // the first bytes of a character whose rest is still to come
}

func newParts(model *protocol.Model) *Parts { return &Parts{model: model} }

// Start begins the answer. Without it the first block does; a second call
// changes nothing. model is the provider's name of the model, "" if it did not say.
func (p *Parts) Start(responseID, model string) {
	if !p.started {
		p.started = true
		p.put(protocol.PartStart{ResponseID: responseID, Named: model})
	}
}

// Open begins a block and returns its index. id and name are a tool call's.
func (p *Parts) Open(kind protocol.BlockKind, id, name string) int {
	p.Start("", "")
	p.blocks = append(p.blocks, block{kind: kind})
	p.called = p.called || kind == protocol.BlockToolCall
	index := len(p.blocks) - 1
	p.put(protocol.PartBlockStart{Index: index, Kind: kind, ID: id, Name: name})
	p.content = true
	return index
}

// Delta grows block index. Text for a block that is closed is dropped.
func (p *Parts) Delta(index int, text string) {
	b := &p.blocks[index]
	if text == "" || b.closed {
		return
	}
	p.content = true
	text = b.held + text
	cut := wholeCharacters(text)
	text, b.held = text[:cut], strings.Clone(text[cut:])
	if text != "" {
		p.said += protocol.TextSize(text)
		p.put(protocol.PartDelta{Index: index, Delta: wellFormed(text)})
	}
}

// Close ends block index with what end says about it. Closing twice changes
// nothing.
func (p *Parts) Close(index int, end protocol.PartBlockEnd) {
	b := &p.blocks[index]
	if b.closed {
		return
	}
	if b.held != "" {
		p.put(protocol.PartDelta{Index: index, Delta: wellFormed(b.held)})
	}
	b.closed = true
	end.Index = index
	p.put(end)
	p.content = true
}

// Alive says that the server works on the answer though it has nothing to show,
// as while it sends a signature.
func (p *Parts) Alive() { p.content = true }

// Closing says that the answer is complete and only trailing information, such
// as usage, may follow: the exchange waits for that a few seconds at most.
func (p *Parts) Closing() { p.closing = true }

// Done ends the answer, closing the blocks that are open. One that stops with a call waits for
// its tool. raw is the provider's own word for the reason.
func (p *Parts) Done(reason protocol.StopReason, raw string) {
	if p.done {
		return
	}
	p.Start("", "")
	for i := range p.blocks {
		p.Close(i, protocol.PartBlockEnd{})
	}
	if reason == protocol.StopStop && p.called {
		reason = protocol.StopToolUse
	}
	p.estimate()
	p.done, p.content = true, true
	p.put(protocol.PartDone{StopReason: reason, Raw: raw})
}

// Full ends the answer where the context has filled the window: without an answer that is an error.
func (p *Parts) Full(raw string) error {
	if len(p.blocks) == 0 {
		return protocol.ErrorOverflow.Errorf("The context fills the model's window: %s", raw)
	}
	p.Done(protocol.StopLength, raw)
	return nil
}

// Declined is the error of a model that does not answer. why is its explanation, "" for none.
func Declined(raw, why string) error {
	if why != "" {
		return protocol.ErrorRefusal.Errorf("The model declined to answer (%s): %s", raw, why)
	}
	return protocol.ErrorRefusal.Errorf("The model declined to answer (%s)", raw)
}

// Len is the number of blocks so far.
func (p *Parts) Len() int { return len(p.blocks) }

func (p *Parts) put(part protocol.Part) { p.out = append(p.out, part) }

// wholeCharacters is the length of the longest prefix of s that does not end in
// the middle of a character. A high surrogate as [String] leaves it counts as a
// beginning, too.
func wholeCharacters(s string) int {
	for n := 1; n <= 3 && n <= len(s); n++ {
		tail := s[len(s)-n:]
		if !utf8.RuneStart(tail[0]) {
			continue
		}
		if !utf8.FullRuneInString(tail) || n == 3 && isHigh(tail) {
			return len(s) - n
		}
		break
	}
	return len(s)
}

// isHigh and isLow recognise half a surrogate pair in the three bytes that a
// generalised UTF-8 would give it.
func isHigh(s string) bool {
	return len(s) >= 3 && s[0] == 0xED && s[1] >= 0xA0 && s[1] < 0xB0 && s[2]&0xC0 == 0x80
}
func isLow(s string) bool {
	return len(s) >= 3 && s[0] == 0xED && s[1] >= 0xB0 && s[1] < 0xC0 && s[2]&0xC0 == 0x80
}

// wellFormed joins the two halves of surrogate pairs and replaces every other
// half, and every byte that is not UTF-8, by U+FFFD.
func wellFormed(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	out := make([]byte, 0, len(s)+8)
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r != utf8.RuneError || size > 1:
			out = append(out, s[:size]...)
		case isHigh(s) && isLow(s[3:]):
			pair := 0x10000 + half(s)<<10 + half(s[3:])
			out, size = utf8.AppendRune(out, pair), 6
		case isHigh(s) || isLow(s):
			out, size = append(out, "\uFFFD"...), 3
		default:
			out = append(out, "\uFFFD"...)
		}
		s = s[size:]
	}
	return string(out)
}

// half is the ten bits that one half of a surrogate pair carries.
func half(s string) rune { return rune(s[1]&0x0F)<<6 | rune(s[2]&0x3F) }

// String is the text of a JSON string, "" for any other value. Half a surrogate
// pair survives in a form that [Parts] understands: servers do split a pair
// over two events.
func String(v gjson.Result) string {
	if v.Type != gjson.String {
		return ""
	}
	if !strings.Contains(v.Raw, `\ud`) && !strings.Contains(v.Raw, `\uD`) {
		return v.Str
	}
	return unescape(v.Raw[1 : len(v.Raw)-1])
}

// unescape decodes the inside of a valid JSON string.
func unescape(s string) string {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		switch s[i] {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			out = appendUnit(out, hex4(s[i+1:i+5]))
			i += 4
		default: // a quote or a slash stands for itself
			out = append(out, s[i])
		}
	}
	return wellFormedPairs(string(out))
}

// appendUnit appends a UTF-16 unit, half a pair in generalised UTF-8.
func appendUnit(dst []byte, u rune) []byte {
	if u >= 0xD800 && u < 0xE000 {
		return append(dst, 0xED, byte(0x80|u>>6&0x3F), byte(0x80|u&0x3F))
	}
	return utf8.AppendRune(dst, u)
}

func hex4(s string) (u rune) {
	for i := range 4 {
		c := s[i] | 0x20 // lower case; digits have the bit anyway
		if c >= 'a' {
			c -= 'a' - 10
		} else {
			c -= '0'
		}
		u = u<<4 | rune(c&0x0F)
	}
	return u
}

// wellFormedPairs is wellFormed for all of s but a low half at its start and a
// high half at its end, which may have their partners in a neighbouring event.
func wellFormedPairs(s string) string {
	from, to := 0, len(s)
	if isLow(s) {
		from = 3
	}
	if to-3 >= from && isHigh(s[to-3:]) {
		to -= 3
	}
	return s[:from] + wellFormed(s[from:to]) + s[to:]
}
