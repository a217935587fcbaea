package protocol

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Code is the stable word for a kind of failure, beside the sentence.
type Code string

const (
	CodeParse            Code = "parse_error"        // the line is not JSON, not UTF-8 or too long
	CodeMissingType      Code = "missing_type"       // a JSON value without a string "type"
	CodeUnknownCommand   Code = "unknown_command"    // no such command
	CodeInvalidParams    Code = "invalid_params"     // a parameter is missing or wrong
	CodeUnknownSession   Code = "unknown_session"    // no open session has this sessionId
	CodeMissingSessionID Code = "missing_session_id" // --multi-session, and the command names no session
	CodeSessionClosing   Code = "session_closing"    // the session, the connection or the daemon is shutting down
	CodeSessionInUse     Code = "session_in_use"     // another live process or session has the file
	CodeSessionBusy      Code = "session_busy"       // a run is active and the command cannot wait
	CodeSessionFailed    Code = "session_failed"     // the session crashed too often and was given up
	CodeBudgetExceeded   Code = "budget_exceeded"    // a limit of the session is reached
	CodeNotDurable       Code = "not_durable"        // the session file could not be written
	CodeModelNotFound    Code = "model_not_found"    // no such model
	CodeNoModel          Code = "no_model"           // no model is selected
	CodeNoKey            Code = "no_api_key"         // no credentials for the model's provider
	CodeCwdMissing       Code = "cwd_missing"        // the working directory does not exist
	CodeNotFound         Code = "not_found"          // an entry, a file or a dialog does not exist
	CodeInvalidFile      Code = "invalid_file"       // a file exists and is not what it should be
	CodeNothingToDo      Code = "nothing_to_do"      // nothing to compact, nothing to export
	CodeCancelled        Code = "cancelled"          // aborted before it was done
	CodeUnsupported      Code = "unsupported"        // this version does not do it
	CodeConflict         Code = "conflict"           // the idempotency key was used for something else
	CodeDialogOver       Code = "dialog_over"        // the dialog has been there and is over
	CodeDuplicateCommand Code = "duplicate_command"  // the client has used the id for another command
	CodeOverloaded       Code = "overloaded"         // a limit of the daemon is reached
	CodeForbidden        Code = "forbidden"          // this client may not do that
	CodeResyncRequired   Code = "resync_required"    // there is no such event to go on from
	CodeIO               Code = "io_error"           // the operating system refused
	CodeLoginCancelled   Code = "login_cancelled"    // somebody did not want it any more
	CodeLoginTimeout     Code = "login_timeout"      // nobody signed in in time
	CodeLoginFailed      Code = "login_failed"       // the vendor refused, or could not be asked
	CodeLoginBusy        Code = "login_busy"         // somebody is signing in to it already
	CodeLoginUnsupported Code = "login_unsupported"  // there is no such login here
	CodeProvider         Code = "provider_error"     // the model's provider failed

	// Of a cluster.
	CodeSessionUnavailable Code = "session_unavailable" // no node has the session at the moment
	CodeSessionMoved       Code = "session_moved"       // it belongs to a cluster, and its file here is a copy
	CodeSessionDamaged     Code = "session_damaged"     // its log is not whole
	CodeNodeLost           Code = "node_lost"           // the only node that can run it is not there
	CodeNowhere            Code = "nowhere"             // no node has what it wants
	CodeNotHere            Code = "not_here"            // between nodes: another one has it
	CodeUpgradeNeeded      Code = "upgrade_needed"      // it was written by a newer version

	CodeInternal Code = "internal" // a fault of ours; the session lives on
)

// Error is a failure as the client sees it.
type Error struct {
	Code    Code
	Message string
	Data    any // additional data such as [RetryInfo]; nil for none

	// Undecided says that a repeat of the command, under the same clientId and id, is answered by what
	// the log of its session holds then, and not by this error.
	Undecided bool
}

func (e *Error) Error() string { return e.Message }

// Errorf makes an Error of this code.
func (c Code) Errorf(format string, args ...any) *Error {
	return &Error{Code: c, Message: fmt.Sprintf(format, args...)}
}

// Response is the one answer to a command.
type Response struct {
	ID        json.RawMessage // the command's id, verbatim; nil if it had none
	Command   string          // the command's name as the client wrote it
	Data      Result          // nil for a success without data
	Err       *Error          // nil for success
	SessionID string          // the routing handle, for commands that named one
	Replayed  bool            // the command was answered before, and came again
	At        uint64          // the number of the session's last event before it; 0 if it is not known
	Rewinds   bool            // what follows begins behind At, wherever the client was: at the first event if that is 0
}

