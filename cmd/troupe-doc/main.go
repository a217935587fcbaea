// Command troupe-doc writes protocol/REFERENCE.md and protocol/schema.json from
// the tables of package protocol, and what a project may bring from that of
// package resource. Run it with make generate.
package main

import (
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"troupe/protocol"
	"troupe/store/resource"
)

// files are what is generated, by path below the protocol directory.
func files() map[string][]byte {
	return map[string][]byte{"REFERENCE.md": slices.Concat(protocol.Reference(), resource.Reference()), "schema.json": protocol.Schema()}
}

func dir() string {
	_, self, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(self), "..", "..", "protocol")
}

func main() {
	for name, content := range files() {
		if err := os.WriteFile(filepath.Join(dir(), name), content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
