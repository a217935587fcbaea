package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/tidwall/gjson"

	"troupe/actors"
	"troupe/protocol"
	"troupe/store"
)

// oneShot is the client of the print and JSON modes: it talks to the daemon in
// this process as any client would, over a pair of pipes.
type oneShot struct {
	json     bool
	header   protocol.Header
	messages []message
	stdout   io.Writer
	stderr   io.Writer
	stop     chan actors.Stop // ends the daemon

	in     io.Writer
	out    *bufio.Reader
	last   gjson.Result // the latest assistant message
	failed error
	lost   error // what was to be printed and could not be
}

type message struct {
	text   string
	images []protocol.Image
}

// runOnce sends the prompts of the command line, one after the other, and ends.
func runOnce(o *options, cfg *actors.Config, log zerolog.Logger) int {
	messages, err := prompts(o, cfg.Default.Cwd)
	if err != nil {
		fmt.Fprintln(stderr, "troupe:", err)
		return exitError
	}
	if len(messages) == 0 {
		return refuse(errors.New("nothing to do: give a message, or --mode rpc"))
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	cfg.In, cfg.Out, cfg.MaxLine = inR, outW, math.MaxInt32 // prompts has its own limit
	cfg.Unwatched = o.mode != "json"
	c := &oneShot{
		json: o.mode == "json", header: headerOf(cfg), messages: messages, stdout: onScreen(os.Stdout), stderr: stderr,
		stop: make(chan actors.Stop, maxStops),
		in:   inW, out: bufio.NewReaderSize(outR, 64<<10),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.talk()
		inW.Close()
		_, _ = io.Copy(io.Discard, c.out)
	}()
	code := serve(cfg, log, c.stop)
	outW.Close()
	if code > 128 { // a signal: whoever does not read our output does not hold it up
		select {
		case <-done:
		case <-time.After(actors.DefaultAbortLimit):
		}
		return code
	}
	<-done
	if code != exitOK {
		return code
	}
	return c.finish()
}

// headerOf is the header of the session that will be used.
func headerOf(cfg *actors.Config) protocol.Header {
	if cfg.Default.Log != nil {
		return cfg.Default.Log.Header()
	}
	h := store.NewHeader(cfg.Default.ID, cfg.Default.Cwd, cfg.Default.Parent, time.Now().UnixMilli())
	cfg.Default.ID = h.ID
	return h
}

// talk prompts and follows what comes of it.
func (c *oneShot) talk() {
	if c.json && !c.write(append(c.header.AppendJSON(nil), '\n')) {
		return
	}
	for i, m := range c.messages {
		id := "p" + strconv.Itoa(i+1)
		prompt := map[string]any{"id": id, "type": "prompt", "message": m.text}
		if len(m.images) > 0 {
			prompt["images"] = m.images
		}
		if err := json.NewEncoder(c.in).Encode(prompt); err != nil {
			c.failed = err
			return
		}
		if !c.follow(id) {
			return
		}
	}
}

// follow reads until the work on a prompt is done; false means that no further
// one should be sent.
func (c *oneShot) follow(id string) bool {
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			if c.failed == nil && c.last.Get("stopReason").Str == "" {
				c.failed = errors.New("the run was cut short")
			}
			return false
		}
		e := gjson.ParseBytes(line)
		kind := e.Get("type").Str
		if c.json && kind != "response" && !c.write(line) {
			return false
		}
		switch {
		case kind == "response" && !e.Get("success").Bool() && (e.Get("id").Str == id || !e.Get("id").Exists()): // a line that was not understood has none
			c.failed = errors.New(e.Get("error").Str)
			return false
		case kind == "message_end" && e.Get("message.role").Str == protocol.RoleAssistant:
			c.last = e.Get("message")
		case kind == "extension_ui_request":
			// Nobody is there to answer.
			_, _ = fmt.Fprintf(c.in, `{"type":"extension_ui_response","id":%q,"cancelled":true}`+"\n", e.Get("id").Str)
		case kind == "agent_settled", kind == "session_failed":
			return true
		}
	}
}

// write prints something. When that fails, the run is aborted: nobody would see
// what comes of it.
func (c *oneShot) write(line []byte) bool {
	if _, c.lost = c.stdout.Write(line); c.lost != nil {
		c.stop <- actors.Stop{Abort: true}
	}
	return c.lost == nil
}

