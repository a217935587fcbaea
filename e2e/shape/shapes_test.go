package shape

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

func of(records ...string) Shapes {
	s := Shapes{}
	for _, r := range records {
		v := gjson.Parse(r)
		if kind := KindOf(v); kind != "" {
			s.Add(kind, v)
		}
	}
	s.Done()
	return s
}

// TestCompare: every way in which a record can be less is noticed, and said once.
func TestCompare(t *testing.T) {
	theirs := of(
		`{"type":"response","command":"a","success":true,"data":{"n":1,"s":"x","deep":{"k":1},"list":[{"id":1},{"id":2}],"blocks":[{"type":"text","text":"x"},{"type":"image"}]}}`,
		`{"type":"response","command":"a","success":true,"data":{"n":1,"deep":{"k":1},"list":[],"blocks":[]}}`,
		`{"type":"agent_end","messages":[{"role":"user","content":"x"}]}`,
		`{"type":"settled"}`,
		`{"type":"response","command":"b","success":false,"error":"Unknown command: b"}`,
	)
	for _, c := range []struct {
		name string
		ours []string
		want []string
	}{
		{"the same", []string{
			`{"type":"response","command":"a","success":true,"data":{"n":1,"s":"x","more":1,"deep":{"k":1},"list":[{"id":1}],"blocks":[{"type":"text","text":"x"},{"type":"image"}]}}`,
			`{"type":"agent_end","messages":[{"role":"user","content":"x"}]}`, `{"type":"settled"}`, `{"type":"other","key":null}`,
		}, nil},
		{"less", []string{
			`{"type":"response","command":"a","success":true,"data":{"s":7,"extra":null,"list":[{"id":null}],"blocks":[{"type":"text"}]}}`,
			`{"type":"response","command":"a","success":true,"data":{"n":1,"list":[],"blocks":[]}}`,
			`{"type":"agent_end","messages":[]}`,
		}, []string{
			"agent_end: messages[user] is missing object",
			"response a: data.blocks[image] is missing object",
			"response a: data.blocks[text].text is missing string",
			"response a: data.deep is missing object",
			"response a: data.list[].id is null where it never is",
			"response a: data.n is sometimes missing",
			"response a: data.s is type number, not string",
			"response a: data.extra is null where there is no such key",
			"settled:  is missing",
		}},
	} {
		ours := of(c.ours...)
		var got []string
		for _, d := range Compare(theirs, ours) {
			got = append(got, d.String())
		}
		assert.Equal(t, c.want, got, c.name)
		assert.Empty(t, Compare(ours, ours), c.name)
	}
}

// TestReadWrite: what is written is read as it was.
func TestReadWrite(t *testing.T) {
	s := of(`{"type":"x","a":[1,"s"],"b":{"c":null}}`, `{"type":"x","a":[]}`)
	var text bytes.Buffer
	require.NoError(t, s.Write(&text))
	assert.Equal(t, "x\n  a array\n  a[] number string\n  b? object\n  b.c null\n  type string\n", text.String())
	back, err := Read(text.String())
	require.NoError(t, err)
	assert.Empty(t, Compare(s, back))
	assert.Empty(t, Compare(back, s))
}
