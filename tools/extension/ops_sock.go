package extension

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// address is where node:net connects or listens.
type address struct {
	Path string `json:"path"` // of a Unix socket; "" for TCP
	Host string `json:"host"`
	Port int    `json:"port"`
}

func (a address) of() (network, name string) {
	if a.Path != "" {
		return "unix", a.Path
	}
	return "tcp", net.JoinHostPort(a.Host, strconv.Itoa(a.Port))
}

// fail is an error of an address as Node words it.
func (a address) fail(syscallName string, err error) *failure {
	var code syscall.Errno
	var dns *net.DNSError
	f := &failure{Message: err.Error(), Syscall: syscallName, Path: a.Path}
	switch {
	case errors.As(err, &dns):
		f.Code, f.Syscall = "ENOTFOUND", "getaddrinfo"
	case errors.As(err, &code):
		f.Code, f.Errno = unix.ErrnoName(code), -int(code)
	default:
		return f
	}
	where := a.Path
	if where == "" {
		where = a.Host
		if f.Code != "ENOTFOUND" {
			_, where = a.of()
		}
	}
	f.Message = f.Syscall + " " + f.Code + " " + where
	return f
}

// ends are both ends of a connection, as sockets name them.
func ends(conn net.Conn) map[string]any {
	all := map[string]any{}
	for side, a := range map[string]net.Addr{"local": conn.LocalAddr(), "remote": conn.RemoteAddr()} {
		if tcp, ok := a.(*net.TCPAddr); ok {
			all[side+"Address"], all[side+"Port"], all[side+"Family"] = tcp.IP.String(), tcp.Port, family(tcp.IP)
		}
	}
	return all
}

func family(ip net.IP) string {
	if ip.To4() != nil {
		return "IPv4"
	}
	return "IPv6"
}

// socket is a connection as a stream. JavaScript writes one piece, and the next when
// it has heard that this one is written.
type socket struct {
	output chan []byte
	ended  sync.Once
}

func newSocket() *socket { return &socket{output: make(chan []byte, 1)} }

func (s *socket) send(event string, values args) {
	switch event {
	case "write":
		select {
		case s.output <- values.bytes(0):
		default: // it did not wait
		}
	case "end":
		s.ended.Do(func() { close(s.output) })
	}
}

// serve moves bytes both ways until both have ended or ctx has.
func (s *socket) serve(ctx context.Context, conn net.Conn, at address, say emit) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	broken := func(call string, err error) {
		if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
			say("error", at.fail(call, err))
		}
		conn.Close()
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		for {
			select {
			case b, more := <-s.output:
				if !more {
					if half, ok := conn.(interface{ CloseWrite() error }); ok {
						_ = half.CloseWrite() // who reads hears of a broken one
					}
					return
				}
				if _, err := conn.Write(b); err != nil {
					broken("write", err)
					return
				}
				say("wrote")
			case <-ctx.Done():
				return
			}
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		if n > 0 && !say("data", bytes.Clone(buf[:n])) {
			break
		}
		if errors.Is(err, io.EOF) {
			say("end")
			break
		}
		if err != nil {
			broken("read", err)
			break
		}
	}
	writing.Wait()
}

// connectStream is net.connect: [address].
func connectStream(c *opCall, say emit) (stream, func(), error) {
	var at address
	if err := c.args.into(0, &at); err != nil {
		return nil, nil, err
	}
	s := newSocket()
	return s, func() {
		network, name := at.of()
		conn, err := new(net.Dialer).DialContext(c.ctx, network, name)
		if err != nil {
			say("error", at.fail("connect", err))
			return
		}
		if say("connect", ends(conn)) {
			s.serve(c.ctx, conn, at, say)
		} else {
			conn.Close()
		}
	}, nil
}

// acceptedStream is net.accepted: [number of a connection].
func acceptedStream(c *opCall, say emit) (stream, func(), error) {
	conn, err := c.conns.take(c.args.int(0))
	if err != nil {
		return nil, nil, &failure{Code: "EBADF", Message: "accept EBADF"}
	}
	s := newSocket()
	return s, func() { s.serve(c.ctx, conn, address{}, say) }, nil
}

// listener is a server as a stream.
type listener struct{ net.Listener }

// send closes it at once: what comes next finds the address free.
func (l listener) send(string, args) { l.Close() }

// listenStream is net.listen: [address].
func listenStream(c *opCall, say emit) (stream, func(), error) {
	var at address
	if err := c.args.into(0, &at); err != nil {
		return nil, nil, err
	}
	network, name := at.of()
	l, err := new(net.ListenConfig).Listen(c.ctx, network, name)
	if err != nil {
		return nil, nil, at.fail("listen", err)
	}
	return listener{l}, func() {
		defer l.Close()
		defer context.AfterFunc(c.ctx, func() { l.Close() })()
		where := map[string]any{}
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			where = map[string]any{"address": tcp.IP.String(), "port": tcp.Port, "family": family(tcp.IP)}
		}
		say("listening", where)
		for {
			conn, err := l.Accept()
			if err != nil {
				if c.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
					say("error", at.fail("accept", err))
				}
				return
			}
			id := c.conns.add(conn)
			if !say("connection", float64(id), ends(conn)) {
				if conn, err := c.conns.take(id); err == nil {
					conn.Close()
				}
				return
			}
		}
	}, nil
}
