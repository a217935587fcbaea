// Package export writes a session as one HTML file for people to read: the
// conversation, the tree of its branches, and what it cost.
//
// The file carries everything it needs. Go writes the entries into it as data
// and knows nothing of their looks; the scripts in page/ draw them in the
// browser, with the libraries in third_party/ for Markdown, highlighting and
// sanitising. Nothing is parsed or hashed before the first export, so that a
// program which links the package pays for none of it at start.
//
// # What a page may do
//
// Entries hold whatever a model, a tool or a repository came up with. Three
// walls keep that from acting in a reader's browser:
//
//   - The scripts build text nodes. Only Markdown becomes HTML, its raw HTML is
//     shown as text, and what is left passes the sanitiser.
//   - The browser refuses to turn any other string into HTML (Trusted Types).
//   - The content security policy names the hashes of the page's own scripts
//     and styles and allows nothing else but data: images. No request leaves
//     the page.
//
// # What a page tells
//
// All branches are in the file, and with them whatever secrets the output of
// tools contains.
package export
