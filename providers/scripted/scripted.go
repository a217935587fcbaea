package scripted

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"troupe/protocol"
	"troupe/protocol/bounded"
	"troupe/providers"
	"troupe/providers/wire"
)

// Options say what a [Provider] plays for models that do not name a file
// themselves. The zero value is the demo.
type Options struct {
	Script string        // path of a script, as TROUPE_SCRIPT gives it
	Play   *Script       // a script, before Script
	Pace   time.Duration // pause between the demo's deltas; 0 is 8 ms, negative none
	Record bool          // keep every request for Requests
}

// Provider plays scripts. It implements [providers.Provider].
type Provider struct {
	options Options

	mu       sync.Mutex
	places   map[place]*progress
	order    []place // of places, the oldest first
	requests []providers.Request
}

// place is where a session is in a script.
type place struct{ script, session string }

// progress is what of a script has been used.
type progress struct{ used []int }

// maxPlaces bounds what is remembered of sessions.
const maxPlaces = 4096

// New makes a provider.
func New(options Options) *Provider {
	options.Pace = cmp.Or(options.Pace, 8*time.Millisecond)
	return &Provider{options: options, places: map[place]*progress{}}
}

// Requests returns the requests so far, if they are recorded.
func (p *Provider) Requests() []providers.Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Stream implements [providers.Provider].
func (p *Provider) Stream(ctx context.Context, req providers.Request) iter.Seq2[protocol.Part, error] {
	return func(yield func(protocol.Part, error) bool) {
		if p.options.Record {
			p.mu.Lock()
			p.requests = append(p.requests, req)
			p.mu.Unlock()
		}
		player := &player{ctx: ctx, req: &req, yield: yield}
		answer, err := p.choose(player)
		if err == nil {
			err = player.play(answer)
		}
		if err != nil && !player.left {
			yield(nil, err)
		}
	}
}

// choose finds the answer to a request and how it is to be played.
func (p *Provider) choose(player *player) (*Answer, *protocol.StreamError) {
	script, name, err := p.script(player.req.Model)
	if err != nil {
		return nil, protocol.ErrorInvalid.Errorf("Script of model %s: %v", player.req.Model.ID, err)
	}
	if script == nil {
		player.delay = max(p.options.Pace, 0)
		return demo(player.req), nil
	}
	player.chunk, player.delay = script.Chunk, time.Duration(script.DelayMs)*time.Millisecond
	userText, tool := ending(player.req.Messages)
	answer := p.take(script, place{name, player.req.SessionID}, userText, tool)
	if answer == nil {
		return nil, protocol.ErrorInternal.Errorf("The script has no answer left for %q", cut(userText, 80))
	}
	return answer, nil
}

// script finds the script of a model, nil for the demo.
func (p *Provider) script(model *protocol.Model) (*Script, string, error) {
	path := model.BaseURL
	if u, err := url.Parse(path); err == nil && u.Scheme == "file" {
		path = u.Path
	}
	if path == "" && p.options.Play != nil {
		return p.options.Play, "", p.options.Play.check()
	}
	path = cmp.Or(path, p.options.Script)
	if path == "" {
		return nil, "", nil
	}
	text, err := bounded.ReadFile(path, maxScript)
	if err != nil {
		return nil, "", err
	}
	script, err := Parse(text)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return script, path, nil
}

// maxScript bounds a script, in bytes.
const maxScript = 256 << 20

// take returns the first answer that fits and is not used up, nil if there is
// none.
func (p *Provider) take(s *Script, at place, userText, tool string) *Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := p.progress(at)
	for len(done.used) < len(s.Answers) {
		done.used = append(done.used, 0)
	}
	for range 2 {
		for i := range s.Answers {
			a := &s.Answers[i]
			limit := a.Times
			if limit == 0 && !a.conditional() {
				limit = 1
			}
			if a.fits(userText, tool) && (limit == 0 || done.used[i] < limit) {
				done.used[i]++
				return a
			}
		}
		if !s.Loop {
			break
		}
		clear(done.used)
	}
	return nil
}

func (p *Provider) progress(at place) *progress {
	if done := p.places[at]; done != nil {
		return done
	}
	if len(p.order) == maxPlaces {
		delete(p.places, p.order[0])
		p.order = p.order[1:]
	}
	p.places[at] = &progress{}
	p.order = append(p.order, at)
	return p.places[at]
}

// ending is what a request ends with: the last words of the user, and the tool
// whose result came after them.
func ending(messages []protocol.Message) (userText, tool string) {
	if len(messages) == 0 {
		return "", ""
	}
	if m, ok := messages[len(messages)-1].(*protocol.ToolResultMessage); ok {
		tool = m.ToolName
	}
	for i := len(messages) - 1; i >= 0; i-- {
		if m, ok := messages[i].(*protocol.UserMessage); ok {
			return m.Content.Text("\n"), tool
		}
	}
	return "", tool
}

