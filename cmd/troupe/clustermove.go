package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tidwall/gjson"

	"troupe/actors/cluster"
	"troupe/protocol"
)

// mover gives a session to a node, and follows it there.
type mover struct {
	out   io.Writer
	nodes func() []cluster.Node
	dial  func(context.Context, cluster.Node, cluster.Identity) (cluster.Conn, error)
	id    string
	to    string
	told  map[string]bool
}

// where is what the nodes say of a session.
type where struct {
	open   string        // the node that has it open; "" for none that has said so
	moves  bool          // it gives it to the node that is to have it
	code   protocol.Code // why it does not
	leaves string        // a node that has it still, and gives it up; or the next one, which is opening it
	why    error         // what a node has said that could not open it; nil for none
}

// move gives a session to a node, once nothing goes on in it, and waits until it is there.
func (a *adminOptions) move(ctx context.Context) error {
	side, err := a.side()
	if err != nil {
		return err
	}
	return a.withEngine(ctx, func(e cluster.Engine) error {
		id := cluster.SessionID(a.words[1])
		tail, err := e.Tail(ctx, id)
		if err == nil && tail.Seq == 0 {
			err = fmt.Errorf("%w: %s", cluster.ErrNoSession, id)
		}
		if err != nil {
			return err
		}
		m := mover{out: os.Stdout, nodes: e.Nodes, dial: side.Dial, id: a.words[1], to: a.words[2]}
		return m.move()
	})
}

// move asks all nodes again and again. A session that is given up may have a working tree to be saved, and the next node one to make, so
// that it is nowhere for a while: that is waited for as long as a node says that it has to do with it, as is the end of what goes on.
func (m *mover) move() error {
	var heard time.Time // when a node has said so last
	var why error
	for gave := ""; ; {
		is := m.look()
		if is.open == "" && is.why != nil {
			why = is.why
		}
		switch {
		case is.open == m.to:
			_, _ = fmt.Fprintln(m.out, "session", m.id, "is on node", m.to)
			return nil
		case is.open != "" && gave != "":
			if why == nil {
				why = fmt.Errorf("node %s could not have it; see its log", m.to)
			}
			return fmt.Errorf("session %s was given up by node %s, and is on node %s: %w", m.id, gave, is.open, why)
		case is.moves:
			gave, heard = is.open, time.Now()
		case is.code == protocol.CodeSessionBusy:
			heard = time.Now()
			m.tell(fmt.Sprintf("something goes on in session %s on node %s: waiting for its end", m.id, is.open))
		case is.open != "":
			return is.why
		case is.leaves != "" && (is.leaves != m.to || gave != ""):
			heard = time.Now()
			m.tell(fmt.Sprintf("session %s is not open yet on node %s: waiting for node %s", m.id, m.to, is.leaves))
		case time.Since(heard) <= adminTime:
		case why == nil:
			return fmt.Errorf("no node has session %s, or can have it", m.id)
		default:
			return why
		}
		<-time.After(cluster.Stock.Every)
	}
}

// tell says something once.
func (m *mover) tell(what string) {
	if !m.told[what] {
		_, _ = fmt.Fprintln(m.out, what)
	}
	if m.told == nil {
		m.told = map[string]bool{}
	}
	m.told[what] = true
}

// look asks every node, and has the one that has the session give it away.
func (m *mover) look() (is where) {
	for _, n := range m.nodes() {
		code, err := m.lookAt(n, &is)
		switch {
		case err == nil:
			is.open = n.Name
			return is
		case code == protocol.CodeNotHere:
		case code == protocol.CodeSessionClosing, errors.Is(err, errMovedAway), n.Name == m.to && errors.Is(err, context.DeadlineExceeded):
			is.leaves = n.Name
		case code != "":
			is.why = fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	return is
}

// answered is the code of a refusal, "" for none that the node has said, and why nothing was done.
func answered(answer []byte, lost error) (protocol.Code, error) {
	if lost != nil || gjson.GetBytes(answer, "success").Bool() {
		return "", lost
	}
	return protocol.Code(gjson.GetBytes(answer, "code").Str), errors.New(gjson.GetBytes(answer, "error").Str)
}

// lookAt asks a node. The error is why it does not have the session, with the code if the node has said it.
func (m *mover) lookAt(n cluster.Node, is *where) (protocol.Code, error) {
	ctx, cancel := context.WithTimeout(context.Background(), adminTime)
	defer cancel()
	wire, err := m.dial(ctx, n, cluster.Identity{Device: "troupe cluster move", Retain: true})
	if err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, func() { _ = wire.Close() })()
	defer func() { _ = wire.Close() }()
	code, err := answered(ask(wire, "attach", map[string]string{"sessionId": m.id}))
	if err != nil || n.Name == m.to {
		return code, errors.Join(err, ctx.Err())
	}
	code, err = answered(ask(wire, "move_session", map[string]string{"sessionId": m.id, "node": m.to}))
	switch {
	case err == nil:
		is.moves = true
	case code == "", code == protocol.CodeSessionClosing, code == protocol.CodeNotHere: // it has left meanwhile
		return code, err
	default:
		is.code, is.why = code, err
	}
	return "", nil
}

// errMovedAway: a node does not answer any more what it was asked about a session, since it has given it up. It counts on whoever has
// asked to ask where the session is.
var errMovedAway = errors.New("the session has moved away")

// ask gives a node a command and returns the answer. What comes before it is for nobody, but that none comes.
func ask(wire cluster.Conn, name string, cmd map[string]string) ([]byte, error) {
	cmd["id"], cmd["type"] = name, name
	line, err := json.Marshal(cmd)
	if err == nil {
		err = wire.Write(append(line, '\n'))
	}
	for err == nil {
		var lines []byte
		lines, err = wire.Read()
		for line := range bytes.Lines(lines) {
			switch of := gjson.GetManyBytes(line, "type", "id"); {
			case of[0].Str == "response" && of[1].Str == name:
				return line, nil
			case of[0].Str == "session_moved":
				err = errMovedAway
			}
		}
	}
	return nil, err
}
