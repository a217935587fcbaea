package providers

import (
	"net/url"
	"strings"

	"troupe/protocol"
)

// azureAPI is the wire of models.json entries that are written for Azure.
const azureAPI = "azure-openai-responses"

// isAzureProvider says whether the AZURE_OPENAI variables are a provider's.
func isAzureProvider(provider string) bool {
	return provider == "azure-openai-responses" || provider == "azure"
}

// IsAzure says whether a base URL is an Azure resource, which wants its key in a
// header of its own.
func IsAzure(baseURL string) bool {
	u, err := url.Parse(baseURL)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	for _, domain := range []string{".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"} {
		if strings.HasSuffix(host, domain) {
			return true
		}
	}
	return false
}

// keyHeader is the header that a model's key goes into, "" for the one of its
// wire.
func keyHeader(model *protocol.Model) string {
	if header := vendorOf(model.Provider).header; header != "" {
		return header
	}
	if model.API == azureAPI || IsAzure(model.BaseURL) && strings.HasPrefix(model.API, "openai-") {
		return "Api-Key"
	}
	return ""
}

// azureURL completes the address of an Azure resource: people copy it without
// the path of the API. version is that of AZURE_OPENAI_API_VERSION; v1 is the
// one in the path.
func azureURL(base, version string) string {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return base
	}
	if path := strings.Trim(u.Path, "/"); IsAzure(base) && (path == "" || path == "openai") {
		u.Path = "/openai/v1"
	}
	if query := u.Query(); version != "" && version != "v1" && query.Get("api-version") == "" {
		query.Set("api-version", version)
		u.RawQuery = query.Encode()
	}
	return u.String()
}

// deployment is the name that an Azure resource gave a model, "" for the
// model's own: AZURE_OPENAI_DEPLOYMENT_NAME_MAP is MODEL=NAME,MODEL=NAME.
func deployment(provider, model string, env func(string) string) string {
	if !isAzureProvider(provider) {
		return ""
	}
	for entry := range strings.SplitSeq(env("AZURE_OPENAI_DEPLOYMENT_NAME_MAP"), ",") {
		if id, name, found := strings.Cut(strings.TrimSpace(entry), "="); found && strings.TrimSpace(id) == model {
			return strings.TrimSpace(name)
		}
	}
	return ""
}
