package postgres

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/actors/cluster"
)

// stub says what a server says of how it is set up, in as much of its protocol as asking takes.
type stub struct {
	settings []string // fsync, full_page_writes, synchronous_standby_names, synced standbys
	refuses  string   // with which code statements are refused; "" for none

	mu     sync.Mutex
	params map[string]string // of the last connection
	bound  [][]byte          // the parameters of the last statement
}

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
	return "postgres://troupe@" + l.Addr().String() + "/troupe?sslmode=disable"
}

func (s *stub) serve(c net.Conn) {
	defer c.Close()
	b := pgproto3.NewBackend(c, c)
	hello, err := b.ReceiveStartupMessage()
	if err != nil {
		return
	}
	s.mu.Lock()
	s.params = maps.Clone(hello.(*pgproto3.StartupMessage).Parameters)
	s.mu.Unlock()
	ready := &pgproto3.ReadyForQuery{TxStatus: 'I'}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(ready)
	for sql := ""; b.Flush() == nil; {
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *pgproto3.Query: // whether it takes writes
			s.row(b, []string{"off"})
			b.Send(ready)
		case *pgproto3.Parse:
			sql = m.Query
		case *pgproto3.Bind:
			s.mu.Lock()
			s.bound = nil
			for _, p := range m.Parameters {
				s.bound = append(s.bound, slices.Clone(p))
			}
			s.mu.Unlock()
		case *pgproto3.Sync:
			switch {
			case strings.Contains(sql, "troupe.put"):
				s.row(b, []string{"12"})
			case s.refuses != "":
				b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: s.refuses, Message: "no"})
			case strings.Contains(sql, "current_setting('fsync')"):
				s.row(b, s.settings)
			default:
				s.row(b, nil)
			}
			b.Send(ready)
		}
	}
}

// row is a result of one row, or none.
func (s *stub) row(b *pgproto3.Backend, values []string) {
	row, of := &pgproto3.DataRow{}, &pgproto3.RowDescription{}
	for _, v := range values {
		row.Values = append(row.Values, []byte(v))
		of.Fields = append(of.Fields, pgproto3.FieldDescription{Name: []byte("x"), DataTypeOID: 25, DataTypeSize: -1})
	}
	if len(values) > 0 {
		b.Send(of)
		b.Send(row)
	}
	b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
}

func (s *stub) open(t *testing.T, single bool) (warned []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := Open(ctx, Config{URL: s.start(t), Single: single, Warn: func(why string) { warned = append(warned, why) }})
	if err == nil {
		require.NoError(t, e.Close())
	}
	return warned, err
}

// TestSettings: a node does not begin on a server that would lose what was acknowledged, and says why.
func TestSettings(t *testing.T) {
	t.Parallel()
	for _, is := range []struct {
		settings string
		single   bool
		want     string // in the error, "" for none
		warned   string
	}{
		{settings: "on on ANY_1_(b,c) 2"},
		{settings: "on on b 1", single: true},
		{settings: "on on  0", single: true},
		{settings: "on on b 0", warned: "no synchronous standby of PostgreSQL is to be seen"},
		{settings: "on on  0", want: "it has no synchronous_standby_names"},
		{settings: "off on b 1", want: "fsync is off, full_page_writes on"},
		{settings: "on off b 1", want: "fsync is on, full_page_writes off"},
		{settings: "off on  0", single: true, want: "fsync is off"},
	} {
		s := &stub{settings: strings.Split(is.settings, " ")}
		warned, err := s.open(t, is.single)
		if is.want == "" {
			require.NoError(t, err, is.settings)
		} else {
			require.ErrorIs(t, err, cluster.ErrSettings, is.settings)
			assert.ErrorContains(t, err, is.want)
		}
		assert.Equal(t, is.warned != "", len(warned) > 0, is.settings)
		assert.Contains(t, strings.Join(warned, "\n"), is.warned)
		// Whatever the role has: an answer means that a standby has it.
		s.mu.Lock()
		assert.Equal(t, []string{"on", "troupe"}, []string{s.params["synchronous_commit"], s.params["application_name"]})
		s.mu.Unlock()
	}
	for settings, told := range map[string]string{"on on  0": "it has no synchronous_standby_names", "off on b 1": "fsync is off"} {
		var warned []string
		s := &stub{settings: strings.Split(settings, " ")}
		e, err := Open(t.Context(), Config{URL: s.start(t), Looks: true, Warn: func(why string) { warned = append(warned, why) }})
		require.NoError(t, err, "who only looks at it: %s", settings)
		require.NoError(t, e.Close())
		assert.Contains(t, strings.Join(warned, "\n"), told)
	}
	for code, want := range map[string]string{"42P01": "troupe cluster init", "42501": "42501", "28P01": "28P01", "3D000": "3D000"} {
		_, err := (&stub{refuses: code}).open(t, false)
		require.ErrorIs(t, err, cluster.ErrSettings, code)
		assert.ErrorContains(t, err, want)
	}
	_, err := Open(t.Context(), Config{URL: "postgres://host:port/"})
	require.ErrorIs(t, err, cluster.ErrSettings)
}

