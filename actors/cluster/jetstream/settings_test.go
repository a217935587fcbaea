package jetstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
)

// stub says what servers say of how they are set up, in as much of their protocol as asking takes. What a real
// one does make cluster tries; of a real one nobody can have an old version, or a setting that it would not take.
type stub struct {
	version string
	payload int
	meta    string // what is stored at t.meta; "" for nothing
	streams map[string]map[string]any
	servers []string // what each says to the system account

	mu    sync.Mutex
	asked []string // subjects, of what is stored with its header
	users []string // of the connections
}

func newStub() *stub {
	s := &stub{version: oldest, payload: 8 << 20, meta: `{"partitions":2,"format":1}`, streams: map[string]map[string]any{}}
	for _, want := range streams(2, 3) {
		var is map[string]any
		text, _ := json.Marshal(want)
		_ = json.Unmarshal(text, &is)
		s.streams[want.Name] = is
	}
	for i := range 3 {
		s.servers = append(s.servers, server(fmt.Sprint("e", i+1), oldest, true))
	}
	return s
}

func server(name, version string, always bool) string {
	return fmt.Sprintf(`{"server":{"name":%q,"ver":%q},"data":{"config":{"sync_always":%t},"meta_cluster":{"cluster_size":3}}}`, name, version, always)
}

// start takes connections until the test ends, and returns where.
func (s *stub) start(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.serve(c) })
		}
	})
	return "nats://" + l.Addr().String()
}

func (s *stub) serve(c net.Conn) {
	defer c.Close()
	fmt.Fprintf(c, "INFO {\"server_id\":\"s\",\"server_name\":\"e1\",\"version\":%q,\"headers\":true,\"proto\":1,\"max_payload\":%d}\r\n", s.version, s.payload)
	sids := map[string]string{} // of what is listened to, by its subject
	for in := bufio.NewReader(c); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch word := strings.Fields(line); word[0] {
		case "CONNECT":
			var who struct{ User string }
			_ = json.Unmarshal([]byte(strings.TrimPrefix(line, "CONNECT ")), &who)
			s.mu.Lock()
			s.users = append(s.users, who.User)
			s.mu.Unlock()
		case "PING":
			fmt.Fprint(c, "PONG\r\n")
		case "SUB":
			sids[word[1]] = word[len(word)-1]
		case "PUB", "HPUB":
			head, size := 0, 0
			_, _ = fmt.Sscan(word[len(word)-1], &size)
			if word[0] == "HPUB" {
				_, _ = fmt.Sscan(word[3], &head)
			}
			body := make([]byte, size+2)
			if _, err := io.ReadFull(in, body); err != nil {
				return
			}
			reply := word[2]
			sid := sids[reply]
			for subject := range sids {
				if before, all := strings.CutSuffix(subject, "*"); all && strings.HasPrefix(reply, before) {
					sid = sids[subject]
				}
			}
			s.mu.Lock()
			s.asked = append(s.asked, word[1]+"\n"+string(body[:head]))
			s.mu.Unlock()
			for _, answer := range s.answers(word[1], body[head:size]) {
				if status, is := strings.CutPrefix(answer, "status "); is {
					header := "NATS/1.0 " + status + "\r\n\r\n"
					fmt.Fprintf(c, "HMSG %s %s %d %d\r\n%s\r\n", reply, sid, len(header), len(header), header)
					continue
				}
				fmt.Fprintf(c, "MSG %s %s %d\r\n%s\r\n", reply, sid, len(answer), answer)
			}
		}
	}
}

func (s *stub) answers(subject string, body []byte) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	what, name, _ := strings.Cut(strings.TrimPrefix(subject, "$JS.API."), ".")
	switch {
	case subject == "$SYS.REQ.SERVER.PING.JSZ":
		return s.servers
	case strings.HasPrefix(subject, "t.log."), strings.HasPrefix(subject, "t.node."):
		return []string{`{"stream":"LOG0","seq":12}`}
	case subject == "t.meta":
		return []string{`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence"}}`}
	case what == "DIRECT":
		return []string{"status 204 EOB"}
	case strings.HasPrefix(name, "MSG.GET.NODES") && s.meta == "":
		return []string{`{"error":{"code":404,"err_code":10037,"description":"no message found"}}`}
	case strings.HasPrefix(name, "MSG.GET.NODES"):
		text, _ := json.Marshal(map[string]any{"message": map[string]any{"seq": 1, "data": []byte(s.meta)}})
		return []string{string(text)}
	case strings.HasPrefix(name, "CREATE."):
		return []string{`{"error":{"code":400,"err_code":10058,"description":"stream name already in use"}}`}
	}
	is, there := s.streams[strings.TrimPrefix(name, "INFO.")]
	if !there {
		return []string{`{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`}
	}
	text, _ := json.Marshal(map[string]any{"config": is})
	return []string{string(text)}
}

