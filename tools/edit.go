package tools

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

//go:embed edit.md
var editText string

type editArgs struct {
	Path  string        `json:"path" description:"File to edit, relative to the working directory or absolute"`
	Edits []replacement `json:"edits" description:"Replacements, each matched against the file as it is before the call"`
}

type replacement struct {
	OldText string `json:"oldText" description:"Text to replace: must occur exactly once in the file"`
	NewText string `json:"newText" description:"Text to put in its place"`
}

// edit replaces passages of a text file.
type edit struct{ described }

func newEdit() Tool { return edit{describe[editArgs]("edit", editText, protocol.WritesFile)} }

// mend turns the older form with oldText and newText beside the path into
// a list of one edit. Models that learned it still use it.
func (edit) mend(args json.RawMessage) json.RawMessage {
	if !json.Valid(args) || gjson.GetBytes(args, "edits").Exists() || !gjson.GetBytes(args, "oldText").Exists() {
		return args
	}
	var old struct {
		Path    any `json:"path,omitempty"`
		OldText any `json:"oldText"`
		NewText any `json:"newText,omitempty"`
	}
	if json.Unmarshal(args, &old) != nil {
		return args
	}
	mended := map[string]any{}
	if old.Path != nil {
		mended["path"] = old.Path
	}
	old.Path = nil
	mended["edits"] = []any{old}
	return details(mended)
}

// maxEditSize bounds the memory of an edit, which needs the file several times.
const maxEditSize = 16 << 20

func (t edit) Run(ctx context.Context, call Call) (result protocol.ToolResult, err error) {
	args, err := decodeArgs[editArgs](call.Args)
	if err != nil {
		return result, err
	}
	path := call.Env.resolveExisting(args.Path)
	unlock, err := call.Env.Files.Lock(ctx, path)
	if err != nil {
		return result, errAborted
	}
	defer unlock()
	file, err := readTextFile(path)
	if err != nil {
		return result, err
	}
	edited, err := file.apply(args.Edits)
	if err != nil {
		return result, fmt.Errorf("%s: %w", args.Path, err)
	}
	if ctx.Err() != nil {
		return result, errAborted
	}
	err = call.Env.Sandbox.Do(func() error { return written(path, ReplaceFile(path, []byte(edited.bytes()), 0o666)) })
	if err != nil {
		return result, call.Env.Sandbox.explain(err)
	}
	result.Content = protocol.TextContent(fmt.Sprintf("Replaced %d block(s) in %s.", len(args.Edits), args.Path))
	result.Details = Diff(args.Path, file.text, edited.text)
	return result, nil
}

// errAborted is the error of a call that was cancelled before it was done.
//
//lint:ignore ST1005 it is a sentence for the model, as clients know it
var errAborted = errors.New("Operation aborted")

// textFile is a file as edits see it: without byte order mark, and with LF for
// every line break. CR is one in a file that has no LF, else it is a character.
type textFile struct {
	bom  string
	cr   bool    // its line breaks are CR
	raw  string  // the content after the mark
	text string  // raw with LF
	crs  []int32 // where in text a line feed has a CR before it in raw
}

const byteOrderMark = "\uFEFF"

func readTextFile(path string) (*textFile, error) {
	f, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxEditSize {
		return nil, fmt.Errorf("%s is %s, more than the %s that can be edited: change it with a command",
			path, protocol.FormatSize(info.Size()), protocol.FormatSize(maxEditSize))
	}
	content, err := io.ReadAll(io.LimitReader(f, maxEditSize+1))
	if err != nil {
		return nil, fileError("read", path, err)
	}
	return newTextFile(string(content)), nil
}

func newTextFile(content string) *textFile {
	f := &textFile{raw: strings.TrimPrefix(content, byteOrderMark)}
	f.bom = content[:len(content)-len(f.raw)]
	f.cr = !strings.Contains(f.raw, "\n") && strings.Contains(f.raw, "\r")
	f.text = f.toLF(f.raw)
	if len(f.text) == len(f.raw) {
		return f
	}
	for at := 0; ; at += 2 {
		i := strings.Index(f.raw[at:], "\r\n")
		if i < 0 {
			return f
		}
		at += i
		f.crs = append(f.crs, int32(at-len(f.crs)))
	}
}

