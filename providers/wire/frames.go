package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"strings"

	"troupe/protocol"
)

// eventSource is a stream of events in whatever framing.
type eventSource interface {
	// Next returns the next event, io.EOF at an end between two of them.
	Next() (Event, error)
}

// eventsOf reads a body in the framing that its content type names: AWS's, or
// else server-sent events.
func eventsOf(body io.Reader, contentType string) eventSource {
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && kind == "application/vnd.amazon.eventstream" {
		return NewFrameReader(body)
	}
	return NewEventReader(body)
}

// MaxFrame is the largest frame, in bytes, that a [FrameReader] accepts.
const MaxFrame = 16 << 20

// preludeSize is the length of a frame, that of its headers, and a checksum of
// the two; trailerSize the checksum of the frame.
const (
	preludeSize = 12
	trailerSize = 4
)

var errFrame = errors.New("broken frame in the event stream")

// FrameReader decodes AWS's event stream encoding: frames with typed headers, a
// payload and two checksums. An event's name is the frame's :event-type. What
// the service reports in place of an event is named "exception " and its type,
// and has an object with __type and message as its data, as the bodies of AWS's
// error responses.
type FrameReader struct {
	r   io.Reader
	buf []byte
}

// NewFrameReader reads frames from r.
func NewFrameReader(r io.Reader) *FrameReader { return &FrameReader{r: r} }

// Next returns the next event; its data is valid until the next call. At an end
// between frames it returns io.EOF, inside of one io.ErrUnexpectedEOF.
func (f *FrameReader) Next() (Event, error) {
	var prelude [preludeSize]byte
	if _, err := io.ReadFull(f.r, prelude[:]); err != nil {
		return Event{}, err
	}
	total, headers := int64(binary.BigEndian.Uint32(prelude[:])), int64(binary.BigEndian.Uint32(prelude[4:]))
	switch {
	case crc32.ChecksumIEEE(prelude[:8]) != binary.BigEndian.Uint32(prelude[8:]), total < preludeSize+headers+trailerSize:
		return Event{}, broken("its beginning")
	case total > MaxFrame:
		return Event{}, ErrEventTooLarge
	}
	if int64(cap(f.buf)) < total {
		f.buf = make([]byte, total)
	}
	frame := f.buf[:total]
	copy(frame, prelude[:])
	if _, err := io.ReadFull(f.r, frame[preludeSize:]); err != nil {
		return Event{}, noEOF(err)
	}
	end := total - trailerSize
	if crc32.ChecksumIEEE(frame[:end]) != binary.BigEndian.Uint32(frame[end:]) {
		return Event{}, broken("its checksum")
	}
	texts, err := frameHeaders(frame[preludeSize : preludeSize+headers])
	if err != nil {
		return Event{}, err
	}
	return frameEvent(texts, frame[preludeSize+headers:end]), nil
}

func broken(what string) error {
	return protocol.ErrorCutStream.Errorf("Connection error: %v: %s is not what it should be", errFrame, what)
}

// noEOF makes an end where none may be an error.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// frameEvent is a frame as an event.
func frameEvent(headers map[string]string, payload []byte) Event {
	kind, message := "", ""
	switch headers[":message-type"] {
	case "exception":
		kind = headers[":exception-type"]
		message = strings.TrimSpace(readReport(0, payload).text)
	case "error": // without a payload
		kind, message = headers[":error-code"], headers[":error-message"]
	default:
		return Event{Name: headers[":event-type"], Data: payload}
	}
	data := append([]byte(nil), `{"__type":`...)
	data = protocol.AppendString(data, kind)
	data = append(data, `,"message":`...)
	data = protocol.AppendString(data, message)
	return Event{Name: ExceptionEvent + kind, Data: append(data, '}')}
}

// ExceptionEvent begins the name of an event that is a failure of the service.
const ExceptionEvent = "exception "

// frameHeaders reads the headers of a frame that are texts, and skips others.
func frameHeaders(b []byte) (map[string]string, error) {
	texts := map[string]string{}
	for len(b) > 0 {
		n := 1 + int(b[0])
		if len(b) < n+1 {
			return nil, broken("a header")
		}
		name, kind := string(b[1:n]), b[n]
		b = b[n+1:]
		size, prefix := headerSize(kind, b)
		if size < 0 || len(b) < prefix+size {
			return nil, broken("the header " + fmt.Sprintf("%.40q", name))
		}
		if kind == headerString {
			texts[name] = string(b[prefix : prefix+size])
		}
		b = b[prefix+size:]
	}
	return texts, nil
}

// headerString is the type of headers that are text.
const headerString = 7

// headerSize is how long a header's value is, and the length before it; -1 for
// a type that does not exist.
func headerSize(kind byte, b []byte) (size, prefix int) {
	switch kind {
	case 0, 1: // true, false
		return 0, 0
	case 2:
		return 1, 0
	case 3:
		return 2, 0
	case 4:
		return 4, 0
	case 5, 8: // a long, a time
		return 8, 0
	case 6, headerString: // bytes, text
		if len(b) < 2 {
			return -1, 0
		}
		return int(binary.BigEndian.Uint16(b)), 2
	case 9: // a UUID
		return 16, 0
	}
	return -1, 0
}
