// Package e2e tests the built binary from outside: over pipes, with a fake model
// server on loopback, real files and real processes.
//
//   - testdata/*.txtar are stories: what a client writes and what it must read.
//   - testdata/traces are recordings of real pi and oh-my-pi, replayed against troupe.
//   - The other tests are about what no transcript shows: exit codes, signals,
//     files, children, other people's clients.
package e2e
