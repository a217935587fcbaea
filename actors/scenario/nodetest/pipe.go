package nodetest

import (
	"errors"
	"io"
	"sync"
)

// pipe is one direction of a connection. It buffers pipeHolds bytes.
type pipe struct {
	mu     sync.Mutex
	moved  *sync.Cond
	buf    []byte
	passed int
	cut    int // bytes after which both directions break; -1 for never
	ended  bool
	failed bool
	other  *pipe
}

// pipeHolds is about the size of a socket buffer.
const pipeHolds = 16 << 10

var errCut = errors.New("connection cut")

func newPipe(cut int) *pipe {
	p := &pipe{cut: cut}
	p.moved = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.moved.Broadcast()
}

func (p *pipe) end() { p.change(func() { p.ended = true }) }

func (p *pipe) fail() { p.change(func() { p.failed = true }) }

func (p *pipe) Write(b []byte) (n int, err error) {
	for n < len(b) {
		p.mu.Lock()
		for len(p.buf) >= pipeHolds && !p.failed {
			p.moved.Wait()
		}
		if p.failed || p.ended {
			p.mu.Unlock()
			return n, errCut
		}
		part := b[n:min(len(b), n+pipeHolds-len(p.buf))]
		broken := p.cut >= 0 && p.passed+len(part) >= p.cut
		if broken {
			part = part[:p.cut-p.passed]
		}
		p.buf = append(p.buf, part...)
		p.passed += len(part)
		n += len(part)
		p.moved.Broadcast()
		p.mu.Unlock()
		if broken {
			p.fail()
			p.other.fail()
			return n, errCut
		}
	}
	return n, nil
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.buf) == 0 {
		switch {
		case p.failed:
			return 0, errCut
		case p.ended:
			return 0, io.EOF
		}
		p.moved.Wait()
	}
	n := copy(b, p.buf)
	p.buf = p.buf[n:]
	p.moved.Broadcast()
	return n, nil
}
