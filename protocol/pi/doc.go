// Package pi is how a connection speaks: the RPC protocol of pi, in which a
// client writes commands and reads responses and events. It turns lines into
// requests and records into lines, and decides nothing else. Connections are
// given it as [Codec].
//
// # Framing
//
// Both directions carry UTF-8 JSON, one object per line, ended by LF. A CR
// before the LF is dropped on input. U+2028 and U+2029 are ordinary characters
// and never end a line; the writer of a connection escapes them in output, since Node's
// readline splits lines there. Blank lines are ignored. An input line above the limit
// ([protocol.DefaultMaxLine] unless the daemon is told otherwise) costs one error and
// nothing else: reading goes on after its LF. Bytes after the last LF at the
// end of input are a line.
//
// # Envelope
//
// A command is an object with a string "type" (the command's name) and an
// optional "id", which may be any JSON value and is echoed verbatim in the one
// response the command gets. Everything else in the object is a parameter;
// unknown members are ignored, and of duplicates the last one counts, as in
// JavaScript.
//
// A record begins with what routes it: the "id" of a response, as in pi, then
// "type", then "sessionId" where the record belongs to a session that open_session
// opened, then "seq" with that feature. Whoever passes lines on need not read
// further.
//
// A line that is not JSON is answered with command "parse" and an error that
// begins "Failed to parse command: "; a JSON value without a string "type" with
// "Missing command type"; an unknown type with "Unknown command: NAME". The
// answers to the first two carry no id, but in pi 1.x that to a missing type.
package pi
