// Package e2e tests the built binary from outside: over pipes, with a fake model
// server on loopback, real files and real processes.
//
//   - testdata/scripts are stories, one for each command: what a client writes and
//     what it must read.
//   - testdata/traces are recordings of real pi and oh-my-pi, replayed against troupe.
//   - testdata/shapes are the keys of every record of five versions of pi; what
//     ours lacks of them is found by TestShapes. Package shape records them.
//   - The other tests are about what no transcript shows: exit codes, signals,
//     files, children, other people's clients.
package e2e
