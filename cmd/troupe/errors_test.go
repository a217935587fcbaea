package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster/peer"
	"troupe/actors/remote"
	"troupe/actors/session"
)

// commandErrors lists command lines that fail, with the text that they print: what is wrong, where, and what to do.
// Each line belongs to the command line and is printed to stderr, after "troupe: ". DIR is an empty directory with
// some files:
//
//	file, keys (of an authority), keys/w1 (of node w1)
var commandErrors = []struct {
	line string
	code int
	want string
}{
	// Options.
	{"--modle x hello", 2, `unknown option "--modle" (did you mean "--model"?)`},
	{"--frobnicate hello", 2, `unknown option "--frobnicate" (try troupe --help)`},
	{"-q hello", 2, `unknown option "-q" (try troupe --help)`},
	{"-p --model", 2, `--model needs a value: PATTERN (try troupe --help)`},
	{"--print=x hello", 2, `--print takes no value (try troupe --help)`},
	{"--mode nope", 2, `--mode: want rpc, text or json, got "nope" (try troupe --help)`},
	{"--log-format xml -p x", 2, `--log-format: want auto, text or json, got "xml" (try troupe --help)`},
	{"--durability no -p x", 2, `--durability: want process or sync, got "no" (try troupe --help)`},
	{"--permission-mode no -p x", 2, `--permission-mode: want auto, edits, ask or readonly, got "no" (try troupe --help)`},
	{"--unattended no -p x", 2, `--unattended: want wait or deny, got "no" (try troupe --help)`},
	{"--sandbox nope -p x", 2, `--sandbox: want off, workspace or readonly, got "nope" (try troupe --help)`},
	{"--sandbox-network no -p x", 2, `--sandbox-network: want on or off, got "no" (try troupe --help)`},
	{"--extension-host no -p x", 2, `--extension-host: want auto, quick, inline, node or off, got "no" (try troupe --help)`},
	{"--extension-errors no -p x", 2, `--extension-errors: want report, fatal or ignore, got "no" (try troupe --help)`},
	{"--dialect no -p x", 2, `--dialect: want pi1, s0, s1, s2, s3, s4 or union, got "no" (try troupe --help)`},
	{"--eof no -p x", 2, `--eof: want drain or abort, got "no" (try troupe --help)`},
	{"--park-after 10 -p x", 2, `--park-after: want a duration, such as 90s or 10m, got "10" (try troupe --help)`},
	{"--eof-limit -1s -p x", 2, `--eof-limit: want a duration, such as 90s or 10m, got "-1s" (try troupe --help)`},
	{"--approval-timeout 0s -p x", 2, `--approval-timeout: want a duration, such as 90s or 10m, got "0s" (try troupe --help)`},
	{"--max-sessions 0 -p x", 2, `--max-sessions: want a number from 1 to 2147483647, got "0" (try troupe --help)`},
	{"--max-line 1k -p x", 2, `--max-line: want a number from 1024 to 2147483647, got "1k" (try troupe --help)`},
	{"--budget money=1 -p x", 2, `--budget: want limits named cost, input, output, subagents, tokens, tools, wall or warn, got "money=1" (try troupe --help)`},
	{"--budget wall=5 -p x", 2, `--budget: wall: want a duration, such as 90s or 30m, got "5" (try troupe --help)`},
	{"--budget cost=x -p x", 2, `--budget: cost: want a number of at least 0, got "x" (try troupe --help)`},
	{"--budget cost=1e300 -p x", 2, `--budget: cost: want a number of at most 9007199254740991, got "1e300" (try troupe --help)`},
	{"--budget warn=2 -p x", 2, `--budget: warn: want a number above 0, at most 1, got "2" (try troupe --help)`},
	{"-c --no-session -p x", 2, `--session, --continue, --resume, --fork, --session-id and --no-session exclude each other: give one of them (try troupe --help)`},
	{"--api-key k -p x", 1, `--api-key needs --provider or --model`},
	{"--provider nope --model x -p x", 1, `unknown provider "nope": troupe --list-models lists the models that have credentials`},
	{"--model nosuch -p x", 1, `no model matches "nosuch": troupe --list-models lists the models that have credentials`},
	{"--tools nosuch -p x", 1, `--tools: no tool is called nosuch: want names such as read or grep, patterns, or +NAME and -NAME`},
	{"-xt Bash -p x", 1, `--exclude-tools: unknown tool "Bash" (did you mean "bash"?)`},
	{"-xt * -p x", 1, `--exclude-tools: unknown tool "*": want read, bash, edit, write, grep, find or ls`},
	{"--cwd DIR/none -p x", 1, `working directory does not exist: DIR/none; --cwd names another one`},
	{"--system-prompt /dev/null -p x", 1, `--system-prompt: /dev/null is not a regular file`},
	{"--append-system-prompt /dev/null -p x", 1, `--append-system-prompt: /dev/null is not a regular file`},
	{"--session DIR/none.jsonl -p x", 1, `--session DIR/none.jsonl: there is no such file; to create a session use --session-id, or no flag at all`},
	{"--session 99999 -p x", 1, `no session found matching "99999": troupe --resume lists those of this directory`},
	{"--fork DIR/none.jsonl -p x", 1, `--fork DIR/none.jsonl: there is no such file; want the file or the id of a session`},
	{"--resume -p x", 1, `--resume needs a terminal; use --continue, or --session with a path or the beginning of an id`},
	{"--export DIR/none.jsonl", 1, `--export: open session DIR/none.jsonl: stat DIR/none.jsonl: no such file or directory`},
	{"--fork DIR/file -p x", 1, `--fork: open session DIR/file: empty session file`},

	// Prompts and words.
	{"", 2, `there is no terminal interface: give a message, or --mode rpc (try troupe --help)`},
	{"-p", 2, `nothing to do: give a message, or --mode rpc (try troupe --help)`},
	{"--mode rpc hello", 2, `unexpected argument "hello": in RPC mode prompts come on stdin (try troupe --help)`},
	{"--mode rpc @file", 2, `unexpected argument "@file": in RPC mode clients send files with the command prompt (try troupe --help)`},
	{"-p @none x", 1, `@none: stat DIR/none: no such file or directory`},
	{"-p @keys x", 1, `@keys: DIR/keys: only a file can be attached, not a directory or device`},
	{"clsuter drain w1", 2, `unknown command "clsuter" (did you mean "cluster"?); to send it as a message: troupe -p clsuter`},
	{"--verbose serve", 2, `"serve" is a command and comes first: troupe serve; to send it as a message: troupe -p serve`},
	{"install npm:x", 2, `"install" is a command of pi that this version does not have; as a message write: -p install (try troupe --help)`},
	{"ext-host", 2, `ext-host is a part of troupe that it starts itself (try troupe --help)`},
	{"help frob", 2, `there is no help on "frob": want serve, connect, health, cluster, login, logout, auth, models, schema, help, completion, man, version or keys (try troupe --help)`},
	{"help kyes", 2, `there is no help on "kyes" (did you mean "keys"?)`},
	{"help cluster drian", 2, `unknown command "cluster drian" (did you mean "cluster drain"?)`},
	{"version 2", 2, `version: unexpected argument "2" (try troupe help version)`},
	{"man troupe", 2, `man: unexpected argument "troupe" (try troupe help man)`},
	{"completion", 2, `completion: SHELL is missing (try troupe help completion)`},
	{"completion tcsh", 2, `completion: want bash, zsh or fish, got "tcsh" (try troupe help completion)`},
	{"schema --yaml", 2, `unknown option "--yaml" (try troupe help schema)`},
	{"models", 2, `models: a command is missing: want discover (try troupe help models)`},
	{"models discovr", 2, `unknown command "models discovr" (did you mean "models discover"?)`},
	{"models discover a b", 2, `models discover: unexpected argument "b" (try troupe help models discover)`},

	// Logins.
	{"login", 3, "Sign in to\n…\ntroupe: login cancelled: no provider was chosen; name one: troupe login PROVIDER"},
	{"login opnai", 2, `unknown provider "opnai" (did you mean "openai"?)`},
	{"login frobnicate", 2, `unknown provider "frobnicate": troupe help keys lists those that troupe knows, models.json may add others`},
	{"login openai --timeout soon", 2, `--timeout: want a duration, such as 90s or 10m, got "soon" (try troupe help login)`},
	{"login openai --store-command=", 2, `--store-command: want a command that prints the key, got "" (try troupe help login)`},
	{"login --store-command x", 2, `login: PROVIDER with --store-command is missing (try troupe help login)`},
	{"login openai --device --api-key", 2, `--api-key, --device and --store-command exclude each other: give one of them (try troupe help login)`},
	{"login openai --api-key=secret", 2, `--api-key takes no value (try troupe help login)`},
	{"login openai --api-keys=secret", 2, `unknown option "--api-keys" (did you mean "--api-key"?)`},
	{"logout", 2, `logout: PROVIDER is missing (try troupe help logout)`},
	{"auth", 2, `auth: a command is missing: want check (try troupe help auth)`},
	{"auth chekc", 2, `unknown command "auth chekc" (did you mean "auth check"?)`},
	{"auth login", 2, `unknown command "auth login": want check (try troupe help auth)`},
	{"auth check --model nosuch", 2, `no model matches "nosuch" (try troupe --help)`},
	{"auth check a b", 2, `auth check: unexpected argument "b" (try troupe help auth check)`},
	{"auth check", 1, `no provider has credentials: sign in with troupe login, or set a key (docs/logins.md)`},

	// Servers.
	{"serve foo", 2, `serve: unexpected argument "foo" (try troupe help serve)`},
	{"serve @file", 2, `serve: unexpected argument "@file" (try troupe help serve)`},
	{"serve piar", 2, `unknown command "serve piar" (did you mean "serve pair"?)`},
	{"serve --lisetn x", 2, `unknown option "--lisetn" (did you mean "--listen"?)`},
	{"serve --socket", 2, `--socket needs a value: PATH (try troupe help serve)`},
	{"serve --listen foo", 2, `--listen: want HOST:PORT, got "foo" (try troupe help serve)`},
	{"serve --ring 1", 2, `--ring: want a number from 65536 to 67108864, got "1" (try troupe help serve)`},
	{"serve --drain soon", 2, `--drain: want a duration, such as 90s or 10m, got "soon" (try troupe help serve)`},
	{"serve --pair all", 2, `--pair: want full or view, got "all" (try troupe help serve)`},
	{"serve --root DIR/none", 2, `--root: want a directory that exists, or NAME=PATH, got "DIR/none" (try troupe help serve)`},
	{"serve --root a=/ --root a=/tmp", 2, `--root: the root a is given twice: choose another name (try troupe help serve)`},
	{"serve --listen :0 --tls-cert x", 2, `--tls-cert and --tls-key belong together: give both (try troupe help serve)`},
	{"serve --compress", 2, `flags for clients on TCP need --listen, such as --listen 127.0.0.1:7717 (try troupe help serve)`},
	{"serve pair all", 2, `serve pair: want full or view, got "all" (try troupe help serve pair)`},
	{"serve devices x", 2, `serve devices: unexpected argument "x" (try troupe help serve devices)`},
	{"serve revoke", 2, `serve revoke: DEVICE is missing (try troupe help serve revoke)`},
	{"serve revoke nope", 1, `there is no device "nope": troupe serve devices lists them`},
	{"connect --to DIR/none.sock", 1, `no daemon answers at DIR/none.sock: start one with troupe serve (dial unix DIR/none.sock: connect: no such file or directory)`},
	{"connect --modle x", 2, `unknown option "--modle" (did you mean "--model"?)`},
	{"connect --sandbox off", 2, `--sandbox is for the daemon: give it to troupe serve (try troupe help connect)`},
	{"health x", 2, `health: unexpected argument "x" (try troupe help health)`},

	// Nodes of a cluster.
	{"serve --cluster http://u:secret@e1/", 1, `--cluster: want nats://HOST:PORT,… or postgres://…, got "http://e1/"`},
	{"serve --node w1", 1, `options of a cluster need --cluster URL, or the key engine in cluster.json`},
	{"serve --cluster nats://e:1", 1, `--cluster needs --cluster-dir, the directory with ca.pem, node.pem and node.key: troupe cluster init makes them`},
	{"serve --cluster nats://e:1 --cluster-system http://e", 1, `--cluster-system: want nats://HOST:PORT,…, got "http://e"`},
	{"serve --failover wait", 2, `--failover: want continue or stop, got "wait" (try troupe help serve)`},
	{"serve --label gpu", 2, `--label: want NAME=VALUE, got "gpu" (try troupe help serve)`},
	{"serve --cluster-cache much", 2, `--cluster-cache: want a size, such as 1G or 200M, got "much" (try troupe help serve)`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys/w1 --tool-grace 1s", 1, `--tool-grace: want 0 or 5s to 10m0s, the same on all nodes, got "1s"`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys/w1 --label os=x", 1, `--label os: each node sets this label itself; choose another name`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys/w1 --export-on-close here", 1, `--export-on-close: want an absolute path, got "here"`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys/w1 --export-on-close DIR/file", 1, `--export-on-close: want a directory, got "DIR/file"`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys/w1 --root a=src", 1, `--root a: want an absolute path, got "src"`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys/w1 --root a=/,nfs", 1, `--root a: mode: want pinned, shared, git or none, got "nfs"`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys/w1 --root a=git+", 1, `--root a: the mode git needs the address of a repository: git+ADDRESS[#BRANCH][,PATH]`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys", 1, `--cluster-dir: stat DIR/keys/node.key: no such file or directory; want the directory of a node, as troupe cluster init makes it`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys/w1 --node w2", 1, `--node w2: the certificate in DIR/keys/w1 is that of w1`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys/w1 --advertise w1", 1, `--advertise: want HOST:PORT, got "w1"`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys/w1 --advertise 0.0.0.0:1", 1, `--advertise: want HOST:PORT that other nodes can reach, got "0.0.0.0:1"`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys/w1 --cluster-listen nowhere", 1, `--cluster-listen: listen tcp: address nowhere: missing port in address`},
	{"serve --cluster nats://e:1 --cluster-dir DIR/keys/w1 --cluster-listen 0.0.0.0:0", 1, `--cluster-listen 0.0.0.0:0 needs --advertise HOST:PORT, where other nodes reach this one`},

	// Administration of a cluster.
	{"cluster", 2, `cluster: a command is missing: want init, status, spread, drain, move, check or export (try troupe help cluster)`},
	{"cluster drian w1", 2, `unknown command "cluster drian" (did you mean "cluster drain"?)`},
	{"cluster frob", 2, `unknown command "cluster frob": want init, status, spread, drain, move, check or export (try troupe help cluster)`},
	{"cluster drain", 2, `cluster drain: NODE is missing (try troupe help cluster drain)`},
	{"cluster status w1", 2, `cluster status: unexpected argument "w1" (try troupe help cluster status)`},
	{"cluster status", 2, `the engine is unknown: give --cluster URL, or set engine in cluster.json (try troupe help cluster)`},
	{"cluster status --cluster http://u:secret@e", 2, `--cluster: want nats://HOST:PORT,… or postgres://…, got "http://e" (try troupe help cluster status)`},
	{"cluster status --cluster tls://e:1", 1, `--cluster-dir: stat node.key: no such file or directory; want the directory of a node, as troupe cluster init makes it`},
	{"cluster check a/b --cluster nats://e:1", 2, `"a/b" is not the name of a session or a node: want letters, digits, - and _ (try troupe help cluster check)`},
	{"cluster drain w1 --cluster nats://e:1", 2, `--cluster-dir is missing: give the directory with the keys of any node (try troupe help cluster)`},
	{"cluster drain w1 --cluster nats://e:1 --cluster-dir DIR", 1, `--cluster-dir: stat DIR/node.key: no such file or directory; want the directory of a node, as troupe cluster init makes it`},
	{"cluster check --replicas 3 --cluster nats://e:1", 2, `--node, --replicas and --partitions are options of troupe cluster init (try troupe help cluster check)`},
	{"cluster init", 2, `cluster init: want --cluster-dir, for keys, or --cluster, for the engine, or both (try troupe help cluster init)`},
	{"cluster init --node a --cluster nats://e:1", 2, `--node needs --cluster-dir, where the keys are written (try troupe help cluster init)`},
	{"cluster init --node w1 --cluster-dir DIR/keys", 1, `DIR/keys/w1 has keys already: choose another name for the node`},
	{"cluster init --replicas x", 2, `--replicas: want a number from 1 to 2147483647, got "x" (try troupe help cluster)`},
	{"cluster init --replicas 3 --cluster-dir DIR/keys", 2, `--replicas and --partitions need --cluster nats://…: other engines have neither (try troupe help cluster init)`},
}

