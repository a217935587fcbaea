// Package web contains the page of troupe serve: sessions, a conversation with its tool calls,
// questions, and the composer.
//
// There is no build step. The scripts of this package and the renderers of package export are
// joined into one script, so that a session looks the same on the page and in an export. The page
// has one style and the libraries of exported pages. Files are read, joined and compressed on the
// first request.
//
// The page is a client like any other: it uses the WebSocket and the records of the protocol. Text
// of models is not trusted. It becomes text nodes, or HTML by way of Markdown and the sanitiser.
// [Policy] forbids HTML from other strings, scripts from elsewhere, and requests to other hosts.
package web
