package cloud

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	askAWS = flag.String("cloud.aws", "", "AWS's command line, to be asked anew what it chooses")
	askPi  = flag.String("cloud.pi", "", "pi's command line (words with blanks between), to be asked anew what it chooses")
)

// answers are what other programs chose in the first random environments, as they were
// asked; -cloud.aws and -cloud.pi ask them again.
type answers struct {
	AWS, Pi []string
}

const answersFile = "testdata/choices.json"

// String is a choice in one line.
func (c chosen) String() string {
	if c.failed != "" {
		return c.failed
	}
	return strings.TrimSpace(c.id + " " + c.region + " " + c.token)
}

// seen hears the requests that a program signs.
type seen struct {
	mu   sync.Mutex
	last chosen
}

func (s *seen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	scope := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(scope) > 2 {
		s.last = chosen{id: scope[0], region: scope[2], token: r.Header.Get("X-Amz-Security-Token")}
	}
	w.WriteHeader(http.StatusForbidden)
}

// ask runs a program in an environment and hears how it signs. {server} in its words is
// where it is to send.
func ask(t *testing.T, environ map[string]string, command ...string) (c chosen, said string) {
	s := &seen{}
	server := httptest.NewServer(s)
	defer server.Close()
	cmd := exec.Command(command[0], command[1:]...)
	for i := range cmd.Args {
		cmd.Args[i] = strings.ReplaceAll(cmd.Args[i], "{server}", server.URL)
	}
	cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=/usr/bin:/bin", "HOME=" + os.Getenv("HOME")}
	for name, value := range environ {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	write(t, filepath.Join(os.Getenv("HOME"), ".pi/agent/models.json"), fmt.Sprintf(`{"providers":{"amazon-bedrock":{"baseUrl":%q}}}`, server.URL))
	out, _ := cmd.CombinedOutput()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, string(out)
}

// hasKeys says whether variables have keys, and not only their names.
func hasKeys(of map[string]string) bool { return of["AWS_ACCESS_KEY_ID"] != "" }

// merged are the variables of the process and of the entry, where keys come as a whole.
func (w *world) merged() map[string]string {
	all := maps.Clone(w.process)
	if hasKeys(w.entry) {
		delete(all, "AWS_SESSION_TOKEN")
	}
	maps.Copy(all, w.entry)
	return all
}

// askAWS asks AWS's command line. It knows no entries: a profile of the entry is one that
// is named on the command line. Where it wants a region it is given the usual one, and
// where it refuses keys because AWS_PROFILE names nobody, it is asked without.
func (w *world) askAWS(t *testing.T) chosen {
	all, command := w.merged(), []string{*askAWS, "sts", "get-caller-identity", "--endpoint-url", "{server}"}
	profile := w.entry["AWS_PROFILE"]
	if profile != "" {
		delete(all, "AWS_PROFILE")
		command = append(command, "--profile", profile)
	}
	for {
		c, said := ask(t, all, command...)
		switch {
		case c.id != "":
			return c
		case strings.Contains(said, "specify a region"):
			all["AWS_REGION"] = awsRegion
		case strings.Contains(said, "could not be found") && hasKeys(all) && profile == "":
			for _, name := range []string{"AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
				all[name] = os.DevNull
			}
			delete(all, "AWS_PROFILE")
		case strings.Contains(said, "could not be found"):
			return chosen{failed: "no such profile"}
		default:
			require.Contains(t, said, "Unable to locate credentials")
			return chosen{failed: "no credentials"}
		}
	}
}

// askPi asks pi, whose file of logins has the entry. It does so only if the entry names a
// profile, and takes the names of files from the process always: else what the entry has is
// the process's here. It does not say why it has no credentials.
func (w *world) askPi(t *testing.T) chosen {
	all, entry := w.merged(), map[string]string{}
	if w.entry["AWS_PROFILE"] != "" {
		all = maps.Clone(w.process)
		for name, value := range w.entry {
			if strings.HasSuffix(name, "_FILE") {
				all[name] = value
			} else {
				entry[name] = value
			}
		}
		text, err := json.Marshal(map[string]any{"amazon-bedrock": map[string]any{"type": "api_key", "env": entry}})
		require.NoError(t, err)
		write(t, filepath.Join(os.Getenv("HOME"), ".pi/agent/auth.json"), string(text))
	}
	all["AWS_BEDROCK_FORCE_HTTP1"] = "1"
	for {
		c, said := ask(t, all, append(strings.Fields(*askPi), "-p", "--provider", "amazon-bedrock", "--model", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "hi")...)
		switch {
		case c.id != "":
			return c
		case strings.Contains(said, "Region is missing"):
			all["AWS_REGION"] = awsRegion
		default:
			t.Log(said)
			return chosen{failed: "no credentials"}
		}
	}
}

// asPi is a choice of ours as pi would have it: it does not say why there are no
// credentials, and asks a profile for the region only where AWS_PROFILE of the process
// names one.
func (w *world) asPi(ours chosen) chosen {
	all := w.merged()
	switch {
	case ours.failed != "", !(&awsCloud{}).Found(func(name string) string { return all[name] }):
		return chosen{failed: "no credentials"}
	case all["AWS_REGION"] == "" && all["AWS_DEFAULT_REGION"] == "" && w.process["AWS_PROFILE"] == "":
		ours.region = awsRegion
	}
	return ours
}

// TestChoicesOfOthers: in random environments the keys, the profile and the region are
// those that AWS's command line and pi chose there.
func TestChoicesOfOthers(t *testing.T) {
	var want answers
	data, err := os.ReadFile(answersFile)
	if err == nil {
		require.NoError(t, json.Unmarshal(data, &want))
	}
	const rounds = 200
	if *askAWS != "" {
		want.AWS = make([]string, rounds)
	}
	if *askPi != "" {
		want.Pi = make([]string, rounds)
	}
	require.Len(t, want.AWS, rounds)
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			home := bare(t)
			w := newWorld(rand.New(rand.NewPCG(uint64(seed), 1)), t, home)
			if *askAWS != "" {
				want.AWS[seed] = w.askAWS(t).String()
			}
			if *askPi != "" {
				want.Pi[seed] = w.askPi(t).String()
			}
			ours := w.ours(t)
			about := fmt.Sprintf("process %v\nentry %v\n%s", w.process, w.entry, strings.Join(w.files, "\n"))
			assert.Equal(t, want.AWS[seed], ours.String(), "aws\n%s", about)
			assert.Equal(t, want.Pi[seed], w.asPi(ours).String(), "pi\n%s", about)
		})
	}
	if *askAWS+*askPi != "" {
		data, err := json.MarshalIndent(want, "", " ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(answersFile, append(data, '\n'), 0o644))
	}
}
