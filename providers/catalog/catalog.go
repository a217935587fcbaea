// Package catalog is the list of models that are known without any
// configuration, as data: one file per provider, named after it, in the form
// that a provider has in models.json (see [troupe/providers/registry.Registry]). The
// files are the source. To add a model, add a line; prices are US dollars per
// million tokens.
//
// A base URL may contain {NAME}, which stands for an environment variable. Only
// models that one of the wires can serve are listed, through the address where
// that wire is spoken.
package catalog

import "embed"

// FS holds PROVIDER.json for every provider.
//
//go:embed *.json
var FS embed.FS
