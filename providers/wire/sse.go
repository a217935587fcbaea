package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"troupe/protocol"
)

// Event is one server-sent event, or a comment between events.
type Event struct {
	Name    string // of the event: field, "" if there was none
	Data    []byte // the data lines joined by LF; valid until the next call of Next
	Comment bool   // a comment line, which is how servers keep a connection alive; Data is its text
	Torn    bool   // the stream ended before the blank line that completes an event
}

// ErrEventTooLarge is the error of an event, or a line, above [protocol.MaxEvent].
var ErrEventTooLarge = errors.New("server-sent event above the size limit")

// EventReader decodes a stream of server-sent events: lines ended by LF, CR or
// CRLF however the reads fall, comments, several data lines, a byte order mark,
// events with or without a name. It starts no goroutine, reads no further than
// it must to return an event, and reuses its memory.
type EventReader struct {
	r   io.Reader
	err error // of r, once it had one

	buf      []byte
	pos, end int  // buf[pos:end] is read and not used yet
	scanned  int  // buf[pos:scanned] has no line end
	skipLF   bool // the last line ended in CR: a LF right after it belongs to it
	begun    bool // the first line is past, and with it a byte order mark
	max      int

	name    []byte // of the event under construction
	last    string // the name of the event before, to give the same string again
	data    []byte
	hasData bool
	done    bool // the event under construction was returned: begin a new one
}

// NewEventReader reads events from r.
func NewEventReader(r io.Reader) *EventReader {
	return &EventReader{r: r, buf: make([]byte, 8<<10), max: protocol.MaxEvent}
}

// Next returns the next event or comment. At the end of the stream it returns
// io.EOF, after an event marked Torn if the last one was not complete. Another
// error of the reader comes back as it is and drops an incomplete event.
func (d *EventReader) Next() (Event, error) {
	if d.done {
		d.name, d.data, d.hasData, d.done = d.name[:0], d.data[:0], false, false
	}
	for {
		line, err := d.line()
		if err == io.EOF && d.hasData {
			return d.event(true), nil
		}
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if d.hasData {
				return d.event(false), nil
			}
			d.name = d.name[:0] // a name without data is no event
			continue
		}
		if line[0] == ':' {
			return Event{Comment: true, Data: trimSpace(line[1:])}, nil
		}
		if err := d.field(line); err != nil {
			return Event{}, err
		}
	}
}

// event returns the event under construction.
func (d *EventReader) event(torn bool) Event {
	d.done = true
	if string(d.name) != d.last {
		d.last = string(d.name)
	}
	return Event{Name: d.last, Data: d.data, Torn: torn}
}

// field folds one line into the event under construction. Fields other than
// data and event say nothing that a model's answer needs.
func (d *EventReader) field(line []byte) error {
	key, value := line, []byte(nil)
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		key, value = line[:i], trimSpace(line[i+1:])
	}
	switch string(key) {
	case "data":
		if len(d.data)+len(value) > d.max {
			return d.fail(ErrEventTooLarge)
		}
		if d.hasData {
			d.data = append(d.data, '\n')
		}
		d.data = append(d.data, value...)
		d.hasData = true
	case "event":
		d.name = append(d.name[:0], value...)
	}
	return nil
}

// trimSpace drops the one space that may follow a colon.
func trimSpace(b []byte) []byte {
	if len(b) > 0 && b[0] == ' ' {
		return b[1:]
	}
	return b
}

// line returns the next line without its end. At the end of the stream the
// rest is a line, too.
func (d *EventReader) line() ([]byte, error) {
	for {
		if d.skipLF && d.pos < d.end {
			d.skipLF = false
			if d.buf[d.pos] == '\n' {
				d.pos++
				d.scanned = max(d.scanned, d.pos)
			}
		}
		if i := lineEnd(d.buf[d.scanned:d.end]); i >= 0 {
			i += d.scanned
			d.skipLF = d.buf[i] == '\r'
			return d.take(i, i+1), nil
		}
		d.scanned = d.end
		if d.err != nil {
			if d.err == io.EOF && d.pos < d.end {
				return d.take(d.end, d.end), nil
			}
			return nil, d.err
		}
		if err := d.fill(); err != nil {
			return nil, err
		}
	}
}

// take returns buf[pos:end] and goes on at next.
func (d *EventReader) take(end, next int) []byte {
	line := d.buf[d.pos:end]
	d.pos, d.scanned = next, next
	if !d.begun {
		d.begun = true
		line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
	}
	return line
}

// lineEnd is the index of the first CR or LF, -1 if there is none.
func lineEnd(b []byte) int {
	lf := bytes.IndexByte(b, '\n')
	if lf < 0 {
		return bytes.IndexByte(b, '\r')
	}
	if cr := bytes.IndexByte(b[:lf], '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// fill reads once from the source, making room first.
func (d *EventReader) fill() error {
	if d.pos > 0 {
		copy(d.buf, d.buf[d.pos:d.end])
		d.end -= d.pos
		d.scanned -= d.pos
		d.pos = 0
	}
	if d.end == len(d.buf) {
		if d.end >= d.max {
			return d.fail(ErrEventTooLarge)
		}
		d.buf = append(d.buf, make([]byte, len(d.buf))...)
	}
	for range 100 {
		n, err := d.r.Read(d.buf[d.end:])
		if n < 0 || n > len(d.buf)-d.end {
			return d.fail(fmt.Errorf("reader returned a count of %d", n))
		}
		d.end += n
		d.err = err
		if n > 0 || err != nil {
			return nil
		}
	}
	return d.fail(io.ErrNoProgress)
}

// fail makes err the end of the stream.
func (d *EventReader) fail(err error) error {
	d.err, d.hasData = err, false
	d.pos, d.end, d.scanned = 0, 0, 0
	return err
}