// otherErrors are the errors that no command line alone brings about, with the test that does. Some are a part
// of another error.
var otherErrors = map[string]string{
	"%s: want an object": "TestClusterFile", "%s: want one object, got more after it": "TestClusterFile", "the key %q is unknown or given twice": "TestClusterFile",
	"want a name of letters, digits, - and _": "TestClusterChecks", "want %d to %d": "TestClusterChecks", "want 2 to %d": "TestClusterChecks", "want 0 or more": "TestClusterChecks", "want a number of bytes": "TestClusterChecks",
	"want continue or stop": "TestClusterChecks", "a root of mode none has no files, and so no path: leave out %s": "TestRootNone",
	"node %s of this engine has keys of another authority: troupe cluster init was run twice; --cluster-dir has to come from the one that made those": "TestStrangers",
	"want debug, info, warn or error": "TestBadVariables", "want %s": "TestBadVariables",
	"it printed too much: a key has at most %d lines and %d bytes": "e2e/process", "signal: %s": "e2e/process", "exit status %d": "TestRunProgram", "signal %v": "TestRunProgram",
	"the run was cut short": "e2e/process",
	"standard input has more than %d MiB: give the model the name of a file instead": "e2e/process", "%s: everything before the message together has more than %d MiB: attach less": "e2e/process",
	"%s: a file of more than %d MiB cannot be attached": "e2e/process", "standard input: %w": "a failing disk",
	"session %q belongs to another project: %s (use --session with its path, or --cwd)": "e2e/process",
	"there is no session of this directory to resume: start one with a message":         "e2e/process", "no session was chosen: type one of the numbers": "e2e/process",
	"failed to load extension %s: %s": "e2e/extensions", "the server does not answer, see its log: %w": "e2e/serve", "another process runs this node of the cluster now: two need two names": "e2e/cluster",
	"working directory: %w": "a working directory that was deleted", "--continue: %w": "a failing disk", "--session-id: %w": "a failing disk", "--cwd %s: %w": "a working directory that was deleted",
	"what is typed here would be seen: give the key in a pipe (%w)": "a terminal without echo control", "not on this system": "other systems",
	"--listen %s can be reached by others: give --tls-cert and --tls-key, or --behind-proxy if a proxy does that": "TestListenErrors",
	"--listen: %w": "e2e/serve", "--tls-cert, --tls-key: %w": "TestListenErrors", "--listen needs a credential: %w": "TestListenErrors", "want https://HOST or http://HOST": "TestListenErrors",
	// Results of troupe cluster, which need an engine.
	"some logs are damaged, as listed: copies that are whole can be exported with troupe cluster export": "e2e/cluster", "%w: %s": "TestCheckLog",
	"%s: its last record is %d, and %d is known: its end is lost": "TestCheckLog", "%s: record %d is not the one that is known: it is another log": "TestCheckLog", "it ends at %d, and another at %d": "TestCheckLog",
	"%s on %s: %w": "TestCheckLog", "%w: it ends at %d, and the log at %d": "TestCheckLog", "session %s: %w": "e2e/cluster", "there is no node %s: troupe cluster status lists the nodes": "e2e/cluster",
	"node %s at %s: %w": "e2e/cluster", "node %s: %s": "e2e/cluster", "node %s is not heard of any more, and has not said that it has ended: it had %d sessions": "TestDrainNamesWhatIsNotSaved",
	"the working trees of sessions that were given up could not be saved: %d": "TestDrainNamesWhatIsNotSaved", "node %s could not have it; see its log": "TestMoveTellsWhatHappened",
	"session %s was given up by node %s, and is on node %s: %w": "TestMoveTellsWhatHappened", "no node has session %s, or can have it": "TestMoveTellsWhatHappened", "node %s: %w": "TestMoveTellsWhatHappened", "the session has moved away": "TestMoveTellsWhatHappened",
}

