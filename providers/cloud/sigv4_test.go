package cloud

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/require"
)

// byHand is Signature Version 4 once more, from its description alone: the
// oracle for how we call the library.
func byHand(t *testing.T, address string, body []byte, cred aws.Credentials, region string, at time.Time) string {
	u, err := url.Parse(address)
	require.NoError(t, err)
	hash := func(b []byte) string { sum := sha256.Sum256(b); return hex.EncodeToString(sum[:]) }
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	var path strings.Builder // escaped a second time
	for _, b := range []byte(u.EscapedPath()) {
		if b == '/' || strings.IndexByte("-._~", b) >= 0 || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' {
			path.WriteByte(b)
		} else {
			fmt.Fprintf(&path, "%%%02X", b)
		}
	}
	query := strings.ReplaceAll(u.Query().Encode(), "+", "%20") // sorted by name
	stamp, day := at.Format("20060102T150405Z"), at.Format("20060102")
	names, token := "host;x-amz-content-sha256;x-amz-date", ""
	if cred.SessionToken != "" {
		names, token = names+";x-amz-security-token", "x-amz-security-token:"+cred.SessionToken+"\n"
	}
	canonical := strings.Join([]string{"POST", path.String(), query,
		"host:" + u.Host, "x-amz-content-sha256:" + hash(body), "x-amz-date:" + stamp, token,
		names, hash(body)}, "\n")
	scope := day + "/" + region + "/bedrock/aws4_request"
	key := mac(mac(mac(mac([]byte("AWS4"+cred.SecretAccessKey), day), region), "bedrock"), "aws4_request")
	signature := hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+stamp+"\n"+scope+"\n"+hash([]byte(canonical))))
	return "AWS4-HMAC-SHA256 Credential=" + cred.AccessKeyID + "/" + scope + ", SignedHeaders=" + names + ", Signature=" + signature
}
