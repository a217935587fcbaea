package protocol

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSubmissionText(t *testing.T) {
	for data, want := range map[string]string{`"a\"b"`: `a"b`, `null`: "null", `{"n": 1}`: `{"n": 1}`, `3`: "3", `""`: ""} {
		s := Submission{Data: json.RawMessage(data)}
		assert.Equal(t, want, s.Text(), data)
	}
}