// player streams one answer.
type player struct {
	ctx   context.Context
	req   *providers.Request
	yield func(protocol.Part, error) bool
	left  bool
	chunk int
	delay time.Duration

	begun  bool
	blocks int
	calls  int
	size   int // characters written
}

// defaultChunk is how many characters a delta has.
const defaultChunk = 16

func (p *player) play(a *Answer) *protocol.StreamError {
	if p.chunk <= 0 {
		p.chunk = defaultChunk
	}
	for i := range a.Steps {
		if err := p.step(&a.Steps[i]); err != nil || p.left {
			return err
		}
	}
	if p.ctx.Err() != nil {
		return protocol.Aborted()
	}
	usage := a.Usage
	if usage == nil {
		usage = &protocol.Usage{Input: p.req.EstimateInput(p.req.Messages), Output: int64(p.size/4 + 1)}
	}
	stop := a.Stop
	if stop == "" {
		stop = protocol.StopStop
		if p.calls > 0 {
			stop = protocol.StopToolUse
		}
	}
	p.begin()
	p.put(protocol.PartUsage{Usage: p.req.Model.Price(*usage)})
	p.put(protocol.PartDone{StopReason: stop, Raw: string(stop)})
	return nil
}

func (p *player) step(s *Step) *protocol.StreamError {
	switch {
	case s.Error != nil:
		return s.Error.err()
	case s.Cut:
		return wire.CutStream("its closing event")
	case s.Stall:
		return p.stall()
	case s.WaitMs > 0:
		return p.wait(time.Duration(s.WaitMs) * time.Millisecond)
	case s.Tool != "":
		return p.tool(s)
	case s.Thinking != "" || s.Signature != "" || s.Redacted:
		return p.block(protocol.PartBlockStart{Kind: protocol.BlockThinking}, s.Thinking,
			protocol.PartBlockEnd{Signature: s.Signature, Redacted: s.Redacted})
	}
	return p.block(protocol.PartBlockStart{Kind: protocol.BlockText}, s.Text, protocol.PartBlockEnd{})
}

// tool streams a call. The ids of a conversation rise with its calls.
func (p *player) tool(s *Step) *protocol.StreamError {
	p.calls++
	id := cmp.Or(s.ID, "call_"+strconv.Itoa(callCount(p.req.Messages)+p.calls))
	args := string(s.Args)
	args = cmp.Or(s.RawArgs, args, "{}")
	return p.block(protocol.PartBlockStart{Kind: protocol.BlockToolCall, ID: id, Name: s.Tool}, args, protocol.PartBlockEnd{})
}

func callCount(messages []protocol.Message) (n int) {
	for _, m := range messages {
		if m, ok := m.(*protocol.AssistantMessage); ok {
			n += len(m.Content.ToolCalls())
		}
	}
	return n
}

// block streams one block in chunks.
func (p *player) block(start protocol.PartBlockStart, text string, end protocol.PartBlockEnd) *protocol.StreamError {
	p.begin()
	start.Index, end.Index = p.blocks, p.blocks
	p.blocks++
	p.put(start)
	for text != "" && !p.left {
		n := prefix(text, p.chunk)
		p.put(protocol.PartDelta{Index: start.Index, Delta: text[:n]})
		p.size, text = p.size+n, text[n:]
		if err := p.wait(p.delay); err != nil {
			return err
		}
	}
	p.put(end)
	return nil
}

// prefix is the length in bytes of the first n characters of s.
func prefix(s string, n int) int {
	size := 0
	for ; n > 0 && size < len(s); n-- {
		_, width := utf8.DecodeRuneInString(s[size:])
		size += width
	}
	return size
}

func (p *player) begin() {
	if !p.begun {
		p.begun = true
		p.put(protocol.PartStart{ResponseID: fmt.Sprintf("scripted_%d", len(p.req.Messages))})
	}
}

func (p *player) put(part protocol.Part) {
	if !p.left && !p.yield(part, nil) {
		p.left = true
	}
}

// wait lets time pass, or returns at once when the request is cancelled.
func (p *player) wait(d time.Duration) *protocol.StreamError {
	if p.ctx.Err() != nil {
		return protocol.Aborted()
	}
	if d <= 0 || p.left {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.ctx.Done():
		return protocol.Aborted()
	}
}

// stall is silent for as long as a real server could be.
func (p *player) stall() *protocol.StreamError {
	limits := providers.LimitsFor(p.req.Model, p.req.Network.Stall)
	limit := limits.ContentMs
	if !p.begun {
		limit = limits.FirstMs
	}
	if limit <= 0 {
		<-p.ctx.Done()
		return protocol.Aborted()
	}
	if err := p.wait(time.Duration(limit) * time.Millisecond); err != nil {
		return err
	}
	return protocol.ErrorStalled.Errorf("The answer stalled: nothing came for %d ms", limit)
}

// cut shortens text to n characters.
func cut(text string, n int) string {
	if size := prefix(text, n); size < len(text) {
		return strings.TrimSpace(text[:size]) + "…"
	}
	return text
}
