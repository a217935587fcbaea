// Package postgres keeps the logs of a cluster in PostgreSQL: a primary and a synchronous
// standby that somebody else runs and fails over. The fence is one row a session, which
// an update finds only as it was expected.
package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"troupe/actors/cluster"
)

// Config says where the engine is.
type Config struct {
	URL    string       // postgres://, several hosts allowed: the one that takes writes is used
	Single bool         // one server without a standby is accepted: nothing outlives its disk
	Warn   func(string) // what cannot be checked; nil for nobody
}

// Engine is a pool of connections to PostgreSQL. It is safe for concurrent use.
type Engine struct {
	cfg    *pgconn.Config
	single bool
	room   chan struct{}       // one for each connection that is in use
	idle   chan *pgconn.PgConn // those that are not

	cluster.Common

	mu     sync.Mutex
	closed bool
	boot   string // for which life a beat was stored
}

const (
	connections = 16
	dialLimit   = 2 * time.Second
	callLimit   = 5 * time.Second // of a call whose context has no earlier end
)

const schema = `
create schema if not exists troupe;
create table if not exists troupe.head(sess text collate "C" primary key, seq bigint not null);
create table if not exists troupe.rec(sess text collate "C", seq bigint, body bytea not null, primary key(sess, seq));
create table if not exists troupe.node(name text primary key, boot text not null, body bytea not null);
create table if not exists troupe.idx(sess text collate "C" primary key, body bytea not null);
create or replace function troupe.put(s text, want bigint, b bytea) returns bigint language plpgsql as $$ declare n bigint; begin
  if want = 0 then insert into troupe.head values (s, 1) on conflict do nothing returning seq into n;
  else update troupe.head set seq = seq + 1 where sess = s and seq = want returning seq into n; end if;
  if n is null then return 0; end if;
  insert into troupe.rec values (s, n, b); return n; end $$;
`

// Open connects to an engine that Init has set up, and checks that it loses nothing. While
// the engine is away it tries again, as long as ctx lasts.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	e, err := dial(cfg)
	if err != nil {
		return nil, err
	}
	if err = cluster.Again(ctx, func() error { return e.check(ctx) }); err == nil {
		err = cluster.Again(ctx, func() error { return e.hear(ctx) })
	}
	if err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

// Init makes the tables of a cluster, with the rights of an owner. What is there is left.
func Init(ctx context.Context, cfg Config) error {
	e, err := dial(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	if err := cluster.Again(ctx, func() error { return e.check(ctx) }); err != nil {
		return err
	}
	return e.with(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		_, err := c.Exec(ctx, schema).ReadAll()
		return err
	})
}

func dial(cfg Config) (*Engine, error) {
	c, err := pgconn.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", cluster.ErrSettings, err)
	}
	if c.ConnectTimeout == 0 || c.ConnectTimeout > dialLimit {
		c.ConnectTimeout = dialLimit
	}
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "troupe"
	}
	// An answer means that a standby has it on its disk, whatever the role's own setting is.
	c.RuntimeParams["synchronous_commit"] = "on"
	return &Engine{cfg: c, single: cfg.Single, room: make(chan struct{}, connections), idle: make(chan *pgconn.PgConn, connections),
		Common: cluster.Common{Tell: cfg.Warn}}, nil
}

// Close ends the connections, those in use when they are not any more.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	for {
		select {
		case c := <-e.idle:
			hangUp(c)
		default:
			return nil
		}
	}
}

func hangUp(c *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = c.Close(ctx)
}

