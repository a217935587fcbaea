package tools

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

const (
	diffContext = 4
	// maxDiff bounds a diff in the details, which clients show to people.
	maxDiff = 256 << 10
)

// Diff is the details of a change from old to new: a diff with line
// numbers for people, a patch for programs, and where to look first.
func Diff(path, old, new string) json.RawMessage {
	u, err := udiff.ToUnifiedDiff(path, path, old, udiff.Lines(old, new), diffContext)
	if err != nil || len(u.Hunks) == 0 {
		return nil
	}
	d := struct {
		Diff             string `json:"diff"`
		Patch            string `json:"patch,omitempty"` // left out if too large: half a patch is none
		FirstChangedLine int    `json:"firstChangedLine"`
	}{Diff: numberedDiff(u, old, new), FirstChangedLine: firstChange(u.Hunks[0])}
	if patch := u.String(); len(patch) <= maxDiff {
		d.Patch = patch
	}
	return details(d)
}

// firstChange is the first changed line, as the new file counts.
func firstChange(h *udiff.Hunk) int {
	line := h.ToLine
	for _, l := range h.Lines {
		if l.Kind != udiff.Equal {
			break
		}
		line++
	}
	return line
}

// numberedDiff prints the lines of a diff with their numbers: removed and
// unchanged ones as the old file counts, added ones as the new file does.
func numberedDiff(u udiff.UnifiedDiff, old, new string) string {
	total := countLines(old)
	width := len(strconv.FormatInt(max(total, countLines(new)), 10))
	gap := fmt.Sprintf(" %*s ...\n", width, "")
	var b strings.Builder
	next := 1 // line of the old file
	for _, h := range u.Hunks {
		if h.FromLine > next {
			b.WriteString(gap)
		}
		next = writeHunk(&b, h, width)
		if b.Len() > maxDiff {
			b.WriteString(gap)
			return strings.TrimSuffix(b.String(), "\n")
		}
	}
	if int64(next) <= total {
		b.WriteString(gap)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// writeHunk returns the old file's line after the hunk.
func writeHunk(b *strings.Builder, h *udiff.Hunk, width int) (from int) {
	from, to := h.FromLine, h.ToLine
	for _, l := range h.Lines {
		sign, number := byte(' '), from
		switch l.Kind {
		case udiff.Delete:
			sign = '-'
			from++
		case udiff.Insert:
			sign, number = '+', to
			to++
		case udiff.Equal:
			from++
			to++
		}
		if b.Len() <= maxDiff {
			fmt.Fprintf(b, "%c%*d %s\n", sign, width, number, strings.TrimSuffix(l.Content, "\n"))
		}
	}
	return from
}
