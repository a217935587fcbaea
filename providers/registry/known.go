package registry

import (
	"cmp"
	"io/fs"

	"troupe/protocol"
	"troupe/providers"
)

// Known gives the models of a built-in catalogue, whether there is a key for them or
// not: those of one provider, or of all for "".
func Known(builtin fs.FS, provider string) []*protocol.Model {
	r := New(Config{Builtin: builtin})
	if provider != "" {
		return r.builtin(provider).models
	}
	var all []*protocol.Model
	for _, id := range r.providers() {
		if id != "scripted" && providers.VendorOf(id).Now == "" { // the first is there when nothing else is
			all = append(all, r.builtin(id).models...)
		}
	}
	return all
}

// KnownName is what a provider of a built-in catalogue is called, else its id.
func KnownName(builtin fs.FS, provider string) string {
	return cmp.Or(New(Config{Builtin: builtin}).builtin(provider).config.Name, provider)
}
