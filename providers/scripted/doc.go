// Package scripted is a provider that needs no network: it plays a script, or,
// without one, is a small demo model. It is the fake behind every test of
// troupe, and meant for the tests of troupe's users as well: what it streams is
// decided by a file, the same every time.
//
// # Which script
//
// A model of the API "scripted" whose base URL is a path, or a file: URL, plays
// that file. Other scripted models play the file that the environment variable
// TROUPE_SCRIPT names (see [Options.Script]), and without one they are the demo.
// So either
//
//	TROUPE_SCRIPT=answers.json troupe --model scripted/demo
//
// or, in models.json,
//
//	{"providers": {"fake": {"api": "scripted", "baseUrl": "/path/answers.json",
//	  "models": [{"id": "one", "reasoning": true, "contextWindow": 8000}]}}}
//
// The file is read at every request. Each session has its own place in it.
//
// # A script as JSON
//
//	{
//	  "chunk": 16,         characters per delta, default 16
//	  "delayMs": 0,        pause between two deltas, default none
//	  "loop": false,       begin again when all answers are used
//	  "answers": [
//	    {"when": "list", "steps": [
//	      {"thinking": "They want the files.", "signature": "sig"},
//	      {"text": "Let me look."},
//	      {"tool": "ls", "args": {"path": "."}}
//	    ], "usage": {"input": 1200, "output": 30, "cacheRead": 0, "cacheWrite": 0}},
//	    {"after": "ls", "steps": [{"text": "There they are."}]},
//	    {"steps": [{"error": {"status": 529, "retryAfterMs": 1000}}]},
//	    {"steps": [{"text": "Better "}, {"waitMs": 200}, {"text": "now."}], "stop": "length"}
//	  ]
//	}
//
// Comments and trailing commas are allowed. For each request the first answer
// that fits is taken:
//
//   - With "when" it fits a request whose last message is the user's and has
//     this text in it, whatever the case; /…/ is a regular expression. It fits
//     again and again, unless "times" limits it.
//   - With "after" it fits a request whose last message is a result of this
//     tool, "*" of any; "times" as above.
//   - With neither it fits once ("times" for more), in the order of the file.
//
// When nothing fits the request fails with an error of kind internal.
//
// The steps of an answer:
//
//	{"text": "…"}                              text, in deltas
//	{"thinking": "…", "signature": "…", "redacted": false}
//	{"tool": "read", "id": "call_1", "args": {…}}   a call, its arguments in pieces; id is made up if missing
//	{"tool": "read", "rawArgs": "{\"path\": "}      arguments that are no JSON, as models send them
//	{"waitMs": 200}                            silence
//	{"stall": true}                            silence until the stall limit or an abort
//	{"cut": true}                              the stream ends without its closing event
//	{"error": {"kind": "rate_limit", "status": 429, "message": "…", "retryAfterMs": 500}}
//
// An error needs a kind (the words of [protocol.ErrorKind]) or a status, which
// implies one; "body" instead of "message" is read as the body of a response.
// The stop reason is toolUse if there is a call, else stop, unless "stop" says
// otherwise. Without "usage" the tokens are estimated from the lengths.
//
// # A script as text
//
// A file that does not begin with { is text. Answers are separated by lines of
// three or more dashes; lines that begin with @ are steps and settings, all
// other lines are text, and # begins a comment line before the first answer:
//
//	# two answers
//	@when list
//	Let me look.
//	@tool ls {"path": "."}
//	---
//	@think That was easy.
//	There they are.
//	@wait 200ms
//	@usage input=1200 output=30
//	@stop length
//
// The others are @after TOOL, @times N, @chunk N, @delay 5ms, @cut, @stall and
// @error KIND-OR-STATUS [retry=500ms] [MESSAGE]. A line of text that begins
// with @ is written with two.
package scripted
