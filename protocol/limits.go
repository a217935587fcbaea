package protocol

import (
	"fmt"
	"unicode/utf8"
)

// Limits of files that somebody else wrote, in bytes unless they say otherwise.
// What is beyond them is left out and named on stderr.
const (
	MaxTextFile       = 1 << 20   // of a context file, a system prompt, a template, a skill or a rule
	MaxTextTotal      = 8 << 20   // of all files of one kind: context files, templates, skills, rules
	MaxTextFiles      = 1000      // files of one kind
	MaxEntries        = 10_000    // entries of directories looked at for one kind
	MaxSettingsFile   = 1 << 20   // of settings.json and trust.json
	MaxModelsFile     = 16 << 20  // of models.json and auth.json
	MaxIgnoreFile     = 64 << 10  // of .gitignore and its like, where skills are looked for
	MaxIgnoreRules    = 300       // lines of such files that count for one entry
	MaxTriggers       = 20_000    // steps of the triggers of all stream rules together
	MaxDepth          = 32        // levels of directories in which skills are looked for
	MaxExpansion      = 16 << 20  // of a template with its arguments filled in
	MaxResourceValues = 1000      // entries of a list in settings
	MaxAgentFile      = 256 << 10 // of an agent of the task tool
	MaxAgents         = 200       // of the task tool
)

// Limits of one answer of a model. What is beyond them fails it.
const (
	MaxAnswer = 16 << 20 // bytes, with the ids, names and signatures of its blocks
	MaxCalls  = 256      // tool calls
	MaxBlocks = 1024     // texts, thoughts and calls
	MaxEvent  = 32 << 20 // bytes of one event of its stream
	MaxNoise  = 64 << 20 // bytes of its stream between two pieces of content
)

// DefaultMaxLine is the longest input line accepted unless the daemon is told
// otherwise: 64 MiB, which leaves room for a handful of images.
const DefaultMaxLine = 64 << 20

// Limits of a connection and of the daemon; flags change them.
const (
	DefaultMaxOutput   = 8 << 20 // bytes under way between a client and its sessions
	DefaultMaxSessions = 1000    // open at once
	HeartbeatMs        = 15_000  // of silence before a heartbeat
)

// Limits of what waits in a session, in bytes.
const (
	MaxQueued  = DefaultMaxLine // of messages in the queues, and of records of bash commands that wait for the end of a run
	MaxWaiting = DefaultMaxLine // of commands that wait for the end of a replacement
)

// Limits of session files, in bytes. A line is in memory as a whole, and so is a
// file of version 1 or 2, which is read to be written anew; it is also as much
// as pi reads.
const (
	MaxSessionLine = 256 << 20
	MaxHeader      = 64 << 10 // of the first line, by which a session is known
	MaxOldSession  = 512 << 20

	MaxSubagentPart = 16 << 20 // of one answer to get_subagent_messages
)

// MaxPattern is the longest pattern of grep, in bytes: compiled it takes a hundred times as much.
const MaxPattern = 64 << 10

// Limits of what tools, commands and a single run take.
const (
	MaxBashes      = 256       // commands of clients that run at once in a session
	MaxLog         = 128 << 20 // bytes of the output of a command that are kept in a file
	MaxLogs        = 1 << 30   // bytes of such files of one session
	MaxKernelFile  = 64 << 20  // bytes that tools read of a file the kernel makes up
	MaxKernelWait  = 2         // seconds that such a file may keep a tool waiting
	MaxAttached    = 64 << 20  // bytes of a file of the command line, or of standard input
	MaxAttachments = 128 << 20 // bytes of all of them together
)

// Limit is a bound on what a client, a file or a program may make the daemon
// take, and what happens beyond it.
type Limit struct{ What, Value, Beyond string }

