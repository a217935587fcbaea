package store

import (
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

	mu     sync.Mutex
	dirs   map[string]map[string]*known // by directory and path
	cached int                          // bytes of text in summaries
}

// known is what has been read of a file. Its fields are written by the one
// listing that reads the file and under the lister's lock.
type known struct {
	file    fileStat
	head    *Head // nil for a file that is no session
	checked bool  // head was looked for
	summary *protocol.SessionSummary
}

type fileStat struct {
	path  string
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
	heads, err := l.Heads(q)
	if err != nil {
		return nil, err
	}
	found := make([]*protocol.SessionSummary, len(heads))
	parallel(len(heads), func(i int) { found[i] = l.summary(heads[i]) })
	list := make([]protocol.SessionSummary, 0, len(heads))
	for _, s := range found {
		if s != nil {
			list = append(list, *s)
		}
	}
	slices.SortStableFunc(list, func(a, b protocol.SessionSummary) int { return strings.Compare(b.Modified, a.Modified) })
	return list, nil
}

// Heads lists sessions by their first lines, those written last first.
func (l *Lister) Heads(q Query) ([]Head, error) {
	files, err := l.files(q)
	if err != nil {
		return nil, err
	}
	if q.Limit > 0 {
		return l.firstHeads(files, q), nil
	}
	heads := make([]Head, 0, len(files))
	for _, h := range l.heads(files) {
		if h.matches(q) {
			heads = append(heads, *h)
		}
	}
	return heads, nil
}

// heads reads the first lines of all files.
func (l *Lister) heads(files []*known) []*Head {
	heads := make([]*Head, len(files))
	parallel(len(files), func(i int) { heads[i] = l.head(files[i]) })
	return heads
}

// firstHeads reads no more first lines than it has to.
func (l *Lister) firstHeads(files []*known, q Query) []Head {
	var heads []Head
	for _, k := range files {
		if h := l.head(k); h.matches(q) {
			heads = append(heads, *h)
		}
		if len(heads) == q.Limit {
			break
		}
	}
	return heads
}

func (h *Head) matches(q Query) bool {
	return h != nil && (q.Cwd == "" || h.Header.Cwd == q.Cwd)
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
		if strings.Contains(filepath.Base(k.file.path), "_"+id) {
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
	slices.SortStableFunc(files, func(a, b *known) int {
		if c := b.file.mtime.Compare(a.file.mtime); c != 0 {
			return c
		}
		return cmp.Compare(filepath.Base(b.file.path), filepath.Base(a.file.path)) // names begin with the time
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

func (l *Lister) readDir(dir string) ([]fileStat, error) {
	entries, err := l.entries(dir)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) != ".jsonl" })
	stats := make([]fileStat, len(entries))
	parallel(len(entries), func(i int) {
		path := filepath.Join(dir, entries[i].Name())
		st, err := entries[i].Info()
		if err == nil && st.Mode()&fs.ModeSymlink != 0 {
			st, err = l.fsys.Stat(path)
		}
		if err == nil && st.Mode().IsRegular() {
			stats[i] = fileStat{path, st.ModTime(), st.Size()}
		}
	})
	return slices.DeleteFunc(stats, func(s fileStat) bool { return s.path == "" }), nil
}

// remember returns what is known of the files in a directory and forgets the
// files that are gone.
func (l *Lister) remember(dir string, stats []fileStat) []*known {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, now := l.dirs[dir], make(map[string]*known, len(stats))
	files := make([]*known, len(stats))
	for i, st := range stats {
		k := before[st.path]
		if k == nil || k.file != st {
			k = &known{file: st}
		}
		now[st.path], files[i] = k, k
	}
	for path, k := range before {
		if now[path] != k {
			l.forget(k)
		}
	}
	l.dirs[dir] = now
	return files
}

func (l *Lister) forget(k *known) {
	if k.summary != nil {
		l.cached -= textSize(k.summary)
		k.summary = nil
	}
}

func textSize(s *protocol.SessionSummary) int { return len(s.FirstMessage) + len(s.AllMessagesText) }

// head reads a file's first line, once. It is nil for what is no session.
func (l *Lister) head(k *known) *Head {
	l.mu.Lock()
	head, checked := k.head, k.checked
	l.mu.Unlock()
	if checked {
		return head
	}
	header, ok, err := readHeader(l.fsys, k.file.path, k.file.size)
	if ok {
		head = &Head{k.file.path, header, k.file.mtime, k.file.size}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k.head, k.checked = head, err == nil // try again what could not be read
	return head
}

// summary reads a whole file, once.
func (l *Lister) summary(h Head) *protocol.SessionSummary {
	l.mu.Lock()
	k := l.dirs[filepath.Dir(h.Path)][h.Path]
	if k != nil && k.summary != nil && k.file.size == h.Size && k.file.mtime.Equal(h.MTime) {
		defer l.mu.Unlock()
		return k.summary
	}
	l.mu.Unlock()
	s, err := summarise(l.fsys, h)
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if size := textSize(s); k != nil && k.summary == nil && l.cached+size <= maxCachedText && l.dirs[filepath.Dir(h.Path)][h.Path] == k {
		k.summary = s
		l.cached += size
	}
	return s
}

// How much of a file is looked at for its header: little at first, since
// headers are short.
var headerReads = []int64{512, tornHeaderMax}

// readHeader reads the header of a session file.
func readHeader(fsys FS, path string, size int64) (h protocol.Header, ok bool, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return h, false, err
	}
	defer f.Close()
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
	if err != nil {
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
		b.first, b.hasFirst = cutBytes(t, maxListText), true
	}
	if t != "" && b.all.Len() > 0 {
		b.all.WriteByte(' ')
	}
	b.all.WriteString(cutBytes(t, max(0, maxListText-b.all.Len())))
}

func (b *summaryBuilder) finish(h Head) *protocol.SessionSummary {
	modified := cmp.Or(b.modified, protocol.ParseTime(h.Header.Timestamp), h.MTime.UnixMilli())
	return &protocol.SessionSummary{
		Path: h.Path, ID: h.Header.ID, Cwd: h.Header.Cwd, Name: b.name, ParentSessionPath: h.Header.ParentSession,
		Created: h.Header.Timestamp, Modified: protocol.FormatTime(modified), MessageCount: b.count,
		FirstMessage: cmp.Or(b.first, noMessages), AllMessagesText: b.all.String(),
	}
}

// cutBytes cuts a text after at most n bytes, at the end of a character.
func cutBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return strings.Clone(s[:n])
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
