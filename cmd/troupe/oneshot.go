package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors"
	"troupe/actors/conn"
	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/protocol/pi"
	"troupe/store"
)

// oneShot uses the daemon in this process for the print and JSON modes.
type oneShot struct {
	lines    protocol.Encoder // of the events that are printed; nil to print none
	header   protocol.Header
	messages []message
	stdout   io.Writer
	stderr   io.Writer
	stop     chan actors.Stop // ends the daemon

	client *conn.Client
	last   *protocol.AssistantMessage // the latest one; nil before it
	failed error
	lost   error // what was to be printed and could not be
}

type message struct {
	text   string
	images []protocol.Image
}

// runOnce sends the prompts of the command line, one after the other, and ends.
func runOnce(o *options, cfg *actors.Config, log zerolog.Logger) int {
	messages, err := prompts(o, cfg.Sessions.Default.Cwd)
	if err != nil {
		return exitCode(err)
	}
	if len(messages) == 0 {
		return refuse(errors.New("nothing to do: give a message, or --mode rpc"))
	}
	cfg.Sessions.Mode = "print"
	if o.mode == "json" {
		cfg.Sessions.Mode = "json"
	}
	c := &oneShot{
		header: headerOf(cfg), messages: messages, stdout: onScreen(os.Stdout), stderr: stderr,
		stop: make(chan actors.Stop, maxStops), client: conn.NewClient(),
	}
	if o.mode == "json" {
		wire, _, _ := cfg.Conn.Dialect.Open(cfg.Conn.Features...)
		c.lines = pi.Codec{}.Encoder(wire, "")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.talk()
		c.client.Close()
		for {
			if _, _, err := c.client.Next(context.Background()); err != nil {
				return
			}
		}
	}()
	code := serve(cfg, c.client.Transport(), log, c.stop)
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
	if cfg.Sessions.Default.Log != nil {
		return cfg.Sessions.Default.Log.Header()
	}
	h := store.NewHeader(cfg.Sessions.Default.ID, cfg.Sessions.Default.Cwd, cfg.Sessions.Default.Parent, time.Now().UnixMilli())
	cfg.Sessions.Default.ID = h.ID
	return h
}

// talk prompts and follows what comes of it.
func (c *oneShot) talk() {
	if c.lines != nil && !c.write(append(c.header.AppendJSON(nil), '\n')) {
		return
	}
	for _, m := range c.messages {
		command := c.isCommand(m)
		answer, err := c.client.Do(context.Background(), protocol.Prompt{Message: m.text, Images: m.images})
		if err != nil {
			c.failed = err
			return
		}
		if (command || !c.over(answer)) && !c.follow(command) {
			return
		}
	}
}

// isCommand says whether a message is a command of an extension, which goes on behind the answer.
func (c *oneShot) isCommand(m message) bool {
	name, ok := strings.CutPrefix(m.text, "/")
	if !ok {
		return false
	}
	name, _, _ = strings.Cut(name, " ")
	answer, _ := c.client.Do(context.Background(), protocol.GetCommands{})
	list, _ := answer.(protocol.CommandList)
	return slices.ContainsFunc(list.Commands, func(x protocol.SlashCommand) bool { return x.Source == "extension" && x.Name == name })
}

// over says whether nothing comes of a message any more: handlers of an extension have dealt with
// it.
func (c *oneShot) over(answer protocol.Result) bool {
	return answer == protocol.Result(protocol.Handled) && !c.streams()
}