// TestErrorTexts runs the command lines of the table.
func TestErrorTexts(t *testing.T) {
	dir := errorPlace(t)
	for _, e := range commandErrors {
		out, errs, code := runs(t, strings.Fields(strings.ReplaceAll(e.line, "DIR", dir))...)
		want := "troupe: " + e.want + "\n"
		if first, last, two := strings.Cut(e.want, "…\n"); two {
			assert.True(t, strings.HasPrefix(errs, first), "%s: %q", e.line, errs)
			want, errs = last+"\n", errs[max(0, len(errs)-len(last)-1):]
		}
		assert.Equal(t, want, strings.ReplaceAll(errs, dir, "DIR"), "troupe %s", e.line)
		assert.Equal(t, e.code, code, "troupe %s", e.line)
		assert.Empty(t, out, "troupe %s", e.line)
		assert.NotContains(t, errs, "secret", "troupe %s", e.line)
	}
}

// errorPlace returns the directory of the table and makes it the working directory.
func errorPlace(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	_, err = peer.NewAuthority(filepath.Join(dir, "keys"))
	require.NoError(t, err)
	require.NoError(t, peer.NewNode(filepath.Join(dir, "keys"), filepath.Join(dir, "keys", "w1"), "w1"))
	t.Setenv("HOME", t.TempDir())
	t.Chdir(dir)
	return dir
}

