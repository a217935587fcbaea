// Command record sends the script of package shape to a program that speaks the RPC protocol, or
// reads recordings of one, and writes the shapes of its records.
//
//	go run ./e2e/shape/record -out e2e/compat/testdata/shapes/pi-0.45.7.txt -- node PATH/dist/cli.js
//	go run ./e2e/shape/record -out e2e/compat/testdata/shapes/pi-1.5.2.txt -traces 'e2e/compat/testdata/traces/pi152-*.jsonl'
//
// Install each version of pi from npm into its own directory:
//
//	npm install @mariozechner/pi-coding-agent@0.31.1     0.45.7 likewise, on Node 20
//	npm install @earendil-works/pi-coding-agent@0.74.2   on Node 20
//	npm install @earendil-works/pi-coding-agent@0.87.1 node@24     1.6.0 likewise, from e2e/rpcclient/1.6: dist/bundle/cli.js
//
// It uses the loopback interface only.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tidwall/gjson"

	"troupe/e2e/shape"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run() error {
	out := flag.String("out", "", "the file to write; stdout if empty")
	traces := flag.String("traces", "", "a pattern of recordings to read instead")
	settles := flag.Bool("settles", false, "the program says agent_settled when all is over")
	flag.Parse()
	var recorded shape.Shapes
	var err error
	if *traces != "" {
		recorded, err = read(*traces)
	} else {
		recorded, err = play(flag.Args(), *settles)
	}
	if err != nil {
		return err
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "# What the records of %s look like; see e2e/shape.\n", strings.TrimSuffix(filepath.Base(*out), ".txt"))
	if err := recorded.Write(&text); err != nil {
		return err
	}
	if *out == "" {
		_, err = os.Stdout.Write(text.Bytes())
		return err
	}
	return os.WriteFile(*out, text.Bytes(), 0o644)
}

func play(command []string, settles bool) (shape.Shapes, error) {
	if len(command) == 0 {
		return nil, fmt.Errorf("which program?")
	}
	dir, err := os.MkdirTemp("", "shapes")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	return shape.Play(shape.Program{Command: command, Dir: dir, Settles: settles})
}

// read collects the records of recordings.
func read(pattern string) (shape.Shapes, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	s := shape.Shapes{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, line := range bytes.Split(raw, []byte("\n")) {
			v := gjson.ParseBytes(line)
			if msg := v.Get("msg"); v.Get("dir").Str == "out" && msg.IsObject() {
				if kind := shape.KindOf(msg); kind != "" {
					s.Add(kind, msg)
				}
			}
		}
	}
	s.Done()
	return s, nil
}
