package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	in     io.Writer
	out    *bufio.Reader
	last   gjson.Result // the latest assistant message
	failed error
}

type message struct {
	text   string
	images []protocol.Image
}

// runOnce sends the prompts of the command line, one after the other, and ends.
func runOnce(o *options, cfg *actors.Config, log zerolog.Logger) int {
	messages, err := prompts(o, cfg.Default.Cwd)
	if err != nil {
		fmt.Fprintln(os.Stderr, "troupe:", err)
		return exitError
	}
	if len(messages) == 0 {
		return refuse(errors.New("nothing to do: give a message, or --mode rpc"))
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	cfg.In, cfg.Out = inR, outW
	c := &oneShot{
		json: o.mode == "json", header: headerOf(cfg), messages: messages, stdout: os.Stdout, stderr: os.Stderr,
		in: inW, out: bufio.NewReaderSize(outR, 64<<10),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.talk()
		inW.Close()
		_, _ = io.Copy(io.Discard, c.out)
	}()
	code := serve(cfg, log)
	outW.Close()
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
	if c.json {
		_, _ = c.stdout.Write(append(c.header.AppendJSON(nil), '\n'))
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
		if c.json && kind != "response" {
			_, _ = c.stdout.Write(line)
		}
		switch {
		case kind == "response" && e.Get("id").Str == id && !e.Get("success").Bool():
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

// finish prints the last answer, or why there is none.
func (c *oneShot) finish() int {
	if c.failed != nil {
		fmt.Fprintln(c.stderr, "troupe:", c.failed)
		return exitError
	}
	if c.json {
		return exitOK
	}
	if stop := c.last.Get("stopReason").Str; stop == string(protocol.StopError) || stop == string(protocol.StopAborted) {
		fmt.Fprintln(c.stderr, c.last.Get("errorMessage").Str)
		return exitError
	}
	for _, b := range c.last.Get("content").Array() {
		if b.Get("type").Str == "text" {
			fmt.Fprintln(c.stdout, b.Get("text").Str)
		}
	}
	return exitOK
}

// prompts are the messages of the command line: what is piped in and the files
// go before the first one.
func prompts(o *options, cwd string) ([]message, error) {
	var first message
	if piped(os.Stdin) {
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		first.text = string(text)
	}
	for _, name := range o.files {
		if err := first.attach(name, cwd); err != nil {
			return nil, err
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
	content, err := os.ReadFile(path)
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

// piped says whether something was put into a stream that is not a terminal.
func piped(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice == 0 && (st.Mode()&os.ModeNamedPipe != 0 || st.Mode().IsRegular() && st.Size() > 0)
}
