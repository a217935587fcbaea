package store

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"troupe/protocol"
)

// Bounds on what a listing carries and keeps.
const (
	maxListText   = 32 << 10 // bytes of text per session: of its first message, and of all messages
	maxCachedText = 32 << 20 // bytes of text remembered; what is beyond is read again each time
)

// noMessages stands in for the first message of a session without one.
const noMessages = "(no messages)"

// Query says which session files to look at.
type Query struct {
	Dir   string // where they lie
	All   bool   // they lie in the directories in Dir, as all projects' do in Root
	Cwd   string // only those whose header names this working directory; "" for any
	Limit int    // at most so many, those written last; 0 for all
}

// Head is what a session file's first line and its directory entry say.
type Head struct {
	Path   string
	Header protocol.Header
	MTime  time.Time
	Size   int64
}

// Lister finds session files. It remembers what it has read of a file until
// the file changes in size or time, so that only the first listing is slow. It
// is safe for concurrent use and reads as many files at once as there are
// processors.
type Lister struct {
	fsys FS

	mu      sync.Mutex
	dirs    map[string]map[string]*known // by directory and name
	cached  int                          // bytes of text in summaries
	listing uint64                       // how many times directories were read
}

// known is what has been read of a file. Its fields are written under the
// lister's lock, but for dir and file, which stay as they are: a file that has
// changed gets another known.
type known struct {
	dir     string
	file    fileStat
	head    *Head // nil for a file that is no session
	checked bool  // head was looked for
	summary *protocol.SessionSummary
	listed  uint64 // when it was last seen
	gone    bool
}

type fileStat struct {
	name  string
	mtime time.Time
	size  int64
}

// NewLister makes a lister that has read nothing.
func NewLister(fsys FS) *Lister {
	return &Lister{fsys: fsys, dirs: map[string]map[string]*known{}}
}

// List describes sessions, those with the latest activity first. Files that
// cannot be read or are no sessions are left out, a directory that does not
// exist has none. Text beyond the first 32 kB of a session is cut.
func (l *Lister) List(q Query) ([]protocol.SessionSummary, error) {
	files, err := l.matching(q)
	if err != nil {
		return nil, err
	}
	found := l.summaries(files)
	found = slices.DeleteFunc(found, func(s *protocol.SessionSummary) bool { return s == nil })
	slices.SortStableFunc(found, func(a, b *protocol.SessionSummary) int { return strings.Compare(b.Modified, a.Modified) })
	list := make([]protocol.SessionSummary, len(found))
	for i, s := range found {
		list[i] = *s
	}
	return list, nil
}

// Heads lists sessions by their first lines, those written last first.
func (l *Lister) Heads(q Query) ([]Head, error) {
	files, err := l.matching(q)
	if err != nil {
		return nil, err
	}
	heads := make([]Head, len(files))
	for i, h := range l.heads(files) {
		heads[i] = *h
	}
	return heads, nil
}

// matching finds the sessions of a query, those written last first.
func (l *Lister) matching(q Query) ([]*known, error) {
	files, err := l.files(q)
	if err != nil {
		return nil, err
	}
	if q.Limit > 0 {
		return l.firstMatching(files, q), nil
	}
	heads, n := l.heads(files), 0
	for i, h := range heads {
		if h.matches(q) {
			files[n] = files[i]
			n++
		}
	}
	return files[:n], nil
}

// heads reads the first lines of all files, nil for what is no session.
func (l *Lister) heads(files []*known) []*Head {
	return everyOne(l, files, func(k *known) (*Head, bool) { return k.head, k.checked }, l.head)
}

// summaries describes sessions, nil for those that cannot be read.
func (l *Lister) summaries(files []*known) []*protocol.SessionSummary {
	return everyOne(l, files, func(k *known) (*protocol.SessionSummary, bool) { return k.summary, k.summary != nil }, l.summary)
}

// everyOne is what is known of each file, or what reading it says.
func everyOne[T any](l *Lister, files []*known, known func(*known) (T, bool), read func(*known) T) []T {
	found := make([]T, len(files))
	var unread []int
	l.mu.Lock()
	for i, k := range files {
		var ok bool
		if found[i], ok = known(k); !ok {
			unread = append(unread, i)
		}
	}
	l.mu.Unlock()
	parallel(len(unread), func(n int) { found[unread[n]] = read(files[unread[n]]) })
	return found
}