// with does something with a connection. The error says what became of it: only one that is
// not ErrUnknown means that nothing was done.
func (e *Engine) with(ctx context.Context, do func(context.Context, *pgconn.PgConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	select {
	case e.room <- struct{}{}:
		defer func() { <-e.room }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", cluster.ErrUnavailable, ctx.Err())
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
	}
	c, err := e.connection(ctx)
	if err != nil {
		return err
	}
	err = do(ctx, c)
	e.giveBack(c)
	return failed(err)
}

func (e *Engine) connection(ctx context.Context) (*pgconn.PgConn, error) {
	for {
		select {
		case c := <-e.idle:
			if !c.IsClosed() {
				return c, nil
			}
			continue
		default:
		}
		c, err := pgconn.ConnectConfig(ctx, e.cfg)
		if err != nil {
			var refused *pgconn.PgError
			if errors.As(err, &refused) && (refused.Code[:2] == "28" || refused.Code == "3D000") { // who we are, or the database
				return nil, fmt.Errorf("%w: %w", cluster.ErrSettings, err)
			}
			return nil, fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
		}
		return c, nil
	}
}

func (e *Engine) giveBack(c *pgconn.PgConn) {
	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed || c.IsClosed() || c.TxStatus() != 'I' {
		hangUp(c)
		return
	}
	e.idle <- c
}

// failed says what became of a statement.
func failed(err error) error {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		switch code := refused.Code; {
		case code == "53100": // disk_full
			return fmt.Errorf("%w: %w", cluster.ErrFull, err)
		case code == "42P01" || code == "42883" || code == "3F000": // no such table, function, schema
			return fmt.Errorf("%w: it has no tables yet: troupe cluster init (%w)", cluster.ErrSettings, err)
		case code == "42501": // insufficient_privilege
			return fmt.Errorf("%w: %w", cluster.ErrSettings, err)
		case code[:2] == "57" || code[:2] == "08" || code[:2] == "XX": // it ends, perhaps behind a commit
			return fmt.Errorf("%w: %w", cluster.ErrUnknown, err)
		}
		return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err) // it was rolled back
	case pgconn.SafeToRetry(err):
		return fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", cluster.ErrUnknown, err)
}

// ask runs a statement whose parameters and results are all in binary or text as they come:
// []byte is binary, everything else its text. Results are binary in the columns that are named.
func (e *Engine) ask(ctx context.Context, sql string, binary []int16, row func([][]byte) error, args ...any) error {
	values, formats := make([][]byte, len(args)), make([]int16, len(args))
	for i, arg := range args {
		if b, ok := arg.([]byte); ok {
			values[i], formats[i] = append([]byte{}, b...), 1 // nil would be null
			continue
		}
		values[i] = fmt.Append([]byte{}, arg)
	}
	var own error // of row
	err := e.with(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		rows := c.ExecParams(ctx, sql, values, nil, formats, binary)
		for rows.NextRow() {
			if own == nil && row != nil {
				own = row(rows.Values())
			}
		}
		_, err := rows.Close()
		return err
	})
	if err == nil {
		err = own
	}
	return err
}

// look is ask where asking twice does no harm.
func (e *Engine) look(ctx context.Context, sql string, binary []int16, row func([][]byte) error, args ...any) error {
	err := e.ask(ctx, sql, binary, row, args...)
	if errors.Is(err, cluster.ErrUnknown) {
		err = fmt.Errorf("%w: %w", cluster.ErrUnavailable, err)
	}
	return err
}

// check refuses what loses acknowledged records.
func (e *Engine) check(ctx context.Context) error {
	var fsync, pages, standbys, synced string
	err := e.look(ctx, `select current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_standby_names'),
		(select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum'))`, nil, func(r [][]byte) error {
		fsync, pages, standbys, synced = string(r[0]), string(r[1]), string(r[2]), string(r[3])
		return nil
	})
	switch {
	case err != nil:
		return err
	case fsync != "on" || pages != "on":
		return fmt.Errorf("%w: fsync is %s, full_page_writes %s: a power cut would lose what was acknowledged", cluster.ErrSettings, fsync, pages)
	case standbys == "" && !e.single:
		return fmt.Errorf("%w: it has no synchronous_standby_names: with the disk of the server all would be lost", cluster.ErrSettings)
	case standbys != "" && synced == "0":
		e.Warn("no synchronous standby of PostgreSQL is to be seen: none is there and appends will wait, or this role has no right to see it (pg_monitor)")
	}
	return nil
}

// head is what of a record is not its lines.
type head struct {
	V int `json:"v"`
	cluster.Record
}