// Result is the data of a successful response: a struct of this package, which is
// written by its tags, or an [Appender].
type Result any

// Weighed is a value that knows the length of its JSON, where that is not the one of its members;
// 0 leaves it to [SizeOf].
type Weighed interface{ Weight() int }

// Long is a result that is too large to be held as text at once: it is written
// piece by piece, while the client reads.
type Long interface {
	Appender
	// AppendPart appends the piece at a position and returns the position of the
	// next one, 0 after the last. The first piece is at 0. All pieces one behind
	// the other are what AppendJSON appends, but for what a dialect has otherwise.
	AppendPart(dst []byte, at int, dialect Dialect) (out []byte, next int)
}

// Pieces is a Long that is made of N texts, one behind the other.
type Pieces struct {
	N      int // at least 1
	Bytes  int // their length
	Append func(dst []byte, i int, dialect Dialect) []byte
}

// pieceSize is about how much is written at once of what is written in pieces.
const pieceSize = 64 << 10

// Weight makes Pieces a Weighed.
func (p Pieces) Weight() int { return p.Bytes }

func (p Pieces) AppendJSON(dst []byte) []byte {
	for i := range p.N {
		dst = p.Append(dst, i, "")
	}
	return dst
}

func (p Pieces) MarshalJSON() ([]byte, error) { return p.AppendJSON(nil), nil }

// AppendPart appends texts until they are long enough.
func (p Pieces) AppendPart(dst []byte, at int, dialect Dialect) (out []byte, next int) {
	begin := len(dst)
	for i := at; i < p.N; i++ {
		if dst = p.Append(dst, i, dialect); len(dst)-begin > pieceSize && i+1 < p.N {
			return dst, i + 1
		}
	}
	return dst, 0
}

// NewList makes pieces of n items, with commas between them, between head and
// tail; bytes is the length of the items.
func NewList(head, tail string, n, bytes int, item func(dst []byte, i int) []byte) Pieces {
	return newList(head, tail, n, bytes, func(dst []byte, i int, _ Dialect) []byte { return item(dst, i) })
}

// NewMessages makes pieces of messages that are JSON, as get_messages is answered.
func NewMessages(list [][]byte) Pieces {
	bytes := 0
	for _, m := range list {
		bytes += 64 + len(m)
	}
	return newList(`{"messages":[`, `]}`, len(list), bytes, func(dst []byte, i int, d Dialect) []byte {
		return appendMessageAs(dst, list[i], d)
	})
}

func newList(head, tail string, n, bytes int, item func(dst []byte, i int, d Dialect) []byte) Pieces {
	return Pieces{n + 1, len(head) + len(tail) + bytes + n, func(dst []byte, i int, d Dialect) []byte {
		switch {
		case i == 0:
			dst = append(dst, head...)
		case i < n:
			dst = append(dst, ',')
		}
		if i == n {
			return append(dst, tail...)
		}
		return item(dst, i, d)
	}}
}

// NewTree makes pieces of a list of nodes that contain their children, between
// head and tail: begin appends what comes before a node's children, end what
// comes behind them. It does not recurse: a session of 100,000 entries is a tree
// as deep as that.
func NewTree[N any](head, tail string, bytes int, roots []N, children func(*N) []N, begin, end func(dst []byte, node *N) []byte) Pieces {
	var steps []treeStep[N]
	for open := []siblings[N]{{list: roots}}; len(open) > 0; {
		at := &open[len(open)-1]
		if at.next == len(at.list) {
			if at.parent != nil {
				steps = append(steps, treeStep[N]{node: at.parent, ends: true})
			}
			open = open[:len(open)-1]
			continue
		}
		node := &at.list[at.next]
		steps = append(steps, treeStep[N]{node: node, comma: at.next > 0})
		at.next++
		open = append(open, siblings[N]{list: children(node), parent: node})
	}
	return Pieces{len(steps) + 2, bytes + 32*len(steps), func(dst []byte, i int, _ Dialect) []byte {
		switch i {
		case 0:
			return append(dst, head...)
		case len(steps) + 1:
			return append(dst, tail...)
		}
		step := steps[i-1]
		switch {
		case step.ends:
			return end(dst, step.node)
		case step.comma:
			dst = append(dst, ',')
		}
		return begin(dst, step.node)
	}}
}

// treeStep is the begin or the end of a node.
type treeStep[N any] struct {
	node  *N
	ends  bool
	comma bool // it has an elder sibling
}