// TestBadVariables checks the variables whose values are checked.
func TestBadVariables(t *testing.T) {
	errorPlace(t)
	t.Setenv("PI_RPC_DIALECT", "s9")
	_, errs, code := runs(t, "-p", "x")
	assert.Equal(t, []any{exitError, `troupe: PI_RPC_DIALECT: want pi1, s0, s1, s2, s3, s4 or union, got "s9"` + "\n"}, []any{code, errs})
	t.Setenv("TROUPE_LOG", "loud")
	t.Setenv("TROUPE_LOG_FORMAT", "xml")
	_, errs, _ = runs(t, "-p", "x")
	assert.Contains(t, errs, `"msg":"TROUPE_LOG: want debug, info, warn or error, got \"loud\"; ignored"`)
	assert.Contains(t, errs, `"msg":"TROUPE_LOG_FORMAT: want auto, text or json, got \"xml\"; ignored"`)
}

// TestListenErrors checks the errors of troupe serve that need a port.
func TestListenErrors(t *testing.T) {
	dir := errorPlace(t)
	for want, s := range map[string]*serveOptions{
		`--listen 0.0.0.0:7717 can be reached by others: give --tls-cert and --tls-key, or --behind-proxy if a proxy does that`: {listen: "0.0.0.0:7717"},
		`--tls-cert, --tls-key: open ` + dir + `/none: no such file or directory`:                                               {listen: "127.0.0.1:0", cert: dir + "/none", key: dir + "/none"},
		`--public-url: want https://HOST or http://HOST, got "example.com"`:                                                     {listen: "127.0.0.1:0", publicURL: "example.com"},
		`--listen needs a credential: stat ` + dir + `/none: no such file or directory`:                                         {listen: "127.0.0.1:0", token: remote.TokenFile{Path: dir + "/none"}},
	} {
		host, _, err := net.SplitHostPort(s.listen)
		require.NoError(t, err)
		agentDir := t.TempDir()
		err = s.network(new(remote.Config), &net.TCPAddr{IP: net.ParseIP(host)}, &session.Shared{Config: session.Config{AgentDir: agentDir, Home: agentDir}})
		assert.EqualError(t, err, want)
	}
}

