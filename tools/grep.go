package tools

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"troupe/protocol"
	"troupe/tools/search"
	"troupe/tools/search/regex"
)

//go:embed grep.md
var grepText string

type grepArgs struct {
	Pattern    string `json:"pattern" description:"Regular expression as in ripgrep, or plain text with literal"`
	Path       string `json:"path,omitempty" description:"File or directory to search (default: the working directory)"`
	Glob       string `json:"glob,omitempty" description:"Only files that match this glob, e.g. *.ts or src/**/*.go; with ! in front all others"`
	IgnoreCase bool   `json:"ignoreCase,omitempty" description:"Ignore upper and lower case"`
	Literal    bool   `json:"literal,omitempty" description:"The pattern is plain text"`
	Context    int    `json:"context,omitempty" description:"Lines to show before and after each match (default 0)"`
	Limit      int    `json:"limit,omitempty" description:"Maximum number of matches (default 100)"`
}

// grep searches the contents of files.
type grep struct{ described }

func newGrep() Tool { return grep{describe[grepArgs]("grep", grepText, protocol.NoFile)} }

func (t grep) Run(ctx context.Context, call Call) (result protocol.ToolResult, err error) {
	args, err := decodeArgs[grepArgs](call.Args)
	if err != nil {
		return result, err
	}
	s, err := newGrepRun(args)
	if err != nil {
		return result, err
	}
	root := call.Env.Cwd
	if args.Path != "" {
		root = call.Env.ResolvePath(args.Path)
	}
	info, err := os.Stat(root)
	if err != nil {
		return result, fileError("stat", root, err)
	}
	if info.IsDir() {
		err = s.searchTree(ctx, call.Env.search(root, search.Ripgrep), args.Glob)
	} else {
		err = s.searchOne(ctx, root)
	}
	if ctx.Err() != nil {
		return result, errAborted
	}
	if err != nil {
		return result, err
	}
	return s.result(), nil
}

// grepRun is one run of grep: what to look for, and what was found.
type grepRun struct {
	pattern *linePattern
	context int
	limit   int

	list     listing
	matches  int
	more     bool // there are more matches than limit
	cutLines bool

	lower []byte // buffer for a block in lower case
}

// maxContext keeps a slip of the model from showing whole files.
const maxContext = 1000

func newGrepRun(args grepArgs) (*grepRun, error) {
	p, err := newLinePattern(args.Pattern, args.Literal, args.IgnoreCase)
	if err != nil {
		return nil, err
	}
	return &grepRun{pattern: p, context: min(max(args.Context, 0), maxContext), limit: orLimit(args.Limit, 100)}, nil
}

func (s *grepRun) searchTree(ctx context.Context, where search.Search, filter string) (err error) {
	if where.Filter, err = search.ParseFilter(filter, where.Root); err != nil {
		return err
	}
	return where.Walk(ctx, func(path string, entry fs.DirEntry) error {
		if !entry.Type().IsRegular() {
			return nil
		}
		// A file that cannot be read is one without matches.
		err := s.searchFile(ctx, filepath.Join(where.Root, path), path, false)
		if errors.Is(err, errEnough) {
			return fs.SkipAll
		}
		return ctx.Err()
	})
}

