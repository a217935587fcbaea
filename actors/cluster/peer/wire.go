package peer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"troupe/actors/cluster"
)

// Versions of the wire that this program knows, the lowest and the highest.
var Versions = [2]int{1, 1}

const (
	helloTime  = 5 * time.Second // for all of TLS and the hellos
	maxHello   = 16 << 10
	readBuffer = 64 << 10
)

// hello is the first line of each side. What one does not know of it, it ignores.
type hello struct {
	Type     string `json:"type"` // peer_hello
	Versions [2]int `json:"versions"`
	Version  int    `json:"version,omitempty"` // of the answer: what is spoken from here on
	Troupe   string `json:"troupe"`            // the program's version, for people
	Node     string `json:"node"`
	Code     string `json:"code,omitempty"` // of a refusal
	Error    string `json:"error,omitempty"`

	Client *cluster.Identity `json:"client,omitempty"` // of who dials
}

// Side is one node's end of the wire.
type Side struct {
	Keys     *Keys
	Version  string // of the program
	Versions [2]int // of the wire; [Versions], but in tests
	now      func() time.Time
}

// NewSide is a node's end of the wire.
func NewSide(keys *Keys, version string) *Side {
	return &Side{Keys: keys, Version: version, Versions: Versions, now: time.Now}
}

func (s *Side) config(check func(*x509.Certificate) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{Protocol}, Certificates: []tls.Certificate{s.Keys.cert},
		ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, SessionTicketsDisabled: true, // both sides verify below: the same rule for each
		VerifyConnection: func(state tls.ConnectionState) error {
			if state.NegotiatedProtocol != Protocol {
				return errors.New("not the wire of nodes")
			}
			if len(state.PeerCertificates) == 0 {
				return errors.New("no certificate")
			}
			cert := state.PeerCertificates[0]
			if err := s.Keys.verify(cert, s.now()); err != nil {
				return &wrongNode{err}
			}
			return check(cert)
		},
	}
}

// Dial implements [cluster.Forwarder].
func (s *Side) Dial(ctx context.Context, to cluster.Node, who cluster.Identity) (cluster.Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", to.Addr)
	if err != nil {
		return nil, told(ctx, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	c, err := s.greet(raw, to, who)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, told(ctx, err)
	}
	return lines{c}, nil
}

// told is an error in the words of [cluster.Forwarder].
func told(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, cluster.ErrUpgrade), errors.Is(err, cluster.ErrRefused):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", cluster.ErrUnreachable, err)
	case errors.Is(err, syscall.ECONNREFUSED), errors.As(err, new(tls.AlertError)), errors.As(err, new(*wrongNode)):
		return fmt.Errorf("%w: %w", cluster.ErrRefused, err)
	default:
		return fmt.Errorf("%w: %w", cluster.ErrUnreachable, err)
	}
}

func (s *Side) greet(raw net.Conn, to cluster.Node, who cluster.Identity) (*Conn, error) {
	_ = raw.SetDeadline(time.Now().Add(helloTime))
	cfg := s.config(func(cert *x509.Certificate) error {
		if cert.DNSNames[0] != to.Name {
			return &wrongNode{fmt.Errorf("%s answers in the place of %s", cert.DNSNames[0], to.Name)}
		}
		return nil
	})
	c := newConn(tls.Client(raw, cfg), to.Name)
	if err := c.say(hello{Type: "peer_hello", Versions: s.Versions, Troupe: s.Version, Node: s.Keys.Node, Client: &who}); err != nil {
		return nil, err
	}
	answer, err := c.hear()
	if err != nil {
		return nil, err
	}
	switch {
	case answer.Code == codeUpgrade:
		return nil, fmt.Errorf("%w: %s", cluster.ErrUpgrade, answer.Error)
	case answer.Code != "":
		return nil, fmt.Errorf("%w: %s", cluster.ErrRefused, answer.Error)
	case answer.Version < s.Versions[0] || answer.Version > s.Versions[1]:
		return nil, fmt.Errorf("%w: it wants version %d", cluster.ErrUpgrade, answer.Version)
	}
	c.Version = answer.Version
	return c, raw.SetDeadline(time.Time{})
}

