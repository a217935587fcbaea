package tools

import (
	"cmp"
	"context"
	_ "embed"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"troupe/protocol"
)

//go:embed ls.md
var lsText string

type lsArgs struct {
	Path  string `json:"path,omitempty" description:"Directory to list (default: the working directory)"`
	Limit int    `json:"limit,omitempty" description:"Maximum number of entries (default 500)"`
}

// ls lists a directory.
type ls struct{ described }

func newLs() Tool { return ls{describe[lsArgs]("ls", lsText, protocol.NoFile)} }

func (t ls) Run(ctx context.Context, call Call) (result protocol.ToolResult, err error) {
	args, err := decodeArgs[lsArgs](call.Args)
	if err != nil {
		return result, err
	}
	dir, err := call.Env.searchDir(args.Path)
	if err != nil {
		return result, err
	}
	limit := orLimit(args.Limit, 500)
	names, err := firstNames(ctx, dir, min(limit, MaxLines)+1)
	if ctx.Err() != nil {
		return result, errAborted
	}
	if err != nil {
		return result, fileError("scandir", dir, err)
	}
	return listDir(dir, names, limit), nil
}

// firstNames returns the first n names of a directory in alphabetical order
// without regard to case. It holds no more than a few times n in memory.
func firstNames(ctx context.Context, dir string, n int) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for {
		batch, err := f.Readdirnames(4096)
		names = append(names, batch...)
		slices.SortFunc(names, compareNames)
		names = names[:min(len(names), n)]
		switch {
		case err == io.EOF:
			return names, nil
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
}

func compareNames(a, b string) int {
	return cmp.Or(cmp.Compare(strings.ToLower(a), strings.ToLower(b)), cmp.Compare(a, b))
}

func listDir(dir string, names []string, limit int) protocol.ToolResult {
	var extra struct {
		Truncation        *Truncation `json:"truncation,omitempty"`
		EntryLimitReached int         `json:"entryLimitReached,omitempty"`
	}
	var list listing
	for i, name := range names {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if i == limit {
			extra.EntryLimitReached = limit
			list.notice("%d entries limit reached. Use limit=%d for more", limit, 2*limit)
			break
		}
		if info.IsDir() {
			name += "/"
		}
		if !list.add(name) {
			break
		}
	}
	if list.lines == 0 {
		list.text.WriteString("(empty directory)")
	}
	extra.Truncation = list.truncate()
	return list.result(extra)
}
