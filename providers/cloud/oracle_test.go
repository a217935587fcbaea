package cloud

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var worlds = flag.Uint64("cloud.worlds", 1000, "random environments, each with four files of profiles, that are compared with AWS's own library")

// world is a random machine: variables of the process, those of an entry of auth.json, and
// files of profiles.
type world struct {
	process, entry map[string]string
	files          []string // texts, for the message of a failure
}

// profiles writes a random file of profiles. section is how it names them. Programs are in
// files of configuration only, and tokens in those of credentials: where one profile is in
// both, AWS's command line takes a program before keys of the configuration, and its
// libraries do not.
func profiles(r *rand.Rand, t *testing.T, path string, section func(name string) string) string {
	conf := filepath.Base(path) == "config"
	var text strings.Builder
	for _, name := range []string{"default", "work", "home"} {
		if r.IntN(4) == 0 {
			continue
		}
		fmt.Fprintf(&text, "[%s]\n", section(name))
		if r.IntN(3) > 0 {
			fmt.Fprintf(&text, "region = %s\n", []string{"eu-west-1", "ap-south-1", "us-west-2"}[r.IntN(3)])
		}
		id := fmt.Sprintf("AKID%s%04d", strings.ToUpper(name), r.IntN(10000))
		switch kind := r.IntN(5); {
		case kind == 0 && conf:
			fmt.Fprintf(&text, "credential_process = echo '{\"Version\":1,\"AccessKeyId\":\"%s\",\"SecretAccessKey\":\"s\",\"SessionToken\":\"of-a-program\"}'\n", id)
		case kind <= 1: // only a region, or nothing
		case kind == 2 && !conf:
			fmt.Fprintf(&text, "aws_access_key_id = %s\naws_secret_access_key = s\naws_session_token = of-a-file\n", id)
		default:
			fmt.Fprintf(&text, "aws_access_key_id = %s\naws_secret_access_key = s\n", id)
		}
	}
	return write(t, path, text.String())
}

func newWorld(r *rand.Rand, t *testing.T, home string) world {
	w := world{map[string]string{"AWS_EC2_METADATA_DISABLED": "true"}, map[string]string{}, nil}
	dir := t.TempDir()
	for _, place := range []string{filepath.Join(home, ".aws"), dir} {
		conf := profiles(r, t, filepath.Join(place, "config"), func(name string) string {
			if name == "default" {
				return name
			}
			return "profile " + name
		})
		cred := profiles(r, t, filepath.Join(place, "credentials"), func(name string) string { return name })
		for _, path := range []string{conf, cred} {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			w.files = append(w.files, path+":\n"+string(text))
		}
	}
	for i, of := range []map[string]string{w.process, w.entry} {
		rare := 3 + i
		if r.IntN(rare) == 0 {
			of["AWS_ACCESS_KEY_ID"], of["AWS_SECRET_ACCESS_KEY"] = []string{"AKIDPROCESS", "AKIDENTRY"}[i], "s"
			if r.IntN(2) == 0 {
				of["AWS_SESSION_TOKEN"] = []string{"of-the-process", "of-the-entry"}[i]
			}
		}
		if r.IntN(2) == 0 {
			of["AWS_PROFILE"] = []string{"default", "work", "home", "nobody"}[r.IntN(4)]
		}
		for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
			if r.IntN(rare) == 0 {
				of[name] = []string{"sa-east-1", "ca-central-1", "eu-north-1"}[r.IntN(3)]
			}
		}
		if r.IntN(rare) == 0 {
			of["AWS_CONFIG_FILE"] = filepath.Join(dir, "config")
		}
		if r.IntN(rare) == 0 {
			of["AWS_SHARED_CREDENTIALS_FILE"] = filepath.Join(dir, "credentials")
		}
	}
	if w.entry["AWS_PROFILE"] == w.process["AWS_PROFILE"] { // that cannot be told from none in the entry
		delete(w.entry, "AWS_PROFILE")
	}
	return w
}

