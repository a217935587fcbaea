package wire

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"troupe/protocol"
)

// deltas runs pieces through one block and returns what came out.
func deltas(pieces ...string) (out []string) {
	p := newParts(&protocol.Model{})
	i := p.Open(protocol.BlockText, "", "")
	for _, piece := range pieces {
		p.Delta(i, piece)
	}
	p.Close(i, protocol.PartBlockEnd{})
	for _, part := range p.out {
		if d, ok := part.(protocol.PartDelta); ok {
			out = append(out, d.Delta)
		}
	}
	return out
}

func TestParts_characters(t *testing.T) {
	for _, c := range []struct{ in, want []string }{
		{[]string{"a", "", "b"}, []string{"a", "b"}},
		{[]string{"é"}, []string{"é"}},
		{[]string{"\xc3", "\xa9"}, []string{"é"}},
		{[]string{"x\xf0\x9f", "\x98", "\x80y"}, []string{"x", "😀y"}},
		{[]string{"x\xf0\x9f"}, []string{"x", "\uFFFD\uFFFD"}},
		{[]string{"\xff", "a\xc3(b"}, []string{"\uFFFD", "a\uFFFD(b"}},
		{[]string{"a\xed\xa0\xbd", "\xed\xb8\x80b"}, []string{"a", "😀b"}},
		{[]string{"a\xed\xa0\xbd", "b"}, []string{"a", "\uFFFDb"}},
		{[]string{"a\xed\xa0\xbd"}, []string{"a", "\uFFFD"}},
		{[]string{"\xed\xb8\x80b"}, []string{"\uFFFDb"}},
		{[]string{"\xed\x9f\xbf"}, []string{"\uD7FF"}}, // the last character before the surrogates
	} {
		assert.Equal(t, c.want, deltas(c.in...), "%q", c.in)
	}
}

// TestParts_split: cutting text anywhere gives whole characters that add up to
// it.
func TestParts_split(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var pieces []string
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		got := deltas(pieces...)
		for _, d := range got {
			assert.True(t, utf8.ValidString(d) && d != "")
		}
		assert.Equal(t, strings.ToValidUTF8(text, "\uFFFD"), strings.ToValidUTF8(strings.Join(got, ""), "\uFFFD"))
	})
}

func TestString(t *testing.T) {
	for raw, want := range map[string]string{
		`"plain é"`:                            "plain é",
		`"\u00e9\n\"\\\/\b\f\r\t"`:             "é\n\"\\/\b\f\r\t",
		`"\ud83d\ude00 \uD83D\uDE00"`:          "😀 😀",
		`"\b\f\n\r\t\"\\\/\ud83d\ude00\u00E9"`: "\b\f\n\r\t\"\\/😀é",
		`"a\ud83d"`:                            "a\xed\xa0\xbd",
		`"\ude00\n\u00e9"`:                     "\xed\xb8\x80\né",
		`"a\ud83db"`:                           "a\uFFFDb",
		`"\ude00\ud83d"`:                       "\xed\xb8\x80\xed\xa0\xbd",
		`"\\ud83d"`:                            `\ud83d`,
		`null`:                                 "",
		`12`:                                   "",
		`{"a":1}`:                              "",
	} {
		assert.Equal(t, want, String(gjson.Parse(raw)), raw)
	}
}

func TestParts_order(t *testing.T) {
	p := newParts(&protocol.Model{Cost: protocol.ModelCost{Input: 1_000_000}})
	a := p.Open(protocol.BlockThinking, "", "")
	p.Start("too late", "")
	b := p.Open(protocol.BlockToolCall, "id", "ls")
	p.Close(a, protocol.PartBlockEnd{Signature: "s"})
	p.Close(a, protocol.PartBlockEnd{Signature: "again"})
	p.Delta(a, "dropped")
	p.Delta(b, "{}")
	p.Usage(protocol.Usage{Input: 2, TotalTokens: 99})
	p.Done(protocol.StopToolUse, "x")
	p.Done(protocol.StopStop, "again")
	assert.Equal(t, []protocol.Part{
		protocol.PartStart{},
		protocol.PartBlockStart{Index: 0, Kind: protocol.BlockThinking},
		protocol.PartBlockStart{Index: 1, Kind: protocol.BlockToolCall, ID: "id", Name: "ls"},
		protocol.PartBlockEnd{Index: 0, Signature: "s"},
		protocol.PartDelta{Index: 1, Delta: "{}"},
		protocol.PartUsage{Usage: protocol.Usage{Input: 2, TotalTokens: 2, Cost: protocol.Cost{Input: 2, Total: 2}}},
		protocol.PartBlockEnd{Index: 1},
		protocol.PartDone{StopReason: protocol.StopToolUse, Raw: "x"},
	}, p.out)
}
