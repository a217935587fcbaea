// Package actortest is what tests of actors need around the actors: a client
// over a connection in memory that reads fast, slowly or not at all, models and
// tools that do what a text says, a disk that fails and dies, a probe, and a
// watch over dead letters and restarts.
//
// It does not import the actors, so that tests inside their package can use it.
// Everything works inside a bubble of testing/synctest and is meant to be made
// there: time is fake, nothing sleeps in earnest, and [Settle] returns when
// every mailbox is empty.
package actortest

import "testing/synctest"

// Settle waits until nothing moves without the passing of time: every mailbox
// is empty and every goroutine waits. Only in a bubble.
func Settle() { synctest.Wait() }
