package remote

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// outlet is a connection to which two write: the WebSocket library its control frames, and
// the writer of a client what it has to say, in frames that are made here. A server's frame
// is a header before the bytes; by way of the library, which copies them, arms a timeout and
// takes two locks, a thousand clients cost half as much again.
type outlet struct {
	net.Conn

	mu     sync.Mutex // held while a frame is not whole
	begun  bool       // a try has left a frame that is not, and with it mu
	broken bool       // one was not written to its end: nothing can follow it

	raw  syscall.RawConn // nil if it cannot be written to without waiting
	once func(fd uintptr) bool
	data []byte // that once writes
	n    int    // how much of it was written
	err  error
}

func newOutlet(c net.Conn) *outlet {
	o := &outlet{Conn: c}
	if of, is := c.(syscall.Conn); is {
		if raw, err := of.SyscallConn(); err == nil {
			o.raw = raw
			o.once = func(fd uintptr) bool { // made once
				o.n, o.err = syscall.Write(int(fd), o.data)
				return true
			}
		}
	}
	return o
}

// Write is the library's: one control frame.
func (o *outlet) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.write(p)
}

func (o *outlet) write(p []byte) (int, error) {
	if o.broken {
		return 0, net.ErrClosed
	}
	n, err := o.Conn.Write(p)
	o.broken = err != nil
	return n, err
}

// try writes what can be written at once, which may be nothing. The rest, if only some was
// written, has to be given to finish: no other frame can come between.
func (o *outlet) try(p []byte) (int, error) {
	if o.raw == nil || !o.mu.TryLock() {
		return 0, nil
	}
	if o.broken {
		o.mu.Unlock()
		return 0, net.ErrClosed
	}
	o.data = p
	if err := o.raw.Write(o.once); err != nil {
		o.n, o.err = 0, err
	}
	o.data = nil
	if errors.Is(o.err, syscall.EAGAIN) || errors.Is(o.err, syscall.EINTR) {
		o.n, o.err = 0, nil
	}
	n, err := max(o.n, 0), o.err
	o.broken = err != nil
	if o.begun = err == nil && 0 < n && n < len(p); !o.begun {
		o.mu.Unlock()
	}
	return n, err
}

// finish writes all, and waits for a client for as long as clients are waited for.
func (o *outlet) finish(p []byte) (int, error) {
	if !o.begun {
		o.mu.Lock()
	}
	o.begun = false
	defer o.mu.Unlock()
	_ = o.SetWriteDeadline(time.Now().Add(writePatience))
	n, err := o.write(p)
	if err == nil {
		_ = o.SetWriteDeadline(time.Time{})
	}
	return n, err
}

// busy says whether somebody writes.
func (o *outlet) busy() bool {
	if !o.mu.TryLock() {
		return true
	}
	o.mu.Unlock()
	return false
}

// appendFrame appends a frame of a message of text, as RFC 6455 has it: one that goes on
// with a message or begins one, and ends it or does not.
func appendFrame(dst []byte, goesOn, last bool, payload []byte) []byte {
	const (
		fin, text  = 0x80, 0x1
		two, eight = 126, 127 // the length is in so many bytes behind
	)
	head := byte(text)
	if goesOn {
		head = 0
	}
	if last {
		head |= fin
	}
	dst = append(dst, head)
	switch n := len(payload); {
	case n < two:
		dst = append(dst, byte(n))
	case n <= 0xffff:
		dst = binary.BigEndian.AppendUint16(append(dst, two), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, eight), uint64(n))
	}
	return append(dst, payload...)
}
