package engines

import (
	"io"
	"net"
	"sync"
	"time"
)

// Way is how a proxy treats what comes by.
type Way int

// The ways there are.
const (
	Open     Way = iota
	Cut          // connections are reset, and none is made
	Hole         // bytes vanish in both directions, connections stay
	Upward       // bytes to the target vanish, answers come
	Downward     // bytes of the target vanish
)

// Proxy is a way to an address that can be cut.
type Proxy struct {
	l       net.Listener
	network string
	target  string

	mu    sync.Mutex
	way   Way
	delay time.Duration
	conns map[net.Conn]bool
}

// NewProxy listens on a port of its own, for an address of TCP.
func NewProxy(target string) (*Proxy, error) { return NewProxyTo("tcp", target) }

// NewProxyTo is the same for an address of any network.
func NewProxyTo(network, target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{l: l, network: network, target: target, conns: map[net.Conn]bool{}}
	go p.accept()
	return p, nil
}

// Addr is where it listens.
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// Close ends it and its connections.
func (p *Proxy) Close() {
	_ = p.l.Close()
	p.Set(Cut)
}

// Set changes the way. What is behind a hole when it is opened again is reset: its bytes are lost.
func (p *Proxy) Set(w Way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.way
	p.way = w
	if w == Cut || w == Open && was != Open {
		for c := range p.conns {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = c.Close()
		}
	}
}

// Slow delays all bytes.
func (p *Proxy) Slow(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

func (p *Proxy) state() (Way, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.way, p.delay
}

func (p *Proxy) accept() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		go p.serve(c)
	}
}

// keep notes a connection, so that it can be reset.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.way == Cut {
		return false
	}
	p.conns[c] = true
	return true
}

func (p *Proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) serve(c net.Conn) {
	defer p.drop(c)
	if !p.keep(c) {
		return
	}
	t, err := net.Dial(p.network, p.target)
	if err != nil {
		return
	}
	defer p.drop(t)
	if !p.keep(t) {
		return
	}
	done := make(chan struct{}, 2)
	go p.copy(t, c, Upward, done)
	go p.copy(c, t, Downward, done)
	<-done
}

func (p *Proxy) copy(to io.Writer, from io.Reader, lost Way, done chan struct{}) {
	defer func() { done <- struct{}{} }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		way, delay := p.state()
		if delay > 0 {
			time.Sleep(delay)
		}
		if n > 0 && way != Hole && way != lost {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
