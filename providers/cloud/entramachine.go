package cloud

import (
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"troupe/protocol/bounded"
)

// imdsAddress is the service of a virtual machine in Azure for it.
const imdsAddress = "http://169.254.169.254"

// imdsPassing are the answers of that service after which it is to be asked again.
var imdsPassing = []int{404, 410, 429, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511}

// arcAgent is there on machines that Azure Arc manages.
const arcAgent = "/opt/azcmagent/bin/himds"

// machine gets a token for the identity that a machine has in Azure, or another one that was
// assigned to it and that AZURE_CLIENT_ID names. The variables that the place sets say which
// service to ask; they are Microsoft's own, of
// https://learn.microsoft.com/entra/identity/managed-identities-azure-resources.
func (l *entraLogin) machine(ctx context.Context, scope string) (token, error) {
	endpoint, header, msi, id := l.env("IDENTITY_ENDPOINT"), l.env("IDENTITY_HEADER"), l.env("MSI_ENDPOINT"), l.env("AZURE_CLIENT_ID")
	query := url.Values{"resource": {resourceOf(scope)}}
	if id != "" {
		query.Set("client_id", id)
	}
	switch {
	case endpoint != "" && header != "" && l.env("IDENTITY_SERVER_THUMBPRINT") != "":
		return l.serviceFabric(ctx, query)
	case endpoint != "" && header != "": // App Service, Functions, Container Apps
		query.Set("api-version", "2019-08-01")
		return l.identity(ctx, entraRequest{method: "GET", address: endpoint, header: map[string]string{"X-IDENTITY-HEADER": header}}, query)
	case msi != "" && l.env("MSI_SECRET") != "": // Azure Machine Learning
		query.Del("client_id")
		query.Set("clientid", cmp.Or(id, l.env("DEFAULT_IDENTITY_CLIENT_ID")))
		query.Set("api-version", "2017-09-01")
		return l.identity(ctx, entraRequest{method: "GET", address: msi, header: map[string]string{"secret": l.env("MSI_SECRET")}}, query)
	case msi != "" && id != "":
		return token{}, absentf("Cloud Shell has no other identity than its user's, and AZURE_CLIENT_ID is set")
	case msi != "":
		return l.identity(ctx, entraRequest{method: "POST", address: msi, header: map[string]string{"Metadata": "true"}, form: query}, nil)
	case endpoint != "" && l.env("IMDS_ENDPOINT") != "", isThere(arcAgent):
		return l.arc(ctx, cmp.Or(endpoint, "http://127.0.0.1:40342/metadata/identity/oauth2/token"), query)
	}
	return l.virtualMachine(ctx, query)
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// resourceOf is what older services call a scope.
func resourceOf(scope string) string { return strings.TrimSuffix(scope, "/.default") }

// identity asks a service of the machine for a token.
func (l *entraLogin) identity(ctx context.Context, r entraRequest, query url.Values) (token, error) {
	a, err := l.askIdentity(ctx, r, query)
	if err != nil {
		return token{}, err
	}
	if !a.isToken() {
		return token{}, a.refusal()
	}
	return a.token()
}

// isToken says whether an answer should have a token.
func (a entraAnswer) isToken() bool {
	return a.status == http.StatusOK || a.status == http.StatusAccepted
}

// askIdentity asks with what is added to the query of the service's address.
func (l *entraLogin) askIdentity(ctx context.Context, r entraRequest, query url.Values) (entraAnswer, error) {
	u, err := url.Parse(r.address)
	if err != nil {
		return entraAnswer{}, err
	}
	if query != nil {
		all := u.Query()
		for name, values := range query {
			all[name] = values
		}
		u.RawQuery = all.Encode()
	}
	r.address = u.String()
	return l.ask(ctx, r)
}

// virtualMachine asks the metadata service. On a laptop nobody answers there, and a prompt must
// not wait for it: whether anybody is there is tried first, but where no other source counts.
func (l *entraLogin) virtualMachine(ctx context.Context, query url.Values) (token, error) {
	const address = imdsAddress + "/metadata/identity/oauth2/token"
	if !strings.EqualFold(l.env("AZURE_TOKEN_CREDENTIALS"), managedIdentity) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := l.ask(ctx, entraRequest{method: "GET", address: address, once: true}); err != nil {
			return token{}, absentf("this is no virtual machine in Azure: %v", err)
		}
	}
	assigned := query.Has("client_id")
	query.Set("api-version", "2018-02-01")
	a, err := l.askIdentity(ctx, entraRequest{method: "GET", address: address, header: map[string]string{"Metadata": "true"}, passing: imdsPassing}, query)
	switch {
	case err != nil:
		return token{}, err
	case a.isToken():
		got, err := a.token()
		if err != nil { // something else listens there, as a proxy
			return token{}, absent{err}
		}
		return got, nil
	case a.status == http.StatusBadRequest && assigned:
		return token{}, fmt.Errorf("the identity that AZURE_CLIENT_ID names is not assigned to this machine: %w", a.refusal())
	case a.status == http.StatusBadRequest:
		return token{}, absentf("this machine has no identity: %w", a.refusal())
	case a.status == http.StatusForbidden && strings.Contains(a.text, "unreachable"): // Docker Desktop's proxy
		return token{}, absentf("there is no metadata service: %w", a.refusal())
	}
	return token{}, a.refusal()
}

