package remote

import (
	"errors"
	"fmt"
	"net"
	"time"

	"troupe/actors/cluster"
	"troupe/actors/cluster/peer"
	"troupe/actors/conn"
)

// ServePeers takes clients that other nodes of the cluster lead here.
func (s *Server) ServePeers(l net.Listener, side *peer.Side) {
	s.beside(func() { s.accept(l, func(c net.Conn) { s.takePeer(c, side) }) })
}

// accept takes connections until a listener is closed.
func (s *Server) accept(l net.Listener, take func(net.Conn)) {
	for wait := time.Millisecond; ; {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no descriptor is left, for one
			s.Log.Warn().Err(err).Msg("client rejected")
			time.Sleep(wait)
			wait = min(2*wait, time.Second)
			continue
		}
		wait = time.Millisecond
		s.beside(func() { take(c) })
	}
}

// peerClient is a client that another node leads here.
type peerClient struct {
	*peer.Conn
	name string
}

func (c *peerClient) String() string { return c.name }

// Close does not wait for a goodbye of who may not read.
func (c *peerClient) Close() error {
	_ = c.SetWriteDeadline(time.Now().Add(goodbyeTime))
	return c.Conn.Close()
}

func (s *Server) takePeer(raw net.Conn, side *peer.Side) {
	c, who, err := side.Accept(raw)
	if err != nil {
		s.Log.Warn().Err(err).Stringer("peer", raw.RemoteAddr()).Msg("node rejected")
		return
	}
	if !s.enter() {
		s.Log.Warn().Str("node", c.Node).Msg("client rejected: too many connections")
		_ = c.Close()
		return
	}
	defer s.leave()
	name := "node " + c.Node
	if who.ClientID != "" || who.Device != "" {
		name = fmt.Sprintf("node %s, client %s, device %s", c.Node, who.ClientID, who.Device)
	}
	s.Log.Info().Str("client", name).Msg("connected")
	client := &peerClient{c, name}
	s.led(client, true)
	s.run(s.behindNode(who), client)
	s.led(client, false)
	s.Log.Info().Str("client", name).Msg("disconnected")
}

// led notes that a node leads a client here, or does no more.
func (s *Server) led(c *peerClient, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is {
		s.peers[c] = true
	} else {
		delete(s.peers, c)
	}
}

// LosePeer ends the connections of a node that was found to be dead. One that stands still, or is cut off without a word, does not
// read: sessions would wait for it, and their other clients with them. If it goes on it connects again.
func (s *Server) LosePeer(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.peers {
		if c.Node == node {
			s.beside(func() { _ = c.Close() })
		}
	}
}

// behindNode is the configuration of a client that another node has let in.
func (s *Server) behindNode(who cluster.Identity) conn.Config {
	cfg := s.Network
	cfg.MultiSession, cfg.Peer, cfg.Final, cfg.Single = true, true, false, false
	cfg.ViewOnly, cfg.Retain, cfg.Drain, cfg.Device = who.ViewOnly, who.Retain, who.Drain, who.Device
	cfg.Logins = conn.LoginsNone
	if !who.Confined {
		cfg.Allowed = nil
	}
	cfg.Lag = 0
	if who.Lossy {
		cfg.Lag, cfg.MaxOutput = clientLag, clientOutput
	}
	return cfg
}
