package cloud

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// signingCase is one of AWS's signing test suite.
type signingCase struct {
	Context struct {
		Credentials struct {
			ID     string `json:"access_key_id"`
			Secret string `json:"secret_access_key"`
			Token  string `json:"token"`
		} `json:"credentials"`
		Normalize bool      `json:"normalize"`
		OmitToken bool      `json:"omit_session_token"`
		Region    string    `json:"region"`
		Service   string    `json:"service"`
		SignBody  bool      `json:"sign_body"`
		Timestamp time.Time `json:"timestamp"`
	} `json:"context"`
	Request, Canonical, Signature string
}

// request is the case's, as this program would have it.
func (c *signingCase) request(t *testing.T) (*http.Request, string) {
	head, body, _ := strings.Cut(c.Request, "\n\n")
	lines := strings.Split(strings.TrimRight(head, "\n"), "\n")
	method, target, _ := strings.Cut(lines[0], " ")
	target = strings.TrimSuffix(target, " HTTP/1.1")
	r := &http.Request{Method: method, Header: http.Header{}}
	name := ""
	for _, line := range lines[1:] {
		if line[0] == ' ' { // goes on: on the wire there is one line
			values := r.Header[name]
			values[len(values)-1] += " " + strings.TrimSpace(line)
			continue
		}
		var value string
		name, value, _ = strings.Cut(line, ":")
		if name = http.CanonicalHeaderKey(name); name == "Host" {
			r.Host = value
			continue
		}
		r.Header[name] = append(r.Header[name], value)
	}
	path, query, _ := strings.Cut(target, "?")
	r.URL = &url.URL{Scheme: "https", Host: r.Host, Path: path, Opaque: "//" + r.Host + path, RawQuery: query} // the path as the case has it, not escaped
	if r.Header.Get("Content-Length") != "" {
		r.ContentLength = int64(len(body))
		r.Header.Del("Content-Length")
	}
	sum := sha256.Sum256([]byte(body))
	hash := hex.EncodeToString(sum[:])
	if c.Context.SignBody {
		r.Header.Set("X-Amz-Content-Sha256", hash)
	}
	return r, hash
}

// cleaned are paths that other clients tidy up before they sign; ours have none of them,
// and nothing changes an address on its way to the service.
var cleaned = regexp.MustCompile(`//|/\.`)

// TestSigningSuite: AWS's own cases, through our call of the library.
func TestSigningSuite(t *testing.T) {
	text, err := os.ReadFile("testdata/aws-signing-test-suite/v4.json")
	require.NoError(t, err)
	var cases map[string]*signingCase
	require.NoError(t, json.Unmarshal(text, &cases))
	signed := 0
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, hash := c.request(t)
			if c.Context.Normalize && cleaned.MatchString(r.URL.Path) {
				t.Skip("a path that is tidied up before it is signed")
			}
			signed++
			of := c.Context
			cred := aws.Credentials{AccessKeyID: of.Credentials.ID, SecretAccessKey: of.Credentials.Secret, SessionToken: of.Credentials.Token}
			if of.OmitToken { // it is added behind the signature
				cred.SessionToken = ""
			}
			require.NoError(t, signRequest(t.Context(), r, hash, cred, of.Service, of.Region, of.Timestamp))
			assert.Contains(t, r.Header.Get("Authorization"), "Signature="+c.Signature, c.Canonical)
		})
	}
	assert.Equal(t, len(cases)-6, signed)
}