// Codes of refusals.
const (
	codeUpgrade = "upgrade_needed"
	codeRefused = "refused"
)

// Accept takes a connection of another node, and says for whom it speaks. Who has no
// certificate of a node is told nothing but that.
func (s *Side) Accept(raw net.Conn) (c *Conn, who cluster.Identity, err error) {
	_ = raw.SetDeadline(time.Now().Add(helloTime))
	defer func() {
		if err != nil {
			_ = raw.Close()
		}
	}()
	secure := tls.Server(raw, s.config(func(*x509.Certificate) error { return nil }))
	if err := secure.Handshake(); err != nil {
		return nil, who, err
	}
	node := secure.ConnectionState().PeerCertificates[0].DNSNames[0]
	c = newConn(secure, node)
	said, err := c.hear()
	if err != nil {
		return nil, who, err
	}
	version := min(said.Versions[1], s.Versions[1])
	answer := hello{Type: "peer_hello", Versions: s.Versions, Version: version, Troupe: s.Version, Node: s.Keys.Node}
	switch {
	case said.Node != node:
		err = fmt.Errorf("the certificate of %s calls itself %s", node, said.Node)
		answer.Code, answer.Error = codeRefused, "the name is not that of the certificate"
	case said.Client == nil:
		err = errors.New("it speaks for nobody")
		answer.Code, answer.Error = codeRefused, err.Error()
	case version < said.Versions[0] || version < s.Versions[0]:
		err = fmt.Errorf("%w: %s speaks %v, %s %v", cluster.ErrUpgrade, node, said.Versions, s.Keys.Node, s.Versions)
		answer.Code, answer.Error = codeUpgrade, err.Error()
	}
	if sayErr := c.say(answer); err == nil {
		err = sayErr
	}
	if err != nil {
		_ = secure.Close()
		return nil, who, err
	}
	c.Version = version
	return c, *said.Client, raw.SetDeadline(time.Time{})
}

// wrongNode is who is at the other end and should not be.
type wrongNode struct{ error }

// Conn is the wire as bytes, for who cuts it into lines.
type Conn struct {
	*tls.Conn
	Node    string // at the other end, by its certificate
	Version int    // of the wire
	in      *bufio.Reader
}

func newConn(c *tls.Conn, node string) *Conn {
	return &Conn{Conn: c, Node: node, in: bufio.NewReaderSize(c, readBuffer)}
}

// Read implements [io.Reader], behind the hellos.
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

func (c *Conn) say(h hello) error {
	line, err := json.Marshal(h)
	if err != nil {
		return err
	}
	_, err = c.Conn.Write(append(line, '\n'))
	return err
}

func (c *Conn) hear() (h hello, err error) {
	var line []byte
	for {
		part, err := c.in.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) > maxHello {
			return h, fmt.Errorf("no hello: %w", err)
		}
	}
	if err := json.Unmarshal(line, &h); err != nil || h.Type != "peer_hello" {
		return h, errors.New("the first line is no peer_hello")
	}
	return h, nil
}

// lines is the wire as lines: a [cluster.Conn].
type lines struct{ c *Conn }

func (l lines) Write(lines []byte) error {
	_, err := l.c.Write(lines)
	return err
}

func (l lines) CloseWrite() error { return l.c.CloseWrite() }

// Close does not say goodbye: who is at the other end may not read.
func (l lines) Close() error { return l.c.NetConn().Close() }

// Read returns as many whole lines as have come.
func (l lines) Read() ([]byte, error) {
	var long []byte // the beginning of a line that is not whole
	in := l.c.in
	for {
		if _, err := in.Peek(1); err != nil {
			if len(long) > 0 && errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("%w in a line", io.ErrUnexpectedEOF)
			}
			return nil, err
		}
		there, _ := in.Peek(in.Buffered())
		end := bytes.LastIndexByte(there, '\n') + 1
		n := end
		if end == 0 {
			n = len(there)
		}
		long = append(long, there[:n]...)
		_, _ = in.Discard(n)
		if end > 0 {
			return long, nil
		}
	}
}
