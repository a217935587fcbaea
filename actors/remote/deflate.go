package remote

import (
	"bytes"
	"compress/flate"
	"sync"
)

// smallestDeflated is from how many bytes on a message is compressed: below that it costs
// more than it saves.
const smallestDeflated = 256

// deflaters are shared by all clients: every message is compressed by itself, and a writer
// is larger than a client.
var deflaters = sync.Pool{New: func() any {
	d := new(deflater)
	d.w, _ = flate.NewWriter(&d.out, flate.BestSpeed) // the level is one
	return d
}}

type deflater struct {
	w   *flate.Writer
	out bytes.Buffer
}

// appendDeflated appends the frame of a message of text, compressed as RFC 7692 has it.
func appendDeflated(dst, payload []byte) []byte {
	d := deflaters.Get().(*deflater)
	defer deflaters.Put(d)
	d.out.Reset()
	d.w.Reset(&d.out)
	_, _ = d.w.Write(payload) // a buffer takes it
	_ = d.w.Flush()
	packed := bytes.TrimSuffix(d.out.Bytes(), []byte("\x00\x00\xff\xff"))
	const compressed = 0x40 // the first of the reserved bits
	at := len(dst)
	dst = appendFrame(dst, false, true, packed)
	dst[at] |= compressed
	return dst
}
