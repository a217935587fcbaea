package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"troupe/store"
	"troupe/store/storetest"
)

// anyFile is something like a session file: lines of every kind, whole and
// broken, with few ids, so that there are doubles, orphans and rings.
func anyFile(rt *rapid.T, samples []string) []byte {
	id := rapid.SampledFrom([]string{"00000001", "00000002", "0000000a", "deadbeef", "DEADBEEF", "x", "ü/1", `\u0061`, ""})
	line := rapid.Custom(func(rt *rapid.T) string {
		switch rapid.IntRange(0, 9).Draw(rt, "kind") {
		case 0:
			return headLine
		case 1:
			return rapid.SampledFrom([]string{"", " ", "\r", "5", "null", "{}", "[", "{", "\x00\x00", `{"type":"message"}`, `{"id":"a"}`}).Draw(rt, "other")
		case 2:
			return string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "bytes"))
		case 3:
			return rapid.SampledFrom(samples).Draw(rt, "sample")
		case 4:
			return entryLine(fmt.Sprint("type", rapid.IntRange(0, 4).Draw(rt, "type")), id.Draw(rt, "id"), id.Draw(rt, "parent"), "")
		case 5:
			l := userLine("00000003", id.Draw(rt, "parent"), "cut")
			return l[:rapid.IntRange(0, len(l)).Draw(rt, "cut")]
		}
		long := strings.Repeat("x", rapid.SampledFrom([]int{0, 0, 0, 90, 700}).Draw(rt, "long"))
		return userLine(id.Draw(rt, "id"), id.Draw(rt, "parent"), long)
	})
	lines := rapid.SliceOfN(line, 0, 60).Draw(rt, "lines")
	if rapid.IntRange(0, 9).Draw(rt, "begun") > 0 {
		lines = append([]string{headLine}, lines...)
	}
	return []byte(strings.Join(lines, "\n") + rapid.SampledFrom([]string{"", "\n", "\r\n"}).Draw(rt, "end"))
}

// Lines are what stands between line feeds, wherever a reading begins and ends.
func TestReadLines(t *testing.T) {
	samples := sampleLines(t)
	rapid.Check(t, func(rt *rapid.T) {
		src := anyFile(rt, samples)
		from := rapid.IntRange(0, len(src)).Draw(rt, "from")
		to := rapid.IntRange(from, len(src)).Draw(rt, "to")
		at := from
		require.NoError(rt, store.ReadLines(bytes.NewReader(src), int64(from), int64(to), func(line string, off int64, whole bool) {
			require.Equal(rt, int64(at), off)
			want, _, found := strings.Cut(string(src[at:to]), "\n")
			require.Equal(rt, want, line)
			require.Equal(rt, found, whole)
			if at += len(line); whole {
				at++
			}
		}))
		require.Equal(rt, to, at)
	})
}

// A session of many blocks, with lines that are longer than one.
func TestLoad_large(t *testing.T) {
	var b strings.Builder
	b.WriteString(headLine + "\n")
	const n = 4000
	for i := range n {
		b.WriteString(userLine(fmt.Sprintf("%08x", i*i+1), fmt.Sprintf("%08x", (i-1)*(i-1)+1), strings.Repeat("text ", 100)) + "\n")
		if i%1000 == 7 {
			b.WriteString("garbage\n\n" + userLine(fmt.Sprint("wide-", i), "", strings.Repeat("a long line ", 40_000)) + "\n")
		}
	}
	b.WriteString(`{"type":"mess`)
	m := storetest.NewMem()
	m.WriteFile(file, []byte(b.String()))
	l := open(t, m, file)
	require.Equal(t, n+4, l.Len())
	require.Equal(t, store.Damage{Skipped: 4, TornBytes: 13}, l.Damage())
	require.Len(t, l.View().Branch(), n, "without those that stand for themselves")
	require.True(t, l.Has("wide-2007"))
	for i, r := range l.View().Refs() {
		require.Equal(t, b.String()[r.Offset:r.Offset+int64(r.Size)], string(must(l.View().Raw(r.ID))), i)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// failingAt is a file that cannot be read from an offset on.
type failingAt struct {
	io.ReaderAt
	at int64
}

var errBadSector = errors.New("bad sector")

func (f failingAt) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.at {
		return 0, errBadSector
	}
	return f.ReaderAt.ReadAt(p, off)
}

func TestReadLines_fails(t *testing.T) {
	src := []byte(headLine + "\n" + strings.Repeat(userLine("00000001", "", "x")+"\n", 10_000))
	read := func(r io.ReaderAt, to int) error {
		return store.ReadLines(r, 0, int64(to), func(string, int64, bool) {})
	}
	for at := 0; at < len(src); at += 97_000 {
		require.ErrorIs(t, read(failingAt{bytes.NewReader(src), int64(at)}, len(src)), errBadSector)
	}
	require.ErrorIs(t, read(bytes.NewReader(src), len(src)+1), io.ErrUnexpectedEOF, "shorter than it was")
}
