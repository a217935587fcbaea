package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/providers"
)

// TestHelpNamesKeys: the help names every variable that can hold a vendor's API key.
func TestHelpNamesKeys(t *testing.T) {
	text := usage()
	for _, v := range providers.Vendors {
		if v.Now != "" {
			continue // a former ID, which is accepted and not advertised
		}
		for _, name := range v.Env {
			row := regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(v.ID) + ` .*\b` + name + `\b`)
			if v.ID == "scripted" {
				row = regexp.MustCompile(`(?m)^  ` + name + ` `)
			}
			assert.True(t, row.MatchString(text), "%s of %s", name, v.ID)
		}
	}
}

// TestHelpNamesVariables: the help names the variables of troupe and pi that the program reads.
func TestHelpNamesVariables(t *testing.T) {
	text, seen := usage(), 0
	for _, file := range tracked(t) {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "e2e/") || strings.Contains(file, "failpoint") {
			continue
		}
		for _, m := range regexp.MustCompile(`[gG]etenv\("((?:TROUPE|PI)_\w+)"\)`).FindAllStringSubmatch(read(t, root+"/"+file), -1) {
			seen++
			assert.True(t, strings.Contains(text, m[1]), "%s reads %s, which troupe --help does not name", file, m[1])
		}
	}
	require.Greater(t, seen, 5)
}

// flagTables returns the tables of docs/cli.md: commands, flags and variables, as the help has them.
func flagTables() string {
	var b strings.Builder
	cell := func(code, text string) string {
		parts := strings.Split(code, ", ")
		for i, p := range parts {
			parts[i] = "`" + strings.ReplaceAll(p, "|", `\|`) + "`"
		}
		return "| " + strings.Join(parts, ", ") + " | " + strings.ReplaceAll(text, "|", `\|`) + " |\n"
	}
	b.WriteString("| command | |\n|---|---|\n")
	for _, s := range synopsis {
		b.WriteString("| `" + strings.ReplaceAll(s[0], "|", `\|`) + "` | " + s[1] + " |\n")
	}
	for _, s := range new(options).sections() {
		fmt.Fprintf(&b, "\n### %s\n\n| flag | meaning |\n|---|---|\n", s.title)
		for _, f := range s.flags {
			b.WriteString(cell(strings.TrimSpace(f.names+" "+f.arg), f.doc))
		}
	}
	b.WriteString("\n### API keys\n\nThe first variable that is set counts. [Keys and logins](logins.md) has the other ways.\n\n| provider | variable |\n|---|---|\n")
	for _, v := range keyVariables() {
		b.WriteString("| " + v.names + " | " + v.doc + " |\n")
	}
	b.WriteString("\n### Other environment variables\n\n| variable | meaning |\n|---|---|\n")
	for _, v := range environment {
		b.WriteString(cell(v.names, v.doc))
	}
	return b.String()
}
