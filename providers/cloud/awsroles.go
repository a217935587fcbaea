package cloud

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"troupe/protocol/bounded"
)

// assumeRole has the credentials of the role of a profile, which those of from assume by the
// signed call AssumeRole of AWS STS.
func (c *awsConfig) assumeRole(p *awsProfile, from aws.CredentialsProvider) (aws.CredentialsProvider, error) {
	if p.set("mfa_serial") {
		return nil, errors.New("assume role with MFA enabled (mfa_serial), but nobody can be asked for its code: get the credentials with AWS's command line, or take another profile")
	}
	return cached(aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		signer, err := from.Retrieve(ctx)
		if err != nil {
			return aws.Credentials{}, fmt.Errorf("credentials to assume role %s with: %w", p.get("role_arn"), err)
		}
		form := url.Values{
			"Action": {"AssumeRole"}, "RoleArn": {p.get("role_arn")},
			"RoleSessionName": {sessionName(p.get("role_session_name"))}, "DurationSeconds": {p.roleSeconds()},
		}
		if id := p.get("external_id"); id != "" {
			form.Set("ExternalId", id)
		}
		return c.askSTS(ctx, form, &signer)
	}), 0), nil
}

// webIdentity has the credentials of a role that the token in a file is for. The file is read
// each time: it is renewed.
func (c *awsConfig) webIdentity(file, role, session string) (aws.CredentialsProvider, error) {
	if role == "" {
		return nil, errors.New("role ARN is not set: a web identity token needs AWS_ROLE_ARN, or role_arn in the profile")
	}
	return cached(aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		token, err := bounded.ReadFile(file, maxAWS)
		if err != nil {
			return aws.Credentials{}, fmt.Errorf("failed to read the web identity token: %w", err)
		}
		form := url.Values{
			"Action": {"AssumeRoleWithWebIdentity"}, "RoleArn": {role}, "RoleSessionName": {sessionName(session)}, "WebIdentityToken": {string(token)},
		}
		return c.askSTS(ctx, form, nil)
	}), 0), nil
}

// sessionName names a session of a role where nobody does, so that logs of AWS tell it from
// others.
func sessionName(configured string) string {
	if configured != "" {
		return configured
	}
	return "troupe-" + strconv.FormatInt(time.Now().UnixNano(), 10)
}

// stsAnswer is what AWS STS answers to both calls, and stsRefusal where it refuses (AWS STS API
// reference, version 2011-06-15).
type (
	stsAnswer struct {
		Assumed  stsCredentials `xml:"AssumeRoleResult>Credentials"`
		Identity stsCredentials `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	stsCredentials struct {
		AccessKeyID     string `xml:"AccessKeyId"`
		SecretAccessKey string
		SessionToken    string
		Expiration      time.Time
	}
	stsRefusal struct {
		Code    string `xml:"Error>Code"`
		Message string `xml:"Error>Message"`
	}
)

// askSTS makes a call, signed where signer is not nil.
func (c *awsConfig) askSTS(ctx context.Context, form url.Values, signer *aws.Credentials) (none aws.Credentials, err error) {
	name := "operation error STS: " + form.Get("Action")
	endpoint, err := c.endpoint(stsService, c.region)
	if err != nil {
		return none, fmt.Errorf("%s: %w", name, err)
	}
	form.Set("Version", "2011-06-15")
	body := form.Encode()
	r, err := post(ctx, endpoint, "application/x-www-form-urlencoded", []byte(body))
	if err != nil {
		return none, err
	}
	if signer != nil {
		region := c.region
		if endpoint == stsGlobal {
			region = awsRegion
		}
		sum := sha256.Sum256([]byte(body))
		if err := signRequest(ctx, r, hex.EncodeToString(sum[:]), *signer, "sts", region, time.Now()); err != nil {
			return none, err
		}
	}
	text, err := c.call(r, name, func(body []byte) string {
		var refusal stsRefusal
		_ = xml.Unmarshal(body, &refusal) // what is none has no code
		return refusal.Code + ": " + refusal.Message
	})
	if err != nil {
		return none, err
	}
	var answer stsAnswer
	if err := xml.Unmarshal(text, &answer); err != nil {
		return none, fmt.Errorf("%s: %w", name, err)
	}
	got := answer.Assumed
	if signer == nil {
		got = answer.Identity
	}
	return usable(name, aws.Credentials{AccessKeyID: got.AccessKeyID, SecretAccessKey: got.SecretAccessKey, SessionToken: got.SessionToken, CanExpire: true, Expires: got.Expiration})
}

// usable refuses an answer without keys.
func usable(name string, got aws.Credentials) (aws.Credentials, error) {
	if !got.HasKeys() {
		return aws.Credentials{}, fmt.Errorf("%s: the answer has no credentials", name)
	}
	return got, nil
}