// open is what a node gets of it, and what it is warned of.
func (s *stub) open(t *testing.T, change ...func(*Config)) (warned []string, err error) {
	t.Helper()
	url := s.start(t)
	cfg := Config{URL: url, System: url, Warn: func(why string) { warned = append(warned, why) }}
	for _, f := range change {
		f(&cfg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := Open(ctx, cfg)
	if err == nil {
		require.NoError(t, e.Close())
	}
	return warned, err
}

// TestSettings: a node does not begin on an engine that would lose records, or is none of its cluster, and says
// what is wrong with it.
func TestSettings(t *testing.T) {
	t.Parallel()
	looks := func(c *Config) { c.Looks = true }
	warned, err := newStub().open(t)
	require.NoError(t, err)
	require.Empty(t, warned)
	for want, spoil := range map[string]func(*stub){
		"it has no streams yet: troupe cluster init": func(s *stub) { s.meta = "" },
		`t.meta is "{}"`:                                                    func(s *stub) { s.meta = "{}" },
		`t.meta is "two"`:                                                   func(s *stub) { s.meta = "two" },
		"max_payload is 1048576 bytes":                                      func(s *stub) { s.payload = 1 << 20 },
		"stream LOG1: nats: stream not found":                               func(s *stub) { delete(s.streams, "LOG1") },
		"stream LOG1 has 1 replicas, not 3":                                 func(s *stub) { s.streams["LOG1"]["num_replicas"] = 1 },
		"stream LOG0 has no storage in files":                               func(s *stub) { s.streams["LOG0"]["storage"] = "memory" },
		"stream LOG0 has no deny_delete":                                    func(s *stub) { s.streams["LOG0"]["deny_delete"] = false },
		"stream LOG0 has no allow_direct":                                   func(s *stub) { s.streams["LOG0"]["allow_direct"] = false },
		"stream LOG0 has writes that are acknowledged before they are made": func(s *stub) { s.streams["LOG0"]["persist_mode"] = "async" },
		"stream LOG0 has a max_msg_size of 1024, below 1114112":             func(s *stub) { s.streams["LOG0"]["max_msg_size"] = 1024 },
		"stream LOG0 has the subjects [t.log.1.*], not [t.log.0.*]":         func(s *stub) { s.streams["LOG0"]["subjects"] = []string{"t.log.1.*"} },
		"stream NODES has no republish of beats":                            func(s *stub) { delete(s.streams["NODES"], "republish") },
		"e1 is nats-server 2.14.6: 2.14.7 is the oldest that is safe":       func(s *stub) { s.servers[0] = server("e1", "2.14.6", true) },
		"e3 is nats-server 2.9.25: 2.14.7 is the oldest that is safe":       func(s *stub) { s.servers[2] = server("e3", "2.9.25", true) },
		"e1 acknowledges before it syncs":                                   func(s *stub) { s.servers[0] = server("e1", oldest, false) },
		"e3 acknowledges before it syncs":                                   func(s *stub) { s.servers[2] = server("e3", oldest, false) },
		"e2 acknowledges before it syncs": func(s *stub) { // behind one that keeps nothing
			s.servers = append([]string{`{"server":{"name":"e0","ver":"2.15.2"},"data":{"disabled":true}}`, server("e1", oldest, true)}, server("e2", oldest, false))
		},
	} {
		s := newStub()
		spoil(s)
		_, err := s.open(t)
		require.ErrorIs(t, err, cluster.ErrSettings, want)
		assert.ErrorContains(t, err, want)
		warned, err := s.open(t, looks)
		if without := strings.Contains(want, "t.meta") || strings.Contains(want, "no streams") || strings.Contains(want, "not found"); without {
			require.ErrorIs(t, err, cluster.ErrSettings, "there is nothing to look at: %s", want)
			continue
		}
		require.NoError(t, err, "who only looks at it: %s", want)
		assert.Contains(t, strings.Join(warned, "\n"), want)
	}
	for key, value := range map[string]any{
		"max_msgs": 10, "max_bytes": 1 << 30, "max_age": int64(time.Hour), "retention": "interest", "max_msgs_per_subject": 5,
	} {
		s := newStub()
		s.streams["LOG0"][key] = value
		_, err := s.open(t)
		require.ErrorIs(t, err, cluster.ErrSettings, key)
		assert.ErrorContains(t, err, "stream LOG0 has limits that discard records", key)
	}
	s := newStub()
	s.meta = `{"partitions":2,"format":2}`
	_, err = s.open(t)
	require.ErrorIs(t, err, cluster.ErrNewer)
	assert.ErrorContains(t, err, "the cluster's format is 2")
}

// TestSettingsAllowed: what is other than it was made, and loses nothing.
func TestSettingsAllowed(t *testing.T) {
	t.Parallel()
	single := func(c *Config) { c.Single = true }
	for name, is := range map[string]struct {
		change func(*stub)
		as     []func(*Config)
		warned string
	}{
		"five replicas":              {change: func(s *stub) { s.streams["LOG0"]["num_replicas"] = 5 }},
		"one server, which is known": {change: func(s *stub) { s.streams["LOG0"]["num_replicas"] = 1 }, as: []func(*Config){single}},
		"no limit of messages":       {change: func(s *stub) { s.streams["LOG0"]["max_msg_size"] = -1 }},
		"a newer server":             {change: func(s *stub) { s.servers[1] = server("e2", "2.20.0", true) }},
		"a build of somebody's own":  {change: func(s *stub) { s.servers[1] = server("e2", "main", true) }},
		"a server is away":           {change: func(s *stub) { s.servers = s.servers[:2] }, warned: "2 of 3 servers of the engine say how they sync: the others are away"},
		"nobody may ask how they sync": {change: func(s *stub) { s.servers[0] = server("e1", oldest, false) },
			as: []func(*Config){func(c *Config) { c.System = "" }}, warned: "without it a power cut loses what was acknowledged"},
	} {
		s := newStub()
		is.change(s)
		warned, err := s.open(t, is.as...)
		require.NoError(t, err, name)
		assert.Equal(t, is.warned != "", len(warned) > 0, name)
		assert.Contains(t, strings.Join(warned, "\n"), is.warned, name)
	}
}

// TestSettingsOfTheServer: where the system account cannot be asked the server of the connection says which version it is.
func TestSettingsOfTheServer(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.version = "2.14.6"
	_, err := s.open(t, func(c *Config) { c.System = "" })
	require.ErrorIs(t, err, cluster.ErrSettings)
	assert.ErrorContains(t, err, "e1 is nats-server 2.14.6")
	warned, err := s.open(t, func(c *Config) { c.System, c.Looks = "", true })
	require.NoError(t, err)
	assert.Contains(t, strings.Join(warned, "\n"), "e1 is nats-server 2.14.6")
}

// TestOld: which versions are too old, candidates for them, too.
func TestOld(t *testing.T) {
	t.Parallel()
	for version, is := range map[string]bool{
		"2.14.7": false, "2.14.10": false, "2.15.0": false, "3.0.0": false, "main": false, "": false, "2.14.7-RC.2": false,
		"2.14.6": true, "2.9.25": true, "1.4.1": true, "2.14.6-RC.1": true, "2.12.0-dev": true,
	} {
		assert.Equal(t, is, old("e1", version) != nil, version)
	}
}

// TestInit: a cluster keeps what it was made with.
func TestInit(t *testing.T) {
	t.Parallel()
	s := newStub()
	url := s.start(t)
	cfg := Config{URL: url, System: url}
	for replicas, single := range map[int]bool{1: false, 2: true, 4: false} {
		cfg.Single = single
		err := Init(t.Context(), cfg, Options{Replicas: replicas})
		require.ErrorIs(t, err, cluster.ErrSettings)
		require.ErrorContains(t, err, "replicas: there are 3 or 5")
	}
	cfg.Single = false
	require.NoError(t, Init(t.Context(), cfg, Options{Partitions: 2}), "it is there already")
	err := Init(t.Context(), cfg, Options{Partitions: 4})
	require.ErrorIs(t, err, cluster.ErrSettings)
	require.ErrorContains(t, err, "it has 2 partitions")
	s.mu.Lock()
	s.streams["INDEX"]["deny_delete"] = false
	s.mu.Unlock()
	require.ErrorContains(t, Init(t.Context(), cfg, Options{Partitions: 2}), "stream INDEX has no deny_delete")
}

// TestCredentials: a file that others may read is none, whatever is in it.
func TestCredentials(t *testing.T) {
	t.Parallel()
	pair, err := nkeys.CreateUser()
	require.NoError(t, err)
	seed, err := pair.Seed()
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "engine.creds")
	require.NoError(t, os.WriteFile(key, seed, 0o600))
	opt, err := credentials(key)
	require.NoError(t, err)
	var o nats.Options
	require.NoError(t, opt(&o))
	public, _ := pair.PublicKey()
	assert.Equal(t, public, o.Nkey)
	for _, mode := range []os.FileMode{0o640, 0o604, 0o644, 0o620, 0o601} {
		require.NoError(t, os.Chmod(key, mode))
		_, err = credentials(key)
		require.ErrorIs(t, err, cluster.ErrSettings, "%o", mode)
		assert.ErrorContains(t, err, "chmod 600", "%o", mode)
		// And nobody is asked before that is so.
		_, err = connect(Config{}, "nats://127.0.0.1:1", key)
		require.ErrorIs(t, err, cluster.ErrSettings, "%o", mode)
	}
	jwt := filepath.Join(t.TempDir(), "engine.creds")
	require.NoError(t, os.WriteFile(jwt, []byte("-----BEGIN NATS USER JWT-----\nx\n------END NATS USER JWT------\n"), 0o600))
	opt, err = credentials(jwt)
	require.NoError(t, err)
	o = nats.Options{}
	require.NoError(t, opt(&o))
	assert.NotNil(t, o.UserJWT)
	for name, text := range map[string]string{"empty": "", "no seed": "SUABC", "text": "troupe"} {
		require.NoError(t, os.WriteFile(jwt, []byte(text), 0o600))
		_, err = credentials(jwt)
		require.ErrorIs(t, err, cluster.ErrSettings, name)
		assert.NotContains(t, err.Error(), "SUABC")
	}
	_, err = credentials(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, cluster.ErrSettings)
}

// TestRefusals: what the engine's codes mean for who has asked.
func TestRefusals(t *testing.T) {
	t.Parallel()
	all := []error{cluster.ErrConflict, cluster.ErrTooLarge, cluster.ErrFull, cluster.ErrUnknown, cluster.ErrSettings}
	for text, want := range map[string]error{
		`{"code":400,"err_code":10071}`: cluster.ErrConflict, `{"code":400,"err_code":10164}`: cluster.ErrConflict,
		`{"code":400,"err_code":10054}`: cluster.ErrTooLarge,
		`{"code":500,"err_code":10047}`: cluster.ErrFull, `{"code":503,"err_code":10023}`: cluster.ErrFull,
		`{"code":503,"err_code":10008}`: cluster.ErrUnknown, `{"code":500,"err_code":10077}`: cluster.ErrUnknown,
		`{"code":404,"err_code":10059}`: cluster.ErrSettings, `{"code":400,"err_code":10060}`: nil,
	} {
		var r refusal
		require.NoError(t, json.Unmarshal([]byte(text), &r))
		for _, is := range all {
			assert.Equal(t, is == want, errors.Is(&r, is), "%s is %v", text, is)
		}
	}
}

// TestHeaders: a record that cannot be read is damaged, with its place, and one of a newer format is not.
func TestHeaders(t *testing.T) {
	t.Parallel()
	good := cluster.Record{Seq: 9, Prev: 7, Epoch: 5, N: 2, Kind: cluster.Lines, Node: "a", Boot: "b", Keys: []string{"c/1", "ä\n"}, Lines: []byte("x"), Sum: 1 << 63}
	got, err := record(9, headers(good), good.Lines)
	require.NoError(t, err)
	require.Equal(t, good, got)
	for name, value := range map[string]string{"T-V": "", "T-Epoch": "x", "T-N": "-1", "T-Prev": "", "T-Sum": "z", "T-Keys": `["c/1"`} {
		h := maps.Clone(headers(good))
		h[name] = []string{value}
		_, err := record(9, h, good.Lines)
		require.ErrorIs(t, err, cluster.ErrDamaged, name)
		assert.ErrorContains(t, err, "record 9", name)
	}
	h := headers(good)
	h.Set("T-V", fmt.Sprint(cluster.Format+1))
	h.Set("T-Sum", "in another way")
	_, err = record(9, h, good.Lines)
	require.ErrorIs(t, err, cluster.ErrNewer)
	require.NotErrorIs(t, err, cluster.ErrDamaged)
}

// TestExpected: whatever is stored names the stream and the record that it follows, a claim and a sign of life, too: that
// is the fence.
func TestExpected(t *testing.T) {
	t.Parallel()
	s := newStub()
	url := s.start(t)
	e, err := Open(t.Context(), Config{URL: url, System: url})
	require.NoError(t, err)
	defer e.Close()
	stored := func() (subject, header string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		subject, header, _ = strings.Cut(s.asked[len(s.asked)-1], "\n")
		return subject, header
	}
	for _, r := range []cluster.Record{{Kind: cluster.Claim}, {Kind: cluster.Claim, Prev: 7}, {Kind: cluster.Lines, Prev: 8, Epoch: 8, N: 1}, {Kind: cluster.Release, Prev: 9, Epoch: 8, N: 2}} {
		seq, err := e.Append(t.Context(), "session-1", r.Prev, r)
		require.NoError(t, err)
		require.EqualValues(t, 12, seq)
		subject, header := stored()
		require.True(t, strings.HasPrefix(subject, "t.log.") && strings.HasSuffix(subject, ".session-1"), subject)
		require.Contains(t, header, fmt.Sprintf("Nats-Expected-Last-Subject-Sequence: %d\r\n", r.Prev))
		require.Contains(t, header, "Nats-Expected-Stream: LOG"+subject[len("t.log."):len("t.log.")+1]+"\r\n")
	}
}
