package cluster

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Mode is what becomes of a directory when a session moves to another node.
type Mode string

// The modes there are.
const (
	Pinned Mode = "pinned" // the directory is on one node: the session stays there
	Shared Mode = "shared" // the same files are on every node that has the root
	Git    Mode = "git"    // every node that has the root fetches them
	None   Mode = "none"   // there are no files
)

// Root is a directory of which sessions may work below, as a node has it.
type Root struct {
	Path   string `json:"path"`
	Mode   Mode   `json:"mode"`
	Remote string `json:"remote,omitempty"` // of git
}

// Labels that a node has of itself, beside those that it was given: its system, the modes of
// its roots, and the providers for which it has credentials.
const (
	OSLabel       = "os"
	ArchLabel     = "arch"
	RootLabel     = "root."
	ProviderLabel = "provider."
	LabelYes      = "yes"
)

// Wants is what a session needs of its node. It is in the session's first record.
type Wants struct {
	Labels map[string]string
	Root   string // the name of a root; "" for none
	Dir    string // of the session, below the root
	Node   string // the node that has its directory, where that is in no root or in one that is pinned; "" for any
}

// None says that it wants nothing.
func (w Wants) None() bool { return len(w.Labels) == 0 && w.Root == "" && w.Node == "" }

// ErrNowhere is the error of [Place]; it names what is missing.
var ErrNowhere = errors.New("no node can take the session")

// Seen is a node as it was heard of last.
type Seen struct {
	Node
	When  time.Time // the zero value if nothing was heard of it
	Lives bool      // it was heard of lately: a guess
	Late  bool      // it should have been heard of by now
}

// Place says on which node a session belongs: of those that live, are not draining and have
// what it wants, the one that a hash of both puts first. Where nodes come and go only
// the sessions of these move.
func Place(id SessionID, want Wants, nodes []Seen) (best Node, err error) {
	var most [sha256.Size]byte
	missing := map[string]bool{}
	for _, n := range nodes {
		if why := want.lacks(n); why != "" {
			missing[why] = true
			continue
		}
		if sum := sha256.Sum256([]byte(string(id) + "\x00" + n.Name)); bytes.Compare(sum[:], most[:]) > 0 {
			best, most = n.Node, sum
		}
	}
	switch {
	case best.Name != "":
		return best, nil
	case len(missing) == 0:
		return best, fmt.Errorf("%w: there is no node", ErrNowhere)
	}
	return best, fmt.Errorf("%w: %s", ErrNowhere, strings.Join(slices.Sorted(maps.Keys(missing)), "; "))
}

// lacks is what a node does not have, "" if it has everything.
func (w Wants) lacks(n Seen) string {
	root, has := n.Roots[w.Root]
	switch {
	case !n.Lives:
		return n.Name + " does not answer"
	case n.Draining:
		return n.Name + " takes no sessions"
	case w.Node == n.Name: // its directory is there
	case n.Stuck:
		return n.Name + " cannot write to its disk"
	case w.Root != "" && !has:
		return n.Name + " has no root " + w.Root
	case w.Node != "" && w.Root == "":
		return "the directory of the session is on " + w.Node
	case w.Node != "" && root.Mode == Pinned:
		return "the root " + w.Root + " of the session is on " + w.Node
	}
	for _, name := range slices.Sorted(maps.Keys(w.Labels)) {
		if n.Labels[name] != w.Labels[name] {
			return fmt.Sprintf("%s has no label %s=%s", n.Name, name, w.Labels[name])
		}
	}
	return ""
}
