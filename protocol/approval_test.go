package protocol

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestSelectSaysWhatWouldRun: whoever knows dialogs only reads what is asked about, whatever the tool.
func TestSelectSaysWhatWouldRun(t *testing.T) {
	for _, c := range []struct {
		ask  ApprovalRequest
		want string
	}{
		{ApprovalRequest{Kind: "execute", Title: "Run bash: make", Args: []byte(`{"command":"make"}`)}, "Run bash: make\nwhy"},
		{ApprovalRequest{Kind: "edit", Title: "Run write: /a", Args: []byte(`{"path":"a"}`), Preview: ApprovalPreview{Diff: "+x"}}, "Run write: /a\nwhy\n\n+x"},
		{ApprovalRequest{Kind: "other", Title: "Run deploy", Args: []byte(`{"where":"everywhere"}`)}, "Run deploy\nwhy\n\n" + `{"where":"everywhere"}`},
		{ApprovalRequest{Kind: "other", Title: "Run deploy", Args: []byte(strings.Repeat("ü", mostArgs))}, "Run deploy\nwhy\n\n" + strings.Repeat("ü", mostArgs/2) + "…"},
	} {
		c.ask.Why.Reason = "why"
		assert.Equal(t, c.want, *c.ask.Select().Title)
	}
}
