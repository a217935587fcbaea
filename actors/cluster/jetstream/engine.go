// Package jetstream keeps the logs of a cluster in NATS JetStream: three or five servers
// that nobody has changed, of which this is a client. A session is a subject of one of a
// few streams; the fence is the expected last sequence of that subject.
package jetstream

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"troupe/actors/cluster"
)

// Config says where the engine is and who asks.
type Config struct {
	URL    string      // addresses with commas between; nats:// or tls:// and the user are those of the first where one has none
	Creds  string      // a file: a JWT with its seed, or the seed of an NKey; "" for none
	TLS    *tls.Config // for tls:// addresses
	Single bool        // one server without replicas is accepted: nothing outlives its disk
	Looks  bool        // see [cluster.Common]

	// System is the same engine's address for a user of its system account, which is needed to read how the
	// servers sync; it may be "".
	System string

	Warn func(string) // what cannot be checked, or is damaged on one server; nil for nobody
}

// Engine is a connection to JetStream. It is safe for concurrent use.
type Engine struct {
	cfg        Config
	nc         *nats.Conn
	partitions int

	cluster.Common

	beating sync.Mutex
	boot    string // for which life a beat was stored
	beat    uint64 // the sequence of its last one
}

const (
	dialLimit  = time.Second
	callLimit  = 5 * time.Second        // of a call whose context has no earlier end
	pingEvery  = 500 * time.Millisecond // a way that is cut is noticed behind three of them
	batch      = 1024                   // records a read asks for at once
	batchBytes = 8 << 20
)

// connect is a connection to the engine, or to one of its servers.
func connect(cfg Config, url, creds string, more ...nats.Option) (*nats.Conn, error) {
	opts := append([]nats.Option{
		nats.Name("troupe"), nats.Timeout(dialLimit), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(2),
		nats.ReconnectBufSize(-1), // what is not sent now is repeated by who knows its fate
	}, more...)
	if creds != "" {
		opt, err := credentials(creds)
		if err != nil {
			return nil, err
		}
		opts = append(opts, opt)
	}
	if cfg.TLS != nil {
		opts = append(opts, nats.Secure(cfg.TLS))
	}
	nc, err := nats.Connect(strings.Join(addresses(url, nil), ","), opts...)
	if err != nil {
		return nil, unreached(err)
	}
	return nc, nil
}

// unreached is the error of a connection: whether it is worth another try.
func unreached(err error) error {
	var certificate *tls.CertificateVerificationError
	if errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrSecureConnRequired) ||
		errors.Is(err, nats.ErrSecureConnWanted) || errors.As(err, &certificate) {
		return fmt.Errorf("%w: %w", cluster.ErrSettings, err)
	}
	return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
}

// credentials says who we are by what is in a file, which nobody else may read.
func credentials(file string) (opt nats.Option, err error) {
	info, err := os.Stat(file)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = errors.New("it may be read by others: chmod 600")
	}
	if err == nil {
		text, _ := os.ReadFile(file) // who cannot read it has no seed either
		if bytes.Contains(text, []byte("NATS USER JWT")) {
			return nats.UserCredentials(file), nil
		}
		opt, err = nats.NkeyOptionFromSeed(file)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", cluster.ErrSettings, file, err)
	}
	return opt, nil
}

// Open connects to an engine that Init has set up, and checks that it still is. While the
// engine is away it tries again, as long as ctx lasts.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	e := newEngine(cfg)
	return cluster.Begin(ctx, e, e.dial, e.checkServers, e.checkStreams, e.listen)
}

func newEngine(cfg Config) *Engine {
	return &Engine{cfg: cfg, Common: cluster.Common{Tell: cfg.Warn, Looks: cfg.Looks}}
}

func (e *Engine) dial(context.Context) (err error) {
	last := ""
	e.nc, err = connect(e.cfg, e.cfg.URL, e.cfg.Creds, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if err.Error() != last { // each beat may bring it again
			last = err.Error()
			e.Warn("the engine says: %s", last)
		}
	}))
	return err
}

// Close ends the connection.
func (e *Engine) Close() error {
	e.nc.Close()
	return nil
}

