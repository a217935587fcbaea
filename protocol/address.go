package protocol

import (
	"encoding/json"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"sync"
)

// hiddenText stands for a secret in an address.
const hiddenText = "***"

// plainParams are parameters of addresses that are shown: they select a version or a place.
var plainParams = []string{"api-version", "version", "region", "location"}

// addressUser matches the user and password of an address, also of one that cannot be parsed.
var addressUser = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(//)[^/?#\s"'\\]*@`) })

// ShownAddress is an address as clients and logs see it: without user, password and the values of parameters, which may be keys.
func ShownAddress(address string) string {
	address = addressUser().ReplaceAllString(address, "${1}"+hiddenText+"@")
	head, query, has := strings.Cut(address, "?")
	if !has {
		return address
	}
	query, fragment, hasFragment := strings.Cut(query, "#")
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if value != "" && !isPlainParam(name) {
			pairs[i] = name + "=" + hiddenText
		}
	}
	if address = head + "?" + strings.Join(pairs, "&"); hasFragment {
		address += "#" + fragment
	}
	return address
}

func isPlainParam(name string) bool {
	name, _ = url.QueryUnescape(name)
	for _, plain := range plainParams {
		if strings.EqualFold(name, plain) {
			return true
		}
	}
	return false
}

// shownModel is a model without the methods that encode it.
type shownModel Model

// AppendJSON implements [Appender]. The address is that of [ShownAddress].
func (m Model) AppendJSON(dst []byte) []byte {
	shown := shownModel(m)
	shown.BaseURL = ShownAddress(m.BaseURL)
	v := reflect.ValueOf(shown)
	return formOf(v.Type()).append(dst, v, DialectUnion)
}

// MarshalJSON implements [json.Marshaler], likewise.
func (m Model) MarshalJSON() ([]byte, error) { return m.AppendJSON(nil), nil }

var _ json.Marshaler = Model{}
