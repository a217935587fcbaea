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

// generatedPart is where the pages in docs/protocol have their generated tables and examples.
var generatedPart = regexp.MustCompile(`(?s)(<!-- generated: (\w+) -->\n).*?(<!-- /generated -->)`)

// generatedParts are the texts of generatedPart, by name.
var generatedParts = map[string]func() string{
	"codes": schema.CodeTable, "retry": schema.RetryTable, "effects": schema.EffectTable,
	"features": schema.FeatureTable, "dialects": schema.DialectTable,
	"approval": func() string {
		return schema.ExampleText("approval_request") + schema.ExampleText("approval_response") + schema.ExampleText("approval_resolved")
	},
}

// withParts returns a page with its generated parts.
func withParts(t *testing.T, page string) string {
	return generatedPart.ReplaceAllStringFunc(page, func(part string) string {
		m := generatedPart.FindStringSubmatch(part)
		require.Contains(t, generatedParts, m[2])
		return m[1] + "\n" + generatedParts[m[2]]() + "\n" + m[3]
	})
}

// TestGenerated: the files on disk are what the tables say.
func TestGenerated(t *testing.T) {
	cli := flagTable.ReplaceAllString(read(t, root+"/docs/cli.md"), "${1}"+strings.ReplaceAll(flagTables(), "$", "$$")+"${2}")
	files := map[string]string{"protocol/REFERENCE.md": string(reference()), "protocol/schema.json": string(schema.JSON()), "docs/cli.md": cli}
	for _, name := range []string{"messages", "errors", "dialects"} {
		name = "docs/protocol/" + name + ".md"
		files[name] = withParts(t, read(t, root+"/"+name))
	}
	for name, want := range files {
		if *update {
			require.NoError(t, os.WriteFile(root+"/"+name, []byte(want), 0o644))
		}
		require.True(t, read(t, root+"/"+name) == want, "%s is stale: run make generate", name)
	}
}