// stream and subject of a session. Many sessions share a stream, which is one group of
// servers; a session is ordered by what is expected of its subject.
func (e *Engine) stream(id cluster.SessionID) (stream, subject string, err error) {
	if err := cluster.CheckName(id); err != nil {
		return "", "", err
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	p := int(h.Sum32() % uint32(e.partitions))
	return partition(p), fmt.Sprintf("t.log.%d.%s", p, id), nil
}

func partition(p int) string { return fmt.Sprintf("LOG%d", p) }

// refusal is what the engine answers instead of a result.
type refusal struct{ nats.APIError }

// The codes of refusals that its client does not name, from the server's errors.json.
const (
	tooLarge  = 10054
	noStorage = 10047
)

// Is says which error of a log it is.
func (r *refusal) Is(target error) bool {
	switch target {
	case cluster.ErrConflict:
		return r.ErrorCode == nats.JSErrCodeStreamWrongLastSequence || r.ErrorCode == nats.JSErrCodeStreamWrongLastSequenceConstant
	case cluster.ErrTooLarge:
		return r.ErrorCode == tooLarge
	case cluster.ErrFull:
		return r.ErrorCode == noStorage || r.ErrorCode == nats.JSErrCodeInsufficientResourcesErr
	case cluster.ErrUnknown: // the leader may have passed it on before something went wrong
		return r.Code >= 500 && !r.Is(cluster.ErrFull)
	case cluster.ErrSettings:
		return r.ErrorCode == nats.JSErrCodeStreamNotFound
	}
	return false
}

// call sends a message and gets the answer into a value; the error says what became of it.
func (e *Engine) call(ctx context.Context, msg *nats.Msg, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return err
	}
	var refused struct{ Error *refusal }
	reply, err := e.nc.RequestMsgWithContext(ctx, msg)
	if err == nil {
		err = json.Unmarshal(reply.Data, &refused)
	}
	if err == nil && refused.Error == nil && answer != nil {
		err = json.Unmarshal(reply.Data, answer)
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return cluster.ErrTooLarge
	case err != nil:
		if denied := e.nc.LastError(); errors.Is(denied, nats.ErrPermissionViolation) && strings.HasSuffix(denied.Error(), strconv.Quote(msg.Subject)) {
			return fmt.Errorf("%w: %w", cluster.ErrSettings, denied)
		}
		return fmt.Errorf("%w: %w", cluster.ErrUnknown, err)
	case refused.Error != nil:
		return refused.Error
	}
	return nil
}

// api asks the engine's own interface, where asking twice does no harm.
func (e *Engine) api(ctx context.Context, what string, request, answer any) error {
	body, err := json.Marshal(request)
	if err == nil {
		err = e.call(ctx, &nats.Msg{Subject: "$JS.API." + what, Data: body}, answer)
	}
	return cluster.Harmless(err)
}

// publish stores a message behind the last one of its subject.
func (e *Engine) publish(ctx context.Context, stream, subject string, after uint64, header nats.Header, body []byte) (uint64, error) {
	header["Nats-Expected-Stream"] = []string{stream}
	header["Nats-Expected-Last-Subject-Sequence"] = []string{fmt.Sprint(after)}
	var ack struct{ Seq uint64 }
	err := e.call(ctx, &nats.Msg{Subject: subject, Header: header, Data: body}, &ack)
	if err == nil && ack.Seq == 0 {
		return 0, fmt.Errorf("%w: an answer without a sequence", cluster.ErrUnknown)
	}
	return ack.Seq, err
}

// addresses are those that were configured, and those that servers have told of: who has no user is spoken to as that of
// the first, and who has no scheme has its scheme, too.
func addresses(configured string, told []string) (list []string) {
	var user *url.Userinfo
	known := map[string]bool{}
	scheme, _, _ := strings.Cut(configured, "://")
	for _, address := range append(strings.Split(configured, ","), told...) {
		if address = strings.TrimSpace(address); !strings.Contains(address, "://") {
			address = scheme + "://" + address
		}
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || known[u.Host] {
			continue
		}
		known[u.Host] = true
		user = cmp.Or(user, u.User)
		u.User = cmp.Or(u.User, user)
		list = append(list, u.String())
	}
	return list
}

// withoutUser is an address as it may be shown.
func withoutUser(address string) string { return address[strings.LastIndexByte(address, '@')+1:] }