func toLF(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// toLF is a text with LF for what breaks lines in the file, and for CRLF.
func (f *textFile) toLF(s string) string {
	if s = toLF(s); f.cr {
		s = strings.ReplaceAll(s, "\r", "\n")
	}
	return s
}

// lineEnd is the line break at an offset of text, in raw.
func (f *textFile) lineEnd(at int) string {
	if f.cr {
		return "\r"
	}
	if _, is := slices.BinarySearch(f.crs, int32(at)); is {
		return "\r\n"
	}
	return "\n"
}

// narrowed leaves the whole lines out of a passage with which it and its replacement begin, and
// those with which they end: their line breaks stay as they are.
func (f *textFile) narrowed(p passage, replacement string) (passage, string) {
	for {
		line, _, found := strings.Cut(f.text[p.start:p.end], "\n")
		if !found || !strings.HasPrefix(replacement, line+"\n") {
			break
		}
		p.start += len(line) + 1
		replacement = replacement[len(line)+1:]
	}
	for {
		i := strings.LastIndexByte(f.text[p.start:p.end], '\n')
		if i < 0 || !strings.HasSuffix(replacement, f.text[p.start+i:p.end]) {
			return p, replacement
		}
		replacement = replacement[:len(replacement)-(p.end-p.start-i)]
		p.end = p.start + i
	}
}

// withLineEnds is what takes the place of a passage, with its line breaks in their order. Where it
// has more than the passage they are as the last there, or else as the nearest in the file: that
// which ends the line, or the one before.
func (f *textFile) withLineEnds(p passage, replacement string) string {
	last := "\n"
	if i := strings.IndexByte(f.text[p.end:], '\n'); i >= 0 {
		last = f.lineEnd(p.end + i)
	} else if i := strings.LastIndexByte(f.text[:p.start], '\n'); i >= 0 {
		last = f.lineEnd(i)
	}
	var b strings.Builder
	at := p.start
	for {
		line, rest, found := strings.Cut(replacement, "\n")
		b.WriteString(line)
		if !found {
			return b.String()
		}
		if i := strings.IndexByte(f.text[at:p.end], '\n'); i >= 0 {
			last = f.lineEnd(at + i)
			at += i + 1
		}
		b.WriteString(last)
		replacement = rest
	}
}

func (f *textFile) bytes() string { return f.bom + f.raw }

// rawOffset is where offset at of text is in raw. A line break is one thing:
// what begins with it begins with its CR.
func (f *textFile) rawOffset(at int) int {
	crs, _ := slices.BinarySearch(f.crs, int32(at))
	return at + crs
}

// passage is a part of a text that an edit replaces.
type passage struct {
	start, end int
	edit       int // its index
}

// apply makes all the edits or none. Only the matched passages change; line
// breaks elsewhere stay as they are.
func (f *textFile) apply(edits []replacement) (*textFile, error) {
	if len(edits) == 0 {
		return nil, errors.New("edits is empty: give at least one replacement")
	}
	passages, err := f.locate(edits)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	at := 0
	for _, p := range passages {
		p, replacement := f.narrowed(p, f.toLF(edits[p.edit].NewText))
		b.WriteString(f.raw[at:f.rawOffset(p.start)])
		b.WriteString(f.withLineEnds(p, replacement))
		at = f.rawOffset(p.end)
	}
	b.WriteString(f.raw[at:])
	if b.String() == f.raw {
		return nil, errors.New("the edits change nothing: oldText and newText say the same")
	}
	return &textFile{bom: f.bom, cr: f.cr, raw: b.String(), text: f.toLF(b.String())}, nil
}

// locate finds what each edit replaces, in the order of the file.
func (f *textFile) locate(edits []replacement) ([]passage, error) {
	folded := fold(f.text)
	passages := make([]passage, 0, len(edits))
	for i, e := range edits {
		old := f.toLF(strings.TrimPrefix(e.OldText, byteOrderMark))
		p, err := locate(f.text, folded, old)
		if err != nil {
			return nil, fmt.Errorf("edits[%d]: %w", i, err)
		}
		p.edit = i
		passages = append(passages, p)
	}
	slices.SortFunc(passages, func(a, b passage) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(passages); i++ {
		if a, b := passages[i-1], passages[i]; b.start < a.end {
			return nil, fmt.Errorf("edits[%d] and edits[%d] overlap: make one edit of them",
				min(a.edit, b.edit), max(a.edit, b.edit))
		}
	}
	return passages, nil
}

// locate finds old in text: exactly, or else up to the differences that folding
// removes. It must be unique with the latter in any case, as a model that
// mistakes one quotation mark for another may mean either place.
func locate(text string, folded *foldedText, old string) (p passage, err error) {
	if old == "" {
		return p, errors.New("oldText is empty: to create or replace a whole file use write")
	}
	exact, exactCount := occurrences(text, old)
	similar, similarCount := folded.occurrences(old)
	switch count := max(exactCount, similarCount); {
	case count == 0:
		return p, errNotFound
	case count > 1:
		return p, fmt.Errorf("oldText occurs %s times: add lines around it that make it unique", manyTimes(count))
	case exactCount == 1:
		return passage{start: exact, end: exact + len(old)}, nil
	}
	start, ok1 := folded.original(similar.start, true)
	end, ok2 := folded.original(similar.end, false)
	if !ok1 || !ok2 { // half of a character
		return p, errNotFound
	}
	return passage{start: start, end: end}, nil
}

var errNotFound = errors.New("oldText was not found: it must match the file exactly, white space included. Read the file again")

// maxCount bounds the search for occurrences of what must be unique anyway.
const maxCount = 1000

func manyTimes(count int) string {
	if count >= maxCount {
		return fmt.Sprintf("at least %d", maxCount)
	}
	return fmt.Sprint(count)
}

// occurrences counts old in text, also where it overlaps itself.
func occurrences(text, old string) (first, count int) {
	for at := 0; count < maxCount; at++ {
		i := strings.Index(text[at:], old)
		if i < 0 {
			break
		}
		if at += i; count == 0 {
			first = at
		}
		count++
	}
	return first, count
}
