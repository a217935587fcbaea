package peer_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
	"troupe/actors/cluster/peer"
)

// authority is a directory with the authority of a new cluster.
func authority(t *testing.T) string {
	dir := t.TempDir()
	made, err := peer.NewAuthority(dir)
	require.NoError(t, err)
	require.True(t, made)
	return dir
}

// side is the end of a node with new keys.
func side(t *testing.T, authority, node string) *peer.Side {
	dir := t.TempDir()
	require.NoError(t, peer.NewNode(authority, dir, node))
	keys, err := peer.Load(dir)
	require.NoError(t, err)
	return peer.NewSide(keys, "test")
}

// accepted is what a node made of a connection.
type accepted struct {
	c   *peer.Conn
	who cluster.Identity
	err error
}

// listen takes connections for a node.
func listen(t *testing.T, s *peer.Side) (cluster.Node, <-chan accepted) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	took := make(chan accepted, 10)
	go func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			c, who, err := s.Accept(raw)
			took <- accepted{c, who, err}
		}
	}()
	return cluster.Node{Name: s.Keys.Node, Addr: l.Addr().String()}, took
}

// TestWire: who the client is arrives, and lines go both ways as they are, many at once and
// longer ones than any buffer.
func TestWire(t *testing.T) {
	ca := authority(t)
	a, b := side(t, ca, "a"), side(t, ca, "b")
	to, took := listen(t, b)
	who := cluster.Identity{ClientID: "client-1", Device: "phone", Confined: true, Retain: true, Lossy: true}
	c, err := a.Dial(t.Context(), to, who)
	require.NoError(t, err)
	other := <-took
	require.NoError(t, other.err)
	assert.Equal(t, who, other.who)
	assert.Equal(t, "a", other.c.Node)
	assert.Equal(t, 1, other.c.Version)

	require.NoError(t, c.Write([]byte("{\"a\":1}\r\n\nsecond\n")))
	got := make([]byte, 17)
	_, err = io.ReadFull(other.c, got)
	require.NoError(t, err)
	assert.Equal(t, "{\"a\":1}\r\n\nsecond\n", string(got))

	said := []byte("one\ntwo\n" + strings.Repeat("x", 1<<20) + "\nlast\n")
	go func() {
		for _, part := range bytes.SplitAfter(said, []byte("xxxxx")) {
			_, _ = other.c.Write(part)
		}
		_ = other.c.CloseWrite()
	}()
	var heard []byte
	for {
		lines, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Equal(t, byte('\n'), lines[len(lines)-1])
		heard = append(heard, lines...)
	}
	assert.Equal(t, said, heard)
	require.NoError(t, c.CloseWrite())
	_, err = other.c.Read(got)
	assert.ErrorIs(t, err, io.EOF, "the end of one way is not that of the other")
}

// TestHalfALine: a line that is cut is no line.
func TestHalfALine(t *testing.T) {
	ca := authority(t)
	a, b := side(t, ca, "a"), side(t, ca, "b")
	to, took := listen(t, b)
	c, err := a.Dial(t.Context(), to, cluster.Identity{})
	require.NoError(t, err)
	other := <-took
	_, err = other.c.Write([]byte("whole\nhal"))
	require.NoError(t, err)
	require.NoError(t, other.c.CloseWrite())
	lines, err := c.Read()
	require.NoError(t, err)
	assert.Equal(t, "whole\n", string(lines))
	_, err = c.Read()
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// TestStrangers (A1): who is of another cluster, has no certificate of a node, none at all, or
// that of another node, is refused, and hears nothing.
func TestStrangers(t *testing.T) {
	ca := authority(t)
	b := side(t, ca, "b")
	to, took := listen(t, b)
	refused := func(name string, s *peer.Side, to cluster.Node) {
		t.Run(name, func(t *testing.T) {
			c, err := s.Dial(t.Context(), to, cluster.Identity{ClientID: "mallory-1"})
			require.Error(t, err)
			assert.Nil(t, c)
			assert.ErrorIs(t, err, cluster.ErrRefused)
			other := <-took
			assert.Error(t, other.err)
			assert.Zero(t, other.who)
		})
	}
	refused("another cluster", side(t, authority(t), "a"), to)
	refused("another node answers", side(t, ca, "a"), cluster.Node{Name: "c", Addr: to.Addr})

	raw := func(name string, cfg *tls.Config) {
		t.Run(name, func(t *testing.T) {
			cfg.InsecureSkipVerify = true
			c, err := tls.Dial("tcp", to.Addr, cfg)
			if err == nil {
				_, _ = c.Write([]byte(`{"type":"peer_hello","versions":[1,1],"node":"a","client":{}}` + "\n"))
				said, _ := io.ReadAll(c)
				assert.Empty(t, said)
			}
			assert.Error(t, (<-took).err)
		})
	}
	own := selfSigned(t, ca)
	raw("no certificate", &tls.Config{NextProtos: []string{peer.Protocol}})
	raw("a client's certificate of the same authority", &tls.Config{NextProtos: []string{peer.Protocol}, Certificates: []tls.Certificate{own}})
	raw("another protocol", &tls.Config{NextProtos: []string{"h2"}, Certificates: []tls.Certificate{own}})
	raw("an old TLS", &tls.Config{NextProtos: []string{peer.Protocol}, MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}})
}