// searchOne searches a file that was asked for, even if it is binary.
func (s *grepRun) searchOne(ctx context.Context, path string) error {
	err := s.searchFile(ctx, path, filepath.Base(path), true)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// show adds a line, or says errEnough if it is the last one there is room for.
func (s *grepRun) show(path string, mark byte, line int64, text string) error {
	text, cut := cutLine(text)
	s.cutLines = s.cutLines || cut
	if !s.list.add(fmt.Sprintf("%s%c%d%c %s", path, mark, line, mark, text)) {
		return errEnough
	}
	return nil
}

// errEnough ends a search before the end of the files.
var errEnough = errors.New("enough found")

const cutMark = "... [cut]"

// cutLine shortens a line to what may be shown of it.
func cutLine(line string) (_ string, cut bool) {
	if len(line) <= maxGrepLine {
		return line, false
	}
	n := 0
	for i := range line {
		if n++; n > maxGrepLine {
			return line[:i] + cutMark, true
		}
	}
	return line, false
}

func (s *grepRun) result() protocol.ToolResult {
	var extra struct {
		Truncation        *Truncation `json:"truncation,omitempty"`
		MatchLimitReached int         `json:"matchLimitReached,omitempty"`
		LinesTruncated    bool        `json:"linesTruncated,omitempty"`
	}
	if s.list.lines == 0 {
		s.list.text.WriteString("No matches found")
	}
	if s.more {
		extra.MatchLimitReached = s.limit
		s.list.notice("%d matches limit reached. Use limit=%d for more, or a narrower pattern", s.limit, 2*s.limit)
	}
	extra.Truncation = s.list.truncate()
	if s.cutLines {
		extra.LinesTruncated = true
		s.list.notice("Long lines are cut to %d characters: use read to see all of them", maxGrepLine)
	}
	return s.list.result(extra)
}

// linePattern is a compiled pattern for single lines.
type linePattern struct {
	re   *regex.Regexp // nil if must is all there is to it
	must []byte        // occurs in every match; may be empty
	fold bool          // must is in lower case, and its case does not matter
}

func newLinePattern(pattern string, literal, ignoreCase bool) (*linePattern, error) {
	if len(pattern) > protocol.MaxPattern {
		return nil, fmt.Errorf("invalid pattern: it is longer than %s", protocol.FormatSize(protocol.MaxPattern))
	}
	re, err := regex.Compile(pattern, regex.Options{Literal: literal, IgnoreCase: ignoreCase})
	if err != nil {
		return nil, err
	}
	if text, complete := re.Text(); complete {
		return &linePattern{must: []byte(text)}, nil
	}
	must := requiredText(re.Tree())
	return &linePattern{re: re, must: []byte(must.text), fold: must.fold}, nil
}

func (p *linePattern) match(line []byte) bool {
	if p.re == nil {
		return bytes.Contains(line, p.must)
	}
	return p.re.Match(line)
}

// excerpt is the line as it is shown. Of a long one with the match far from the
// beginning it is the part around that.
func (p *linePattern) excerpt(line []byte) string {
	const before = 100
	if len(line) <= maxGrepLine {
		return displayed(line)
	}
	at := bytes.Index(line, p.must)
	if p.re != nil {
		at = p.re.Index(line)
	}
	if at+before < maxGrepLine {
		return displayed(line)
	}
	return "... " + displayed(trimHalfRune(line[at-before:]))
}

// required is text that is in every match, in lower case if that is to be
// found in either case.
type required struct {
	text string
	fold bool
}

// requiredText is the longest such text that is easily known.
func requiredText(re *syntax.Regexp) (longest required) {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return required{text: string(re.Rune)}
		}
		return required{foldable(re.Rune), true}
	case syntax.OpCapture, syntax.OpPlus:
		return requiredText(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return requiredText(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if r := requiredText(sub); len(r.text) > len(longest.text) {
				longest = r
			}
		}
	}
	return longest
}

// foldable is the longest part of a text whose other case is one of ASCII: k
// and s are also the lower case of U+212A and U+017F.
func foldable(runes []rune) string {
	longest := ""
	for _, part := range strings.FieldsFunc(strings.ToLower(string(runes)), func(r rune) bool {
		return r >= utf8.RuneSelf || r == 'k' || r == 's'
	}) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

// lowerASCII appends b with the letters of ASCII in lower case to dst.
func lowerASCII(dst, b []byte) []byte {
	dst = append(dst, b...)
	for i, c := range dst {
		if 'A' <= c && c <= 'Z' {
			dst[i] = c + 'a' - 'A'
		}
	}
	return dst
}
