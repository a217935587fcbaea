package jetstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/version"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/tidwall/gjson"

	"troupe/actors/cluster"
)

// Options are what Init is told once.
type Options struct {
	Replicas   int // 3 or 5; 1 with Config.Single. 0: 3, or 1
	Partitions int // how many streams the sessions are in; 0: 3 for each replica
}

// meta is what a cluster is made with and keeps.
type meta struct {
	Partitions int `json:"partitions"`
	Format     int `json:"format"` // the highest that records were written in
}

// Init makes the streams of a cluster, with the rights of an administrator. What is there
// already is left as it is, if it is as it should be.
func Init(ctx context.Context, cfg Config, opt Options) error {
	stock := 3
	if cfg.Single {
		stock = 1
	}
	opt.Replicas = cmp.Or(opt.Replicas, stock)
	opt.Partitions = cmp.Or(opt.Partitions, 3*opt.Replicas)
	if opt.Replicas != 3 && opt.Replicas != 5 && (opt.Replicas != 1 || !cfg.Single) {
		return fmt.Errorf("%w: %d replicas: there are 3 or 5", cluster.ErrSettings, opt.Replicas)
	}
	e := newEngine(cfg)
	defer e.Close()
	create := func(ctx context.Context) error { return e.create(ctx, opt) }
	if _, err := cluster.Begin(ctx, e, e.dial, e.checkServers, create, e.checkStreams); err != nil {
		return err
	}
	if e.partitions != opt.Partitions {
		return fmt.Errorf("%w: it has %d partitions, and cannot have another number", cluster.ErrSettings, e.partitions)
	}
	return nil
}

// create makes what is not there; what is is looked at behind that.
func (e *Engine) create(ctx context.Context, opt Options) error {
	for _, want := range streams(opt.Partitions, opt.Replicas) {
		var there *refusal
		err := e.api(ctx, "STREAM.CREATE."+want.Name, want, nil)
		if err != nil && !(errors.As(err, &there) && there.ErrorCode == nats.JSErrCodeStreamNameInUse) {
			return fmt.Errorf("stream %s: %w", want.Name, err)
		}
	}
	body, _ := json.Marshal(meta{opt.Partitions, cluster.Format})
	if _, err := e.publish(ctx, "NODES", "t.meta", 0, nats.Header{}, body); !errors.Is(err, cluster.ErrConflict) {
		return err
	}
	return nil
}

// streams of a cluster, as they should be.
func streams(partitions, replicas int) []nats.StreamConfig {
	base := nats.StreamConfig{
		Replicas: replicas, Storage: nats.FileStorage, Retention: nats.LimitsPolicy, Discard: nats.DiscardOld, DenyDelete: true,
		AllowDirect: true, MaxMsgs: -1, MaxBytes: -1, MaxConsumers: -1, MaxMsgsPerSubject: -1, MaxMsgSize: cluster.MostLines + mostHeader,
		Duplicates: 100 * time.Millisecond, // the least there is: records have an identity of their own
	}
	nodes, index := base, base
	nodes.Name, nodes.Subjects, nodes.MaxMsgsPerSubject = "NODES", []string{"t.node.*", "t.meta"}, 1
	nodes.RePublish = &nats.RePublish{Source: "t.node.*", Destination: "t.heard.{{wildcard(1)}}"}
	index.Name, index.Subjects, index.MaxMsgsPerSubject = "INDEX", []string{"t.index.*"}, 1
	list := []nats.StreamConfig{nodes, index}
	for p := range partitions {
		log := base
		log.Name, log.Subjects = partition(p), []string{fmt.Sprintf("t.log.%d.*", p)}
		list = append(list, log)
	}
	return list
}

// checkStreams reads the settings of the streams back and refuses what loses records.
func (e *Engine) checkStreams(ctx context.Context) error {
	s, _, err := e.fromLeader(ctx, "NODES", map[string]any{"last_by_subj": "t.meta"})
	switch {
	case err == nil && s.Message.Seq == 0 || errors.Is(err, cluster.ErrSettings):
		return fmt.Errorf("%w: it has no streams yet: troupe cluster init", cluster.ErrSettings)
	case err != nil:
		return err
	}
	var m meta
	if err := json.Unmarshal(s.Message.Data, &m); err != nil || m.Partitions < 1 {
		return fmt.Errorf("%w: t.meta is %q", cluster.ErrSettings, s.Message.Data)
	}
	if m.Format > cluster.Format {
		return fmt.Errorf("%w: the cluster's format is %d", cluster.ErrNewer, m.Format)
	}
	e.partitions = m.Partitions
	if size := e.nc.MaxPayload(); size < cluster.MostLines+mostHeader {
		return e.Refuse(fmt.Errorf("%w: max_payload is %d bytes: 8MB is what it should be", cluster.ErrSettings, size))
	}
	for _, want := range streams(m.Partitions, 3) {
		var info struct{ Config settings }
		if err := e.api(ctx, "STREAM.INFO."+want.Name, struct{}{}, &info); err != nil {
			return fmt.Errorf("stream %s: %w", want.Name, err)
		}
		if wrong := e.wrong(want, info.Config); wrong != "" {
			return e.Refuse(fmt.Errorf("%w: stream %s has %s", cluster.ErrSettings, want.Name, wrong))
		}
	}
	return nil
}

// settings are those of a stream, with what the client's own does not have.
type settings struct {
	nats.StreamConfig
	Persist string `json:"persist_mode"`
}

