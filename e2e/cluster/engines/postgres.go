package engines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Postgres is a primary and a synchronous standby.
type Postgres struct {
	Primary, Standby *Process
	Ports            [2]int
	Front            *Proxy // what clients reach the primary by
	bin, dir         string
	user             *syscall.Credential
}

// postgresBin is the directory of initdb, which Debian keeps out of the path.
func postgresBin() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		return filepath.Dir(path), err
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errors.New("PostgreSQL is missing: apt-get install postgresql")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// StartPostgres makes both and waits until the standby is synchronous. dir is where they are.
func StartPostgres(ctx context.Context, dir string) (*Postgres, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	p := &Postgres{bin: bin, dir: dir, Ports: [2]int{Free(), Free()}}
	if os.Getuid() == 0 { // it does not run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		p.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		for up := dir; up != "/" && up != os.TempDir(); up = filepath.Dir(up) {
			if err := os.Chmod(up, 0o755); err != nil {
				break
			}
		}
		if err := os.Chown(dir, uid, gid); err != nil {
			return nil, err
		}
	}
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := p.run(ctx, "initdb", "-D", a, "-U", "troupe", "-A", "trust", "-E", "UTF8", "--locale=C"); err != nil {
		return nil, err
	}
	if err := p.settings(a, 0, "synchronous_standby_names = 'ANY 1 (b)'\nsynchronous_commit = on\n"); err != nil {
		return nil, err
	}
	if p.Front, err = NewProxy(fmt.Sprintf("127.0.0.1:%d", p.Ports[0])); err != nil {
		return nil, err
	}
	p.Primary = &Process{Name: "a", Dir: dir, Args: []string{filepath.Join(bin, "postgres"), "-D", a}, User: p.user}
	p.Standby = &Process{Name: "b", Dir: dir, Args: []string{filepath.Join(bin, "postgres"), "-D", b}, User: p.user}
	if err := p.Primary.Start(); err != nil {
		return p, err
	}
	if err := p.listening(ctx, 0); err != nil {
		return p, err
	}
	// A standby that is not there yet makes whoever writes wait, but not who copies.
	if err := Until(ctx, "a copy of the primary", func() bool {
		_ = os.RemoveAll(b)
		return p.run(ctx, "pg_basebackup", "-D", b, "-R", "-X", "stream", "-c", "fast", "-d", fmt.Sprintf("host=127.0.0.1 port=%d user=troupe application_name=b", p.Ports[0])) == nil
	}); err != nil {
		return p, err
	}
	return p, Until(ctx, "the standby", func() bool {
		if !p.Standby.Alive() { // not begun yet, or somebody has its port: the copy took a while
			p.Ports[1] = Free()
			if p.settings(b, 1, "") != nil || p.Standby.Start() != nil {
				return false
			}
		}
		out, err := p.output(ctx, "psql", "-h", "127.0.0.1", "-p", strconv.Itoa(p.Ports[0]), "-U", "troupe", "-d", "postgres", "-Atc",
			"select count(*) from pg_stat_replication where sync_state in ('sync','quorum')")
		return err == nil && strings.TrimSpace(out) == "1"
	})
}

// settings of a server.
func (p *Postgres) settings(dir string, i int, more string) error {
	file := filepath.Join(dir, "postgresql.auto.conf")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := fmt.Sprintf("\nlisten_addresses = '127.0.0.1'\nport = %d\nunix_socket_directories = ''\nmax_connections = 200\nshared_buffers = 32MB\nhot_standby = on\n%s", p.Ports[i], more)
	return os.WriteFile(file, append(text, lines...), 0o600)
}

func (p *Postgres) run(ctx context.Context, name string, args ...string) error {
	out, err := p.output(ctx, name, args...)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

func (p *Postgres) output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.user}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (p *Postgres) listening(ctx context.Context, i int) error {
	return Until(ctx, "PostgreSQL", func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.Ports[i]))
		if err == nil {
			_ = c.Close()
		}
		return err == nil && p.run(ctx, "pg_isready", "-h", "127.0.0.1", "-p", strconv.Itoa(p.Ports[i]), "-U", "troupe") == nil
	})
}

// URL is where clients reach it: both, of which one takes writes.
func (p *Postgres) URL() string {
	return fmt.Sprintf("postgres://troupe@%s,127.0.0.1:%d/postgres?sslmode=disable&target_session_attrs=read-write", p.Front.Addr(), p.Ports[1])
}

// HangUp ends the connections of all nodes, whatever goes on in them.
func (p *Postgres) HangUp(ctx context.Context) error {
	return p.psql(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'troupe'")
}

// Hold has a transaction that somebody has left open keep the row of a session, until the server's own limit ends it.
func (p *Postgres) Hold(ctx context.Context, session string, d time.Duration) error {
	err := p.psql(ctx, fmt.Sprintf("set idle_in_transaction_session_timeout = %d", d.Milliseconds()), "begin",
		fmt.Sprintf("select 1 from troupe.head where sess = '%s' for update", session), fmt.Sprintf("\\! sleep %f", 2*d.Seconds()), "commit")
	if err == nil {
		return errors.New("the server has not ended a transaction that was left open")
	}
	if !strings.Contains(err.Error(), "idle-in-transaction") {
		return err
	}
	return nil
}

// psql runs statements on the primary, in one session.
func (p *Postgres) psql(ctx context.Context, statements ...string) error {
	args := []string{"-h", "127.0.0.1", "-p", strconv.Itoa(p.Ports[0]), "-U", "troupe", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-q"}
	for _, s := range statements {
		args = append(args, "-c", s)
	}
	return p.run(ctx, "psql", args...)
}

// Promote makes the standby the primary, for good, and one that needs no standby: what else who
// manages it would make another.
func (p *Postgres) Promote(ctx context.Context) error {
	b := filepath.Join(p.dir, "b")
	if err := p.settings(b, 1, "synchronous_standby_names = ''\n"); err != nil {
		return err
	}
	if err := p.run(ctx, "pg_ctl", "reload", "-D", b); err != nil {
		return err
	}
	return p.run(ctx, "pg_ctl", "promote", "-D", b)
}

// Close kills both.
func (p *Postgres) Close() {
	for _, s := range []*Process{p.Primary, p.Standby} {
		if s != nil {
			s.Kill()
		}
	}
	if p.Front != nil {
		p.Front.Close()
	}
}
