package main

import (
	goflag "flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"troupe/protocol/schema"
)

var update = goflag.Bool("update", false, "write the generated files")

// flagTable is where docs/cli.md has its generated tables.
var flagTable = regexp.MustCompile(`(?s)(<!-- flags:[^\n]*-->\n).*?(<!-- /flags -->)`)

// TestGenerated: the files on disk are what the tables say.
func TestGenerated(t *testing.T) {
	cli := flagTable.ReplaceAllString(read(t, root+"/docs/cli.md"), "${1}"+strings.ReplaceAll(flagTables(), "$", "$$")+"${2}")
	for name, want := range map[string]string{
		"protocol/REFERENCE.md": string(reference()), "protocol/schema.json": string(schema.JSON()), "docs/cli.md": cli,
	} {
		if *update {
			require.NoError(t, os.WriteFile(root+"/"+name, []byte(want), 0o644))
		}
		require.True(t, read(t, root+"/"+name) == want, "%s is stale: run make generate", name)
	}
}
