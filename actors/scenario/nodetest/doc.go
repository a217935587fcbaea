// Package nodetest runs several daemons as nodes of a cluster in fake time: an engine in memory, a
// network between the nodes that a test can cut, and clients that reach a session through any node.
package nodetest
