// Command troupe-doc writes protocol/REFERENCE.md and protocol/schema.json from
// the tables of package protocol. Run it with make generate.
package main

import (
	"log"
	"os"
	"path/filepath"
	"runtime"

	"troupe/protocol"
)

// files are what is generated, by path below the protocol directory.
func files() map[string][]byte {
	return map[string][]byte{"REFERENCE.md": protocol.Reference(), "schema.json": protocol.Schema()}
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
