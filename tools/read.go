package tools

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"troupe/protocol"
)

//go:embed read.md
var readText string

type readArgs struct {
	Path   string `json:"path" description:"File to read, relative to the working directory or absolute"`
	Offset int    `json:"offset,omitempty" description:"Line to begin with, from 1"`
	Limit  int    `json:"limit,omitempty" description:"Number of lines to read"`
}

// read shows a text file or an image.
type read struct{ described }

func newRead() Tool { return read{describe[readArgs]("read", readText, protocol.ReadsFile)} }

func (t read) Run(ctx context.Context, call Call) (result protocol.ToolResult, err error) {
	args, err := decodeArgs[readArgs](call.Args)
	if err != nil {
		return result, err
	}
	path := call.Env.resolveExisting(args.Path)
	f, info, err := openRegular(path)
	if err != nil {
		return result, err
	}
	defer f.Close()
	head := make([]byte, sniffBytes)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return result, fileError("read", path, err)
	}
	head = head[:n]
	if mime := sniffImage(head); mime != "" {
		return readImage(ctx, call.Env, mime, io.MultiReader(bytes.NewReader(head), f), info.Size())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return result, fileError("read", path, err)
	}
	return readLines(ctx, f, path, args)
}

// readLines shows lines of a text file. It reads the file to its end, to say
// how much there is, and keeps no more of it than it shows.
func readLines(ctx context.Context, f io.Reader, path string, args readArgs) (result protocol.ToolResult, err error) {
	p := page{first: max(int64(args.Offset), 1), limit: int64(args.Limit)}
	if err := p.readFrom(ctx, f); err != nil {
		if ctx.Err() != nil {
			return result, errAborted
		}
		return result, fileError("read", path, err)
	}
	if total := p.file.lines(); p.first > max(total, 1) {
		return result, fmt.Errorf("offset %d is beyond the end of the file, which has %d lines", p.first, total)
	}
	t := p.truncation()
	text, notices := t.Content, p.notices(t, args.Path)
	if notices != nil {
		text = strings.TrimSuffix(text, "\n")
	}
	shown := withNotices(text, notices...)
	result.Content = protocol.TextContent(shown)
	result.Structured = func() json.RawMessage { return protocol.AppendString(nil, shown) }
	if t.Truncated {
		result.Details = truncationDetails(t)
	}
	return result, nil
}

func truncationDetails(t Truncation) json.RawMessage {
	return details(struct {
		Truncation Truncation `json:"truncation"`
	}{t})
}

// page is the part of a file that is shown: limit lines from first, of which
// as many as the limits of truncation allow.
type page struct {
	first int64 // from 1
	limit int64 // 0 is all

	file      extent // of the file
	whole     extent // of the page
	kept      []byte // its beginning: everything, or a little more than may be shown
	firstLine int64  // bytes of its first line
}

// keepPage is enough to see that the byte limit was crossed.
const keepPage = MaxBytes + 2

func (p *page) readFrom(ctx context.Context, r io.Reader) error {
	buf := readBuffers.Get().(*[readSize]byte)
	defer readBuffers.Put(buf)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buf[:])
		p.take(buf[:n])
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *page) take(b []byte) {
	start := lineOffset(b, p.first-1-p.file.breaks)
	p.file.add(b)
	b = b[start:]
	if p.limit > 0 {
		b = b[:lineOffset(b, p.limit-p.whole.breaks)]
	}
	if len(b) == 0 {
		return
	}
	if p.whole.breaks == 0 {
		p.firstLine += int64(lineOffset(b, 1))
	}
	p.whole.add(b)
	p.kept = append(p.kept, b[:min(len(b), keepPage-len(p.kept))]...)
}

// lineOffset is where in b the line after n line feeds begins, len(b) if there
// are fewer.
func lineOffset(b []byte, n int64) int {
	at := 0
	for ; n > 0; n-- {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return len(b)
		}
		at += i + 1
	}
	return at
}

func (p *page) truncation() Truncation {
	kept, partial := p.kept, p.whole.bytes > int64(len(p.kept))
	if partial { // only whole lines
		kept = kept[:bytes.LastIndexByte(kept, '\n')+1]
	}
	text := strings.ToValidUTF8(string(kept), "\uFFFD")
	t := truncateHead(text)
	if partial && !t.Truncated {
		t.FirstLineExceedsLimit = text == ""
		by := byBytes
		if t.OutputLines == MaxLines { // what is kept ends just where both limits are
			by = byLines
		}
		t = t.cut(strings.TrimSuffix(text, "\n"), by)
	}
	t.TotalBytes, t.TotalLines = p.whole.bytes, p.whole.lines()
	return t
}

// notices say what is missing and how to get it.
func (p *page) notices(t Truncation, path string) []string {
	total := p.file.lines()
	next := p.first + t.OutputLines
	switch {
	case t.FirstLineExceedsLimit:
		return []string{
			fmt.Sprintf("Line %d is %s, over the limit of %s", p.first, protocol.FormatSize(p.firstLine), protocol.FormatSize(MaxBytes)),
			fmt.Sprintf("For its beginning use bash: sed -n '%dp' %s | head -c %d", p.first, shellQuote(path), MaxBytes),
		}
	case t.Truncated:
		shown := fmt.Sprintf("Showing lines %d-%d of %d", p.first, next-1, total)
		if t.TruncatedBy == byBytes {
			shown += fmt.Sprintf(" (%s limit)", protocol.FormatSize(MaxBytes))
		}
		return []string{shown, fmt.Sprintf("Use offset=%d to continue", next)}
	case next <= total:
		return []string{
			fmt.Sprintf("%d more lines in the file", total-next+1), fmt.Sprintf("Use offset=%d to continue", next),
		}
	}
	return nil
}

// shellQuote quotes s where a shell would not take it as it is.
func shellQuote(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