// TestFailed: what became of a statement that was refused.
func TestFailed(t *testing.T) {
	t.Parallel()
	all := []error{cluster.ErrFull, cluster.ErrSettings, cluster.ErrUnknown, cluster.ErrUnavailable}
	for code, want := range map[string]error{
		"53100": cluster.ErrFull, "42883": cluster.ErrSettings, "3F000": cluster.ErrSettings,
		"57P01": cluster.ErrUnknown, "57014": cluster.ErrUnknown, "08006": cluster.ErrUnknown, "XX000": cluster.ErrUnknown,
		"40001": cluster.ErrUnavailable, "53300": cluster.ErrUnavailable,
	} {
		err := failed(&pgconn.PgError{Code: code})
		for _, is := range all {
			assert.Equal(t, is == want, errors.Is(err, is), "%s is %v", code, is)
		}
	}
	require.ErrorIs(t, failed(errors.New("the connection is gone")), cluster.ErrUnknown)
	require.NoError(t, failed(nil))
}

// TestRecord: what is no record is damaged, and one of a newer format is not.
func TestRecord(t *testing.T) {
	t.Parallel()
	r, err := record([][]byte{[]byte("7"), []byte(`{"v":1,"prev":5,"epoch":3,"n":2,"kind":"lines","node":"a","boot":"b","sum":9}` + "\none\ntwo\n")})
	require.NoError(t, err)
	require.Equal(t, cluster.Record{Seq: 7, Prev: 5, Epoch: 3, N: 2, Kind: cluster.Lines, Node: "a", Boot: "b", Sum: 9, Lines: []byte("one\ntwo\n")}, r)
	for text, want := range map[string]error{
		`{"v":1}`: cluster.ErrDamaged, "": cluster.ErrDamaged, "{\n": cluster.ErrDamaged, `{"v":2,"n":7}` + "\nx": cluster.ErrNewer,
	} {
		_, err := record([][]byte{[]byte("7"), []byte(text)})
		require.ErrorIs(t, err, want, text)
	}
}

// TestExpected: whatever is appended names the record that it follows, a claim, too: that is the fence.
func TestExpected(t *testing.T) {
	t.Parallel()
	s := &stub{settings: []string{"on", "on", "b", "1"}}
	e, err := Open(t.Context(), Config{URL: s.start(t)})
	require.NoError(t, err)
	defer e.Close()
	for _, r := range []cluster.Record{{Kind: cluster.Claim}, {Kind: cluster.Claim, Prev: 7}, {Kind: cluster.Lines, Prev: 8, Epoch: 8, N: 1}} {
		seq, err := e.Append(t.Context(), "session-1", r.Prev, r)
		require.NoError(t, err)
		require.EqualValues(t, 12, seq)
		s.mu.Lock()
		require.Len(t, s.bound, 3)
		require.Equal(t, []string{"session-1", strconv.Itoa(int(r.Prev))}, []string{string(s.bound[0]), string(s.bound[1])})
		s.mu.Unlock()
	}
}