// Limits is the table of bounds, for the reference.
var Limits = []Limit{
	{"a line of input (`--max-line`)", size(DefaultMaxLine), "it is read over and answered `parse_error`, with its id if that is among the first bytes"},
	{"what a client has not read, and lines that have not reached their session", size(DefaultMaxOutput) + " a connection, and one record a session", "large answers and the work of models and tools wait, then further lines are not read; no answer is dropped"},
	{"messages in the queues of a session", size(MaxQueued) + ", 512 bytes each beside their own", "`overloaded`; a single message always fits"},
	{"commands that wait for a new, switched or forked session", size(MaxWaiting), "`overloaded`"},
	{"open sessions (`--max-sessions`)", fmt.Sprint(DefaultMaxSessions), "`overloaded`"},
	{"a context file (AGENTS.md, CLAUDE.md), SYSTEM.md, APPEND_SYSTEM.md, a template, a skill, a rule", size(MaxTextFile), "the file is left out, named on stderr; `--system-prompt FILE` fails to start"},
	{"all files of one of these kinds", fmt.Sprintf("%s, %d files, %d directory entries", size(MaxTextTotal), MaxTextFiles, MaxEntries), "the rest is left out, named on stderr"},
	{"settings.json, trust.json", size(MaxSettingsFile), "the file counts for nothing, named on stderr; a trust.json that cannot be read trusts nobody"},
	{"a list in settings", fmt.Sprintf("%d entries", MaxResourceValues), "the key counts for nothing, named on stderr"},
	{"models.json, auth.json", size(MaxModelsFile), "what the file said before counts, named on stderr"},
	{"an ignore file where skills are looked for", fmt.Sprintf("%s, %d rules", size(MaxIgnoreFile), MaxIgnoreRules), "what is behind it counts for nothing"},
	{"the triggers of all stream rules", fmt.Sprintf("%d steps, about one a character, times what repeats it", MaxTriggers), "the rules behind them are left out, named on stderr"},
	{"directories in which skills are looked for", fmt.Sprintf("%d levels", MaxDepth), "deeper ones are left out, named on stderr"},
	{"an answer of a model", fmt.Sprintf("%s, %d tool calls, %d blocks", size(MaxAnswer), MaxCalls, MaxBlocks), "the request is given up and the answer fails with `errorMessage` \"the answer was stopped: …\"; none of its calls is run; a summary fails likewise"},
	{"one event of a model's stream; what comes between two pieces of content", size(MaxEvent) + "; " + size(MaxNoise), "the answer fails: `server-sent event above the size limit`; it has stalled"},
	{"the pattern of `grep`", size(MaxPattern), "the call fails"},
	{"the first line of a session file", size(MaxHeader), "it is no session (`invalid_file`)"},
	{"an answer to `get_subagent_messages`", size(MaxSubagentPart), "it ends before a line that would not fit, `hasMore` is true, and `nextByte` goes on; the first line always fits"},
	{"a line of a session file", size(MaxSessionLine), "a file with a longer one is not opened (`invalid_file`); an entry that would be longer is not written (`not_durable`)"},
	{"a session file of version 1 or 2", size(MaxOldSession), "it is not opened (`invalid_file`)"},
	{"the arguments of a tool call", fmt.Sprintf("%d levels", MaxArgDepth), "the call is not run, and the model reads why"},
	{"`bash` commands of one session at once", fmt.Sprint(MaxBashes), "`overloaded`"},
	{"the output of a command that is kept in a file (`fullOutputPath`)", size(MaxLog), "the rest is not kept"},
	{"all such files of a session; they are removed with it", size(MaxLogs), "the oldest go"},
	{"a file under /proc and the like that a tool reads", fmt.Sprintf("%s, %d s", size(MaxKernelFile), MaxKernelWait), "the call fails; the environment of a process is never shown"},
	{"standard input or a file of a single run (`-p`, `--mode json`)", fmt.Sprintf("%s, %s together", size(MaxAttached), size(MaxAttachments)), "one line on stderr, exit code 1"},
	{"a template with its arguments", size(MaxExpansion), "`invalid_params`"},
}

// Prefix is as much of a text as fits into so many bytes, whole characters only.
func Prefix(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for bytes > 0 && !utf8.RuneStart(text[bytes]) {
		bytes--
	}
	return text[:bytes]
}

// FormatSize prints a number of bytes as clients of pi know it: 512B, 1.5KB, 2.0MB.
func FormatSize(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1fKB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1fMB", float64(n)/(1<<20))
}

// size writes a number of bytes as people do.
func size(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