// record is what a row says: a line of JSON, and the lines.
func record(seq, body []byte) (cluster.Record, error) {
	n, err := strconv.ParseUint(string(seq), 10, 64)
	var h head
	top, lines, found := bytes.Cut(body, []byte("\n"))
	if err == nil {
		err = json.Unmarshal(top, &h)
	}
	if err != nil || !found {
		return cluster.Record{}, fmt.Errorf("%w: record %s: %w", cluster.ErrDamaged, seq, err)
	}
	if h.V > cluster.Format {
		return cluster.Record{}, fmt.Errorf("%w (its format is %d)", cluster.ErrNewer, h.V)
	}
	h.Seq, h.Lines = cluster.Seq(n), bytes.Clone(lines)
	return h.Record, nil
}

// Append is that of [cluster.Log].
func (e *Engine) Append(ctx context.Context, id cluster.SessionID, after cluster.Seq, r cluster.Record) (cluster.Seq, error) {
	if err := cluster.CheckName(id); err != nil {
		return 0, err
	}
	if len(r.Lines) > cluster.MostLines {
		return 0, cluster.ErrTooLarge
	}
	top, err := json.Marshal(head{cluster.Format, r})
	if err != nil {
		return 0, err
	}
	body := slices.Concat(top, []byte("\n"), r.Lines)
	var seq uint64
	err = e.ask(ctx, "select troupe.put($1, $2, $3)", nil, func(row [][]byte) (err error) {
		seq, err = strconv.ParseUint(string(row[0]), 10, 64)
		return err
	}, id, after, body)
	if err == nil && seq == 0 {
		err = cluster.ErrConflict
	}
	return cluster.Seq(seq), err
}

// Tail is that of [cluster.Log]. What was not yet on a standby when its client went away, or the
// primary was started again, can be seen here before it is there: the message makes this
// a transaction that waits for the standby, and so for all before it.
func (e *Engine) Tail(ctx context.Context, id cluster.SessionID) (tail cluster.Record, err error) {
	if err := cluster.CheckName(id); err != nil {
		return tail, err
	}
	err = e.look(ctx, `with last as (select seq, body from troupe.rec where sess = $1 order by seq desc limit 1)
		select last.seq, last.body, pg_logical_emit_message(true, 'troupe', '') from last`, []int16{0, 1, 0}, func(row [][]byte) (err error) {
		tail, err = record(row[0], row[1])
		return err
	}, id)
	return tail, err
}

// Sources is that of [cluster.Log]: the one that takes writes.
func (e *Engine) Sources() []cluster.Source {
	return []cluster.Source{{Name: e.cfg.Host, Read: e.read}}
}

func (e *Engine) read(ctx context.Context, id cluster.SessionID, after, to cluster.Seq, f func(cluster.Record) error) error {
	if err := cluster.CheckName(id); err != nil {
		return err
	}
	return e.look(ctx, "select seq, body from troupe.rec where sess = $1 and seq > $2 and seq <= $3 order by seq", []int16{0, 1}, func(row [][]byte) error {
		r, err := record(row[0], row[1])
		if err == nil {
			err = f(r)
		}
		return err
	}, id, after, to)
}

// List is that of [cluster.Log]; a page is the last session of the one before.
func (e *Engine) List(ctx context.Context, page string, n int) (ids []cluster.SessionID, next string, err error) {
	err = e.look(ctx, "select sess from troupe.head where sess > $1 order by sess limit $2", nil, func(row [][]byte) error {
		ids = append(ids, cluster.SessionID(row[0]))
		return nil
	}, page, n+1)
	if len(ids) > n {
		ids, next = ids[:n], string(ids[n-1])
	}
	return ids, next, err
}

// Trim is that of [cluster.Log].
func (e *Engine) Trim(ctx context.Context, id cluster.SessionID, before cluster.Seq) error {
	return e.look(ctx, "delete from troupe.rec where sess = $1 and seq < $2", nil, nil, id, before)
}

