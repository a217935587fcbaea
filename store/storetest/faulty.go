package storetest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"troupe/store"
)

// Plan says which operations of a file system fail. It prints and parses as
// one line of text, so that a failure found by chance can be pasted into a
// test:
//
//	seed=7; write *.jsonl #2 short=17; sync * p=0.1 EIO; create *.torn always EMFILE
//
// A rule is an operation (see [Ops], or * for any), a pattern for the base
// name of the file (as in path.Match), when it strikes (always; #n: the n-th
// time the rule is asked, counted from 1; #n+: from then on; p=f: with that
// probability), and what happens: an errno of [Errnos], or, for writes,
// short=n: n bytes are written and then the disk is full. The first rule that
// strikes wins. Chance is drawn per file and operation, so it does not depend
// on what happens to other files.
type Plan struct {
	Seed  uint64
	Rules []Rule
}

// Rule is one rule of a plan.
type Rule struct {
	Op, Pattern string
	Nth         int     // 0: not counted
	Onwards     bool    // with Nth
	Probability float64 // 0: not by chance
	Short       int     // bytes written before a write fails; -1: Err alone
	Err         syscall.Errno
}

// Ops are the operations a plan can name.
var Ops = []string{
	"append", "open", "create", "stat", "readdir", "rename", "remove", "mkdir", "syncdir",
	"write", "read", "truncate", "sync", "fstat", "lock", "close",
}

// Errnos are the errors a plan can name.
var Errnos = map[string]syscall.Errno{
	"ENOSPC": syscall.ENOSPC, "EIO": syscall.EIO, "EMFILE": syscall.EMFILE, "EROFS": syscall.EROFS, "EACCES": syscall.EACCES,
	"ENOLCK": syscall.ENOLCK, "EOPNOTSUPP": syscall.EOPNOTSUPP, "ENOSYS": syscall.ENOSYS,
}

// String prints the plan so that ParsePlan reads it.
func (p Plan) String() string {
	var parts []string
	if p.Seed != 0 {
		parts = append(parts, fmt.Sprintf("seed=%d", p.Seed))
	}
	for _, r := range p.Rules {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, "; ")
}

func (r Rule) String() string { return r.Op + " " + r.Pattern + " " + r.when() + " " + r.what() }

func (r Rule) when() string {
	switch {
	case r.Nth > 0 && r.Onwards:
		return fmt.Sprintf("#%d+", r.Nth)
	case r.Nth > 0:
		return fmt.Sprintf("#%d", r.Nth)
	case r.Probability > 0:
		return "p=" + strconv.FormatFloat(r.Probability, 'g', -1, 64)
	}
	return "always"
}

func (r Rule) what() string {
	if r.Short >= 0 {
		return fmt.Sprintf("short=%d", r.Short)
	}
	for name, errno := range Errnos {
		if errno == r.Err {
			return name
		}
	}
	return "EIO"
}

// ParsePlan reads a plan. The empty text is the plan without faults.
func ParsePlan(text string) (Plan, error) {
	var p Plan
	for part := range strings.SplitSeq(text, ";") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if seed, ok := strings.CutPrefix(part, "seed="); ok {
			n, err := strconv.ParseUint(seed, 10, 64)
			if err != nil {
				return Plan{}, fmt.Errorf("fault plan: %w", err)
			}
			p.Seed = n
			continue
		}
		r, err := parseRule(part)
		if err != nil {
			return Plan{}, fmt.Errorf("fault plan: rule %q: %w", part, err)
		}
		p.Rules = append(p.Rules, r)
	}
	return p, nil
}

// MustPlan is ParsePlan for plans that are written down in tests.
func MustPlan(text string) Plan {
	p, err := ParsePlan(text)
	if err != nil {
		panic(err)
	}
	return p
}