// finish prints the last answer, or why there is none.
func (c *oneShot) finish() int {
	if c.lost != nil {
		return unwritten(c.lost)
	}
	if c.failed != nil {
		fmt.Fprintln(c.stderr, "troupe:", c.failed)
		return exitError
	}
	if c.json {
		return exitOK
	}
	stop := protocol.StopReason(c.last.Get("stopReason").Str)
	if stop == protocol.StopError || stop == protocol.StopAborted {
		fmt.Fprintln(c.stderr, c.last.Get("errorMessage").Str)
		return exitError
	}
	if stop == protocol.StopLength {
		fmt.Fprintln(c.stderr, "troupe: the answer is incomplete: it reached the model's output limit")
	}
	if !c.write(c.answer()) {
		return unwritten(c.lost)
	}
	return exitOK
}

// answer is the text of the last answer.
func (c *oneShot) answer() []byte {
	var text bytes.Buffer
	for _, b := range c.last.Get("content").Array() {
		if b.Get("type").Str == "text" {
			fmt.Fprintln(&text, b.Get("text").Str)
		}
	}
	return text.Bytes()
}

// prompts are the messages of the command line: what is piped in and the files
// go before the first one.
func prompts(o *options, cwd string) ([]message, error) {
	var first message
	if piped(os.Stdin) {
		text, err := io.ReadAll(io.LimitReader(os.Stdin, protocol.MaxAttached+1))
		switch {
		case err != nil:
			return nil, fmt.Errorf("standard input: %w", err)
		case len(text) > protocol.MaxAttached:
			return nil, fmt.Errorf("standard input has more than %d MiB: that is no message", protocol.MaxAttached>>20)
		}
		first.text = string(text)
	}
	for _, name := range o.files {
		if err := first.attach(name, cwd); err != nil {
			return nil, err
		}
		if first.size() > protocol.MaxAttachments {
			return nil, fmt.Errorf("%s: everything before the message together has more than %d MiB", name, protocol.MaxAttachments>>20)
		}
	}
	texts := o.messages
	if len(texts) > 0 {
		first.text += texts[0]
		texts = texts[1:]
	}
	if first.text == "" && len(first.images) == 0 {
		return nil, nil
	}
	list := []message{first}
	for _, t := range texts {
		list = append(list, message{text: t})
	}
	return list, nil
}

// attach adds a file: a picture as such, anything else as text.
func (m *message) attach(name, cwd string) error {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	content, err := readAttached(path)
	if err != nil {
		return err
	}
	if kind := http.DetectContentType(content); strings.HasPrefix(kind, "image/") {
		m.images = append(m.images, protocol.Image{MimeType: kind, Data: base64.StdEncoding.EncodeToString(content)})
		m.text += fmt.Sprintf("<file name=%q></file>\n", path)
		return nil
	}
	m.text += fmt.Sprintf("<file name=%q>\n%s\n</file>\n", path, strings.TrimSuffix(string(content), "\n"))
	return nil
}

func (m *message) size() int {
	n := len(m.text)
	for _, img := range m.images {
		n += len(img.Data)
	}
	return n
}

// readAttached reads a file that has an end.
func readAttached(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeNamedPipe: // that of a shell's <(command)
		return nil, fmt.Errorf("%s: only a file can be attached", path)
	case info.Size() > protocol.MaxAttached:
		return nil, tooLarge(path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Mode().IsRegular() && info.Size() == 0 { // perhaps the kernel makes it up, and it has no end
		_ = f.SetReadDeadline(time.Now().Add(protocol.MaxKernelWait * time.Second)) // fails for one that does not wait
	}
	content, err := io.ReadAll(io.LimitReader(f, protocol.MaxAttached+1)) // the size may be a lie, as in /proc, or change
	if err == nil && len(content) > protocol.MaxAttached {
		err = tooLarge(path)
	}
	return content, err
}

func tooLarge(path string) error {
	return fmt.Errorf("%s: a file of more than %d MiB cannot be attached", path, protocol.MaxAttached>>20)
}

// piped says whether something was put into a stream that is not a terminal.
func piped(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice == 0 && (st.Mode()&os.ModeNamedPipe != 0 || st.Mode().IsRegular() && st.Size() > 0)
}
