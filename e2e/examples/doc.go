// Package examples runs the examples of the documentation as a reader would, with one shell and an
// empty home directory per page. It compares their output with the output shown on the page.
//
// In a page,
//
//   - a block sh is run, and the block text that follows it is its output. A block
//     without output must print nothing. It keeps running while the following
//     blocks are run if it starts a server, or if the text before it ends with
//     "leave it running:".
//   - a block python or bash is run as a program, and the block text that follows it
//     is its output.
//   - a block that comes after "Save as `PATH`:" is written to that file.
//
// The stderr of a block is compared before its stdout, as two streams have no common order.
//
// In pasted output a line "…" stands for any lines, "…" within a line for any text. Times, dates,
// ids, ports and directories are compared by their form.
//
// Requests to Anthropic, and to a model server on port 11434, go to a local server that replays
// testdata.
package examples
