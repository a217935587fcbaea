package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/actors/cluster"
)

// mostHeader is how many bytes all but the lines of a record may have.
const mostHeader = 64 << 10

// headers of a record. The keys are clients' texts, which a header does not hold as they are.
func headers(r cluster.Record) nats.Header {
	h := nats.Header{
		"T-V":     {strconv.Itoa(cluster.Format)},
		"T-Kind":  {string(r.Kind)},
		"T-Epoch": {strconv.FormatUint(uint64(r.Epoch), 10)},
		"T-N":     {strconv.FormatUint(r.N, 10)},
		"T-Prev":  {strconv.FormatUint(uint64(r.Prev), 10)},
		"T-Sum":   {strconv.FormatUint(r.Sum, 16)},
		"T-Node":  {r.Node},
		"T-Boot":  {r.Boot},
	}
	if len(r.Keys) > 0 {
		keys, _ := json.Marshal(r.Keys)
		h["T-Keys"] = []string{string(keys)}
	}
	return h
}

// record is what a message says.
func record(seq uint64, h nats.Header, body []byte) (cluster.Record, error) {
	var bad error
	number := func(name string, base int) uint64 {
		n, err := strconv.ParseUint(h.Get(name), base, 64)
		if err != nil && bad == nil {
			bad = fmt.Errorf("%w: record %d: its %s is %q", cluster.ErrDamaged, seq, name, h.Get(name))
		}
		return n
	}
	if v := number("T-V", 10); bad == nil && v > cluster.Format {
		return cluster.Record{}, fmt.Errorf("%w (its format is %d)", cluster.ErrNewer, v)
	}
	r := cluster.Record{
		Seq: cluster.Seq(seq), Prev: cluster.Seq(number("T-Prev", 10)), Epoch: cluster.Seq(number("T-Epoch", 10)), N: number("T-N", 10),
		Kind: cluster.Kind(h.Get("T-Kind")), Node: h.Get("T-Node"), Boot: h.Get("T-Boot"), Sum: number("T-Sum", 16), Lines: body,
	}
	if keys := h.Get("T-Keys"); keys != "" && json.Unmarshal([]byte(keys), &r.Keys) != nil && bad == nil {
		bad = fmt.Errorf("%w: record %d: its keys are %q", cluster.ErrDamaged, seq, keys)
	}
	return r, bad
}

// Append is that of [cluster.Log].
func (e *Engine) Append(ctx context.Context, id cluster.SessionID, after cluster.Seq, r cluster.Record) (cluster.Seq, error) {
	stream, subject, err := e.stream(id)
	if err != nil {
		return 0, err
	}
	h := headers(r)
	if len(r.Lines) > cluster.MostLines || len(h.Get("T-Keys")) > mostHeader/2 {
		return 0, cluster.ErrTooLarge
	}
	seq, err := e.publish(ctx, stream, subject, uint64(after), h, r.Lines)
	return cluster.Seq(seq), err
}

// stored is a message as the engine's leader gives it.
type stored struct {
	Message struct {
		Seq  uint64
		Hdrs []byte
		Data []byte
	}
}

func (e *Engine) fromLeader(ctx context.Context, stream string, request map[string]any) (s stored, h nats.Header, err error) {
	if err = e.api(ctx, "STREAM.MSG.GET."+stream, request, &s); err == nil && len(s.Message.Hdrs) > 0 {
		h, err = nats.DecodeHeadersMsg(s.Message.Hdrs)
	}
	return s, h, err
}

// absent: the engine has no such message.
func absent(err error) bool {
	var r refusal
	return errors.As(err, &r) && r.ErrCode == noMessage
}

