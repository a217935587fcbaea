package actors

import (
	"fmt"
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
	req := s.work.request
	req.Model, req.Thinking, req.SessionID = e.Model, e.Level, s.life.id
	req.Messages = s.context.Messages()
	work, shrunk := s.work, s.shrunk
	req.Tools = s.toolInfos(e.Tools)
	resize := work.files.Images.AutoResize
	models := s.cfg.Models
	complete := func() providers.Request { // off the actor's goroutine: it may read files
		req.System = work.texts().system(req.Tools)
		if resize {
			req.Messages = shrunk.fit(req.Messages)
		}
		return req
	}
	pid := s.spawn(c, fmt.Sprintf("turn/%d", e.Run), func() actor.Actor {
		return &worker{log: s.log, job: turnJob(root, self, e.Run, t, provide(models, complete))}
	})
	s.track(pid, job{kind: session.WorkerStream, run: e.Run})
}

// toolEnv is where a tool call of the model runs.
func (s *Session) toolEnv() *tools.Env {
	env := *s.work.env
	m := s.m.Model()
	env.SeesImages = m != nil && m.Accepts("image")
	env.Environ = append(env.Environ[:len(env.Environ):len(env.Environ)],
		"AI_AGENT=troupe", "PI_CODING_AGENT=true", "PI_SESSION_ID="+s.life.id, "PI_SESSION_FILE="+s.life.path,
		"PI_REASONING_LEVEL="+string(s.m.Level()))
	if m != nil {
		env.Environ = append(env.Environ, "PI_PROVIDER="+m.Provider, "PI_MODEL="+m.ID)
	}
	return &env
}

// shrinker makes the images of a conversation fit for models, each once.
type shrinker struct {
	mu   sync.Mutex
	done map[string]protocol.Image // by the original's data
}

func newShrinker() *shrinker { return &shrinker{done: map[string]protocol.Image{}} }

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
		small := *u
		small.Content = nil
		for _, b := range u.Content {
			if img, ok := b.(protocol.Image); ok {
				b = k.image(img)
			}
			small.Content = append(small.Content, b)
		}
		out[i] = protocol.Seal(&small)
	}
	if out == nil {
		return messages
	}
	return out
}

func hasImage(content protocol.Content) bool {
	for _, b := range content {
		if _, ok := b.(protocol.Image); ok {
			return true
		}
	}
	return false
}

func (k *shrinker) image(img protocol.Image) protocol.Image {
	k.mu.Lock()
	defer k.mu.Unlock()
	if small, ok := k.done[img.Data]; ok {
		return small
	}
	small, _ := tools.ResizeImage(img)
	k.done[img.Data] = small
	return small
}
