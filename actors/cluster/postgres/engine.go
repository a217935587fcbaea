// Package postgres keeps the logs of a cluster in PostgreSQL: a primary and a synchronous
// standby that somebody else runs and fails over. The fence is one row a session, which
// an update finds only as it was expected.
package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"troupe/actors/cluster"
)

// Config says where the engine is.
type Config struct {
	URL    string       // postgres://, several hosts allowed: the one that takes writes is used
	Single bool         // one server without a standby is accepted: nothing outlives its disk
	Looks  bool         // see [cluster.Common]
	Warn   func(string) // what cannot be checked; nil for nobody
}

// Engine is a pool of connections to PostgreSQL. It is safe for concurrent use.
type Engine struct {
	cfg    *pgconn.Config
	single bool
	room   chan struct{}       // one for each connection that is in use
	idle   chan *pgconn.PgConn // those that are not

	cluster.Common

	closed atomic.Bool
	boot   atomic.Value // for which life a beat was stored
}

const (
	connections = 16
	dialLimit   = 2 * time.Second
	callLimit   = 5 * time.Second // of a call whose context has no earlier end
	batch       = 256             // records a read asks for at once
)

var schema = []string{
	"create schema if not exists troupe",
	`create table if not exists troupe.head(sess text collate "C" primary key, seq bigint not null)`,
	`create table if not exists troupe.rec(sess text collate "C", seq bigint, body bytea not null, primary key(sess, seq))`,
	`create table if not exists troupe.node(name text primary key, boot text not null, body bytea not null)`,
	`create table if not exists troupe.idx(sess text collate "C" primary key, body bytea not null)`,
	`create or replace function troupe.put(s text, want bigint, b bytea) returns bigint language plpgsql as $$ declare n bigint; begin
  if want = 0 then insert into troupe.head values (s, 1) on conflict do nothing returning seq into n;
  else update troupe.head set seq = seq + 1 where sess = s and seq = want returning seq into n; end if;
  if n is null then return 0; end if;
  insert into troupe.rec values (s, n, b); return n; end $$`,
}

// Open connects to an engine that Init has set up, and checks that it loses nothing. While
// the engine is away it tries again, as long as ctx lasts.
func Open(ctx context.Context, cfg Config) (*Engine, error) {
	e, err := newEngine(cfg)
	if err != nil {
		return nil, err
	}
	return cluster.Begin(ctx, e, e.check, e.listen)
}

