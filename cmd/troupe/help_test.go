package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/relay"
	"troupe/actors/session"
	"troupe/protocol"
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

// TestHelpOfCommands checks that every command prints its own help and does nothing, whether --help or
// troupe help asks for it.
func TestHelpOfCommands(t *testing.T) {
	all := commands()
	for _, c := range all {
		if c.name == "" {
			continue
		}
		text := c.help(all)
		assert.True(t, strings.HasPrefix(text, "usage: troupe "+c.name), text)
		assert.Contains(t, text, "\n"+c.summary)
		require.NotEmpty(t, c.examples, c.name)
		assert.Contains(t, text, c.examples[0][0])
		for _, args := range [][]string{{"--help"}, {"-h"}, {"x", "--help"}, {"--nope", "-h"}} {
			out, errs, code := runs(t, append(strings.Fields(c.name), args...)...)
			assert.Equal(t, []any{exitOK, text, ""}, []any{code, out, errs}, "%s %s", c.name, args)
		}
		out, _, code := runs(t, append([]string{"help"}, strings.Fields(c.name)...)...)
		assert.Equal(t, []any{exitOK, text}, []any{code, out}, c.name)
	}
	for _, verb := range []string{"auth", "models"} {
		for _, args := range [][]string{{"help", verb}, {verb, "--help"}} {
			out, _, code := runs(t, args...)
			assert.Zero(t, code)
			assert.True(t, strings.HasPrefix(out, "usage: troupe "+verb+" "), out)
		}
	}
	for _, args := range [][]string{{"help"}, {"--help"}, {"-h"}, {"-p", "--help"}, {"hello", "--help"}} {
		out, _, code := runs(t, args...)
		assert.Equal(t, []any{exitOK, usage()}, []any{code, out}, args)
	}
	out, _, code := runs(t, "help", "keys")
	assert.Zero(t, code)
	assert.Contains(t, out, "ANTHROPIC_API_KEY")
	out, _, code = runs(t, "version")
	assert.Equal(t, []any{exitOK, "troupe " + version + "\n"}, []any{code, out})
}

// TestFlagTable checks that the table of flags describes each of them: a value has an example or a list of
// choices, which its text names, and no two flags of a command have the same name.
func TestFlagTable(t *testing.T) {
	for _, c := range commands() {
		if c.sections == nil {
			continue
		}
		seen := map[string]bool{}
		lists := [][]section{c.sections()}
		if c.rpc {
			lists = append(lists, new(options).sections())
		}
		for _, s := range slices.Concat(lists...) {
			for _, f := range s.flags {
				for name := range strings.SplitSeq(f.names, ", ") {
					assert.False(t, seen[name], "%s %s: twice", c.name, name)
					seen[name] = true
				}
				if s.title == unusedFlags {
					continue
				}
				assert.NotEmpty(t, f.doc, f.names)
				assert.True(t, strings.HasSuffix(f.doc, "."), "%s: want a sentence, got %q", f.names, f.doc)
				assert.NotContains(t, f.doc, "efault:", f.names)
				switch {
				case f.arg == "":
					assert.Empty(t, f.value.choices, f.names)
				case f.value.choices == nil:
					assert.NotEmpty(t, f.example, "%s %s: want an example", c.name, f.names)
				default:
					assert.Empty(t, f.example, f.names)
					for _, choice := range f.value.choices {
						if names := f.names; names != "--dialect" {
							assert.Contains(t, f.doc, choice, names)
						}
						assert.NoError(t, f.value.set(choice), f.names)
					}
				}
			}
		}
	}
}

// TestExampleValues checks that every example of the help is a command line that is accepted.
func TestExampleValues(t *testing.T) {
	count := 0
	for _, c := range commands() {
		if c.sections == nil {
			continue
		}
		for _, s := range c.sections() {
			for _, f := range s.flags {
				if f.arg == "" || f.example == "" || strings.HasPrefix(f.label(), "--root ") { // a directory of the reader
					continue
				}
				count++
				assert.NoError(t, f.value.set(strings.Trim(f.example, `"`)), f.sample())
			}
		}
	}
	assert.Greater(t, count, 50)
}

