package protocol

import (
	"os"
	"testing"

	"troupe/tools/testenv"
)

func TestMain(m *testing.M) {
	testenv.Isolate()
	os.Exit(m.Run())
}
