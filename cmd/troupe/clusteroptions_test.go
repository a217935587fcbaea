package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors"
	"troupe/actors/cluster"
	"troupe/actors/cluster/peer"
	"troupe/actors/remote"
	"troupe/actors/session"
	"troupe/protocol"
)

func withClusterFile(t *testing.T, text string) (agentDir string) {
	agentDir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(agentDir, clusterFile), []byte(text), 0o600))
	return agentDir
}

// join is what a daemon with these arguments and this cluster.json says when it begins.
func joins(t *testing.T, file string, args ...string) error {
	t.Helper()
	s, err := parseServe(args)
	if err != nil {
		return err
	}
	agentDir := t.TempDir()
	if file != "" {
		agentDir = withClusterFile(t, file)
	}
	n, err := s.joinCluster(nil, &actors.Config{Sessions: &session.Shared{Config: session.Config{AgentDir: agentDir}}}, &remote.Config{}, zerolog.Nop())
	assert.Nil(t, n)
	return err
}

// TestClusterFile: a file that is not understood stops serve: a node must not be alone by mistake.
func TestClusterFile(t *testing.T) {
	t.Parallel()
	require.NoError(t, joins(t, ""), "without one the daemon is alone")
	require.NoError(t, joins(t, "{}"))
	for text, want := range map[string]string{
		"":                               "EOF",
		"{":                              "unexpected EOF",
		"[]":                             "cannot unmarshal array",
		`"nats://e1:4222"`:               "cannot unmarshal string",
		`{"engin": "nats://e1:4222"}`:    `unknown field "engin"`,
		`{"beatMs": "250"}`:              "cannot unmarshal string",
		`{"beatMs": 250} {"beatMs": 50}`: "want one object, got more after it",
		`{"beatMs": 250, "beatMs": 50}`:  `the key "beatMs" is unknown or given twice`,
		`{"Engine": "nats://e:1"}`:       `the key "Engine" is unknown or given twice`,
		`{"roots": {"a": {"pth": "/"}}}`: `unknown field "pth"`,
		`{"node": "w7"}`:                 "options of a cluster need --cluster URL",
	} {
		dir := withClusterFile(t, text)
		s := new(serveOptions)
		n, err := s.joinCluster(nil, &actors.Config{Sessions: &session.Shared{Config: session.Config{AgentDir: dir}}}, &remote.Config{}, zerolog.Nop())
		require.ErrorContains(t, err, want, text)
		assert.Nil(t, n)
	}
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, clusterFile), 0o700))
	_, err := readClusterFile(dir)
	require.Error(t, err, "one that cannot be read is none that is not there")
	o, err := readClusterFile(withClusterFile(t, `{"roots": {"a": {"path": "/a"}, "b": {"path": "/b", "mode": "shared"}}}`))
	require.NoError(t, err)
	assert.Equal(t, cluster.Pinned, o.Roots["a"].Mode)
	assert.Equal(t, cluster.Shared, o.Roots["b"].Mode)
}

// TestClusterFlags: each key of the file is a flag, which wins; labels and roots count one by one.
func TestClusterFlags(t *testing.T) {
	t.Parallel()
	file, err := readClusterFile(withClusterFile(t, `{"engine": "nats://file:1", "node": "file", "advertise": "file:1", "listen": "file:2", "keys": "/file", "system": "nats://s@file:1",
		"labels": {"gpu": "file", "disk": "file"}, "roots": {"app": {"path": "/file", "mode": "shared"}, "lib": {"path": "/lib"}}, "beatMs": 100, "miss": 6, "failover": "stop",
		"waitMs": 1000, "exportOnClose": "/file", "cacheBytes": 1000, "toolGraceMs": 9000}`))
	require.NoError(t, err)
	s, err := parseServe([]string{"--cluster", "nats://flag:1", "--node", "flag", "--advertise", "flag:1", "--cluster-listen", "flag:2", "--cluster-dir", "/flag",
		"--cluster-system", "nats://s@flag:1", "--label", "gpu=flag", "--root", "app=/flag", "--failover", "continue", "--cluster-wait", "3s", "--export-on-close", "/flag",
		"--cluster-cache", "2K", "--tool-grace", "0s", "--cluster-allow-single"})
	require.NoError(t, err)
	was := s.cluster
	assert.Equal(t, clusterOptions{
		Engine: "nats://flag:1", Node: "flag", Advertise: "flag:1", Listen: "flag:2", Keys: "/flag", System: "nats://s@flag:1", Single: true,
		Labels: map[string]string{"gpu": "flag", "disk": "file"}, BeatMs: 100, Miss: 6, Failover: "continue", WaitMs: 3000, Export: "/flag", Cache: 2048, GraceMs: new(0),
		Roots: map[string]cluster.Root{"app": {Path: "/flag", Mode: cluster.Pinned}, "lib": {Path: "/lib", Mode: cluster.Pinned}},
	}, s.cluster.with(file))
	assert.Equal(t, was, s.cluster)
	assert.Equal(t, file, clusterOptions{}.with(file), "what is not said is the file's")
	assert.Equal(t, was, was.with(clusterOptions{}))
	assert.Equal(t, "file", file.Labels["gpu"], "the file's own stays as it is")
	for _, args := range [][]string{
		{"--label", "gpu"}, {"--label", "=yes"}, {"--cluster-wait", "soon"}, {"--tool-grace", "15"}, {"--cluster-cache", "much"}, {"--root", "a=/", "--root", "a=/tmp"},
	} {
		_, err := parseServe(args)
		require.Error(t, err, args)
	}
}

