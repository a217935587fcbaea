package actortest

import (
	"sync"

	"troupe/e2e/history"
	"troupe/store"
	"troupe/store/storetest"
)

// Disk is a file system in memory that fails on demand and survives the death
// of who writes to it.
type Disk struct {
	mem    *storetest.Mem
	faulty *storetest.Faulty

	mu     sync.Mutex
	writes int
	syncs  int
	at     int // the half write at which moment is called; -1 never
	moment func()
}

// NewDisk is empty and works.
func NewDisk() *Disk { return onMem(storetest.NewMem()) }

func onMem(mem *storetest.Mem) *Disk {
	return &Disk{mem: mem, faulty: storetest.NewFaulty(mem, storetest.Plan{}), at: -1}
}

// FS is for Config.FS.
func (d *Disk) FS() store.FS { return tapped{d.faulty, d} }

// At calls f once, during a write: before the n-th write of the disk if n is
// even and half of it, after it if it is odd.
func (d *Disk) At(n int, f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes, d.at, d.moment = 0, n, f
}

func (d *Disk) tap() {
	d.mu.Lock()
	f := d.moment
	if d.writes != d.at {
		f = nil
	}
	d.writes++
	d.mu.Unlock()
	if f != nil {
		f()
	}
}

// tapped is a file system whose writes are counted.
type tapped struct {
	store.FS
	d *Disk
}

func (t tapped) file(f store.File, err error) (store.File, error) {
	if err != nil {
		return nil, err
	}
	return tappedFile{f, t.d}, nil
}

func (t tapped) OpenAppend(name string) (store.File, error) { return t.file(t.FS.OpenAppend(name)) }
func (t tapped) Create(name string) (store.File, error)     { return t.file(t.FS.Create(name)) }

type tappedFile struct {
	store.File
	d *Disk
}

func (f tappedFile) Write(p []byte) (int, error) {
	f.d.tap()
	defer f.d.tap()
	return f.File.Write(p)
}

func (f tappedFile) Sync() error {
	f.d.mu.Lock()
	f.d.syncs++
	f.d.mu.Unlock()
	return f.File.Sync()
}

// Syncs counts the fsyncs of files so far.
func (d *Disk) Syncs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// Fail sets the plan of faults, in the words of storetest.Plan; "" heals.
func (d *Disk) Fail(plan string) { d.faulty.SetPlan(storetest.MustPlan(plan)) }

// Struck says which faults have happened.
func (d *Disk) Struck() []string { return d.faulty.Struck() }

// Killed is the disk as the death of the process leaves it at this moment.
func (d *Disk) Killed() *Disk { return onMem(d.mem.Kill()) }

// PowerCut is the disk as a power cut leaves it at this moment.
func (d *Disk) PowerCut(seed uint64) *Disk { return onMem(d.mem.Crash(seed)) }

// Files are the session files. Side files with what was torn off are left out.
func (d *Disk) Files() map[string][]byte {
	files := map[string][]byte{}
	for _, name := range d.mem.Files() {
		if len(name) > 6 && name[len(name)-6:] == ".jsonl" {
			files[name] = d.mem.ReadFile(name)
		}
	}
	return files
}

// The history and its checkers, for packages that may not import them.
type (
	History = history.History
	Options = history.Options
)

// Kinds of records.
const (
	Life   = history.Life
	End    = history.End
	Killed = history.Killed
	Ran    = history.Ran
	Left   = history.Left
	Broken = history.Broken
)

// Check runs the checkers.
func Check(h *History, o Options) []string { return history.Check(h, o) }

// Grown says whether a file only grew.
func Grown(earlier, later []byte) bool { return history.Grown(earlier, later) }

// Mem is the disk below its faults: what somebody else does to it is done there.
func (d *Disk) Mem() *storetest.Mem { return d.mem }
