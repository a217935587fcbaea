package bundle

import (
	"encoding/json"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// Places knows from which line of which source a line of a bundle came.
type Places struct {
	sources []string
	lines   [][]place1 // by line of the bundle, from 0
}

// place1 is where a piece of a line begins, here and there. All from 0.
type place1 struct{ column, source, line, origin int }

// ReadMap reads a source map.
func ReadMap(data []byte) (*Places, error) {
	var m struct {
		Sources  []string `json:"sources"`
		Mappings string   `json:"mappings"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, err
	}
	p := &Places{}
	for _, s := range m.Sources {
		if !filepath.IsAbs(s) && !strings.Contains(s, ":") {
			s = string(filepath.Separator) + s
		}
		p.sources = append(p.sources, s)
	}
	var at place1
	for line := range strings.SplitSeq(m.Mappings, ";") {
		at.column = 0
		var pieces []place1
		for seg := range strings.SplitSeq(line, ",") {
			v := vlq(seg)
			if len(v) < 4 {
				continue
			}
			at.column += v[0]
			at.source += v[1]
			at.line += v[2]
			at.origin += v[3]
			if at.source >= 0 && at.source < len(p.sources) {
				pieces = append(pieces, at)
			}
		}
		p.lines = append(p.lines, pieces)
	}
	return p, nil
}

const base64Digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// vlq reads the numbers of one piece.
func vlq(s string) (out []int) {
	value, shift := 0, 0
	for i := range len(s) {
		d := strings.IndexByte(base64Digits, s[i])
		if d < 0 || shift > 30 {
			return nil
		}
		value |= d & 31 << shift
		shift += 5
		if d&32 != 0 {
			continue
		}
		n := value >> 1
		if value&1 != 0 {
			n = -n
		}
		out = append(out, n)
		value, shift = 0, 0
	}
	return out
}

// Find gives the source of a place in the bundle. All from 1.
func (p *Places) Find(line, column int) (source string, sourceLine, sourceColumn int, ok bool) {
	if line < 1 || line > len(p.lines) {
		return "", 0, 0, false
	}
	pieces := p.lines[line-1]
	i := sort.Search(len(pieces), func(i int) bool { return pieces[i].column > column-1 }) - 1
	if i < 0 {
		return "", 0, 0, false
	}
	at := pieces[i]
	return p.sources[at.source], at.line + 1, at.origin + 1, true
}

var frame = lazy(`\(?([^\s()]+):(\d+):(\d+)\)?`)

// Stack puts sources in the place of the bundle of this name in the text of a stack.
func (p *Places) Stack(name, stack string) string {
	return frame().ReplaceAllStringFunc(stack, func(s string) string {
		m := frame().FindStringSubmatch(s)
		if m[1] != name {
			return s
		}
		line, _ := strconv.Atoi(m[2])
		column, _ := strconv.Atoi(m[3])
		source, l, c, ok := p.Find(line, column)
		if !ok {
			return s
		}
		return strings.Replace(s, m[1]+":"+m[2]+":"+m[3], source+":"+strconv.Itoa(l)+":"+strconv.Itoa(c), 1)
	})
}
