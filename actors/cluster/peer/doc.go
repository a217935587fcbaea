// Package peer is the wire between the nodes of a cluster: the lines of the protocol, byte
// for byte, over TLS 1.3 with certificates of the cluster's own authority on both sides.
//
// Each connection is one client's. The node that dials has let the client in, and says in the
// first line, peer_hello, who it is; the node that is dialled believes that of a certificate
// with the usage of a node, and of nothing else. Both say there which versions of the wire they
// know. Behind the hellos there is nothing but lines.
//
// How much is under way is bounded by the connection itself: who is not read from is not
// written to, and a connection has one client, so that nobody else waits.
package peer