// Beat is that of [cluster.Registry]. It hears the others in the same statement: who beats needs
// no other ear.
func (e *Engine) Beat(ctx context.Context, n cluster.Node) error {
	if err := cluster.CheckName(n.Name); err != nil {
		return err
	}
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	e.mu.Lock()
	first := e.boot != n.Boot
	e.mu.Unlock()
	stored := false
	err = e.ask(ctx, `with beat as (insert into troupe.node values ($1, $2, $3)
		on conflict (name) do update set boot = excluded.boot, body = excluded.body where troupe.node.boot = excluded.boot or $4::bool returning name)
		select body, false from troupe.node union all select null, true from beat`, []int16{1, 0}, func(row [][]byte) error {
		if row[0] == nil {
			stored = true
			return nil
		}
		return e.Hear(row[0])
	}, n.Name, n.Boot, body, first)
	if err == nil && !stored {
		err = cluster.ErrFenced
	}
	if err == nil {
		e.mu.Lock()
		e.boot = n.Boot
		e.mu.Unlock()
	}
	return err
}

// hear reads what all nodes have said.
func (e *Engine) hear(ctx context.Context) error {
	return e.look(ctx, "select body from troupe.node", []int16{1}, func(row [][]byte) error { return e.Hear(row[0]) })
}

// Node is that of [cluster.Registry].
func (e *Engine) Node(ctx context.Context, name string) (n cluster.Node, found bool, err error) {
	if err := cluster.CheckName(name); err != nil {
		return n, false, err
	}
	err = e.look(ctx, "select body from troupe.node where name = $1", []int16{1}, func(row [][]byte) error {
		found = true
		return json.Unmarshal(row[0], &n)
	}, name)
	return n, found, err
}

// SetIndex is that of [cluster.Index].
func (e *Engine) SetIndex(ctx context.Context, id cluster.SessionID, text []byte) error {
	if err := cluster.CheckName(id); err != nil {
		return err
	}
	return e.look(ctx, "insert into troupe.idx values ($1, $2) on conflict (sess) do update set body = excluded.body", nil, nil, id, text)
}

// Indexed is that of [cluster.Index].
func (e *Engine) Indexed(ctx context.Context, ids []cluster.SessionID) (map[cluster.SessionID][]byte, error) {
	texts := map[cluster.SessionID][]byte{}
	list, err := json.Marshal(ids)
	if err != nil || len(ids) == 0 {
		return texts, err
	}
	err = e.look(ctx, "select sess, body from troupe.idx where sess in (select json_array_elements_text($1::json))", []int16{0, 1}, func(row [][]byte) error {
		texts[cluster.SessionID(row[0])] = bytes.Clone(row[1])
		return nil
	}, string(list))
	return texts, err
}

// Status is that of [cluster.Engine].
func (e *Engine) Status(ctx context.Context) (cluster.Status, error) {
	var st cluster.Status
	g := cluster.Group{Name: e.cfg.Database, Leader: e.cfg.Host}
	err := e.look(ctx, `select current_setting('server_version'), (select greatest(reltuples, 0)::bigint from pg_class where oid = 'troupe.rec'::regclass),
		pg_total_relation_size('troupe.rec')`, nil, func(row [][]byte) error {
		st.Engine = "PostgreSQL " + string(row[0])
		g.Records, _ = strconv.ParseUint(string(row[1]), 10, 64)
		g.Bytes, _ = strconv.ParseUint(string(row[2]), 10, 64)
		return nil
	})
	if err != nil {
		return st, err
	}
	err = e.look(ctx, `select application_name, coalesce(sync_state, '') in ('sync', 'quorum'), coalesce(greatest(pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn), 0), 0)::bigint
		from pg_stat_replication order by 1`, nil, func(row [][]byte) error {
		lag, _ := strconv.ParseUint(string(row[2]), 10, 64)
		g.Others = append(g.Others, cluster.Server{Name: string(row[0]), Current: string(row[1]) == "t", Lag: lag})
		return nil
	})
	st.Groups = []cluster.Group{g}
	return st, err
}

// Spread is that of [cluster.Admin]: there is one leader, and who runs PostgreSQL says which.
func (e *Engine) Spread(context.Context) error { return nil }

// Copies is that of [cluster.Admin]: the primary's, since a standby is a copy of its bytes.
func (e *Engine) Copies(ctx context.Context, id cluster.SessionID) ([]cluster.Copy, error) {
	tail, err := e.Tail(ctx, id)
	if err != nil {
		return nil, err
	}
	return []cluster.Copy{cluster.CopyOf(ctx, e.Sources()[0], id, tail.Seq)}, nil
}
