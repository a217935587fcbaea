package tools

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"troupe/protocol"
	"troupe/tools/search"
)

//go:embed find.md
var findText string

type findArgs struct {
	Pattern string `json:"pattern" description:"Glob: *.go for names at any depth, cmd/**/*_test.go for paths"`
	Path    string `json:"path,omitempty" description:"Directory to search (default: the working directory)"`
	Limit   int    `json:"limit,omitempty" description:"Maximum number of results (default 1000)"`
}

// find lists files by name.
type find struct{ described }

func newFind() Tool { return find{describe[findArgs]("find", findText, protocol.NoFile)} }

func (t find) Run(ctx context.Context, call Call) (result protocol.ToolResult, err error) {
	args, err := decodeArgs[findArgs](call.Args)
	if err != nil {
		return result, err
	}
	root, err := call.Env.searchDir(args.Path)
	if err != nil {
		return result, err
	}
	pattern, err := search.ParseFinder(args.Pattern, root)
	if err != nil {
		return result, err
	}
	var list listing
	limit, more := orLimit(args.Limit, 1000), false
	err = call.Env.search(root, search.Fd).Walk(ctx, func(path string, entry fs.DirEntry) error {
		if !pattern.Match(path, entry.IsDir()) {
			return nil
		}
		if more = list.lines == limit; more {
			return fs.SkipAll
		}
		if entry.IsDir() {
			path += "/"
		}
		if !list.add(path) {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return result, errAborted
	}
	return findResult(&list, limit, more), nil
}

// search says where to look for files, with the ignore files of the user.
func (e *Env) search(root string, program search.Program) search.Search {
	s := search.Search{Root: root, Program: program, Cwd: e.Cwd, Home: e.Home}
	for _, variable := range e.Environ {
		if value, ok := strings.CutPrefix(variable, "XDG_CONFIG_HOME="); ok && filepath.IsAbs(value) {
			s.ConfigHome = value
		}
	}
	return s
}

func findResult(list *listing, limit int, more bool) protocol.ToolResult {
	var extra struct {
		Truncation         *Truncation `json:"truncation,omitempty"`
		ResultLimitReached int         `json:"resultLimitReached,omitempty"`
	}
	if list.lines == 0 {
		list.text.WriteString("No files found matching the pattern")
	}
	if more {
		extra.ResultLimitReached = limit
		list.notice("%d results limit reached. Use limit=%d for more, or a narrower pattern", limit, 2*limit)
	}
	extra.Truncation = list.truncate()
	return list.result(extra)
}

// searchDir resolves an optional path that must be a directory.
func (e *Env) searchDir(path string) (string, error) {
	dir := e.Cwd
	if path != "" {
		dir = e.ResolvePath(path)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", fileError("stat", dir, err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%w: this needs a directory", fileError("scandir", dir, syscall.ENOTDIR))
	}
	return dir, nil
}
