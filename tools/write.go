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
	if err := os.MkdirAll(filepath.Dir(realPath(path)), 0o777); err != nil {
		return result, fileError("mkdir", filepath.Dir(path), err)
	}
	if ctx.Err() != nil {
		return result, errAborted
	}
	if err := ReplaceFile(path, []byte(args.Content), 0o666); err != nil {
		return result, fileError("write", path, err)
	}
	result.Content = protocol.TextContent(fmt.Sprintf("Wrote %s to %s.", formatSize(int64(len(args.Content))), args.Path))
	return result, nil
}
