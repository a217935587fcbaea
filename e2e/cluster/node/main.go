// Command node is a node of a cluster as small as can be, in a process of its own: its
// sessions are lists of commands. It takes commands as lines of JSON over TCP, from clients and from
// other nodes, and writes what it does into a file of effects.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"troupe/actors/cluster"
	"troupe/actors/cluster/clustertest"
	"troupe/actors/cluster/jetstream"
	"troupe/actors/cluster/postgres"
	"troupe/e2e/cluster/engines"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

func run() error {
	name := flag.String("name", "", "of the node")
	listen := flag.String("listen", "", "where it takes commands")
	engine := flag.String("engine", "", "nats:// or postgres:// addresses")
	peers := flag.String("peers", "", "name=address of the others, with commas between")
	file := flag.String("effects", "", "where effects are written")
	greedy := flag.Bool("greedy", false, "claims whatever it is asked for")
	flag.Parse()
	addresses := map[string]string{}
	for _, p := range strings.Split(*peers, ",") {
		if name, addr, ok := strings.Cut(p, "="); ok {
			addresses[name] = addr
		}
	}
	effects, err := os.OpenFile(*file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := open(ctx, *engine)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	host := clustertest.NewHost(context.Background(), clustertest.HostConfig{
		Node: cluster.Node{Name: *name, Boot: rand.Text(), Addr: *listen}, Engine: e, Greedy: *greedy,
		Relay: func(ctx context.Context, to cluster.Node, c clustertest.Command) (clustertest.Answer, error) {
			return engines.Ask(ctx, addresses[to.Name], c)
		},
		Effect: func(e clustertest.Effect) {
			line, _ := json.Marshal(e)
			mu.Lock()
			defer mu.Unlock()
			_, _ = effects.Write(append(line, '\n'))
		},
		Said: func(what string, values ...any) {
			fmt.Fprintln(os.Stderr, append([]any{time.Now().Format("15:04:05.000"), what}, values...)...)
		},
	})
	go serve(l, host)
	return host.Run()
}

func open(ctx context.Context, url string) (cluster.Engine, error) {
	warn := func(s string) { fmt.Fprintln(os.Stderr, time.Now().Format("15:04:05.000"), s) }
	if strings.HasPrefix(url, "postgres") {
		return postgres.Open(ctx, postgres.Config{URL: url, Warn: warn})
	}
	return jetstream.Open(ctx, jetstream.Config{URL: url, Warn: warn})
}

func serve(l net.Listener, host *clustertest.Host) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			lines := bufio.NewReader(c)
			for {
				line, err := lines.ReadBytes('\n')
				if err != nil {
					return
				}
				var cmd clustertest.Command
				if json.Unmarshal(line, &cmd) != nil {
					return
				}
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				answer, _ := json.Marshal(host.Do(ctx, cmd))
				cancel()
				if _, err := c.Write(append(answer, '\n')); err != nil {
					return
				}
			}
		}()
	}
}