// siblings are the children of a node, and how many have been seen.
type siblings[N any] struct {
	list   []N
	next   int
	parent *N
}

// Null is a result that is null on purpose, as cycle_model's without a choice.
type Null struct{}

func (Null) AppendJSON(dst []byte) []byte { return append(dst, "null"...) }

// Raw is a result that is already JSON.
type Raw json.RawMessage

func (r Raw) AppendJSON(dst []byte) []byte { return AppendRaw(dst, json.RawMessage(r)) }

// Doc says what the code means, for the reference.
func (c Code) Doc() string { return codeDocs[c] }

var codeDocs = map[Code]string{
	CodeParse:            "The line is not JSON, not UTF-8 or too long.",
	CodeMissingType:      "The line is a JSON value without a string member `type`.",
	CodeUnknownCommand:   "There is no such command.",
	CodeInvalidParams:    "A parameter is missing or wrong. The sentence names it.",
	CodeUnknownSession:   "No session with this `sessionId` is open.",
	CodeMissingSessionID: "The connection has no default session (`--multi-session`), and the command has no `sessionId`.",
	CodeSessionClosing:   "The session, the connection or the daemon is shutting down.",
	CodeSessionInUse:     "Another process or session has the file open.",
	CodeSessionBusy:      "A run is active, and the command cannot wait.",
	CodeSessionFailed:    "The session crashed too often and was closed.",
	CodeBudgetExceeded:   "A limit of the session is reached. `get_budget` returns it, `set_budget` raises it.",
	CodeNotDurable:       "The session file could not be written, or another program has removed or changed it. Also: a new session has the id of an existing one.",
	CodeModelNotFound:    "There is no such model.",
	CodeNoModel:          "No model is selected.",
	CodeNoKey:            "There are no credentials for the model's provider.",
	CodeCwdMissing:       "The working directory does not exist. In a default session, `new_session` and `switch_session` still work.",
	CodeNotFound:         "An entry, a file or a dialog does not exist.",
	CodeInvalidFile:      "The file is no session file, no regular file, or too large.",
	CodeNothingToDo:      "There is nothing to compact or to export.",
	CodeCancelled:        "The command was aborted. With `data.outcome` it was interrupted and may have run.",
	CodeUnsupported:      "This version, or this kind of connection, does not support it.",
	CodeConflict:         "The idempotency key was used for another command.",
	CodeDialogOver:       "The dialog or approval has ended: it was answered, or its request was withdrawn. `data` has `outcome` and `by`.",
	CodeDuplicateCommand: "The client has used the `id` for another command before. See `clientId` of `hello`.",
	CodeOverloaded:       "A limit of the daemon is reached.",
	CodeForbidden:        "The credential or the role of the client does not permit it.",
	CodeResyncRequired:   "`attach` continues after an event that the session does not have, or the client lacks the feature `seq`.",
	CodeIO:               "The operating system returned an error.",
	CodeLoginCancelled:   "The login was cancelled: in its dialog, by `cancel_login`, or because its client disconnected.",
	CodeLoginTimeout:     "The login was not completed in time.",
	CodeLoginFailed:      "The vendor rejected the login, or could not be reached. The sentence has the vendor's text. `data.cause` is `access_denied`, `unreachable`, `invalid_answer`, `invalid_key`, `http_503` or a code of the vendor, such as `invalid_grant`.",
	CodeLoginBusy:        "Another login for this provider is in progress.",
	CodeLoginUnsupported: "This login is not available. The sentence names an alternative.",
	CodeProvider:         "The model's provider returned an error.",

	CodeSessionUnavailable: "In a cluster: no node has the session at the moment, or its node was lost before it answered. `data` says which, see [below](#commands-that-may-have-run).",
	CodeSessionMoved:       "The session belongs to a cluster, under the id `data.id`. The file here is a copy.",
	CodeSessionDamaged:     "The log of the session is damaged. Its intact part can be read.",
	CodeNodeLost:           "The working directory of the session is on the node `data.node`, which does not answer since `data.since`. `troupe cluster export` writes the session to a file. `data` also says whether the command may have run.",
	CodeNowhere:            "No node of the cluster meets the requirements of the session. The sentence names the missing one.",
	CodeNotHere:            "Between the nodes of a cluster: another node has the session.",
	CodeUpgradeNeeded:      "The session was written by a newer version of troupe, or its node runs an incompatible version.",
	CodeInternal:           "A bug in troupe. The session continues. `data` says whether the command may have run.",
}

// Codes lists every code.
func Codes() []Code { return slices.Sorted(maps.Keys(codeDocs)) }
