package cloud

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// awsPartition is a part of AWS with domains of its own.
type awsPartition struct {
	region       string // how its regions begin
	domain, dual string // of services by IPv4, and by both protocols
	signin       string // of `aws login`, behind the region
}

// awsPartitions is from partitions.json and the rules of service/signin of the SDK. The last is
// that of every other region.
var awsPartitions = []awsPartition{
	{"cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn", "signin.amazonaws.cn"},
	{"eusc-", "amazonaws.eu", "api.amazonwebservices.eu", "signin.amazonaws-eusc.eu"},
	{"us-iso-", "c2s.ic.gov", "api.aws.ic.gov", "signin.c2shome.ic.gov"},
	{"us-isob-", "sc2s.sgov.gov", "api.aws.scloud", "signin.sc2shome.sgov.gov"},
	{"us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov", "signin.csphome.hci.ic.gov"},
	{"eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk", "signin.csphome.adc-e.uk"},
	{"us-gov-", "amazonaws.com", "api.aws", "signin.amazonaws-us-gov.com"},
	{"", "amazonaws.com", "api.aws", "signin.aws.amazon.com"},
}

// awsService is a service that is asked for credentials.
type awsService struct {
	name string // in its host
	id   string // in settings
}

var (
	stsService    = awsService{"sts", "sts"}
	ssoService    = awsService{"portal.sso", "sso"}
	oidcService   = awsService{"oidc", "sso_oidc"}
	signinService = awsService{"signin", "signin"}
)

// stsGlobal is the endpoint of STS in no region, which is in the usual one.
const stsGlobal = "https://sts.amazonaws.com"

// endpoint is the URL of a service in a region: a configured one, or that of AWS.
func (c *awsConfig) endpoint(s awsService, region string) (string, error) {
	if region != "" && !isRegion().MatchString(region) {
		return "", fmt.Errorf("invalid input region %.40s", region)
	}
	switch own := c.ownEndpoint(s); {
	case own != "" && (c.fips || c.dual):
		return "", errors.New("FIPS or dualstack endpoints and a custom endpoint are not supported together")
	case own != "":
		return own, nil
	case region == "":
		return "", errors.New("missing region: set AWS_REGION, or region in the profile")
	case s == stsService && region == "aws-global" && !c.fips && !c.dual:
		return stsGlobal, nil
	}
	p := awsPartitions[0]
	for _, p = range awsPartitions {
		if strings.HasPrefix(region, p.region) {
			break
		}
	}
	name, domain := s.name, p.domain
	government := p.region == "us-gov-"
	switch {
	case s == signinService && !c.dual && !c.fips:
		return "https://" + region + "." + p.signin, nil
	case s == signinService && !c.dual && region == "us-gov-west-1":
		return "https://signin-fips.amazonaws-us-gov.com", nil
	case s == signinService && !c.dual && government:
		return "https://" + region + ".signin-fips.amazonaws-us-gov.com", nil
	case c.dual:
		domain = p.dual
	}
	if c.fips && (c.dual || !government || s == signinService) {
		name += "-fips"
	}
	return "https://" + name + "." + region + "." + domain, nil
}

// ownEndpoint is the configured URL of a service. AWS_ENDPOINT_URL and endpoint_url of a profile
// are for the services that are used, not for those that give credentials: where the SDK asks
// for these it has not read them yet.
func (c *awsConfig) ownEndpoint(s awsService) string {
	if c.ignoreEndpoint {
		return ""
	}
	own, set := os.LookupEnv("AWS_ENDPOINT_URL_" + strings.ToUpper(s.id))
	if _, general := os.LookupEnv("AWS_ENDPOINT_URL"); general && !set {
		return ""
	}
	return cmp.Or(own, c.profile.services[s.id]["endpoint_url"])
}

// maxAWS bounds an answer of a service.
const maxAWS = 1 << 20

// call sends a request to a service and reads its answer. name is that of the operation.
func (c *awsConfig) call(r *http.Request, name string, why func(body []byte) string) ([]byte, error) {
	r.Header.Set("User-Agent", "troupe")
	resp, err := c.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAWS))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP %d, %.400s", resp.StatusCode, strings.TrimSpace(why(body)))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return body, nil
}

// post makes a request with a body.
func post(ctx context.Context, address, kind string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err == nil {
		r.Header.Set("Content-Type", kind)
	}
	return r, err
}