// firstMatching reads no more first lines than it has to.
func (l *Lister) firstMatching(files []*known, q Query) []*known {
	var some []*known
	for _, k := range files {
		if l.head(k).matches(q) {
			some = append(some, k)
		}
		if len(some) == q.Limit {
			break
		}
	}
	return some
}

func (h *Head) matches(q Query) bool {
	return h != nil && (q.Cwd == "" || h.Header.Cwd == ValidCwd(q.Cwd))
}

// MostRecent is the session that was written last. ok is false if there is
// none.
func (l *Lister) MostRecent(q Query) (h Head, ok bool, err error) {
	q.Limit = 1
	heads, err := l.Heads(q)
	if err != nil || len(heads) == 0 {
		return Head{}, false, err
	}
	return heads[0], true, nil
}

// Resolve finds a session by its id or the beginning of it: first among those
// of q, then among those of all projects below root. The whole id beats a
// beginning, a session written later one written earlier. elsewhere says that
// the session was not among those of q.
func (l *Lister) Resolve(q Query, root, id string) (h Head, elsewhere, ok bool, err error) {
	if id == "" {
		return Head{}, false, false, nil
	}
	h, ok, err = l.resolveIn(q, id)
	if ok || err != nil || root == "" {
		return h, false, ok, err
	}
	h, ok, err = l.resolveIn(Query{Dir: root, All: true}, id)
	return h, true, ok, err
}

// resolveIn looks at the files first whose names promise the id.
func (l *Lister) resolveIn(q Query, id string) (Head, bool, error) {
	q.Limit = 0
	files, err := l.files(q)
	if err != nil {
		return Head{}, false, err
	}
	var named []*known
	for _, k := range files {
		if strings.Contains(k.file.name, "_"+id) {
			named = append(named, k)
		}
	}
	for _, some := range [][]*known{named, files} {
		if h := bestMatch(l.heads(some), q, id); h != nil {
			return *h, true, nil
		}
	}
	return Head{}, false, nil
}

func bestMatch(heads []*Head, q Query, id string) *Head {
	var best *Head
	for _, h := range heads {
		if !h.matches(q) || !strings.HasPrefix(h.Header.ID, id) {
			continue
		}
		if h.Header.ID == id {
			return h
		}
		if best == nil {
			best = h
		}
	}
	return best
}

// files lists what may be sessions, those written last first.
func (l *Lister) files(q Query) ([]*known, error) {
	dirs := []string{q.Dir}
	if q.All {
		var err error
		if dirs, err = l.subdirs(q.Dir); err != nil {
			return nil, err
		}
	}
	var files []*known
	for _, dir := range dirs {
		stats, err := l.readDir(dir)
		if err != nil {
			return nil, err
		}
		files = append(files, l.remember(dir, stats)...)
	}
	sort := slices.SortStableFunc[[]*known]
	if len(dirs) == 1 { // no two files have the same name
		sort = slices.SortFunc
	}
	sort(files, func(a, b *known) int {
		if c := b.file.mtime.Compare(a.file.mtime); c != 0 {
			return c
		}
		return cmp.Compare(b.file.name, a.file.name) // names begin with the time
	})
	return files, nil
}

// subdirs lists the directories in a directory, also behind symbolic links.
func (l *Lister) subdirs(root string) ([]string, error) {
	entries, err := l.entries(root)
	var dirs []string
	for _, e := range entries {
		path := filepath.Join(root, e.Name())
		if e.IsDir() {
			dirs = append(dirs, path)
		} else if e.Type()&fs.ModeSymlink != 0 {
			if st, err := l.fsys.Stat(path); err == nil && st.IsDir() {
				dirs = append(dirs, path)
			}
		}
	}
	return dirs, err
}

// entries reads a directory; one that is not there is empty.
func (l *Lister) entries(dir string) ([]fs.DirEntry, error) {
	entries, err := l.fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// sessionSuffix is what the names of session files end with.
const sessionSuffix = ".jsonl"

// readDir stats the files in a directory that may be sessions.
func (l *Lister) readDir(dir string) ([]fileStat, error) {
	if fsys, ok := l.fsys.(dirStater); ok {
		stats, err := fsys.statDir(dir, sessionSuffix)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return stats, err
	}
	entries, err := l.entries(dir)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), sessionSuffix) })
	return statAll(len(entries), func(i int) (st fileStat, ok bool) {
		info, err := entries[i].Info()
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			info, err = l.fsys.Stat(filepath.Join(dir, entries[i].Name()))
		}
		if err != nil || !info.Mode().IsRegular() {
			return st, false
		}
		return fileStat{entries[i].Name(), info.ModTime(), info.Size()}, true
	}), nil
}

