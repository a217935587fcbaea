package engines

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"time"

	"troupe/actors/cluster/clustertest"
)

// Ask gives a command to a node of a process of its own. An error says that nobody knows what
// became of it.
func Ask(ctx context.Context, addr string, c clustertest.Command) (a clustertest.Answer, err error) {
	var dial net.Dialer
	one, cancel := context.WithTimeout(ctx, time.Second)
	conn, err := dial.DialContext(one, "tcp", addr)
	cancel()
	if err != nil {
		return a, err
	}
	defer conn.Close()
	over := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer over()
	line, _ := json.Marshal(c)
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return a, err
	}
	line, err = bufio.NewReader(conn).ReadBytes('\n')
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(line, &a)
}
