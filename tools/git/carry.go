package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// carry brings ignored directories along. What is carried is in no snapshot and
// no patch.
func (ws Workspace) carry(ctx context.Context, spec Spec) (notes []string, err error) {
	for _, t := range ws.Trees {
		for _, dir := range t.from.ignored {
			if !slices.Contains(spec.Carry, path.Base(dir)) {
				continue
			}
			if err := ws.carryOne(ctx, t, dir, spec.CarryBy); err != nil {
				if ctx.Err() != nil || errors.Is(err, syscall.ENOSPC) {
					return notes, err
				}
				notes = append(notes, fmt.Sprintf("%s was not brought along: %v", filepath.Join(t.Path, dir), err))
			}
		}
	}
	return notes, nil
}

var errNoClone = errors.New("the file system cannot share blocks (task.isolation.carryBy: symlink or copy)")

func (ws Workspace) carryOne(ctx context.Context, t Tree, dir, by string) error {
	from, to := filepath.Join(t.Top, dir), filepath.Join(ws.work(t), dir)
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	if by == "symlink" {
		// A rule for directories does not match a link to one.
		if err := ws.ignore(t, "/"+dir); err != nil {
			return err
		}
		return os.Symlink(from, to)
	}
	err := copyDir(ctx, from, to, by == "copy")
	if err != nil {
		err = errors.Join(err, removeAll(to))
	}
	return err
}

// ignore adds a rule for what we put there ourselves.
func (ws Workspace) ignore(t Tree, rule string) error {
	files := []string{filepath.Join(t.Store, "info/exclude")}
	if t.Index != "" {
		files = append(files, filepath.Join(ws.work(t), ".git/info/exclude"))
	}
	for _, name := range files {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString("\n" + escapeGlob(rule) + "\n")
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// copyDir copies directories, files and links; files by sharing their blocks, and
// only if it may by their bytes.
func copyDir(ctx context.Context, from, to string, bytes bool) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(name, from))
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Mkdir(target, info.Mode().Perm()|0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(name)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case info.Mode().IsRegular():
			return copyFile(name, target, info, bytes)
		}
		return nil // pipes and sockets are of those who made them
	})
}

func copyFile(name, target string, info fs.FileInfo, bytes bool) error {
	from, err := os.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	if err = cloneFile(to, from); err != nil {
		if !bytes {
			err = errNoClone
		} else {
			_, err = io.Copy(to, from)
		}
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	return os.Chtimes(target, info.ModTime(), info.ModTime())
}