// arc asks the agent of Azure Arc, which wants to see that we may read a file of its.
func (l *entraLogin) arc(ctx context.Context, endpoint string, query url.Values) (token, error) {
	query.Set("api-version", "2020-06-01")
	header := map[string]string{"Metadata": "true"}
	r := entraRequest{method: "GET", address: endpoint, header: header}
	a, err := l.askIdentity(ctx, r, query)
	switch {
	case err != nil:
		return token{}, err
	case a.status != http.StatusUnauthorized:
		return token{}, fmt.Errorf("the agent of Azure Arc did not ask for its key, but: %w", a.refusal())
	}
	_, file, found := strings.Cut(a.header.Get("Www-Authenticate"), "Basic realm=")
	if !found || filepath.Ext(file) != ".key" || filepath.Dir(file) != l.arcKeys {
		return token{}, fmt.Errorf("the agent of Azure Arc names no key in %s", l.arcKeys)
	}
	key, err := bounded.ReadFile(file, 4096)
	if err != nil {
		return token{}, fmt.Errorf("the key of the agent of Azure Arc, %s: %w", file, err)
	}
	header["Authorization"] = "Basic " + string(key)
	a, err = l.askIdentity(ctx, r, query)
	switch {
	case err != nil:
		return token{}, err
	case !a.isToken():
		return token{}, errors.New(l.mask(a.refusal().Error(), string(key)))
	case query.Has("client_id") && !strings.EqualFold(a.said.Get("client_id").Str, query.Get("client_id")):
		return token{}, errors.New("the agent of Azure Arc gave the token of another identity than AZURE_CLIENT_ID names")
	}
	return a.token()
}

// serviceFabric asks the service of a cluster of Service Fabric, whose certificate nobody has
// signed but whose hash is known.
func (l *entraLogin) serviceFabric(ctx context.Context, query url.Values) (token, error) {
	endpoint := l.env("IDENTITY_ENDPOINT")
	mark := strings.NewReplacer(":", "", " ", "", "\t", "", "\n", "", "\r", "").Replace(l.env("IDENTITY_SERVER_THUMBPRINT"))
	want, err := hex.DecodeString(mark)
	u, wrong := url.Parse(endpoint)
	network, is := l.client.Transport.(*http.Transport)
	switch {
	case query.Has("client_id"):
		return token{}, absentf("Service Fabric says itself which identity it is, and AZURE_CLIENT_ID is set")
	case wrong != nil || u.Scheme != "https" || u.Host == "":
		return token{}, absentf("IDENTITY_ENDPOINT of Service Fabric is not an https address")
	case err != nil || len(want) != sha1.Size:
		return token{}, absentf("IDENTITY_SERVER_THUMBPRINT is not the SHA-1 of a certificate")
	case !is:
		return token{}, absentf("there is no way to look at the certificate of Service Fabric")
	}
	network = network.Clone()
	defer network.CloseIdleConnections()
	network.TLSNextProto = nil // its connections are its own
	trust := network.TLSClientConfig.Clone()
	if trust == nil {
		trust = &tls.Config{}
	}
	trust.InsecureSkipVerify = true
	trust.VerifyConnection = func(c tls.ConnectionState) error {
		if len(c.PeerCertificates) > 0 {
			if sum := sha1.Sum(c.PeerCertificates[0].Raw); subtle.ConstantTimeCompare(sum[:], want) == 1 {
				return nil
			}
		}
		return errors.New("the certificate is not the one of IDENTITY_SERVER_THUMBPRINT")
	}
	network.TLSClientConfig = trust
	client := *l.client
	client.Transport = network
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	query.Set("api-version", "2019-07-01-preview")
	return l.identity(ctx, entraRequest{method: "GET", address: endpoint, header: map[string]string{"Secret": l.env("IDENTITY_HEADER")}, client: &client}, query)
}
