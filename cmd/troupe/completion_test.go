package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// completed returns the words of a completion. The fields of line are the words before the last one, which
// follows the last space.
func completed(line string) (words []string) {
	for _, c := range complete(strings.Split(line, " ")) {
		words = append(words, c.word)
	}
	return words
}

// TestComplete checks the candidates for the last word of a command line.
func TestComplete(t *testing.T) {
	for line, want := range map[string][]string{
		"cl":                       {"cluster"},
		"serve ":                   {"pair", "devices", "revoke"},
		"serve pair ":              {"full", "view"},
		"serve pair v":             {"view"},
		"cluster dr":               {"drain"},
		"cluster --cluster x dr":   {"drain"},
		"cluster init --re":        {"--replicas"},
		"cluster status --re":      nil,
		"auth ":                    {"check"},
		"models ":                  {"discover"},
		"login opena":              {"openai"},
		"login --api-key opena":    {"openai"},
		"help clu":                 {"cluster"},
		"help k":                   {"keys"},
		"help cluster dr":          {"drain"},
		"completion ":              {"bash", "zsh", "fish"},
		"--mode ":                  {"rpc", "text", "json"},
		"--mode=":                  {"--mode=rpc", "--mode=text", "--mode=json"},
		"--mode=r":                 {"--mode=rpc"},
		"--mode =":                 {"rpc", "text", "json"},
		"--mode = r":               {"rpc"},
		"serve --failover ":        {"continue", "stop"},
		"serve --sandbox w":        {"workspace"},
		"serve --liste":            {"--listen"},
		"connect --sess":           {"--session", "--session-id"},
		"connect --sand":           nil, // an option of the daemon
		"--session ":               {completeFiles},
		"--cwd ":                   {completeDirs},
		"--cwd=":                   {completeDirs},
		"serve --socket ":          {completeFiles},
		"cluster export s ":        {completeFiles},
		"cluster export ":          nil,
		"--name ":                  nil,
		"-p hello ":                nil,
		"-- --mo":                  nil,
		"version ":                 nil,
		"schema --":                {"--ts", "--md", "--help"},
		"frob --mode j":            {"json"},
		"serve --mode rpc --pair ": {"full", "view"},
	} {
		assert.Equal(t, want, completed(line), "%q", line)
	}
	assert.Equal(t, verbs(commands()), completed(""))
	assert.Equal(t, verbs(commands()), completed("")[:len(verbs(commands()))])
}

// TestEverythingIsCompleted checks that each command, option and choice of the table can be completed.
func TestEverythingIsCompleted(t *testing.T) {
	for _, c := range commands() {
		words := strings.Fields(c.name)
		for i, word := range words {
			assert.Contains(t, completed(strings.Join(append(slices.Clone(words[:i]), word), " ")), word)
		}
		for _, s := range c.allSections() {
			for _, f := range s.flags {
				assert.NotContains(t, f.names, ":", "the script for zsh separates a word from its description by a colon")
				names := strings.Split(f.names, ", ")
				long := names[len(names)-1]
				assert.Contains(t, completed(strings.TrimSpace(c.name+" "+long)), long, c.name)
				for _, choice := range f.value.choices {
					assert.Contains(t, completed(strings.TrimSpace(c.name+" "+long+" "+choice)), choice, long)
				}
			}
		}
	}
}

// TestManualPage checks that the manual page has every command, option and variable, and that groff has nothing to
// complain about, where it is installed.
func TestManualPage(t *testing.T) {
	page := manualPage()
	for _, c := range commands() {
		assert.Contains(t, page, roffEscapes.Replace(c.call()))
		assert.Contains(t, page, roffEscapes.Replace(c.summary))
		if c.sections == nil {
			continue
		}
		for _, s := range c.sections() {
			for _, f := range s.flags {
				assert.Contains(t, page, `\fB`+roffEscapes.Replace(f.label())+`\fR`)
			}
		}
	}
	for _, v := range slices.Concat(keyVariables(), environment, exitCodes) {
		assert.Contains(t, page, `\fB`+roffEscapes.Replace(v.names)+`\fR`)
	}
	for line := range strings.Lines(page) {
		if macro, is := strings.CutPrefix(line, "."); is {
			assert.Regexp(t, `^(TH|SH|SS|TP|PP|EX|EE|br)\b`, macro)
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	check := exec.Command(groff, "-man", "-ww", "-K", "utf8", "-T", "utf8", "-z")
	check.Stdin = strings.NewReader(page)
	out, err := check.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Empty(t, string(out))
}
