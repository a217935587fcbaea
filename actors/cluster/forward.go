package cluster

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	"errors"
	"fmt"
)

// Identity is the client for which a node speaks to another: the node that the client is
// connected to has let it in, and says what it may do.
type Identity struct {
	ClientID string `json:"clientId,omitempty"` // as it has named itself; "" for one that has not
	Device   string `json:"device,omitempty"`   // of its credential; "" for none
	ViewOnly bool   `json:"viewOnly,omitempty"` // it may look, and changes nothing
	Confined bool   `json:"confined,omitempty"` // it may name files below the roots of a node only
	Retain   bool   `json:"retain,omitempty"`   // sessions that it opens stay when it goes
	Drain    bool   `json:"drain,omitempty"`    // what it has begun goes on to its end when it goes
	Lossy    bool   `json:"lossy,omitempty"`    // no session waits for it: what it does not read is dropped, and it is told
}

// Conn is the wire to another node, for one client. Read and Write may be called at the same
// time, each by one goroutine.
type Conn interface {
	// Read returns one or more whole lines, with their line ends, which belong to the caller.
	// io.EOF says that the other node has nothing more to say.
	Read() ([]byte, error)
	// Write writes whole lines, with their line ends. It waits until the other node has room:
	// nothing is dropped.
	Write(lines []byte) error
	// CloseWrite says that no more lines come.
	CloseWrite() error
	// Close ends both ways at once, and wakes who waits.
	Close() error
}

// Forwarder opens the wire to another node.
type Forwarder interface {
	// Dial fails with ErrRefused where nobody listens, or who listens wants nothing of us;
	// with ErrUnreachable when time ran out; with ErrUpgrade when both nodes have no version of
	// the wire in common.
	Dial(ctx context.Context, to Node, who Identity) (Conn, error)
}

var (
	// ErrRefused: the node does not take connections.
	ErrRefused = errors.New("the node accepts no connections")
	// ErrUnreachable: the node does not answer.
	ErrUnreachable = errors.New("the node does not answer")
	// ErrUpgrade: the node is of a version that has too little in common with ours.
	ErrUpgrade = errors.New("the nodes' versions have no wire in common")
	// ErrNoSession: there is no session of that id in the cluster.
	ErrNoSession = errors.New("there is no such session")
)

// NewSessionID is the id of the session that a command makes, if its client has named itself
// and the command has an id of its own: whichever node the command comes to again, it is the
// same session. It is a UUID of version 5.
func NewSessionID(clientID, commandID string) SessionID {
	return sessionID(clientID + "/" + commandID)
}

// RandomSessionID is the id of a session that is made once.
func RandomSessionID() SessionID { return sessionID(rand.Text()) }

func sessionID(of string) SessionID {
	u := sha1.Sum(append(sessionSpace[:], of...)) // what UUIDs of version 5 are made of; nothing is kept secret by it
	u[6], u[8] = u[6]&0x0f|0x50, u[8]&0x3f|0x80
	return SessionID(fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:16]))
}

// sessionSpace is the name space of sessions' ids.
var sessionSpace = [16]byte{0x8c, 0x1e, 0x9f, 0x0b, 0x6d, 0x57, 0x4a, 0x2e, 0x93, 0x44, 0x5b, 0x27, 0xd1, 0x60, 0xaf, 0x38}
