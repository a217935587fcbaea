// Package catalog is the list of models that are known without any
// configuration, as data: one file per provider, named after it, in the form
// that a provider has in models.json (see [troupe/providers/registry.Registry]).
// Prices are US dollars per million tokens.
//
// Every file but scripted.json is written by the generate command below this
// directory from data of pi that is published under the MIT license. The member
// source of a file names the package, its version, license and date. To change
// what is said about a provider, change the command and run it again. Providers
// that are left out are named in docs/decisions/0020-catalogue.md.
//
// A base URL may contain {NAME}, which stands for an environment variable.
package catalog

import "embed"

// FS holds PROVIDER.json for every provider.
//
//go:embed *.json
var FS embed.FS
