package tools

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"

	"troupe/protocol"
)

//go:embed write.md
var writeText string

type writeArgs struct {
	Path    string `json:"path" description:"File to write, relative to the working directory or absolute"`
	Content string `json:"content" description:"The whole content of the file"`
}

// write creates or overwrites a file.
type write struct{ described }

func newWrite() Tool { return write{describe[writeArgs]("write", writeText, protocol.WritesFile)} }

func (t write) Run(ctx context.Context, call Call) (result protocol.ToolResult, err error) {
	args, err := decodeArgs[writeArgs](call.Args)
	if err != nil {
		return result, err
	}
	path := call.Env.ResolvePath(args.Path)
	unlock, err := call.Env.Files.Lock(ctx, path)
	if err != nil {
		return result, errAborted
	}
	defer unlock()
	err = call.Env.Sandbox.Do(func() error {
		if err := os.MkdirAll(filepath.Dir(RealPath(path)), 0o777); err != nil {
			return fileError("mkdir", filepath.Dir(path), err)
		}
		if ctx.Err() != nil {
			return errAborted
		}
		return written(path, ReplaceFile(path, []byte(args.Content), 0o666))
	})
	if err != nil {
		return result, call.Env.Sandbox.explain(err)
	}
	result.Content = protocol.TextContent(fmt.Sprintf("Wrote %s to %s.", protocol.FormatSize(int64(len(args.Content))), args.Path))
	return result, nil
}

// written words the error of a write, nil for none.
func written(path string, err error) error {
	if err == nil {
		return nil
	}
	return fileError("write", path, err)
}
