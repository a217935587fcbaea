//go:build linux

package main

import (
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"troupe/e2e/figures"
)

var pageAddress = regexp.MustCompile(`http://(\S+)/#c=(\S+)`)

// serve starts a daemon for clients on TCP and returns its address and its token.
func (x *sampler) serve(args ...string) (q *proc, address, token string) {
	cmd := x.agent.command(x.place, how{})
	cmd = exec.Command(cmd.Path, append([]string{"serve", "--listen", "127.0.0.1:0", "--socket", filepath.Join(x.root, "run", "s.sock"), "--provider", "mock", "--model", "mock-1"}, args...)...)
	cmd.Dir, cmd.Env = x.work, []string{"HOME=" + x.home, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + x.root}
	q = spawn(cmd)
	x.procs = append(x.procs, q)
	for begun := time.Now(); time.Since(begun) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
		if at := pageAddress.FindStringSubmatch(q.said()); at != nil {
			raw := figures.Get(os.ReadFile(filepath.Join(x.home, ".pi", "agent", "troupe", "serve.token")))
			return q, at[1], strings.TrimSpace(string(raw))
		}
	}
	figures.Fail("no address: %s", q.said())
	return nil, "", ""
}

// viewer is a client on a WebSocket.
type viewer struct {
	ws   *websocket.Conn
	rest [][]byte
	err  error // why there is no next record
}

func dial(address, token string) *viewer {
	ws, _, err := websocket.Dial(context.Background(), "ws://"+address+"/v1/ws", &websocket.DialOptions{
		Subprotocols: []string{"troupe.v1.lines", "troupe.auth." + base64.RawURLEncoding.EncodeToString([]byte(token))},
	})
	figures.Must(err)
	ws.SetReadLimit(64 << 20)
	return &viewer{ws: ws}
}

func (v *viewer) send(line string) {
	figures.Must(v.ws.Write(context.Background(), websocket.MessageText, []byte(line)))
}

// next is the next record; false at the end.
func (v *viewer) next() (gjson.Result, bool) {
	for len(v.rest) == 0 {
		_, message, err := v.ws.Read(context.Background())
		if err != nil {
			v.err = err
			return gjson.Result{}, false
		}
		for line := range strings.SplitSeq(string(message), "\n") {
			v.rest = append(v.rest, []byte(line))
		}
	}
	line := v.rest[0]
	v.rest = v.rest[1:]
	return gjson.ParseBytes(line), true
}

func (v *viewer) answer(id string) gjson.Result {
	for {
		r, ok := v.next()
		if !ok {
			figures.Fail("no answer to %s", id)
		}
		if r.Get("id").Str == id {
			return r
		}
	}
}

// runClients has 1,000 clients hear of one session that says 20 words a second. Those who
// read are on the same two cores.
func runClients(x *sampler) values {
	n := x.scale(1000, 50)
	q, address, token := x.serve()
	stop := make(chan bool)
	x.model.answers(func(a *ask) {
		a.begin()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for !a.gone {
			select {
			case <-tick.C:
				a.delta(strconv.FormatInt(time.Now().UnixNano(), 10) + " ")
			case <-stop:
				a.end()
				return
			}
		}
	})
	const hello = `{"id":"hello","type":"hello","features":["seq","deltaUpdates"]}`
	owner := dial(address, token)
	owner.send(hello)
	owner.send(`{"id":"open","type":"open_session","permissionMode":"auto"}`)
	session := owner.answer("open").Get("data.sessionId").Str
	base, clients := q.memory(), make([]*viewer, n)
	var all sync.WaitGroup
	for i := range clients {
		clients[i] = dial(address, token)
		clients[i].send(hello)
		clients[i].send(`{"id":"a","type":"attach","sessionId":"` + session + `"}`)
		clients[i].answer("a")
	}
	time.Sleep(3 * time.Second)
	idle := (q.memory() - base) * 1024 / float64(n)
	var mu sync.Mutex
	var late []time.Duration
	lagged := 0
	for _, v := range clients {
		all.Go(func() {
			var mine []time.Duration
			for {
				r, ok := v.next()
				if !ok || r.Get("type").Str == "agent_settled" {
					break
				}
				if r.Get("type").Str == "resync" {
					mu.Lock()
					lagged++
					mu.Unlock()
				}
				if word, _, is := strings.Cut(r.Get("assistantMessageEvent.delta").Str, " "); is {
					at, err := strconv.ParseInt(word, 10, 64)
					if err == nil {
						mine = append(mine, time.Duration(time.Now().UnixNano()-at))
					}
				}
			}
			mu.Lock()
			late = append(late, mine...)
			mu.Unlock()
		})
	}
	owner.send(`{"id":"p","type":"prompt","message":"go","sessionId":"` + session + `"}`)
	owner.answer("p")
	time.Sleep(time.Second)
	cores, memory := q.during(time.Duration(x.scale(10, 2)) * time.Second)
	close(stop)
	all.Wait()
	if lagged > 0 {
		figures.Fail("%d clients lagged", lagged)
	}
	return values{"cpu": cores, "rss": memory, "idle": idle, "p50": figures.MS(figures.P50(late)), "p99": figures.MS(figures.Quantile(late, 0.99))}
}

// runReplay has a client come back that has missed 10,000 records, which the ring has.
func runReplay(x *sampler) values {
	n := x.scale(10_000, 500)
	_, address, token := x.serve("--ring", "4194304")
	const hello = `{"id":"hello","type":"hello","features":["seq","settingEvents"]}`
	owner := dial(address, token)
	owner.send(hello)
	epoch := owner.answer("hello").Get("data.epoch").Str
	owner.send(`{"id":"open","type":"open_session","noSession":true}`)
	session := owner.answer("open").Get("data.sessionId").Str
	owner.send(`{"id":"from","type":"attach","sessionId":"` + session + `"}`)
	from := owner.answer("from").Get("data.seq").Int()
	for i := range n {
		owner.send(`{"id":"n` + strconv.Itoa(i) + `","type":"set_session_name","sessionId":"` + session + `","name":"` + strconv.Itoa(i) + `"}`)
		owner.answer("n" + strconv.Itoa(i))
	}
	var took []time.Duration
	for range 5 {
		back := dial(address, token)
		back.send(hello)
		back.answer("hello")
		begun := time.Now()
		back.send(`{"id":"a","type":"attach","sessionId":"` + session + `","since":{"epoch":"` + epoch + `","seq":` + strconv.FormatInt(from, 10) + `}}`)
		answer := back.answer("a")
		if answer.Get("data.replay").Str != "exact" || answer.Get("data.replayed").Int() != int64(n) {
			figures.Fail("no exact replay: %s", answer.Raw[:min(400, len(answer.Raw))])
		}
		for range n {
			if r, ok := back.next(); !ok || r.Get("seq").Int() == 0 {
				figures.Fail("a record is missing: %v %s", back.err, r.Raw[:min(300, len(r.Raw))])
			}
		}
		took = append(took, time.Since(begun))
		_ = back.ws.CloseNow()
	}
	return values{"p50": figures.MS(figures.P50(took))}
}