// TestDefaultsAreTrue holds the defaults of the help to the constants of the program.
func TestDefaultsAreTrue(t *testing.T) {
	defaults := map[string]string{}
	for _, list := range [][]section{new(options).sections(), new(serveOptions).sections()} {
		for _, s := range list {
			for _, f := range s.flags {
				defaults[f.names] = f.def
			}
		}
	}
	size, err := parseSize(defaults["--cluster-cache"])
	require.NoError(t, err)
	assert.EqualValues(t, session.DefaultCache, size)
	for name, want := range map[string]time.Duration{
		"--park-after": session.DefaultParkAfter, "--eof-limit": actors.DefaultDrainLimit, "--cluster-wait": relay.DefaultWait, "--tool-grace": defaultGraceMs * time.Millisecond,
	} {
		is, err := time.ParseDuration(defaults[name])
		require.NoError(t, err, name)
		assert.Equal(t, want, is, name)
	}
	for name, want := range map[string]int{"--max-sessions": protocol.DefaultMaxSessions, "--max-line": protocol.DefaultMaxLine, "--ring": session.DefaultRing} {
		assert.Equal(t, strconv.Itoa(want), defaults[name], name)
	}
	o, err := parseArgs(nil)
	require.NoError(t, err)
	s, err := parseServe(nil)
	require.NoError(t, err)
	assert.Equal(t, []string{o.eof, o.durability, o.extensionErrors, s.drain.String(), s.pair}, []string{defaults["--eof"], defaults["--durability"], defaults["--extension-errors"], defaults["--drain"], defaults["--pair"]})
}

// TestServePagesNameFlags checks that the pages of servers and clusters describe every flag of troupe serve, and that
// the flags that clients may have exist.
func TestServePagesNameFlags(t *testing.T) {
	pages := read(t, root+"/docs/serve.md") + read(t, root+"/docs/cluster/setup.md")
	count := 0
	for _, s := range new(serveOptions).sections() {
		for _, f := range s.flags {
			count++
			assert.Regexp(t, "`"+f.names+"[ `=]", pages, "docs/serve.md and docs/cluster/setup.md")
		}
	}
	assert.Greater(t, count, 25)
	for _, name := range perClient {
		assert.NotNil(t, flagNamed(name, new(options).sections()), name)
	}
}

// runs runs a command line in this process, with a standard input that has ended, and returns what it has
// printed.
func runs(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	stdout, stdin, was := os.Stdout, os.Stdin, stderr
	defer func() { os.Stdout, os.Stdin, stderr = stdout, stdin, was }()
	var err error
	os.Stdin, err = os.Open(os.DevNull)
	require.NoError(t, err)
	defer os.Stdin.Close()
	os.Stdout, err = os.Create(filepath.Join(t.TempDir(), "stdout"))
	require.NoError(t, err)
	defer os.Stdout.Close()
	var printed bytes.Buffer
	stderr = &backlog{out: &printed, limit: 1 << 20}
	code = run(args)
	stderr.flush(time.Minute)
	return read(t, os.Stdout.Name()), printed.String(), code
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

// flagTables returns the tables of docs/cli.md: commands, flags, variables and exit codes, as the help has them.
func flagTables() string {
	var b strings.Builder
	escape := func(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
	code := func(list, between string) string {
		if list == "" {
			return ""
		}
		return "`" + strings.ReplaceAll(escape(list), ", ", "`"+between+"`") + "`"
	}
	cells := func(list ...string) { b.WriteString("| " + strings.Join(list, " | ") + " |\n") }
	flags := func(list []flag) {
		b.WriteString("| flag | meaning | default | example |\n|---|---|---|---|\n")
		for _, f := range list {
			sample := f.sample()
			if sample != "" {
				sample = "`" + escape(sample) + "`"
			}
			cells(code(f.label(), ", "), escape(f.doc), escape(f.def), sample)
		}
	}
	all := commands()
	b.WriteString("| command | |\n|---|---|\n")
	for _, c := range all {
		cells("`"+escape(c.call())+"`", c.summary)
	}
	for _, s := range all[0].sections() {
		fmt.Fprintf(&b, "\n### %s\n\n", s.title)
		flags(s.flags)
	}
	for _, c := range all[1:] {
		if c.sections == nil || strings.HasPrefix(c.name, "cluster ") && c.name != "cluster init" {
			continue // the other commands of the cluster have the flags of troupe cluster
		}
		for _, s := range c.sections() {
			if c.name == "cluster init" && s.title == "Options" {
				continue
			}
			title := "troupe " + c.name
			if s.title != "Options" && c.name != "cluster init" {
				title += ": " + s.title
			}
			fmt.Fprintf(&b, "\n### %s\n\n", title)
			flags(s.flags)
		}
	}
	b.WriteString("\n### API keys\n\nThe first variable that is set counts. `troupe help keys` prints this list. [Keys and logins](logins.md) has the\nother ways.\n\n| provider | variable |\n|---|---|\n")
	for _, v := range keyVariables() {
		cells(v.names, v.doc)
	}
	b.WriteString("\n### Other environment variables\n\n| variable | meaning |\n|---|---|\n")
	for _, v := range environment {
		cells(code(v.names, ", "), v.doc)
	}
	b.WriteString("\n### Exit codes\n\n| code | meaning |\n|---|---|\n")
	for _, v := range exitCodes {
		cells(v.names, v.doc)
	}
	return b.String()
}