func parseRule(text string) (Rule, error) {
	f := strings.Fields(text)
	if len(f) != 4 {
		return Rule{}, errors.New("want: operation pattern when what")
	}
	r := Rule{Op: f[0], Pattern: f[1], Short: -1}
	if r.Op != "*" && !slices.Contains(Ops, r.Op) {
		return Rule{}, errors.New("unknown operation")
	}
	if _, err := path.Match(r.Pattern, ""); err != nil {
		return Rule{}, err
	}
	if err := r.parseWhen(f[2]); err != nil {
		return Rule{}, err
	}
	return r, r.parseWhat(f[3])
}

func (r *Rule) parseWhen(when string) (err error) {
	switch {
	case when == "always":
		return nil
	case strings.HasPrefix(when, "#"):
		when, r.Onwards = strings.CutSuffix(when[1:], "+")
		if r.Nth, err = strconv.Atoi(when); err == nil && r.Nth < 1 {
			err = errors.New("times count from 1")
		}
		return err
	case strings.HasPrefix(when, "p="):
		r.Probability, err = strconv.ParseFloat(when[2:], 64)
		if err == nil && !(r.Probability > 0 && r.Probability <= 1) {
			err = errors.New("a probability is above 0 and at most 1")
		}
		return err
	}
	return fmt.Errorf("unknown time %q", when)
}

func (r *Rule) parseWhat(what string) (err error) {
	if n, ok := strings.CutPrefix(what, "short="); ok {
		if r.Op != "write" {
			return errors.New("only writes can be short")
		}
		r.Err = syscall.ENOSPC
		if r.Short, err = strconv.Atoi(n); err == nil && r.Short < 0 {
			err = errors.New("a negative number of bytes")
		}
		return err
	}
	errno, ok := Errnos[what]
	if !ok {
		return fmt.Errorf("unknown error %q", what)
	}
	r.Err = errno
	return nil
}

// Faulty wraps a file system and makes operations fail as its plan says. An
// operation that fails has no effect below, except that a short write has
// written its bytes.
type Faulty struct {
	store.FS
	mu     sync.Mutex
	plan   Plan
	asked  []int          // by rule
	draws  map[string]int // by operation and file
	struck []string       // the operations that failed, in order
	paused bool
}

// NewFaulty wraps a file system.
func NewFaulty(fsys store.FS, plan Plan) *Faulty {
	f := &Faulty{FS: fsys}
	f.SetPlan(plan)
	return f
}

// SetPlan starts over with another plan; the zero plan heals the file system.
func (f *Faulty) SetPlan(plan Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan, f.asked, f.draws = plan, make([]int, len(plan.Rules)), map[string]int{}
}

// Pause runs fn without faults; the plan goes on afterwards where it was.
func (f *Faulty) Pause(fn func()) {
	f.mu.Lock()
	f.paused = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.paused = false
		f.mu.Unlock()
	}()
	fn()
}

// Struck lists the operations that were made to fail so far, as "write a.jsonl
// ENOSPC".
func (f *Faulty) Struck() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.struck...)
}

// strike decides about an operation. short is the number of bytes that a
// write still writes, -1 for an operation that does nothing.
func (f *Faulty) strike(op, name string) (short int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.paused {
		return 0, nil
	}
	base := filepath.Base(name)
	for i, r := range f.plan.Rules {
		matched, _ := path.Match(r.Pattern, base)
		if !matched || r.Op != op && r.Op != "*" {
			continue
		}
		f.asked[i]++
		if !f.strikes(r, f.asked[i], op+" "+base) {
			continue
		}
		f.struck = append(f.struck, op+" "+base+" "+r.what())
		return r.Short, &fs.PathError{Op: op, Path: name, Err: r.Err}
	}
	return 0, nil
}

