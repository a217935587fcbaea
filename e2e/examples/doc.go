// Package examples runs the examples of the documents as a reader would: in one
// shell for each page, in an empty home directory, and compares what they print
// with what the page shows.
//
// In a page,
//
//   - a block sh is run; the block text that follows it is its output. A block
//     without output has to be silent. It keeps running while the following
//     blocks are run if it starts a server, or if the text before it ends with
//     "leave it running:".
//   - a block python or bash is run as a program; the block text that follows it
//     is its output.
//   - a block that comes after "Save as `PATH`:" is written to that file.
//
// What a block writes to stderr is compared before what it writes to stdout, as
// two streams have no order.
//
// In pasted output a line "…" stands for any lines, "…" within a line for any
// text. Times, dates, ids, ports and directories are compared by their form.
//
// Requests to Anthropic, and to a model server on port 11434, go to a local
// server that replays testdata.
package examples
