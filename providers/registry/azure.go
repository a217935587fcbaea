package registry

import (
	"net/url"
	"regexp"
	"strings"
	"sync"

	"troupe/protocol"
	"troupe/providers"
)

// azureAPI is the wire of models.json entries that are written for Azure.
const azureAPI = "azure-openai-responses"

// isAzureProvider says whether the AZURE_OPENAI variables are a provider's.
func isAzureProvider(provider string) bool {
	return provider == "azure-openai-responses" || provider == "azure"
}

// keyHeader is the header that a model's key goes into, "" for the one of its
// wire.
func keyHeader(model *protocol.Model) string {
	if header := providers.VendorOf(model.Provider).Header; header != "" {
		return header
	}
	if model.API == azureAPI || providers.IsAzure(model.BaseURL) && strings.HasPrefix(model.API, "openai-") {
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
	if path := strings.Trim(u.Path, "/"); providers.IsAzure(base) && (path == "" || path == "openai") {
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

var placeholder = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[A-Z][A-Z0-9_]*\}`) })

// fillURL puts variables into a base URL. missing is the first that is not set.
func fillURL(baseURL string, env func(string) string) (filled, missing string) {
	if !strings.Contains(baseURL, "{") {
		return baseURL, ""
	}
	filled = placeholder().ReplaceAllStringFunc(baseURL, func(match string) string {
		name := strings.Trim(match, "{}")
		value := env(name)
		if value == "" && name == "AZURE_OPENAI_BASE_URL" {
			if resource := env("AZURE_OPENAI_RESOURCE_NAME"); resource != "" {
				value = "https://" + resource + ".openai.azure.com"
			}
		}
		if value == "" && missing == "" {
			missing = name
		}
		return value
	})
	return filled, missing
}
