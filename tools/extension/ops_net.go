package extension

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// streamings are what host.open begins, by name.
var streamings = sync.OnceValue(func() map[string]streaming {
	return map[string]streaming{
		"exec": execStream, "proc.spawn": spawnStream, "tool": toolStream, "fetch": fetchStream, "fs.watch": watchStream,
		"net.connect": connectStream, "net.accepted": acceptedStream, "net.listen": listenStream,
		"websocket": webSocketStream,
	}
})

func netOps() map[string]operation {
	return map[string]operation{
		"dns.lookup": func(c *opCall) (any, error) {
			host := c.args.text(0)
			var o struct {
				Family int `json:"family"`
			}
			if err := c.args.into(1, &o); err != nil {
				return nil, err
			}
			list, err := net.DefaultResolver.LookupNetIP(c.ctx, map[int]string{4: "ip4", 6: "ip6"}[o.Family]+map[bool]string{true: "ip"}[o.Family != 4 && o.Family != 6], host)
			if err != nil {
				return nil, &failure{Message: "getaddrinfo ENOTFOUND " + host, Code: "ENOTFOUND", Syscall: "getaddrinfo"}
			}
			var out []map[string]any
			for _, ip := range list {
				family := 6
				if ip = ip.Unmap(); ip.Is4() {
					family = 4
				}
				out = append(out, map[string]any{"address": ip.String(), "family": family})
			}
			return out, nil
		},
		"dns.resolve": func(c *opCall) (any, error) {
			host, kind := c.args.text(0), c.args.text(1)
			var list []string
			var err error
			switch kind {
			case "TXT":
				list, err = net.DefaultResolver.LookupTXT(c.ctx, host)
			case "NS":
				var ns []*net.NS
				ns, err = net.DefaultResolver.LookupNS(c.ctx, host)
				for _, n := range ns {
					list = append(list, strings.TrimSuffix(n.Host, "."))
				}
			case "CNAME":
				var name string
				name, err = net.DefaultResolver.LookupCNAME(c.ctx, host)
				list = []string{strings.TrimSuffix(name, ".")}
			default:
				network := "ip4"
				if kind == "AAAA" {
					network = "ip6"
				}
				ips, e := net.DefaultResolver.LookupIP(c.ctx, network, host)
				err = e
				for _, ip := range ips {
					list = append(list, ip.String())
				}
			}
			if err != nil {
				return nil, &failure{Message: "query" + kind + " ENOTFOUND " + host, Code: "ENOTFOUND", Syscall: "query" + kind}
			}
			return list, nil
		},
	}
}

// request is what fetch asks for.
type request struct {
	URL      string      `json:"url"`
	Method   string      `json:"method"`
	Headers  [][2]string `json:"headers"`
	Redirect string      `json:"redirect"` // follow, manual, error
	Streams  bool        `json:"streams"`  // the body comes in pieces
}

// exchange is a request under way, and its answer.
type exchange struct {
	wanted chan struct{} // JavaScript wants the next piece
	body   *io.PipeWriter
	pieces chan []byte
	end    sync.Once
}

func (x *exchange) send(event string, values args) {
	switch event {
	case "pull":
		select {
		case x.wanted <- struct{}{}:
		default: // one is enough: it gets all there is
		}
	case "body":
		select {
		case x.pieces <- values.bytes(0):
		default:
			x.end.Do(func() { x.body.CloseWithError(errors.New("the server does not read")) })
		}
	case "bodyEnd":
		x.end.Do(func() { close(x.pieces) })
	}
}

// httpClient is that of every extension: idle connections are shared.
var httpClient = sync.OnceValue(func() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	return &http.Client{Transport: t}
})

// fetchStream is fetch: [request, body].
func fetchStream(c *opCall, say emit) (stream, func(), error) {
	var q request
	if err := c.args.into(0, &q); err != nil {
		return nil, nil, err
	}
	x := &exchange{wanted: make(chan struct{}, 1)}
	var body io.Reader
	switch {
	case q.Streams:
		var r *io.PipeReader
		r, x.body = io.Pipe()
		x.pieces = make(chan []byte, mostInput)
		body = r
	case len(c.args) > 1 && c.args[1] != nil:
		body = bytes.NewReader(c.args.bytes(1))
	}
	q.Method = cmp.Or(q.Method, http.MethodGet)
	req, err := http.NewRequestWithContext(c.ctx, q.Method, q.URL, body)
	if err != nil {
		return nil, nil, &failure{Name: "TypeError", Message: "Failed to parse URL from " + q.URL, Code: "ERR_INVALID_URL"}
	}
	for _, h := range q.Headers {
		if strings.EqualFold(h[0], "host") {
			req.Host = h[1]
			continue
		}
		req.Header.Add(h[0], h[1])
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "node")
	}
	return x, func() { x.do(c.ctx, req, q, say) }, nil
}

