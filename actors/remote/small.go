package remote

import (
	"bufio"
	"net"
	"net/http"
)

// small has a connection that is taken over keep buffers of its own instead of those of
// net/http, which hold on to the request: there may be a thousand that say little.
type small struct {
	http.ResponseWriter
	out *outlet // of the connection that was taken over

	status int    // with which it was refused instead; 0 if it was not
	why    []byte // then, in words
}

// WriteHeader keeps a refusal, which is answered as every other.
func (s *small) WriteHeader(status int) {
	if status == http.StatusSwitchingProtocols {
		s.ResponseWriter.WriteHeader(status)
		return
	}
	s.status = status
}

// Write keeps the words of a refusal.
func (s *small) Write(p []byte) (int, error) {
	s.why = append(s.why, p...)
	return len(p), nil
}

const (
	smallReads = 512 // commands are short, and long ones go by the buffer
	// smallWrites is room for a control frame, so that it is one write. Records do not come this way.
	smallWrites = 128
)

// Hijack implements [http.Hijacker].
func (s *small) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, brw, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err != nil {
		return c, brw, err
	}
	s.out = newOutlet(c)
	in := brw.Reader
	if in.Buffered() == 0 { // else what has come already is in there
		in = bufio.NewReaderSize(c, smallReads)
	}
	return s.out, bufio.NewReadWriter(in, bufio.NewWriterSize(s.out, smallWrites)), nil
}

// Unwrap is for [http.ResponseController].
func (s *small) Unwrap() http.ResponseWriter { return s.ResponseWriter }