// Init makes the tables of a cluster, with the rights of an owner. What is there is left.
func Init(ctx context.Context, cfg Config) error {
	e, err := newEngine(cfg)
	if err != nil {
		return err
	}
	defer e.Close()
	_, err = cluster.Begin(ctx, e, e.check, func(ctx context.Context) (err error) {
		for _, one := range schema {
			if _, err = e.look(ctx, one, nil); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func newEngine(cfg Config) (*Engine, error) {
	c, err := pgconn.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", cluster.ErrSettings, err)
	}
	c.ConnectTimeout = min(cmp.Or(c.ConnectTimeout, dialLimit), dialLimit)
	if c.ValidateConnect == nil {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	c.RuntimeParams["application_name"] = cmp.Or(c.RuntimeParams["application_name"], "troupe")
	// An answer means that a standby has it on its disk, whatever the role's own setting is.
	c.RuntimeParams["synchronous_commit"] = "on"
	return &Engine{cfg: c, single: cfg.Single, room: make(chan struct{}, connections), idle: make(chan *pgconn.PgConn, connections),
		Common: cluster.Common{Tell: cfg.Warn, Looks: cfg.Looks}}, nil
}

// Close ends the connections, those in use when they are not any more.
func (e *Engine) Close() error {
	e.closed.Store(true)
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
		case code == "42501" || code[:2] == "28" || code == "3D000": // insufficient_privilege; who we are, or the database
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

// key is what a session or a node is called, as a parameter.
type key string

// ask runs a statement whose parameters and results are all in binary or text as they come:
// []byte is binary, everything else its text. Results are binary in the columns that are named. The error says
// what became of it: only one that is not ErrUnknown means that nothing was done.
func (e *Engine) ask(ctx context.Context, sql string, binary []int16, args ...any) (rows [][][]byte, err error) {
	values, formats := make([][]byte, len(args)), make([]int16, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case []byte:
			values[i], formats[i] = append([]byte{}, arg...), 1 // nil would be null
			continue
		case key:
			if err := cluster.CheckName(arg); err != nil {
				return nil, err
			}
		}
		values[i] = fmt.Append([]byte{}, arg)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	select {
	case e.room <- struct{}{}:
		defer func() { <-e.room }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", cluster.ErrUnavailable, ctx.Err())
	}
	var c *pgconn.PgConn
	select {
	case c = <-e.idle:
	default:
		if c, err = pgconn.ConnectConfig(ctx, e.cfg); err != nil {
			return nil, cluster.Harmless(failed(err))
		}
	}
	result := c.ExecParams(ctx, sql, values, nil, formats, binary).Read()
	if e.closed.Load() || c.IsClosed() || c.TxStatus() != 'I' {
		hangUp(c)
	} else {
		e.idle <- c
	}
	return result.Rows, failed(result.Err)
}

// look is ask where asking twice does no harm.
func (e *Engine) look(ctx context.Context, sql string, binary []int16, args ...any) ([][][]byte, error) {
	rows, err := e.ask(ctx, sql, binary, args...)
	return rows, cluster.Harmless(err)
}

// number is a bigint that is not below 0.
func number(text []byte) uint64 {
	n, _ := strconv.ParseUint(string(text), 10, 64)
	return n
}

// check refuses what loses acknowledged records.
func (e *Engine) check(ctx context.Context) error {
	rows, err := e.look(ctx, `select current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_standby_names'),
		(select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum'))`, nil)
	if err != nil {
		return err
	}
	fsync, pages, standbys, synced := string(rows[0][0]), string(rows[0][1]), string(rows[0][2]), string(rows[0][3])
	switch {
	case fsync != "on" || pages != "on":
		return e.Refuse(fmt.Errorf("%w: fsync is %s, full_page_writes %s: a power cut would lose what was acknowledged", cluster.ErrSettings, fsync, pages))
	case standbys == "" && !e.single:
		return e.Refuse(fmt.Errorf("%w: it has no synchronous_standby_names: with the disk of the server all would be lost", cluster.ErrSettings))
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
func record(row [][]byte) (cluster.Record, error) {
	var h head
	top, lines, found := bytes.Cut(row[1], []byte("\n"))
	switch err := json.Unmarshal(top, &h); {
	case h.V > cluster.Format: // whatever else is in it: that may have another shape
		return cluster.Record{}, fmt.Errorf("%w (its format is %d)", cluster.ErrNewer, h.V)
	case err != nil || !found:
		return cluster.Record{}, fmt.Errorf("%w: record %s: %w", cluster.ErrDamaged, row[0], err)
	}
	h.Seq, h.Lines = cluster.Seq(number(row[0])), lines
	return h.Record, nil
}

// Append is that of [cluster.Log].
func (e *Engine) Append(ctx context.Context, id cluster.SessionID, after cluster.Seq, r cluster.Record) (cluster.Seq, error) {
	if len(r.Lines) > cluster.MostLines {
		return 0, cluster.ErrTooLarge
	}
	top, _ := json.Marshal(head{cluster.Format, r})
	rows, err := e.ask(ctx, "select troupe.put($1, $2, $3)", nil, key(id), after, slices.Concat(top, []byte("\n"), r.Lines))
	if err != nil {
		return 0, err
	}
	seq := number(rows[0][0])
	if seq == 0 {
		return 0, cluster.ErrConflict
	}
	return cluster.Seq(seq), nil
}

// Tail is that of [cluster.Log]. What was not yet on a standby when its client went away, or the
// primary was started again, can be seen here before it is there: the message makes this
// a transaction that waits for the standby, and so for all before it.
func (e *Engine) Tail(ctx context.Context, id cluster.SessionID) (cluster.Record, error) {
	rows, err := e.look(ctx, `with last as (select seq, body from troupe.rec where sess = $1 order by seq desc limit 1)
		select last.seq, last.body, pg_logical_emit_message(true, 'troupe', '') from last`, []int16{0, 1, 0}, key(id))
	if err != nil || len(rows) == 0 {
		return cluster.Record{}, err
	}
	return record(rows[0])
}

// Sources is that of [cluster.Log]: the one that takes writes, since a standby is a copy of its bytes.
func (e *Engine) Sources() []cluster.Source {
	return []cluster.Source{{Name: e.cfg.Host, Server: true, Read: e.read}}
}

func (e *Engine) read(ctx context.Context, id cluster.SessionID, after, to cluster.Seq, f func(cluster.Record) error) error {
	rows, err := e.look(ctx, "select seq, body from troupe.rec where sess = $1 and seq > $2 and seq <= $3 order by seq limit $4",
		[]int16{0, 1}, key(id), after, to, batch)
	for _, row := range rows {
		r, err := record(row)
		if err == nil {
			err = f(r)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// List is that of [cluster.Log]; a page is the last session of the one before.
func (e *Engine) List(ctx context.Context, page string, n int) (ids []cluster.SessionID, next string, err error) {
	rows, err := e.look(ctx, "select sess from troupe.head where sess > $1 order by sess limit $2", nil, page, n+1)
	for _, row := range rows {
		ids = append(ids, cluster.SessionID(row[0]))
	}
	if len(ids) > n {
		ids, next = ids[:n], string(ids[n-1])
	}
	return ids, next, err
}

// Trim is that of [cluster.Log].
func (e *Engine) Trim(ctx context.Context, id cluster.SessionID, before cluster.Seq) error {
	_, err := e.look(ctx, "delete from troupe.rec where sess = $1 and seq < $2", nil, key(id), before)
	return err
}

// Beat is that of [cluster.Registry]. It hears the others in the same statement: who beats needs
// no other ear.
func (e *Engine) Beat(ctx context.Context, n cluster.Node) error {
	body, _ := json.Marshal(n)
	first := e.boot.Load() != n.Boot
	rows, err := e.ask(ctx, `with beat as (insert into troupe.node values ($1, $2, $3)
		on conflict (name) do update set boot = excluded.boot, body = excluded.body where troupe.node.boot = excluded.boot or $4::bool returning name)
		select body from troupe.node union all select null from beat`, []int16{1}, key(n.Name), n.Boot, body, first)
	stored := err != nil
	for _, row := range rows {
		if row[0] == nil {
			stored = true
		} else if err == nil {
			err = e.Hear(row[0])
		}
	}
	if !stored {
		return cluster.ErrFenced
	}
	if err == nil {
		e.boot.Store(n.Boot)
	}
	return err
}

// listen reads what all nodes have said.
func (e *Engine) listen(ctx context.Context) error {
	rows, err := e.look(ctx, "select body from troupe.node", []int16{1})
	for _, row := range rows {
		err = cmp.Or(err, e.Hear(row[0]))
	}
	return err
}

// Node is that of [cluster.Registry].
func (e *Engine) Node(ctx context.Context, name string) (n cluster.Node, found bool, err error) {
	rows, err := e.look(ctx, "select body from troupe.node where name = $1", []int16{1}, key(name))
	if err != nil || len(rows) == 0 {
		return n, false, err
	}
	return n, true, json.Unmarshal(rows[0][0], &n)
}

// SetIndex is that of [cluster.Index].
func (e *Engine) SetIndex(ctx context.Context, id cluster.SessionID, text []byte) error {
	_, err := e.look(ctx, "insert into troupe.idx values ($1, $2) on conflict (sess) do update set body = excluded.body", nil, key(id), text)
	return err
}

// Indexed is that of [cluster.Index].
func (e *Engine) Indexed(ctx context.Context, ids []cluster.SessionID) (map[cluster.SessionID][]byte, error) {
	texts := map[cluster.SessionID][]byte{}
	if len(ids) == 0 {
		return texts, nil
	}
	list, _ := json.Marshal(ids)
	rows, err := e.look(ctx, "select sess, body from troupe.idx where sess in (select json_array_elements_text($1::json))", []int16{0, 1}, string(list))
	for _, row := range rows {
		texts[cluster.SessionID(row[0])] = row[1]
	}
	return texts, err
}

// Status is that of [cluster.Engine].
func (e *Engine) Status(ctx context.Context) (cluster.Status, error) {
	rows, err := e.look(ctx, `select current_setting('server_version'), (select greatest(reltuples, pg_stat_get_live_tuples(oid), (select count(*) from (select from troupe.rec limit 1000) few))::bigint
		from pg_class where oid = 'troupe.rec'::regclass), -- an estimate, which there is none of before the first thousand
		pg_total_relation_size('troupe.rec')`, nil)
	if err != nil {
		return cluster.Status{}, err
	}
	st := cluster.Status{Engine: "PostgreSQL " + string(rows[0][0])}
	g := cluster.Group{Name: e.cfg.Database, Leader: e.cfg.Host, Records: number(rows[0][1]), Bytes: number(rows[0][2])}
	rows, err = e.look(ctx, `select application_name, coalesce(sync_state, '') in ('sync', 'quorum'), coalesce(greatest(pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn), 0), 0)::bigint
		from pg_stat_replication order by 1`, nil)
	for _, row := range rows {
		g.Others = append(g.Others, cluster.Server{Name: string(row[0]), Current: string(row[1]) == "t", Lag: number(row[2])})
	}
	st.Groups = []cluster.Group{g}
	return st, err
}

// Spread is that of [cluster.Engine]: there is one leader, and who runs PostgreSQL says which.
func (e *Engine) Spread(context.Context) error { return nil }