// Tail is that of [cluster.Log]: the leader is asked.
func (e *Engine) Tail(ctx context.Context, id cluster.SessionID) (cluster.Record, error) {
	stream, subject, err := e.stream(id)
	if err != nil {
		return cluster.Record{}, err
	}
	s, h, err := e.fromLeader(ctx, stream, map[string]any{"last_by_subj": subject})
	switch {
	case absent(err):
		return cluster.Record{}, nil
	case err != nil:
		return cluster.Record{}, err
	}
	return record(s.Message.Seq, h, s.Message.Data)
}

// source is who is read from: one server, or the leader.
type source struct {
	name string
	// fetch calls take for records from a sequence on, as many as it likes.
	fetch func(ctx context.Context, stream, subject string, from uint64, take func(cluster.Record) error) error
}

// errBroken: what a server gives does not follow what was read before.
var errBroken = errors.New("the chain is broken")

// Read is that of [cluster.Log]. Servers may be behind, or have holes that they do not mend
// (nats-server#7549): each record is checked, and where the chain breaks another server is asked, the
// leader first, then each by an own connection.
func (e *Engine) Read(ctx context.Context, id cluster.SessionID, after, to cluster.Seq, f func(cluster.Record) error) error {
	stream, subject, err := e.stream(id)
	if err != nil || after >= to {
		return err
	}
	sources := []source{{e.nc.ConnectedServerName(), e.direct(e.nc)}, {"the leader", e.leader}}
	for _, url := range e.servers() {
		sources = append(sources, source{withoutUser(url), e.only(url)})
	}
	p := progress{chain: cluster.Chain{}, base: after, to: to, f: f}
	begin := time.Now()
	for i := 0; ; i = (i + 1) % len(sources) {
		was, src := p.at, sources[i]
		err := src.fetch(ctx, stream, subject, uint64(max(p.at+1, after)), p.take)
		switch {
		case p.own != nil || p.at >= to:
			return p.own
		case errors.Is(err, cluster.ErrNewer):
			return err
		case errors.Is(err, errBroken):
			e.damaged.Add(1)
			e.warn("session %s: %s gives a damaged log: %v", id, src.name, err)
		case errors.Is(err, cluster.ErrUnavailable) && i == 0:
			return err
		}
		if p.at > was {
			i, begin = -1, time.Now() // on from there with the first again
			continue
		}
		if i == len(sources)-1 {
			if time.Since(begin) > patience {
				return fmt.Errorf("%w: no server gives what follows %d before %d: %w", cluster.ErrDamaged, p.at, to, errors.Join(p.why, err))
			}
		}
		if i > 0 {
			continue
		}
		select { // what was appended a moment ago is there a moment later
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// progress is how far a read has come. Behind a place that the caller has the record there is
// read again: its sum is where the chain goes on.
type progress struct {
	chain    cluster.Chain
	base, to cluster.Seq
	at       cluster.Seq
	f        func(cluster.Record) error
	own      error // of f
	why      error // what was wrong last
}

func (p *progress) take(r cluster.Record) error {
	if p.at >= p.to || r.Seq > p.to {
		return nil
	}
	if p.at == 0 && p.base > 0 && r.Seq == p.base {
		p.chain, p.at = cluster.ChainFrom(r.Mark()), r.Seq
		return nil
	}
	if err := p.chain.Add(r); err != nil {
		p.why = fmt.Errorf("%w: %w", errBroken, err)
		return p.why
	}
	p.at = r.Seq
	p.own = p.f(r)
	return p.own
}

// direct reads from the server of a connection, if it has a replica, in batches.
func (e *Engine) direct(nc *nats.Conn) func(context.Context, string, string, uint64, func(cluster.Record) error) error {
	return func(ctx context.Context, stream, subject string, from uint64, take func(cluster.Record) error) error {
		request := map[string]any{"seq": from, "next_by_subj": subject, "batch": batch, "max_bytes": batchBytes}
		return messages(ctx, nc, stream, request, func(m *nats.Msg) error {
			seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
			if err != nil {
				return fmt.Errorf("%w: an answer without a sequence", cluster.ErrUnavailable)
			}
			r, err := record(seq, m.Header, m.Data)
			if errors.Is(err, cluster.ErrDamaged) {
				return fmt.Errorf("%w: %w", errBroken, err)
			}
			if err != nil {
				return err
			}
			return take(r)
		})
	}
}

// messages calls f for what a direct request gives.
func messages(ctx context.Context, nc *nats.Conn, stream string, request map[string]any, f func(*nats.Msg) error) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	body, _ := json.Marshal(request)
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, body); err != nil {
		return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
			if err := f(m); err != nil {
				return err
			}
		case "204", "404": // the end of the batch; nothing there
			return nil
		default:
			return fmt.Errorf("%w: status %s %s", cluster.ErrUnavailable, status, m.Header.Get("Description"))
		}
	}
}

