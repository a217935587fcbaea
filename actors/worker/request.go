package worker

import (
	"fmt"
	"slices"
	"sync"

	"troupe/protocol"
	"troupe/tools"
)

// FitWindow shortens tool results if the messages do not fit the window: a
// compaction cannot help where a single result is too large for it. The session
// keeps them whole.
func FitWindow(messages []protocol.Message, window int64) []protocol.Message {
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

// Shrinker makes the images of a conversation fit for models, each once.
type Shrinker struct {
	mu   sync.Mutex
	done map[string]protocol.Image // by the original's data
}

// NewShrinker returns a shrinker that has seen no image.
func NewShrinker() *Shrinker { return &Shrinker{done: map[string]protocol.Image{}} }

// Fit returns the messages with large images of users replaced by smaller ones.
// The session keeps the originals.
func (k *Shrinker) Fit(messages []protocol.Message) []protocol.Message {
	out := messages
	for i, m := range messages {
		u, ok := m.(*protocol.UserMessage)
		if !ok || len(u.Content.Images()) == 0 {
			continue
		}
		if &out[0] == &messages[0] {
			out = slices.Clone(messages)
		}
		small := &protocol.UserMessage{Timestamp: u.Timestamp}
		for _, b := range u.Content {
			if img, ok := b.(protocol.Image); ok {
				b = k.image(img)
			}
			small.Content = append(small.Content, b)
		}
		out[i] = small
	}
	return out
}

func (k *Shrinker) image(img protocol.Image) protocol.Image {
	k.mu.Lock()
	defer k.mu.Unlock()
	if small, ok := k.done[img.Data]; ok {
		return small
	}
	small, _ := tools.ResizeImage(img)
	k.done[img.Data] = small
	return small
}
