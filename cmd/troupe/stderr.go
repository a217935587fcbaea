package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// stderr is for everything we say there: logs, from any actor, and errors. Who
// does not read it must not stop us.
var stderr = &backlog{out: onScreen(os.Stderr), limit: 1 << 20}

// flushTime is how long the end waits for somebody to read stderr. Who reads at
// all needs none of it, but a busy machine may take a while to write.
const flushTime = 500 * time.Millisecond

// Values of --log-format.
const (
	logAuto = "auto" // text on a terminal, JSON elsewhere
	logText = "text"
	logJSON = "json"
)

var logFormats = []string{logAuto, logText, logJSON}

// logWriter chooses the form of log lines, "" for that of TROUPE_LOG_FORMAT, and returns the writer for them.
func (b *backlog) logWriter(format string) io.Writer {
	_, terminal := b.out.(screen)
	format = cmp.Or(format, os.Getenv("TROUPE_LOG_FORMAT"), logAuto)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.text = format == logText || format != logJSON && terminal; b.text {
		return readable(b)
	}
	return b
}

// readable turns log lines into text for people: time, level, message, fields. It uses no colours, since a screen
// accepts no control characters.
func readable(out io.Writer) io.Writer {
	return zerolog.ConsoleWriter{
		Out: out, NoColor: true, TimeFormat: time.DateTime, FormatLevel: func(level any) string { return strings.ToUpper(fmt.Sprint(level)) },
		FormatErrFieldName: func(any) string { return "error=" },
	}
}

// backlog is a writer that never waits for its reader: a goroutine writes what
// was given to it, in order. Above the limit it drops whole writes until the
// goroutine has got on, and says then how many.
type backlog struct {
	out   io.Writer
	limit int // bytes, those being written among them

	mu      sync.Mutex
	waiting []byte
	writing int           // bytes that the goroutine has in hand
	dropped int           // writes since waiting was taken last
	text    bool          // log lines are text
	idle    chan struct{} // closed when the goroutine ends; nil without one
}

// Write never fails: there is nobody to tell.
func (b *backlog) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dropped > 0 || b.writing+len(b.waiting)+len(p) > b.limit {
		b.dropped++ // and what follows, too, even if it were small enough: the order says where lines are missing
		return len(p), nil
	}
	b.waiting = append(b.waiting, p...)
	if b.idle == nil {
		b.idle = make(chan struct{})
		go b.run()
	}
	return len(p), nil
}

// flush waits until all is written, but not for longer than it may.
func (b *backlog) flush(within time.Duration) {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-time.After(within):
	}
}

// run writes until nothing is left.
func (b *backlog) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for batch := b.take(); len(batch) > 0; batch = b.take() {
		b.writing = len(batch)
		b.mu.Unlock()
		_, _ = b.out.Write(batch)
		b.mu.Lock()
		b.writing = 0
	}
	close(b.idle)
	b.idle = nil
}

func (b *backlog) take() []byte {
	batch := b.waiting
	if b.dropped > 0 {
		batch = append(batch, dropNote(b.dropped, b.text)...)
	}
	b.waiting, b.dropped = nil, 0
	return batch
}

// dropNote is a line of the log.
func dropNote(n int, text bool) []byte {
	var line bytes.Buffer
	var out io.Writer = &line
	if text {
		out = readable(out)
	}
	log := zerolog.New(out).With().Timestamp().Logger()
	log.Warn().Int("dropped", n).Msg("stderr was not read: lines were dropped")
	return line.Bytes()
}