// TestClusterChecks: what is out of bounds, or cannot be, is refused before anything begins; what is not said has its default.
func TestClusterChecks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(plain, nil, 0o600))
	base := func() clusterOptions { return clusterOptions{Engine: "nats://e1:4222", Keys: dir} }
	o := base()
	require.NoError(t, o.check())
	assert.Equal(t, []any{"continue", 250, 4, 15_000, 0}, []any{o.Failover, o.BeatMs, o.Miss, *o.GraceMs, o.WaitMs})
	type roots = map[string]cluster.Root
	for _, is := range []struct {
		change func(*clusterOptions)
		want   string // in the error; "" for none
	}{
		{func(o *clusterOptions) { o.BeatMs = 49 }, `beatMs: want 50 to 10000, got "49"`},
		{func(o *clusterOptions) { o.BeatMs = 50 }, ""},
		{func(o *clusterOptions) { o.BeatMs = 10_000 }, ""},
		{func(o *clusterOptions) { o.BeatMs = 10_001 }, "beatMs"},
		{func(o *clusterOptions) { o.BeatMs = -250 }, "beatMs"},
		{func(o *clusterOptions) { o.Miss = 1 }, "miss: want 2 to 40"},
		{func(o *clusterOptions) { o.Miss = 2 }, ""},
		{func(o *clusterOptions) { o.Miss = 40 }, ""},
		{func(o *clusterOptions) { o.Miss = 41 }, "miss"},
		{func(o *clusterOptions) { o.WaitMs = -1 }, `waitMs: want 0 or more, got "-1"`},
		{func(o *clusterOptions) { o.GraceMs = new(0) }, ""},
		{func(o *clusterOptions) { o.GraceMs = new(4_999) }, "--tool-grace: want 0 or 5s to 10m0s"},
		{func(o *clusterOptions) { o.GraceMs = new(5_000) }, ""},
		{func(o *clusterOptions) { o.GraceMs = new(600_001) }, "--tool-grace"},
		{func(o *clusterOptions) { o.GraceMs = new(-1) }, "--tool-grace"},
		{func(o *clusterOptions) { o.Cache = -1 }, "cacheBytes"},
		{func(o *clusterOptions) { o.Failover = "stop" }, ""},
		{func(o *clusterOptions) { o.Failover = "wait" }, `--failover: want continue or stop, got "wait"`},
		{func(o *clusterOptions) { o.Keys = "" }, "--cluster needs --cluster-dir"},
		{func(o *clusterOptions) { o.Engine = "http://u:secret@e1/" }, "--cluster: want nats://HOST:PORT,… or postgres://…, got \"http://e1/\""},
		{func(o *clusterOptions) { o.Engine = "e1:4222" }, `postgres://…, got "e1:4222"`},
		{func(o *clusterOptions) { o.Engine = "" }, "options of a cluster need --cluster URL"},
		{func(o *clusterOptions) { o.Export = "here" }, `--export-on-close: want an absolute path, got "here"`},
		{func(o *clusterOptions) { o.Export = plain }, "--export-on-close: want a directory, got \"" + plain},
		{func(o *clusterOptions) { o.Labels = map[string]string{"gpu": "no", "osx": "1", "root": "1"} }, ""},
		{func(o *clusterOptions) { o.Labels = map[string]string{"os": "plan9"} }, "--label os: each node sets this label itself"},
		{func(o *clusterOptions) { o.Labels = map[string]string{"arch": "pdp11"} }, "--label arch"},
		{func(o *clusterOptions) { o.Labels = map[string]string{"root.app": "shared"} }, "--label root.app"},
		{func(o *clusterOptions) { o.Labels = map[string]string{"provider.anthropic": "yes"} }, "--label provider.anthropic"},
		{func(o *clusterOptions) { o.Roots = roots{"a": {Path: dir, Mode: cluster.Shared}} }, ""},
		{func(o *clusterOptions) { o.Roots = roots{"a": {Path: dir, Mode: cluster.Pinned}} }, ""},
		{func(o *clusterOptions) { o.Roots = roots{"a": {Mode: cluster.None}} }, ""},
		{func(o *clusterOptions) { o.Roots = roots{"a": {Mode: cluster.Git, Remote: "git@host:x"}} }, ""},
		{func(o *clusterOptions) { o.Roots = roots{"a b": {Path: dir, Mode: cluster.Shared}} }, `--root: want a name of letters, digits, - and _, got "a b"`},
		{func(o *clusterOptions) { o.Roots = roots{"a": {Path: dir, Mode: "nfs"}} }, `mode: want pinned, shared, git or none, got "nfs"`},
		{func(o *clusterOptions) { o.Roots = roots{"a": {Path: "src", Mode: cluster.Shared}} }, "want an absolute path"},
		{func(o *clusterOptions) { o.Roots = roots{"a": {Path: dir + "/none", Mode: cluster.Shared}} }, "no such file"},
		{func(o *clusterOptions) { o.Roots = roots{"a": {Path: plain, Mode: cluster.Pinned}} }, "--root a: want a directory, got \"" + plain},
		{func(o *clusterOptions) { o.Roots = roots{"a": {Mode: cluster.Git}} }, "needs the address of a repository"},
		{func(o *clusterOptions) { o.Roots = roots{"a": {Mode: cluster.Git, Remote: "x", Path: "trees"}} }, "want an absolute path"},
	} {
		o := base()
		is.change(&o)
		if err := o.check(); is.want == "" {
			require.NoError(t, err, "%+v", o)
		} else {
			require.ErrorContains(t, err, is.want)
			assert.NotContains(t, err.Error(), "secret")
		}
	}
	alone := new(clusterOptions)
	require.NoError(t, alone.check())
	assert.Equal(t, new(clusterOptions), alone, "who is alone has no defaults of a cluster")
}

