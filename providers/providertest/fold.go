package providertest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"

	"troupe/protocol"
)

// Folded is what a session makes of the parts of an answer.
type Folded struct {
	ResponseID string
	Content    protocol.Content // arguments are the text that was streamed
	Usage      protocol.Usage
	Stop       protocol.StopReason
	Raw        string
	Deltas     int
}

// Fold reads an answer to its end. problem is what breaks the order that
// [protocol.Part] prescribes or the promises of providers.Provider; failed is
// the error that the provider reported, nil after a PartDone.
func Fold(answer iter.Seq2[protocol.Part, error]) (got Folded, failed *protocol.StreamError, problem error) {
	f := folder{}
	for part, err := range answer {
		switch {
		case f.over:
			return got, failed, errors.New("something follows the end of the answer")
		case err != nil:
			f.over = true
			if part != nil {
				return got, failed, errors.New("a part and an error at once")
			}
			if !errors.As(err, &failed) {
				return got, failed, fmt.Errorf("the error is no *protocol.StreamError: %T", err)
			}
			if failed.Kind == "" || failed.Message == "" {
				return got, failed, fmt.Errorf("error without kind or message: %+v", failed)
			}
		default:
			if problem := f.part(part); problem != nil {
				return got, failed, problem
			}
		}
	}
	if !f.over {
		return got, failed, errors.New("the answer just stopped, without PartDone and without an error")
	}
	return f.result(), failed, nil
}

type folder struct {
	got     Folded
	started bool
	over    bool
	blocks  []foldedBlock
}

type foldedBlock struct {
	start  protocol.PartBlockStart
	end    protocol.PartBlockEnd
	text   []byte
	closed bool
}

func (f *folder) part(part protocol.Part) error {
	if _, isStart := part.(protocol.PartStart); isStart == f.started {
		return fmt.Errorf("%T: the start must come first and once", part)
	}
	switch p := part.(type) {
	case protocol.PartStart:
		f.started, f.got.ResponseID = true, p.ResponseID
	case protocol.PartBlockStart:
		if p.Index != len(f.blocks) {
			return fmt.Errorf("block %d starts after %d blocks", p.Index, len(f.blocks))
		}
		f.blocks = append(f.blocks, foldedBlock{start: p})
	case protocol.PartDelta:
		if p.Index < 0 || p.Index >= len(f.blocks) || f.blocks[p.Index].closed {
			return fmt.Errorf("delta for block %d, which is not open", p.Index)
		}
		if p.Delta == "" || !utf8.ValidString(p.Delta) {
			return fmt.Errorf("delta %q is empty or not whole characters", p.Delta)
		}
		f.got.Deltas++
		f.blocks[p.Index].text = append(f.blocks[p.Index].text, p.Delta...)
	case protocol.PartBlockEnd:
		if p.Index < 0 || p.Index >= len(f.blocks) || f.blocks[p.Index].closed {
			return fmt.Errorf("end of block %d, which is not open", p.Index)
		}
		f.blocks[p.Index].end, f.blocks[p.Index].closed = p, true
	case protocol.PartUsage:
		f.got.Usage = p.Usage
	case protocol.PartDone:
		return f.done(p)
	default:
		return fmt.Errorf("unknown part %T", part)
	}
	return nil
}

func (f *folder) done(p protocol.PartDone) error {
	for i := range f.blocks {
		if !f.blocks[i].closed {
			return fmt.Errorf("block %d is open at the end", i)
		}
	}
	switch p.StopReason {
	case protocol.StopStop, protocol.StopLength, protocol.StopToolUse:
	default:
		return fmt.Errorf("stop reason %q", p.StopReason)
	}
	f.over, f.got.Stop, f.got.Raw = true, p.StopReason, p.Raw
	return nil
}

func (f *folder) result() Folded {
	f.got.Content = protocol.Content{}
	for _, b := range f.blocks {
		f.got.Content = append(f.got.Content, b.block())
	}
	return f.got
}

func (b *foldedBlock) block() protocol.Block {
	switch b.start.Kind {
	case protocol.BlockThinking:
		return protocol.Thinking{Thinking: string(b.text), Signature: b.end.Signature, Redacted: b.end.Redacted}
	case protocol.BlockToolCall:
		call := protocol.ToolCall{
			ID: b.start.ID, Name: b.start.Name, ThoughtSignature: b.end.Signature, Arguments: json.RawMessage(b.text),
		}
		call.ID = cmp.Or(b.end.ID, call.ID)
		call.Name = cmp.Or(b.end.Name, call.Name)
		return call
	}
	return protocol.Text{Text: string(b.text), Signature: b.end.Signature}
}
