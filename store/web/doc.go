// Package web is the page that the daemon shows in a browser: sessions, a
// conversation while it goes on, questions, and what one says.
//
// It is served as it stands, without a build step: the scripts of this package
// and those with which package export draws entries, joined into one, so that a
// session looks the same live and exported; one style; the libraries of the
// exported page. Nothing is read, joined or compressed before the first request.
//
// The page talks to the daemon over the WebSocket that every client may use, in
// the same records as on stdio, and knows nothing that those do not say. Model
// text is hostile text: it becomes text nodes, or goes through Markdown and the
// sanitiser; [Policy] lets no other string become HTML, no foreign script run and
// no request leave for another host.
package web
