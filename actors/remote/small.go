package remote

import (
	"bufio"
	"net"
	"net/http"
)

// small has a connection that is taken over keep buffers of its own instead of those of
// net/http, which hold on to the request: there may be a thousand that say little.
type small struct{ http.ResponseWriter }

const (
	smallReads  = 1 << 10
	smallWrites = 2 << 10
)

// Hijack implements [http.Hijacker].
func (s small) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, brw, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err != nil || brw.Reader.Buffered() > 0 { // what has come already is in there
		return c, brw, err
	}
	return c, bufio.NewReadWriter(bufio.NewReaderSize(c, smallReads), bufio.NewWriterSize(c, smallWrites)), nil
}

// Unwrap is for [http.ResponseController].
func (s small) Unwrap() http.ResponseWriter { return s.ResponseWriter }