func (f *Faulty) strikes(r Rule, nth int, key string) bool {
	switch {
	case r.Nth > 0:
		return nth == r.Nth || r.Onwards && nth > r.Nth
	case r.Probability > 0:
		f.draws[key]++
		h := fnv.New64a()
		fmt.Fprintf(h, "%s %d", key, f.draws[key])
		return rand.New(rand.NewPCG(f.plan.Seed, h.Sum64())).Float64() < r.Probability
	}
	return true
}

// try does an operation unless it is made to fail.
func try[T any](f *Faulty, op, name string, do func() (T, error)) (none T, err error) {
	if _, err := f.strike(op, name); err != nil {
		return none, err
	}
	return do()
}

// only is try for an operation that has no result.
func (f *Faulty) only(op, name string, do func() error) error {
	_, err := try(f, op, name, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

func (f *Faulty) file(op, name string, open func(string) (store.File, error)) (store.File, error) {
	return try(f, op, name, func() (store.File, error) {
		file, err := open(name)
		if err != nil {
			return nil, err
		}
		return &faultyFile{file, f, name}, nil
	})
}

func (f *Faulty) OpenAppend(name string) (store.File, error) {
	return f.file("append", name, f.FS.OpenAppend)
}
func (f *Faulty) Open(name string) (store.File, error)   { return f.file("open", name, f.FS.Open) }
func (f *Faulty) Create(name string) (store.File, error) { return f.file("create", name, f.FS.Create) }

func (f *Faulty) Stat(name string) (fs.FileInfo, error) {
	return try(f, "stat", name, func() (fs.FileInfo, error) { return f.FS.Stat(name) })
}

func (f *Faulty) Stamp(name string) (store.Stamp, error) {
	return try(f, "stat", name, func() (store.Stamp, error) { return f.FS.Stamp(name) })
}

func (f *Faulty) ReadDir(name string) ([]fs.DirEntry, error) {
	return try(f, "readdir", name, func() ([]fs.DirEntry, error) { return f.FS.ReadDir(name) })
}

func (f *Faulty) LockDir(name string) (unlock func(), err error) {
	return try(f, "lock", name, func() (func(), error) { return f.FS.LockDir(name) })
}

func (f *Faulty) Rename(from, to string) error {
	return f.only("rename", from, func() error { return f.FS.Rename(from, to) })
}

func (f *Faulty) Remove(name string) error {
	return f.only("remove", name, func() error { return f.FS.Remove(name) })
}

func (f *Faulty) MkdirAll(name string) error {
	return f.only("mkdir", name, func() error { return f.FS.MkdirAll(name) })
}

func (f *Faulty) SyncDir(name string) error {
	return f.only("syncdir", name, func() error { return f.FS.SyncDir(name) })
}

type faultyFile struct {
	store.File
	fs   *Faulty
	name string
}

func (f *faultyFile) Write(p []byte) (int, error) {
	short, err := f.fs.strike("write", f.name)
	if err == nil {
		return f.File.Write(p)
	}
	if short < 0 {
		return 0, err
	}
	n, below := f.File.Write(p[:min(short, len(p))])
	return n, errors.Join(below, err)
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	return try(f.fs, "read", f.name, func() (int, error) { return f.File.ReadAt(p, off) })
}

func (f *faultyFile) Stat() (fs.FileInfo, error)  { return try(f.fs, "fstat", f.name, f.File.Stat) }
func (f *faultyFile) Stamp() (store.Stamp, error) { return try(f.fs, "fstat", f.name, f.File.Stamp) }
func (f *faultyFile) Sync() error                 { return f.fs.only("sync", f.name, f.File.Sync) }
func (f *faultyFile) Lock() error                 { return f.fs.only("lock", f.name, f.File.Lock) }

func (f *faultyFile) Truncate(size int64) error {
	return f.fs.only("truncate", f.name, func() error { return f.File.Truncate(size) })
}

// Close always closes, whatever it reports: no test wants to leak files.
func (f *faultyFile) Close() error {
	below := f.File.Close()
	return f.fs.only("close", f.name, func() error { return below })
}