// chosen is what a request would be signed with, and where it would go.
type chosen struct{ id, token, region, failed string }

func (c *chosen) fail(err error) {
	c.failed = "no credentials"
	if strings.Contains(err.Error(), "failed to get shared config profile") {
		c.failed = "no such profile"
	}
	c.id, c.token, c.region = "", "", ""
}

// ours is what this program chooses.
func (w *world) ours(t *testing.T) (c chosen) {
	for name, value := range w.process {
		t.Setenv(name, value)
	}
	env := func(name string) string {
		if value := w.entry[name]; value != "" {
			return value
		}
		return os.Getenv(name)
	}
	cloud := &awsCloud{}
	address, err := cloud.Address("https://bedrock-runtime.{AWS_REGION}.amazonaws.com/model/x/converse-stream", false, env)
	require.NoError(t, err)
	c.region = strings.Split(address, ".")[1]
	signed, err := cloud.Signer(env).Sign(t.Context(), address, []byte("{}"))
	if err != nil {
		c.fail(err)
		return c
	}
	scope := strings.Split(strings.TrimPrefix(signed["Authorization"], "AWS4-HMAC-SHA256 Credential="), "/")
	c.id, c.token = scope[0], signed["X-Amz-Security-Token"]
	assert.Equal(t, c.region, scope[2], "it is signed for where it goes")
	return c
}

// theirs is what the SDK chooses where the entry's variables are those of the process; a
// profile of the entry is one that was asked for, and stands before keys. One that
// AWS_PROFILE names and that is not there does not keep keys from being used.
func (w *world) theirs(t *testing.T) (c chosen) {
	all := w.merged()
	if w.entry["AWS_REGION"] == "" && w.process["AWS_REGION"] == "" && all["AWS_DEFAULT_REGION"] != "" {
		all["AWS_REGION"] = all["AWS_DEFAULT_REGION"]
	}
	if w.entry["AWS_PROFILE"] != "" {
		for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
			delete(all, name)
		}
	}
	c = choose(t, all)
	if c.failed == "no such profile" && hasKeys(all) {
		delete(all, "AWS_PROFILE")
		all["AWS_CONFIG_FILE"], all["AWS_SHARED_CREDENTIALS_FILE"] = os.DevNull, os.DevNull
		c = choose(t, all)
	}
	return c
}

// choose asks the SDK in an environment.
func choose(t *testing.T, all map[string]string) (c chosen) {
	for name, value := range all {
		t.Setenv(name, value)
	}
	for _, name := range awsVariables {
		if _, set := all[name]; !set {
			require.NoError(t, os.Unsetenv(name))
		}
	}
	cfg, err := config.LoadDefaultConfig(t.Context())
	var cred aws.Credentials
	if err == nil {
		cred, err = cfg.Credentials.Retrieve(t.Context())
	}
	if err != nil {
		c.fail(err)
		return c
	}
	c.region = cfg.Region
	if c.region == "" {
		c.region = awsRegion
	}
	c.id, c.token = cred.AccessKeyID, cred.SessionToken
	return c
}

// TestChoices: in random environments the keys, the profile and the region are those that
// AWS's own library chooses.
func TestChoices(t *testing.T) {
	found := map[chosen]int{}
	for seed := range *worlds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(r, t, bare(t))
			ours := w.ours(t)
			theirs := w.theirs(t)
			found[chosen{id: strings.TrimRight(theirs.id, "0123456789"), failed: theirs.failed}]++
			assert.Equal(t, theirs, ours, "process %v\nentry %v\n%s", w.process, w.entry, strings.Join(w.files, "\n"))
		})
	}
	for _, kind := range []chosen{{id: "AKIDPROCESS"}, {id: "AKIDENTRY"}, {id: "AKIDDEFAULT"}, {id: "AKIDWORK"}, {failed: "no credentials"}, {failed: "no such profile"}} {
		assert.GreaterOrEqual(t, found[kind], 5, "%v came too rarely for the others to say much: %v", kind, found)
	}
}
