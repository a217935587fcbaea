package providers

import "context"

// The clouds there are, as models.json names them in "auth".
const (
	CloudAWS    = "aws"
	CloudGoogle = "google"
	CloudEntra  = "entra"
	// CloudAnthropic is no cloud, but takes the identity that a machine has in one.
	CloudAnthropic = "anthropic"
)

// CloudNames lists the clouds.
var CloudNames = []string{CloudAWS, CloudGoogle, CloudEntra, CloudAnthropic}

// CloudSecrets are the variables with secrets of a cloud.
var CloudSecrets = map[string][]string{
	CloudAWS:   {"AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN"},
	CloudEntra: {"AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PASSWORD", "AZURE_PASSWORD", "IDENTITY_HEADER", "MSI_SECRET"},
}

// Cloud is where credentials come from that are more than a key: the profiles,
// machine identities and command line tools that people have set up for a cloud.
// env looks a variable up as the provider sees it, the variables of its entry
// in auth.json first. Implementations are safe for concurrent use.
type Cloud interface {
	// Found says whether env points at credentials. It asks nobody and runs
	// nothing: a profile that turns out to be empty was found all the same.
	Found(env func(string) string) bool
	// Address completes a base URL by what belongs to the account, as its region.
	// keyed says that the request goes with a key, which knows its account.
	Address(baseURL string, keyed bool, env func(string) string) (string, error)
	// Signer authenticates requests of the account that env names. It asks nobody
	// before the first request.
	Signer(env func(string) string) Signer
}

// Signer authenticates requests when they are sent, by the very bytes that go
// over the wire. Implementations are safe for concurrent use.
type Signer interface {
	// Sign returns the headers that authenticate a POST of body to url, by their
	// canonical names; the map is not to be changed. Getting them may take requests to
	// others, within some seconds. An
	// error that is no *protocol.StreamError counts as one of kind auth.
	Sign(ctx context.Context, url string, body []byte) (map[string]string, error)
	// Account tells accounts apart; it is the same for the same one, and not
	// secret.
	Account() string
	// Forget drops what is remembered after it was refused: the next request looks
	// for credentials again.
	Forget()
}