// leader reads one record from who leads the stream.
func (e *Engine) leader(ctx context.Context, stream, subject string, from uint64, take func(cluster.Record) error) error {
	s, h, err := e.fromLeader(ctx, stream, map[string]any{"seq": from, "next_by_subj": subject})
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := record(s.Message.Seq, h, s.Message.Data)
	if errors.Is(err, cluster.ErrDamaged) {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	if err != nil {
		return err
	}
	return take(r)
}

// only reads from one server, by a connection of its own.
func (e *Engine) only(url string) func(context.Context, string, string, uint64, func(cluster.Record) error) error {
	return func(ctx context.Context, stream, subject string, from uint64, take func(cluster.Record) error) error {
		nc, err := connect(e.cfg, url, e.cfg.Creds, nats.NoReconnect(), nats.IgnoreDiscoveredServers())
		if err != nil {
			return err
		}
		defer nc.Close()
		return e.direct(nc)(ctx, stream, subject, from, take)
	}
}

// List is that of [cluster.Log]; a page is a partition and the last session that was given of it.
func (e *Engine) List(ctx context.Context, page string, n int) ([]cluster.SessionID, string, error) {
	at, last, _ := strings.Cut(page, "/")
	p, _ := strconv.Atoi(at)
	var ids []cluster.SessionID
	for ; p < e.partitions; p, last = p+1, "" {
		found, err := e.sessions(ctx, p)
		if err != nil {
			return nil, "", err
		}
		from, _ := slices.BinarySearch(found, cluster.SessionID(last+"\x00"))
		if last == "" {
			from = 0
		}
		found = found[from:]
		if room := n - len(ids); len(found) > room {
			if room > 0 {
				last = string(found[room-1])
			}
			return append(ids, found[:room]...), fmt.Sprintf("%d/%s", p, last), nil
		}
		ids = append(ids, found...)
	}
	return ids, "", nil
}

// sessions of a partition, in order.
func (e *Engine) sessions(ctx context.Context, p int) (ids []cluster.SessionID, err error) {
	prefix := fmt.Sprintf("t.log.%d.", p)
	for offset := 0; ; {
		var info struct {
			Total int
			State struct{ Subjects map[string]uint64 }
		}
		request := map[string]any{"subjects_filter": prefix + ">", "offset": offset}
		if err := e.api(ctx, "STREAM.INFO."+partition(p), request, &info); err != nil {
			return nil, err
		}
		for subject := range info.State.Subjects {
			ids = append(ids, cluster.SessionID(strings.TrimPrefix(subject, prefix)))
		}
		if offset += len(info.State.Subjects); offset >= info.Total || len(info.State.Subjects) == 0 {
			slices.Sort(ids)
			return ids, nil
		}
	}
}

// Trim is that of [cluster.Log].
func (e *Engine) Trim(ctx context.Context, id cluster.SessionID, before cluster.Seq) error {
	stream, subject, err := e.stream(id)
	if err != nil {
		return err
	}
	return e.api(ctx, "STREAM.PURGE."+stream, map[string]any{"filter": subject, "seq": before}, nil)
}