// TestClusterRoots: what --root says, and what others are told of it.
func TestClusterRoots(t *testing.T) {
	t.Parallel()
	var o clusterOptions
	for _, v := range []string{"app=/srv/app,shared", "own=/srv/own", "lib=git+ssh://key@git/lib#main", "tmp=git+file:///r,/srv/trees", "no=none"} {
		require.True(t, isClusterRoot(v), v)
		require.NoError(t, o.root(v), v)
	}
	assert.Equal(t, map[string]cluster.Root{
		"app": {Path: "/srv/app", Mode: cluster.Shared}, "own": {Path: "/srv/own", Mode: cluster.Pinned}, "lib": {Mode: cluster.Git, Remote: "ssh://key@git/lib#main"},
		"tmp": {Path: "/srv/trees", Mode: cluster.Git, Remote: "file:///r"}, "no": {Mode: cluster.None},
	}, o.Roots)
	require.ErrorContains(t, o.root("app=/srv/other"), "the root app is given twice")
	for _, v := range []string{"/srv/app", "./a=b", "/a=b", "srv"} {
		assert.False(t, isClusterRoot(v), "%s is a directory", v)
	}
	dir := t.TempDir()
	trees, told, err := o.trees(dir)
	require.NoError(t, err)
	assert.Equal(t, "ssh://key@git/lib#main", trees["lib"].Remote)
	assert.Equal(t, filepath.Join(dir, "troupe", "cluster", "roots", "lib"), trees["lib"].Dir)
	assert.Equal(t, "/srv/trees", trees["tmp"].Dir)
	assert.Len(t, trees, 2)
	assert.Len(t, told, 5)
	for name, root := range told {
		assert.Empty(t, root.Remote, "what others are told of %s has an address, in which there may be a key", name)
	}
	assert.Equal(t, trees["lib"].Dir, told["lib"].Path)
	labels := o.ownLabels(&session.Shared{Config: session.Config{Models: noModels{}}})
	assert.Equal(t, map[string]string{
		"os": runtime.GOOS, "arch": runtime.GOARCH, "root.app": "shared", "root.own": "pinned", "root.lib": "git", "root.tmp": "git", "root.no": "none", "provider.anthropic": "yes",
	}, labels)
	o.Labels = map[string]string{"gpu": "no"}
	assert.Equal(t, "no", o.ownLabels(&session.Shared{Config: session.Config{Models: noModels{err: errors.New("no catalog")}}})["gpu"])
}