// follow reads until the work on a prompt, or a command, is done; false means that no
// further one should be sent.
func (c *oneShot) follow(command bool) bool {
	done := context.Background()
	begun := !command // what runs is what is waited for
	for {
		_, event, err := c.client.Next(done)
		switch {
		case errors.Is(err, context.Canceled):
			return true
		case err != nil:
			if c.last == nil && !command || c.last != nil && c.last.StopReason == "" { // a command may end the session
				c.failed = errors.New("the run was cut short")
			}
			return false
		}
		_, asks := event.(protocol.ExtensionUIRequest) // of nobody who reads the lines
		if c.lines != nil && !asks {
			if line := c.lines.AppendEvent(nil, event, 0); len(line) > 0 && !c.write(line) {
				return false
			}
		}
		switch event := event.(type) {
		case protocol.MessageEnd:
			if m, ok := event.Message.(*protocol.AssistantMessage); ok {
				c.last = m
			}
		case protocol.ExtensionUIRequest:
			if event.Method == "notify" && event.Message != nil {
				fmt.Fprintln(c.stderr, *event.Message)
			}
			// Nobody is there to answer.
			_, _ = c.client.Do(context.Background(), protocol.ExtensionUIResponse{ID: event.ID, Cancelled: true})
		case protocol.ApprovalRequest:
			_, _ = c.client.Do(context.Background(), protocol.ApprovalResponse{ApprovalID: event.ID, OptionID: "no", Feedback: "Nobody could be asked."})
		case protocol.AutoRetryStart:
			c.sayRetry(event.ErrorMessage, event.Attempt, event.MaxAttempts, event.DelayMs)
		case protocol.SummarizationRetryScheduled:
			c.sayRetry(event.ErrorMessage, event.Attempt, event.MaxAttempts, event.DelayMs)
		case protocol.AgentStart:
			done = context.Background()
		case protocol.AgentSettled:
			if begun {
				done = c.rest()
			}
		case protocol.ExtensionCommandEnd:
			begun, done = true, c.rest()
		case protocol.SessionFailed:
			return true
		}
	}
}

// sayRetry says that a request failed and when it is repeated, so that the wait is not silent. Readers of the lines see
// it there.
func (c *oneShot) sayRetry(why string, attempt, most int, delayMs int64) {
	if c.lines == nil {
		fmt.Fprintf(c.stderr, "troupe: the request failed, retry %d of %d in %s: %s\n", attempt, most, time.Duration(delayMs)*time.Millisecond, why)
	}
}

// rest returns a context that ends when extensions have heard of the end, unless they have sent
// something that goes on.
func (c *oneShot) rest() context.Context {
	done, end := context.WithCancel(context.Background())
	go func() {
		_, _ = c.client.Do(context.Background(), protocol.GetCommands{}) // it waits for the extensions
		if !c.streams() {
			end()
		}
	}()
	return done
}

// streams says whether something goes on.
func (c *oneShot) streams() bool {
	state, err := c.client.Do(context.Background(), protocol.GetState{})
	now, is := state.(*protocol.SessionState)
	return err == nil && is && now.IsStreaming
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
	if c.lines != nil || c.last == nil {
		return exitOK
	}
	switch c.last.StopReason {
	case protocol.StopError, protocol.StopAborted:
		fmt.Fprintln(c.stderr, c.last.ErrorMessage)
		return exitError
	case protocol.StopLength:
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
	for _, b := range c.last.Content {
		if b, ok := b.(protocol.Text); ok {
			fmt.Fprintln(&text, b.Text)
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
			return nil, fmt.Errorf("standard input has more than %d MiB: give the model the name of a file instead", protocol.MaxAttached>>20)
		}
		first.text = string(bounded.WithoutMark(text))
	}
	for _, name := range o.files {
		if err := first.attach(name, cwd); err != nil {
			return nil, fmt.Errorf("@%s: %w", name, err)
		}
		if first.size() > protocol.MaxAttachments {
			return nil, fmt.Errorf("%s: everything before the message together has more than %d MiB: attach less", name, protocol.MaxAttachments>>20)
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
	m.text += fmt.Sprintf("<file name=%q>\n%s\n</file>\n", path, strings.TrimSuffix(string(bounded.WithoutMark(content)), "\n"))
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
		return nil, fmt.Errorf("%s: only a file can be attached, not a directory or device", path)
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
