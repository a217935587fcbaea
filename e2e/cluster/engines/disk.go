package engines

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Disk is a file system of its own on a loop device, whose power can be cut: what was not synced
// is gone then. It is honest about the file system, not about a disk that lies about its cache.
type Disk struct {
	Dir   string // where it is mounted
	image string
	power *os.File // open while it is mounted
}

// NewDisk makes and mounts one of that many megabytes in a directory. It needs root, loop
// devices and ext4.
func NewDisk(dir, name string, megabytes int64) (*Disk, error) {
	d := &Disk{Dir: filepath.Join(dir, name), image: filepath.Join(dir, name+".img")}
	if err := os.MkdirAll(d.Dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(d.image)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(megabytes << 20)
	_ = f.Close()
	if err != nil {
		return nil, err
	}
	if err := command("mkfs.ext4", "-q", "-F", d.image); err != nil {
		return nil, err
	}
	return d, d.mount()
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
	}
	return nil
}

func (d *Disk) mount() (err error) {
	if err := command("mount", "-o", "loop", d.image, d.Dir); err != nil {
		return err
	}
	d.power, err = os.Open(d.Dir)
	return err
}

// From the kernel's uapi: FS_IOC_SHUTDOWN, which ext4 has, too, and its flag that does not even
// write out the journal.
const (
	shutdown   = 0x8004587d
	noLogFlush = 2
)

// Cut cuts the power: nothing is written from here on.
func (d *Disk) Cut() error { return unix.IoctlSetPointerInt(int(d.power.Fd()), shutdown, noLogFlush) }

// Plug mounts it again, as a machine does that starts: the journal is replayed. Nobody may use it
// any more.
func (d *Disk) Plug() error {
	if err := d.unmount(); err != nil {
		return err
	}
	return d.mount()
}

func (d *Disk) unmount() error {
	_ = d.power.Close()
	return command("umount", d.Dir)
}

// Close unmounts it.
func (d *Disk) Close() { _ = d.unmount() }