func (x *exchange) do(ctx context.Context, req *http.Request, q request, say emit) {
	if x.body != nil {
		go func() {
			for b := range x.pieces {
				if _, err := x.body.Write(b); err != nil {
					return
				}
			}
			x.body.Close()
		}()
		defer x.end.Do(func() { close(x.pieces) })
	}
	client := *httpClient()
	redirected := false
	client.CheckRedirect = func(_ *http.Request, via []*http.Request) error {
		switch {
		case q.Redirect == "manual":
			return http.ErrUseLastResponse
		case q.Redirect == "error":
			return errors.New("unexpected redirect")
		case len(via) >= 20:
			return errors.New("redirect count exceeded")
		}
		redirected = true
		return nil
	}
	resp, err := client.Do(req)
	if err != nil {
		say("error", fetchFailure(err))
		return
	}
	defer resp.Body.Close()
	headers := [][2]string{}
	for name, values := range resp.Header {
		for _, v := range values {
			headers = append(headers, [2]string{strings.ToLower(name), v})
		}
	}
	status := strings.TrimSpace(strings.TrimPrefix(resp.Status, fmt.Sprint(resp.StatusCode)))
	if !say("response", map[string]any{"status": resp.StatusCode, "statusText": status, "url": resp.Request.URL.String(), "redirected": redirected, "headers": headers}) {
		return
	}
	buf := make([]byte, 64<<10)
	for x.isWanted(ctx) {
		n, err := 0, error(nil)
		for n == 0 && err == nil {
			n, err = resp.Body.Read(buf)
		}
		if n > 0 && !say("data", bytes.Clone(buf[:n])) {
			return
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			if n == 0 || x.isWanted(ctx) {
				say("end")
			}
			return
		default:
			say("error", fetchFailure(err))
			return
		}
	}
}

// isWanted waits until JavaScript wants more; false says that ctx has ended.
func (x *exchange) isWanted(ctx context.Context) bool {
	select {
	case <-x.wanted:
		return true
	case <-ctx.Done():
		return false
	}
}

func fetchFailure(err error) *failure {
	f := &failure{Message: err.Error()}
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		f.Code = "ENOTFOUND"
	case errors.As(err, &op):
		f.Code = failureOf(fsFailure("connect", op.Err)).Code
	}
	return f
}

// watchEvery is how often a watched file or folder is looked at.
const watchEvery = 200 * time.Millisecond

// mostWatched bounds what one watcher looks at.
const mostWatched = 20000

// watchStream is fs.watch: [path, {recursive}]. It looks again and again: that works on
// every system and every kind of file, and extensions watch one file or a small folder.
func watchStream(c *opCall, say emit) (stream, func(), error) {
	var o struct {
		Recursive bool `json:"recursive"`
	}
	if err := c.args.into(1, &o); err != nil {
		return nil, nil, err
	}
	root := c.path(0)
	if _, err := os.Stat(root); err != nil {
		return nil, nil, fsFailure("watch", err, c.args.text(0))
	}
	before := look(root, o.Recursive)
	return nothing{}, func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-c.ctx.Done():
				return
			}
			now := look(root, o.Recursive)
			for name, kind := range changes(before, now) {
				if !say("change", map[string]string{"eventType": kind, "filename": name}) {
					return
				}
			}
			before = now
		}
	}, nil
}

// seen is a file as a watcher saw it.
type seen struct {
	size int64
	time time.Time
	mode fs.FileMode
}

func look(root string, deep bool) map[string]seen {
	all := map[string]seen{}
	add := func(name string, info fs.FileInfo) {
		s := seen{info.Size(), info.ModTime(), info.Mode()}
		if info.IsDir() {
			s.size, s.time = 0, time.Time{} // what is in it is told by itself
		}
		all[name] = s
	}
	info, err := os.Stat(root)
	if err != nil {
		return all
	}
	if !info.IsDir() {
		add(filepath.Base(root), info)
		return all
	}
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error { // what cannot be read is not watched
		if err != nil || p == root {
			return nil
		}
		if len(all) >= mostWatched {
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil {
			name, _ := filepath.Rel(root, p)
			add(name, info)
		}
		if d.IsDir() && !deep {
			return fs.SkipDir
		}
		return nil
	})
	return all
}

// changes says what came, went or is another, as Node names it.
func changes(before, now map[string]seen) map[string]string {
	out := map[string]string{}
	for name, s := range now {
		old, ok := before[name]
		switch {
		case !ok:
			out[name] = "rename"
		case old != s:
			out[name] = "change"
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			out[name] = "rename"
		}
	}
	return out
}

// globIn lists what fits a pattern in a folder.
func globIn(dir, pattern string) ([]string, error) {
	list, err := doublestar.Glob(os.DirFS(dir), strings.TrimPrefix(pattern, "./"))
	if err != nil {
		return nil, &failure{Code: "ERR_INVALID_ARG_VALUE", Message: "invalid pattern: " + pattern}
	}
	return append([]string{}, list...), nil
}
