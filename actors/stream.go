package actors

import (
	"fmt"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/session"
	"troupe/protocol"
	"troupe/providers"
	"troupe/tools"
)

// startStream asks the model for the next message of the branch.
func (s *Session) startStream(c actor.Context, e session.StartStream) {
	root, self := c.ActorSystem().Root, c.Self()
	t := make(tokens, streamTokens)
	if err := s.buildContext(); err != nil {
		s.next = append(s.next, session.StreamEnd{Run: e.Run, Err: protocol.ErrorInternal.Errorf("session cannot be read: %s", err)})
		return
	}
	req := s.work.newRequest()
	req.Model, req.Thinking, req.SessionID = e.Model, e.Level, s.life.id
	req.Messages = s.context.Messages()
	if len(req.Messages) >= memoLeast {
		req.Memo = s.memo
	}
	work, shrunk := s.work, s.shrunk
	req.Tools = s.toolInfos(e.Tools)
	resize := work.files.Images.AutoResize
	models, window := s.cfg.Models, e.Model.ContextWindow
	tight := window > 0 && s.m.ContextTokens() > window/10*9
	complete := func() providers.Request { // off the actor's goroutine: it may read files
		req.System = work.texts().system(req.Tools)
		if resize {
			req.Messages = shrunk.fit(req.Messages)
		}
		if tight {
			req.Messages = fitWindow(req.Messages, window)
		}
		return req
	}
	pid := s.spawn(c, fmt.Sprintf("turn/%d", e.Run), func() actor.Actor {
		return s.worker(turnJob(root, self, e.Run, t, provide(models, complete)))
	})
	s.track(pid, job{kind: session.WorkerStream, run: e.Run})
}

// memoLeast is how many messages a context has that is worth remembering as a
// model was shown it; fewer are written anew as quickly.
const memoLeast = 64

// fitWindow shortens tool results if the messages do not fit the window: a
// compaction cannot help where a single result is too large for it. The session
// keeps them whole.
func fitWindow(messages []protocol.Message, window int64) []protocol.Message {
	var total int64
	for _, m := range messages {
		total += protocol.EstimateTokens(m)
	}
	most := max(window/8, 256) // tokens of one result
	out := messages
	for i, m := range messages {
		r, ok := m.(*protocol.ToolResultMessage)
		if !ok || total <= window/10*9 || protocol.EstimateTokens(r) <= most {
			continue
		}
		if &out[0] == &messages[0] {
			out = slices.Clone(messages)
		}
		text := []rune(r.Content.Text("\n"))
		keep := min(int(most)*3, len(text))
		short := *r
		short.Content = protocol.TextContent(fmt.Sprintf("%s\n\n[%d more characters are left out: the result does not fit the model's context window. "+
			"Ask for less at a time.]", string(text[:keep]), len(text)-keep))
		total -= protocol.EstimateTokens(r)
		out[i] = protocol.Seal(&short)
		total += protocol.EstimateTokens(out[i])
	}
	return out
}

// toolEnv is where a tool call of the model runs.
func (s *Session) toolEnv() *tools.Env {
	env := s.bashEnv()
	m := s.m.Model()
	env.SeesImages = m != nil && m.Accepts("image")
	env.Environ = append(env.Environ,
		"AI_AGENT=troupe", "PI_CODING_AGENT=true", "PI_SESSION_ID="+s.life.id, "PI_SESSION_FILE="+s.life.path,
		"PI_REASONING_LEVEL="+string(s.m.Level()))
	if m != nil {
		env.Environ = append(env.Environ, "PI_PROVIDER="+m.Provider, "PI_MODEL="+m.ID)
	}
	return env
}

// shrinker makes the images of a conversation fit for models, each once.
type shrinker struct {
	mu     sync.Mutex
	done   map[string]protocol.Image // by the original's data
	fitted map[*protocol.UserMessage]*protocol.UserMessage
}

func newShrinker() *shrinker {
	return &shrinker{done: map[string]protocol.Image{}, fitted: map[*protocol.UserMessage]*protocol.UserMessage{}}
}

// fit returns the messages with large images of users replaced by smaller ones.
// The session keeps the originals.
func (k *shrinker) fit(messages []protocol.Message) []protocol.Message {
	var out []protocol.Message
	for i, m := range messages {
		u, ok := m.(*protocol.UserMessage)
		if !ok || !hasImage(u.Content) {
			continue
		}
		if out == nil {
			out = append(out, messages...)
		}
		out[i] = k.message(u)
	}
	if out == nil {
		return messages
	}
	return out
}

// message is the same message for the same original: that is how a request
// knows what the one before had; see [providers.Memo].
func (k *shrinker) message(u *protocol.UserMessage) *protocol.UserMessage {
	k.mu.Lock()
	defer k.mu.Unlock()
	if small := k.fitted[u]; small != nil {
		return small
	}
	small := *u
	small.Content = nil
	for _, b := range u.Content {
		if img, ok := b.(protocol.Image); ok {
			b = k.image(img)
		}
		small.Content = append(small.Content, b)
	}
	k.fitted[u] = protocol.Seal(&small)
	return k.fitted[u]
}

func hasImage(content protocol.Content) bool {
	for _, b := range content {
		if _, ok := b.(protocol.Image); ok {
			return true
		}
	}
	return false
}

// image is called with mu held.
func (k *shrinker) image(img protocol.Image) protocol.Image {
	if small, ok := k.done[img.Data]; ok {
		return small
	}
	small, _ := tools.ResizeImage(img)
	k.done[img.Data] = small
	return small
}