// TestEveryErrorIsListed checks that each error that this package makes is in one of the tables above.
func TestEveryErrorIsListed(t *testing.T) {
	var all strings.Builder
	for _, e := range commandErrors {
		all.WriteString(e.want + "\n")
	}
	formats := errorFormats(t)
	require.Greater(t, len(formats), 80)
	for _, format := range formats {
		if otherErrors[format] != "" {
			continue
		}
		pattern := regexp.MustCompile(`%[a-z]`).ReplaceAllString(regexp.QuoteMeta(format), ".*")
		assert.Regexp(t, pattern, all.String(), "%q is in no table", format)
	}
	var tests strings.Builder
	names, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	for _, name := range names {
		tests.WriteString(read(t, name))
	}
	for format, where := range otherErrors {
		assert.Contains(t, formats, format, "no such error")
		switch {
		case strings.HasPrefix(where, "Test"):
			assert.True(t, strings.Contains(tests.String(), "func "+where+"("), "%q: no test %s", format, where)
		case strings.HasPrefix(where, "e2e/"):
			assert.DirExists(t, filepath.Join(root, where), format)
		}
	}
}

// errorFormats lists the texts of errors.New, fmt.Errorf and wanted in the sources of this package.
func errorFormats(t *testing.T) (formats []string) {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			prefix := ""
			switch f := call.Fun.(type) {
			case *ast.Ident:
				if f.Name != "wanted" {
					return true
				}
				prefix = "want "
			case *ast.SelectorExpr:
				if f.Sel.Name != "Errorf" && (f.Sel.Name != "New" || !isIdent(f.X, "errors")) {
					return true
				}
			default:
				return true
			}
			if text := firstText(call.Args[0]); !slices.Contains(formats, prefix+text) {
				formats = append(formats, prefix+text)
			}
			return true
		})
	}
	return formats
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// firstText returns the first string literal of an expression, with %s for what is joined to it.
func firstText(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return firstText(e.X) + firstText(e.Y)
	case *ast.CallExpr:
		if sel, ok := e.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sprintf" {
			return firstText(e.Args[0])
		}
	case *ast.Ident:
		if e.Name == "extHostErrand" {
			return extHostErrand
		}
	}
	return "%s"
}