// selfSigned is a certificate of the authority for somebody who is no node.
func selfSigned(t *testing.T, ca string) tls.Certificate {
	pair, err := tls.LoadX509KeyPair(filepath.Join(ca, peer.CAFile), filepath.Join(ca, peer.CAKeyFile))
	require.NoError(t, err)
	parent, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "a"}, DNSNames: []string{"a"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, parent, key.Public(), pair.PrivateKey)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestVersions (U1): nodes speak the highest version of the wire that both know, and say so
// where they have none in common.
func TestVersions(t *testing.T) {
	ca := authority(t)
	for _, tt := range []struct {
		ours, theirs [2]int
		spoken       int // 0 for none
	}{
		{[2]int{1, 1}, [2]int{1, 3}, 1},
		{[2]int{1, 3}, [2]int{1, 1}, 1},
		{[2]int{1, 3}, [2]int{2, 4}, 3},
		{[2]int{1, 1}, [2]int{2, 3}, 0},
		{[2]int{2, 3}, [2]int{1, 1}, 0},
	} {
		t.Run(fmt.Sprint(tt.ours, tt.theirs), func(t *testing.T) {
			a, b := side(t, ca, "a"), side(t, ca, "b")
			a.Versions, b.Versions = tt.ours, tt.theirs
			to, took := listen(t, b)
			c, err := a.Dial(t.Context(), to, cluster.Identity{})
			other := <-took
			if tt.spoken == 0 {
				assert.ErrorIs(t, err, cluster.ErrUpgrade)
				assert.ErrorIs(t, other.err, cluster.ErrUpgrade)
				return
			}
			require.NoError(t, err)
			require.NoError(t, other.err)
			assert.Equal(t, tt.spoken, other.c.Version)
			require.NoError(t, c.Close())
		})
	}
}

// TestUnreachable: who does not answer is told apart from who refuses.
func TestUnreachable(t *testing.T) {
	a := side(t, authority(t), "a")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	silent := cluster.Node{Name: "b", Addr: l.Addr().String()}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = a.Dial(ctx, silent, cluster.Identity{})
	assert.ErrorIs(t, err, cluster.ErrUnreachable)
	require.NoError(t, l.Close())
	_, err = a.Dial(t.Context(), silent, cluster.Identity{})
	assert.ErrorIs(t, err, cluster.ErrRefused)
}

// TestKeys: keys that others can read, and certificates that are no node's, are no keys.
func TestKeys(t *testing.T) {
	ca := authority(t)
	made, err := peer.NewAuthority(ca)
	require.NoError(t, err)
	assert.False(t, made, "one that is there is left alone")
	dir := t.TempDir()
	require.NoError(t, peer.NewNode(ca, dir, "w7"))
	keys, err := peer.Load(dir)
	require.NoError(t, err)
	assert.Equal(t, "w7", keys.Node)
	require.NoError(t, os.Chmod(filepath.Join(dir, peer.KeyFile), 0o640))
	_, err = peer.Load(dir)
	assert.ErrorContains(t, err, "can be read by others")
	require.NoError(t, os.Chmod(filepath.Join(dir, peer.KeyFile), 0o600))
	other, err := os.ReadFile(filepath.Join(authority(t), peer.CAFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, peer.CAFile), other, 0o600))
	_, err = peer.Load(dir)
	assert.Error(t, err)
	assert.Error(t, peer.NewNode(ca, dir, "w7.*"), "a name is a part of a subject")
	_, err = peer.NewAuthority(dir)
	assert.ErrorContains(t, err, "has the keys of a node")
	kept, err := os.ReadFile(filepath.Join(dir, peer.CAFile))
	require.NoError(t, err)
	assert.Equal(t, other, kept)
}
