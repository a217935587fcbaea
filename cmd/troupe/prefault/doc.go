// Package prefault maps the first pages of the heap at once, before the initialisers of
// every library that is linked ask for them one by one. It is imported for that alone, and
// imports next to nothing, so that it is initialised first: packages that are ready are
// taken in the order of their paths (https://go.dev/ref/spec#Program_initialization), and
// almost every other waits for a package behind it, such as unicode/utf8.
//
// Why and what it saves: docs/decisions/0015-pages-of-the-start.md.
package prefault