// noModels has a key of one provider and none of another.
type noModels struct {
	session.Models
	err error
}

func (m noModels) Catalog() (*protocol.Catalog, error) {
	return &protocol.Catalog{Keys: map[string]bool{"anthropic": true, "openai": false}}, m.err
}

// TestClusterNode: a node is called what its certificate says, and never otherwise; it says where it waits for others.
func TestClusterNode(t *testing.T) {
	t.Parallel()
	keys := t.TempDir()
	_, err := peer.NewAuthority(keys)
	require.NoError(t, err)
	mine := filepath.Join(keys, "w1")
	require.NoError(t, peer.NewNode(keys, mine, "w1"))
	engine := []string{"--cluster", "nats://127.0.0.1:1", "--cluster-dir", mine}
	require.ErrorContains(t, joins(t, "", append(engine, "--node", "w2")...), "--node w2: the certificate in "+mine+" is that of w1")
	require.ErrorContains(t, joins(t, `{"node": "w3"}`, engine...), "that of w1")
	require.ErrorContains(t, joins(t, "", "--cluster", "nats://127.0.0.1:1", "--cluster-dir", keys), "--cluster-dir: ")
	require.ErrorContains(t, joins(t, "", append(engine, "--advertise", "w1")...), `--advertise: want HOST:PORT, got "w1"`)
	for _, nobody := range []string{"w1:0", ":7718", "0.0.0.0:7718", "[::]:7718"} {
		require.ErrorContains(t, joins(t, "", append(engine, "--advertise", nobody)...), `--advertise: want HOST:PORT that other nodes can reach, got "`+nobody)
	}
	require.ErrorContains(t, joins(t, "", append(engine, "--cluster-listen", "nowhere")...), "--cluster-listen: ")
	require.ErrorContains(t, joins(t, "", append(engine, "--cluster-listen", "0.0.0.0:0")...), "needs --advertise")
	require.NoError(t, os.Chmod(filepath.Join(mine, peer.KeyFile), 0o640))
	require.ErrorContains(t, joins(t, "", engine...), peer.KeyFile)
	for _, is := range [][3]string{{"", "", "127.0.0.1:0"}, {"", "w1.int:7718", ":7718"}, {"10.0.0.1:9", "w1.int:7718", "10.0.0.1:9"}, {"", "[::1]:7718", ":7718"}} {
		o := clusterOptions{Listen: is[0], Advertise: is[1]}
		require.NoError(t, o.listenWhere())
		assert.Equal(t, is[2], o.Listen)
	}
}

// TestClusterAddresses: which engine an address is of, what of it may be shown, and who we are there.
func TestClusterAddresses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]string{
		"nats://e1:4222,e2:4222":                               {"nats", "nats://e1:4222,e2:4222"},
		"nats://u:secret@e1:4222,nats://u:secret@e2:4222":      {"nats", "nats://e1:4222,nats://e2:4222"},
		"nats://u:secret@e1:4222,u:secret@e2:4222":             {"nats", "nats://e1:4222,e2:4222"},
		"tls://secret@e1:4222":                                 {"nats", "tls://e1:4222"},
		"postgres://u:se@cret@db/troupe?password=secret":       {"postgres", "postgres://db/troupe"},
		"postgresql://u@a,b/troupe?sslkey=secret&sslmode=full": {"postgres", "postgresql://a,b/troupe"},
		"http://e1":                        {"", "http://e1"},
		"u:secret@e1:4222?password=secret": {"", "e1:4222"},
	} {
		assert.Equal(t, want, [2]string{engineKind(url), withoutSecrets(url)}, url)
	}
	dir := t.TempDir()
	o := clusterOptions{Engine: "tls://e1", Keys: dir, System: "tls://s@e1", Single: true}
	cfg := o.nats(nil, nil)
	assert.Equal(t, []any{"tls://e1", "tls://s@e1", true, ""}, []any{cfg.URL, cfg.System, cfg.Single, cfg.Creds})
	require.NoError(t, os.WriteFile(filepath.Join(dir, credsFile), nil, 0o600))
	assert.Equal(t, filepath.Join(dir, credsFile), o.nats(nil, nil).Creds)
	_, err := peer.NewAuthority(dir)
	require.NoError(t, err)
	require.NoError(t, peer.NewNode(dir, filepath.Join(dir, "w1"), "w1"))
	keys, err := peer.Load(filepath.Join(dir, "w1"))
	require.NoError(t, err)
	require.NotNil(t, o.nats(keys, nil).TLS)
	o.Engine = "nats://e1"
	assert.Nil(t, o.nats(keys, nil).TLS)
}