// wrong is what of a stream's settings loses records, or keeps them from being read.
func (e *Engine) wrong(want nats.StreamConfig, is settings) string {
	for _, of := range []struct {
		what  string
		wrong bool
	}{
		{fmt.Sprintf("%d replicas, not 3", is.Replicas), is.Replicas < want.Replicas && !e.cfg.Single},
		{"no storage in files", is.Storage != want.Storage},
		{"writes that are acknowledged before they are made", is.Persist == "async"},
		{"no deny_delete", !is.DenyDelete},
		{"no allow_direct", !is.AllowDirect},
		{"limits that discard records", is.Retention != want.Retention || is.MaxAge != 0 || is.MaxMsgs > 0 || is.MaxBytes > 0 || is.MaxMsgsPerSubject != want.MaxMsgsPerSubject},
		{fmt.Sprintf("a max_msg_size of %d, below %d", is.MaxMsgSize, want.MaxMsgSize), is.MaxMsgSize > 0 && is.MaxMsgSize < want.MaxMsgSize},
		{fmt.Sprintf("the subjects %v, not %v", is.Subjects, want.Subjects), !slices.Equal(is.Subjects, want.Subjects)},
		{"no republish of beats", want.RePublish != nil && (is.RePublish == nil || is.RePublish.Destination != want.RePublish.Destination)},
	} {
		if of.wrong {
			return of.what
		}
	}
	return ""
}

// checkServers refuses servers that acknowledge what they have not synced, or that are too
// old: of all servers where the system account may be asked, else it can only warn.
func (e *Engine) checkServers(ctx context.Context) error {
	if e.cfg.System == "" {
		e.Warn("whether the engine's servers have sync_interval: always cannot be read without a user of its system account: " +
			"without it a power cut loses what was acknowledged")
		return e.Refuse(old(e.nc.ConnectedServerName(), e.nc.ConnectedServerVersion()))
	}
	nc, err := connect(e.cfg, e.cfg.System, "")
	if err != nil {
		return err
	}
	defer nc.Close()
	sub, err := ask(nc, "$SYS.REQ.SERVER.PING.JSZ", nil)
	if err != nil {
		return err
	}
	for heard, all := 0, 1; heard < all; heard++ {
		answer, err := sub.NextMsg(time.Second)
		switch {
		case err != nil && heard > 0:
			e.Warn("%d of %d servers of the engine say how they sync: the others are away", heard, all)
			return nil
		case err != nil:
			return fmt.Errorf("%w: no server answers the system account: %w", cluster.ErrUnavailable, err)
		}
		s := gjson.ParseBytes(answer.Data)
		name := s.Get("server.name").Str
		switch err := e.Refuse(old(name, s.Get("server.ver").Str)); {
		case s.Get("data.disabled").Bool(): // it keeps nothing, and is none of those
			heard--
		case err != nil:
			return err
		case !s.Get("data.config.sync_always").Bool():
			return e.Refuse(fmt.Errorf("%w: %s acknowledges before it syncs, which loses records at a power cut: set jetstream { sync_interval: always }",
				cluster.ErrSettings, name))
		}
		all = max(all, int(s.Get("data.meta_cluster.cluster_size").Int()))
	}
	return ctx.Err()
}

// oldest is what servers have to be: older ones lost streams.
const oldest = "2.14.7"

// old fails for a server that is older. Of a build that is somebody's own nothing is known.
func old(server, is string) error {
	number, _, _ := strings.Cut(is, "-")                                               // what is a candidate for a version is judged as that one
	if v := "go" + number; version.IsValid(v) && version.Compare(v, "go"+oldest) < 0 { // Go's versions have the same form
		return fmt.Errorf("%w: %s is nats-server %s: %s is the oldest that is safe", cluster.ErrSettings, server, is, oldest)
	}
	return nil
}

// Status is that of [cluster.Engine].
func (e *Engine) Status(ctx context.Context) (cluster.Status, error) {
	st := cluster.Status{Engine: "JetStream " + e.nc.ConnectedServerVersion()}
	for _, s := range streams(e.partitions, 3) {
		var info nats.StreamInfo
		if err := e.api(ctx, "STREAM.INFO."+s.Name, struct{}{}, &info); err != nil {
			if !errors.Is(err, cluster.ErrUnavailable) {
				return st, fmt.Errorf("stream %s: %w", s.Name, err)
			}
			st.Groups = append(st.Groups, cluster.Group{Name: s.Name}) // it has no leader
			continue
		}
		g := cluster.Group{Name: s.Name, Records: info.State.Msgs, Bytes: info.State.Bytes, Leader: e.nc.ConnectedServerName()}
		if info.Cluster != nil {
			g.Leader = info.Cluster.Leader
			for _, r := range info.Cluster.Replicas {
				g.Others = append(g.Others, cluster.Server{Name: r.Name, Current: r.Current && !r.Offline, Lag: r.Lag})
			}
		}
		st.Groups = append(st.Groups, g)
	}
	return st, nil
}

// Spread is that of [cluster.Engine]: who leads more groups than its share gives some to who is
// current and leads fewer.
func (e *Engine) Spread(ctx context.Context) error {
	st, err := e.Status(ctx)
	if err != nil {
		return err
	}
	leads := map[string]int{}
	for _, g := range st.Groups {
		leads[g.Leader]++
	}
	for _, g := range st.Groups {
		to := g.Leader
		for _, s := range g.Others {
			if s.Current && leads[s.Name] < leads[to] {
				to = s.Name
			}
		}
		if g.Leader == "" || leads[g.Leader]-leads[to] < 2 {
			continue
		}
		request := map[string]any{"placement": map[string]any{"preferred": to}}
		if err := e.api(ctx, "STREAM.LEADER.STEPDOWN."+g.Name, request, nil); err != nil {
			return fmt.Errorf("stream %s: %w", g.Name, err)
		}
		leads[g.Leader]--
		leads[to]++
	}
	return nil
}
