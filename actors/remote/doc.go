// Package remote lets clients reach a daemon from outside: over a socket of the
// file system, and over TCP from browsers and programs.
//
// A client from there is one more connection: it says and hears the same lines as
// one on stdio, through the same reader, router and writer. What is added is who
// may connect. The socket is for processes of the same user, whose uid the kernel
// tells. TCP is for whoever has a credential: the token of the file serve.token,
// or that of a device that has traded in a one-time code. See [Server] for the
// paths, and docs/security.md for what each rule is against.
//
// A network client never holds a session back: see conn.Config.Lag.
package remote
