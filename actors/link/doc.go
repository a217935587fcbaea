// Package link is what lies between a connection and the sessions, so that
// neither imports the other: the commands that a router sends, the records that
// a writer gets, the [Window] that bounds both, and how a session is asked for
// and let go.
package link
