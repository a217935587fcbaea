package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, in, out string
		ok            bool
	}{
		{"a pass", `{"Action":"run","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"A","Output":"=== RUN   A\n"}
{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:9: a remark\n"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}`, "ok  \tp\t0.1s\n", true},
		{"skips", `{"Action":"output","Package":"p","Test":"A","Output":"    need.go:9: needs node: not installed\n"}
{"Action":"output","Package":"p","Test":"A","Output":"--- SKIP: A (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"B","Output":"    need.go:9: needs node: not installed\n"}
{"Action":"skip","Package":"p","Test":"B"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"skip","Package":"q"}`, "ok  \tp\t0.1s\n\nskipped:\n    2  p\tneeds node: not installed\n", true},
		{"a failure", `{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:9: wrong\n"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}`, "    a_test.go:9: wrong\nFAIL\tp\t0.1s\n", false},
		{"a build that fails", `{"ImportPath":"p","Action":"build-output","Output":"p.go:1: syntax error\n"}
{"ImportPath":"p","Action":"build-fail"}`, "p.go:1: syntax error\n", false},
		{"no JSON", "go: no such module", "go: no such module\n", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			ok, err := run(strings.NewReader(c.in+"\n"), &out)
			require.NoError(t, err)
			assert.Equal(t, c.ok, ok)
			assert.Equal(t, c.out, out.String())
		})
	}
}
