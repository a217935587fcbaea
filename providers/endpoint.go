package providers

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// IsLocal says whether a base URL is on this machine or in a private network,
// where servers usually ask for no key.
func IsLocal(baseURL string) bool {
	u, err := url.Parse(baseURL)
	if err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap()
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast() || ip.IsUnspecified()
	}
	return host != "" && (!strings.Contains(host, ".") ||
		strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local") ||
		strings.HasSuffix(host, ".internal") || strings.HasSuffix(host, ".lan"))
}

// IsLoopback says whether a host is this machine, whatever a resolver says of names.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// IsAzure says whether a base URL is an Azure resource, which wants its key in a
// header of its own.
func IsAzure(baseURL string) bool {
	u, err := url.Parse(baseURL)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	azure := []string{".openai.azure.com", ".cognitiveservices.azure.com", ".ai.azure.com"}
	return slices.ContainsFunc(azure, func(domain string) bool { return strings.HasSuffix(host, domain) })
}
