package bedrock

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/providers"
	"troupe/providers/providertest"
)

var askSDK = flag.Bool("bedrock.sdk", false, "ask AWS's own library anew how it writes the requests of TestAsTheSDK")

// bodiesFile has a request in each line, as AWS's own library has written it.
const bodiesFile = "testdata/sdk/bodies.jsonl"

// TestAsTheSDK: requests with random histories, to models of each family, are those that
// AWS's own library writes from their members, which it knows all of.
func TestAsTheSDK(t *testing.T) {
	const each = 20
	var ours [][]byte
	for _, id := range []string{claudeID, "us.amazon.nova-pro-v1:0", "meta.llama3-1-70b-instruct-v1:0"} {
		for seed, have := 0, 0; have < each; seed++ {
			req := providertest.Requests(question(id).Model).Example(seed)
			req.Credentials = providers.Credentials{Key: "k"}
			call, err := format{}.Encode(&req)
			if err != nil { // there is nothing to send
				continue
			}
			require.NotContains(t, string(call.Body), "\n")
			ours = append(ours, call.Body)
			have++
		}
	}
	if *askSDK {
		cmd := exec.Command("go", "run", ".")
		cmd.Dir, cmd.Stdin, cmd.Stderr = "testdata/sdk", bytes.NewReader(append(bytes.Join(ours, []byte("\n")), '\n')), os.Stderr
		out, err := cmd.Output()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(bodiesFile, out, 0o644))
	}
	text, err := os.ReadFile(bodiesFile)
	require.NoError(t, err)
	theirs := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	require.Len(t, theirs, len(ours), "ask it anew: -bedrock.sdk")
	for i := range ours {
		assert.JSONEq(t, string(theirs[i]), string(ours[i]), "request %d; where it is meant to be another ask the library anew: -bedrock.sdk", i)
	}
}
