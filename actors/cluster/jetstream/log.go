package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// stored is what the leader answers.
type stored struct {
	Message struct {
		Seq        uint64
		Hdrs, Data []byte
	}
}

// fromLeader is a message as who leads a stream gives it; without a sequence if there is none.
func (e *Engine) fromLeader(ctx context.Context, stream string, request map[string]any) (s stored, h nats.Header, err error) {
	var none *refusal
	if err = e.api(ctx, "STREAM.MSG.GET."+stream, request, &s); errors.As(err, &none) && none.ErrorCode == nats.JSErrCodeMessageNotFound {
		return stored{}, nil, nil
	}
	if err == nil && len(s.Message.Hdrs) > 0 {
		h, err = nats.DecodeHeadersMsg(s.Message.Hdrs)
	}
	return s, h, err
}

// recordOf is a record that the leader has of a session, found by its subject; the zero Record if there is none.
func (e *Engine) recordOf(ctx context.Context, id cluster.SessionID, by string, from cluster.Seq) (cluster.Record, error) {
	stream, subject, err := e.stream(id)
	if err != nil {
		return cluster.Record{}, err
	}
	request := map[string]any{by: subject}
	if from > 0 {
		request["seq"] = from
	}
	s, h, err := e.fromLeader(ctx, stream, request)
	if err != nil || s.Message.Seq == 0 {
		return cluster.Record{}, err
	}
	return record(s.Message.Seq, h, s.Message.Data)
}

// Tail is that of [cluster.Log]: the leader is asked.
func (e *Engine) Tail(ctx context.Context, id cluster.SessionID) (cluster.Record, error) {
	return e.recordOf(ctx, id, "last_by_subj", 0)
}

// Sources is that of [cluster.Log]: the server of the connection, who leads, and each server by a connection
// of its own.
func (e *Engine) Sources() []cluster.Source {
	sources := []cluster.Source{{Name: e.nc.ConnectedServerName(), Read: e.direct(e.nc)}, {Name: "the leader", Read: e.leader}}
	for _, url := range addresses(e.cfg.URL, e.nc.DiscoveredServers()) {
		sources = append(sources, cluster.Source{Name: withoutUser(url), Server: true, Read: e.only(url)})
	}
	return sources
}

// direct reads from the server of a connection, if it has a replica, in batches.
func (e *Engine) direct(nc *nats.Conn) cluster.Reader {
	return func(ctx context.Context, id cluster.SessionID, after, to cluster.Seq, f func(cluster.Record) error) error {
		stream, subject, err := e.stream(id)
		if err != nil {
			return err
		}
		request := map[string]any{"seq": after + 1, "next_by_subj": subject, "batch": batch, "max_bytes": batchBytes}
		return messages(ctx, nc, stream, request, func(m *nats.Msg) error {
			seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
			if err != nil {
				return fmt.Errorf("%w: an answer without a sequence", cluster.ErrUnavailable)
			}
			r, err := record(seq, m.Header, m.Data)
			if err != nil || r.Seq > to {
				return err
			}
			return f(r)
		})
	}
}

// messages calls f for what a direct request gives.
func messages(ctx context.Context, nc *nats.Conn, stream string, request map[string]any, f func(*nats.Msg) error) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	body, _ := json.Marshal(request)
	sub, err := ask(nc, "$JS.API.DIRECT.GET."+stream, body)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
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

// ask sends a request to which several answers come.
func ask(nc *nats.Conn, subject string, body []byte) (*nats.Subscription, error) {
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err == nil {
		err = nc.PublishRequest(subject, sub.Subject, body)
	}
	if err != nil {
		_ = sub.Unsubscribe()
		return nil, fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
	}
	return sub, nil
}

// leader reads one record from who leads the stream.
func (e *Engine) leader(ctx context.Context, id cluster.SessionID, after, to cluster.Seq, f func(cluster.Record) error) error {
	r, err := e.recordOf(ctx, id, "next_by_subj", after+1)
	if err != nil || r.Seq == 0 || r.Seq > to {
		return err
	}
	return f(r)
}

// only reads from one server, by a connection of its own.
func (e *Engine) only(url string) cluster.Reader {
	return func(ctx context.Context, id cluster.SessionID, after, to cluster.Seq, f func(cluster.Record) error) error {
		nc, err := connect(e.cfg, url, e.cfg.Creds, nats.NoReconnect(), nats.IgnoreDiscoveredServers())
		if err != nil {
			return err
		}
		defer nc.Close()
		return e.direct(nc)(ctx, id, after, to, f)
	}
}

// List is that of [cluster.Log]; a page is a partition and the last session that was given of it.
func (e *Engine) List(ctx context.Context, page string, n int) ([]cluster.SessionID, string, error) {
	at, last, _ := strings.Cut(page, "/")
	for p, _ := strconv.Atoi(at); p < e.partitions; p, last = p+1, "" {
		found, err := e.sessions(ctx, p)
		if err != nil {
			return nil, "", err
		}
		from, there := slices.BinarySearch(found, cluster.SessionID(last))
		if there {
			from++
		}
		switch found = found[from:]; {
		case len(found) > n:
			return found[:n], fmt.Sprintf("%d/%s", p, found[n-1]), nil
		case len(found) > 0:
			return found, strconv.Itoa(p + 1), nil
		}
	}
	return nil, "", nil
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