// dirStater is a file system that has a faster way to do what readDir does.
type dirStater interface {
	statDir(dir, suffix string) ([]fileStat, error)
}

// statAll collects what stat knows of n files, without those that it refuses.
func statAll(n int, stat func(i int) (fileStat, bool)) []fileStat {
	stats := make([]fileStat, n)
	parallel(n, func(i int) {
		if st, ok := stat(i); ok {
			stats[i] = st
		}
	})
	return slices.DeleteFunc(stats, func(s fileStat) bool { return s.name == "" })
}

// remember returns what is known of the files in a directory and forgets the
// files that are gone.
func (l *Lister) remember(dir string, stats []fileStat) []*known {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.dirs[dir]
	if in == nil {
		in = make(map[string]*known, len(stats))
		l.dirs[dir] = in
	}
	l.listing++
	files := make([]*known, len(stats))
	for i, st := range stats {
		k := in[st.name]
		if k == nil || k.file != st {
			l.forget(k)
			k = &known{dir: dir, file: st}
			in[st.name] = k
		}
		k.listed, files[i] = l.listing, k
	}
	for name, k := range in {
		if len(in) == len(stats) {
			break
		}
		if k.listed != l.listing {
			l.forget(k)
			delete(in, name)
		}
	}
	return files
}

// forget gives up what is known of a file, for other listings may still use it.
func (l *Lister) forget(k *known) {
	if k == nil {
		return
	}
	k.gone = true
	if k.summary != nil {
		l.cached -= textSize(k.summary)
		k.summary = nil
	}
}

func textSize(s *protocol.SessionSummary) int { return len(s.FirstMessage) + len(s.Text()) }

// head reads a file's first line, once. It is nil for what is no session.
func (l *Lister) head(k *known) *Head {
	l.mu.Lock()
	head, checked := k.head, k.checked
	l.mu.Unlock()
	if checked {
		return head
	}
	path := filepath.Join(k.dir, k.file.name)
	header, ok, err := readHeader(l.fsys, path, k.file.size)
	if ok {
		head = &Head{path, header, k.file.mtime, k.file.size}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k.head, k.checked = head, err == nil // try again what could not be read
	return head
}

// summary reads a whole session, once; nil if that fails. What it says is
// remembered as long as there is room and the file is as it was.
func (l *Lister) summary(k *known) *protocol.SessionSummary {
	head := l.head(k)
	if head == nil {
		return nil
	}
	s, err := summarise(l.fsys, *head)
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if size := textSize(s); k.summary == nil && !k.gone && l.cached+size <= maxCachedText {
		k.summary = s
		l.cached += size
	}
	return s
}

// How much of a file is looked at for its header: little at first, since
// headers are short.
var headerReads = []int64{512, protocol.MaxHeader}

// readHeader reads the header of a session file.
func readHeader(fsys FS, path string, size int64) (h protocol.Header, ok bool, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return h, false, err
	}
	defer f.Close()
	return headerOf(f, size)
}

// ReadHeader reads the header of a session file, and nothing else of it. It reports false for a file that has none, or
// cannot be read.
func ReadHeader(fsys FS, path string) (h protocol.Header, ok bool) {
	st, err := fsys.Stat(path)
	if err == nil && st.Mode().IsRegular() {
		h, ok, err = readHeader(fsys, path, st.Size())
	}
	return h, ok && err == nil
}

// IsSession says whether a file is a session: whether it has a session's
// header. A name that leads nowhere is none.
func IsSession(fsys FS, path string) (bool, error) {
	st, err := fsys.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil || !st.Mode().IsRegular():
		return false, err
	}
	_, ok, err := readHeader(fsys, path, st.Size())
	return ok, err
}

