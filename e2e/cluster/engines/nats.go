package engines

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Nats is some NATS servers that are one JetStream.
type Nats struct {
	Servers []*NatsServer
	Links   map[[2]int]*Proxy // the way that the first takes to the second
}

// NatsServer is one of them.
type NatsServer struct {
	Process
	Store string // its store
	Port  int
	Front *Proxy // what clients reach it by; nil if nothing is between
	Addr  string // the same, as an address
}

// NatsOptions say how servers are.
type NatsOptions struct {
	Binary string                     // of nats-server
	Dir    string                     // where each has a directory of its name
	N      int                        // how many
	Sync   string                     // sync_interval; "" for always
	Store  func(i int) string         // the directory of a server's store; nil for one in Dir
	Prefix string                     // of their names; "" for e
	Adjust func(config string) string // what else of the configuration is to be otherwise; nil for nothing
	Direct bool                       // no way can be cut: nothing is between servers, nor between them and clients
}

// way is how a port is reached, and the proxy that is between.
func (o NatsOptions) way(port int) (*Proxy, string, error) {
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	if o.Direct {
		return nil, addr, nil
	}
	p, err := NewProxy(addr)
	if err != nil {
		return nil, "", err
	}
	return p, p.Addr(), nil
}

// StartNats starts servers that find each other by ways that can be cut. It returns before they
// have a leader.
func StartNats(opt NatsOptions) (*Nats, error) {
	if opt.Sync == "" {
		opt.Sync = "always"
	}
	if opt.Prefix == "" {
		opt.Prefix = "e"
	}
	n := &Nats{Links: map[[2]int]*Proxy{}}
	ways := make([][]string, opt.N) // of each server to the others
	var routes []int
	for range opt.N {
		routes = append(routes, Free())
	}
	for i := range opt.N {
		for j := range opt.N {
			if i == j {
				continue
			}
			p, addr, err := opt.way(routes[j])
			if err != nil {
				return n, err
			}
			ways[i] = append(ways[i], "nats://"+addr)
			if p != nil {
				n.Links[[2]int{i, j}] = p
			}
		}
	}
	for i := range opt.N {
		name := fmt.Sprintf("%s%d", opt.Prefix, i+1)
		dir := filepath.Join(opt.Dir, name)
		store := dir
		if opt.Store != nil {
			store = opt.Store(i)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return n, err
		}
		s := &NatsServer{Store: store, Port: Free()}
		var err error
		if s.Front, s.Addr, err = opt.way(s.Port); err != nil {
			return n, err
		}
		// Where others hear of a server by gossip nobody listens: all ways are those that can be cut.
		config := fmt.Sprintf(`server_name: %s
listen: 127.0.0.1:%d
client_advertise: "%s"
max_payload: 8MB
jetstream { store_dir: %q, sync_interval: %s, max_file_store: 8GB, max_memory_store: 64MB }
accounts {
  APP { jetstream: enabled, users: [ { user: troupe, password: troupe } ] }
  SYS { users: [ { user: sys, password: sys } ] }
}
system_account: SYS
`, name, s.Port, s.Addr, store, opt.Sync)
		if opt.N > 1 {
			config += fmt.Sprintf("cluster { name: troupe, no_advertise: true, listen: 127.0.0.1:%d, advertise: \"127.0.0.1:9\", routes: [ %s ] }\n", routes[i], strings.Join(ways[i], ", "))
		}
		if opt.Adjust != nil {
			config = opt.Adjust(config)
		}
		if err := os.WriteFile(filepath.Join(dir, "server.conf"), []byte(config), 0o600); err != nil {
			return n, err
		}
		s.Process = Process{Name: name, Dir: dir, Args: []string{opt.Binary, "-c", "server.conf"}}
		n.Servers = append(n.Servers, s)
	}
	for _, s := range n.Servers {
		if err := s.Start(); err != nil {
			return n, err
		}
	}
	return n, nil
}

// URL is where clients reach the servers, in order from one of them on.
func (n *Nats) URL(first int) string { return n.url("troupe:troupe", first) }

// System is the same for a user of the system account.
func (n *Nats) System() string { return n.url("sys:sys", 0) }

func (n *Nats) url(user string, first int) string {
	var urls []string
	for i := range n.Servers {
		urls = append(urls, n.Servers[(first+i)%len(n.Servers)].Addr)
	}
	return "nats://" + user + "@" + strings.Join(urls, ",") // as the manual writes it
}

// Listening waits until all servers take connections.
func (n *Nats) Listening(ctx context.Context) error {
	for _, s := range n.Servers {
		if err := Until(ctx, s.Name, func() bool {
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port))
			if err == nil {
				_ = c.Close()
			}
			return err == nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Close kills all of them.
func (n *Nats) Close() {
	for _, s := range n.Servers {
		s.Kill()
		if s.Front != nil {
			s.Front.Close()
		}
	}
	for _, p := range n.Links {
		p.Close()
	}
}