// headerOf reads the header of an open session file.
func headerOf(f File, size int64) (h protocol.Header, ok bool, err error) {
	for _, n := range headerReads {
		n = min(n, size)
		l := &loader{}
		err := readLines(f, 0, n, func(line []byte, off int64, whole bool) error {
			if err := l.take(line, off, whole || n == size); err != nil || l.found {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			return h, false, err
		}
		if l.found || errors.Is(err, errStop) || n == size {
			return l.header, l.found, nil
		}
	}
	return h, false, nil
}

// errStop ends a reading that has found what it wanted.
var errStop = errors.New("stop")

// summarise reads a session file for a listing.
func summarise(fsys FS, h Head) (*protocol.SessionSummary, error) {
	f, err := fsys.Open(h.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := summaryBuilder{}
	err = readLines(f, 0, h.Size, func(line []byte, _ int64, _ bool) error {
		b.take(line)
		return nil
	})
	if err != nil && !errors.Is(err, ErrTooLarge) { // such a session is listed; opening it says what is wrong
		return nil, err
	}
	return b.finish(h), nil
}

type summaryBuilder struct {
	head     lineHead
	name     string
	count    int
	modified int64
	first    string
	hasFirst bool
	all      strings.Builder
}

func (b *summaryBuilder) take(line []byte) {
	if !scanLine(line, &b.head) {
		return
	}
	switch string(b.head.kind) {
	case kindNames[kindSessionInfo]:
		if name := sessionName(line); name != "" {
			b.name = name
		}
	case kindNames[kindMessage]:
		b.count++
		b.message(roleOf(b.head.message.role))
	}
}

func (b *summaryBuilder) message(r role) {
	if r != roleUser && r != roleAssistant {
		return
	}
	at := gjson.ParseBytes(b.head.message.stamp)
	if at.Type == gjson.Number && at.Int() > 0 {
		b.modified = max(b.modified, at.Int())
	} else {
		b.modified = max(b.modified, protocol.ParseTime(string(b.head.stamp)))
	}
	wantsFirst := r == roleUser && !b.hasFirst
	if !wantsFirst && b.all.Len() >= maxListText {
		return
	}
	t := contentText(b.head.message.content, " ")
	if wantsFirst {
		b.first, b.hasFirst = strings.Clone(protocol.Prefix(t, maxListText)), true
	}
	if t != "" && b.all.Len() > 0 {
		b.all.WriteByte(' ')
	}
	b.all.WriteString(protocol.Prefix(t, max(0, maxListText-b.all.Len())))
}

func (b *summaryBuilder) finish(h Head) *protocol.SessionSummary {
	modified := cmp.Or(b.modified, protocol.ParseTime(h.Header.Timestamp), h.MTime.UnixMilli())
	return &protocol.SessionSummary{
		Path: h.Path, ID: h.Header.ID, Cwd: h.Header.Cwd, Name: b.name, ParentSessionPath: h.Header.ParentSession,
		Created: h.Header.Timestamp, Modified: protocol.FormatTime(modified), MessageCount: b.count,
		FirstMessage: cmp.Or(b.first, noMessages), AllMessagesText: new(b.all.String()),
	}
}

// SummaryReader describes a session whose lines come in pieces. The zero value is ready.
type SummaryReader struct {
	header  loader
	refused bool // the first line is no header
	lines   summaryBuilder
}

// Add reads whole lines, each with its line ending.
func (r *SummaryReader) Add(lines []byte) {
	for line := range bytes.SplitSeq(lines, []byte("\n")) {
		if len(line) == 0 || r.refused {
			continue
		}
		if !r.header.found {
			r.refused = r.header.take(line, r.header.end, true) != nil
			continue
		}
		r.lines.take(line)
	}
}

// Summary returns the description, without a path. It reports false for lines that are no session. FirstMessage is empty
// if there is none.
func (r *SummaryReader) Summary() (protocol.SessionSummary, bool) {
	if !r.header.found || r.refused {
		return protocol.SessionSummary{}, false
	}
	s := *r.lines.finish(Head{Header: r.header.header})
	s.FirstMessage = r.lines.first
	return s, true
}

// parallel calls fn for 0 to n-1, on as many goroutines as there are
// processors, and returns when all calls have.
func parallel(n int, fn func(i int)) {
	workers := min(n, runtime.GOMAXPROCS(0))
	if workers <= 1 {
		for i := range n {
			fn(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				fn(i)
			}
		})
	}
	wg.Wait()
}
