package regex

import (
	"slices"
	"sort"
	"sync"
	"unicode"
	"unicode/utf8"
)

// runeSet is a set of characters as pairs of first and last. Operations return
// it sorted, without overlaps.
type runeSet []rune

// everything is the set that negated classes are taken from.
func everything(unicodeMode bool) runeSet {
	if unicodeMode {
		return runeSet{0, unicode.MaxRune}
	}
	return runeSet{0, unicode.MaxRune, firstByte + utf8.RuneSelf, firstByte + 0xff}
}

func (s runeSet) normalized() runeSet {
	pairs := make([][2]rune, 0, len(s)/2)
	for i := 0; i < len(s); i += 2 {
		pairs = append(pairs, [2]rune{s[i], s[i+1]})
	}
	slices.SortFunc(pairs, func(a, b [2]rune) int { return int(a[0] - b[0]) })
	out := make(runeSet, 0, len(s))
	for _, pair := range pairs {
		if n := len(out); n > 0 && pair[0] <= out[n-1]+1 {
			out[n-1] = max(out[n-1], pair[1])
		} else {
			out = append(out, pair[0], pair[1])
		}
	}
	return out
}

func union(a, b runeSet) runeSet {
	return append(slices.Clone(a), b...).normalized()
}

// minus removes the characters of b.
func (s runeSet) minus(b runeSet) runeSet {
	var out runeSet
	b = b.normalized()
	s = s.normalized()
	for i := 0; i < len(s); i += 2 {
		low, high := s[i], s[i+1]
		first := sort.Search(len(b)/2, func(j int) bool { return b[2*j+1] >= low })
		for j := 2 * first; j < len(b) && b[j] <= high && low <= high; j += 2 {
			if b[j] > low {
				out = append(out, low, b[j]-1)
			}
			low = b[j+1] + 1
		}
		if low <= high {
			out = append(out, low, high)
		}
	}
	return out
}

func intersection(a, b runeSet) runeSet { return a.minus(a.minus(b)) }

func (s runeSet) contains(r rune) bool {
	i := sort.Search(len(s)/2, func(i int) bool { return s[2*i+1] >= r })
	return 2*i < len(s) && s[2*i] <= r
}

// cased returns every character that has another case, once computed.
var cased = sync.OnceValue(func() (list []rune) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.SimpleFold(r) != r {
			list = append(list, r)
		}
	}
	return list
})

// folded adds the other cases of a set's characters.
func (s runeSet) folded(unicodeMode bool) runeSet {
	s = s.normalized()
	out := slices.Clone(s)
	if !unicodeMode {
		for r := 'a'; r <= 'z'; r++ {
			upper := r - 'a' + 'A'
			if s.contains(r) || s.contains(upper) {
				out = append(out, r, r, upper, upper)
			}
		}
		return out.normalized()
	}
	list := cased()
	for i := 0; i < len(s); i += 2 {
		at, _ := slices.BinarySearch(list, s[i])
		for ; at < len(list) && list[at] <= s[i+1]; at++ {
			for r := unicode.SimpleFold(list[at]); r != list[at]; r = unicode.SimpleFold(r) {
				out = append(out, r, r)
			}
		}
	}
	return out.normalized()
}

func fromTables(tables ...*unicode.RangeTable) runeSet {
	var s runeSet
	for _, table := range tables {
		for _, r := range table.R16 {
			s = s.stride(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range table.R32 {
			s = s.stride(rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return s.normalized()
}

func (s runeSet) stride(low, high, by rune) runeSet {
	if by == 1 {
		return append(s, low, high)
	}
	for r := low; r <= high; r += by {
		s = append(s, r, r)
	}
	return s
}

var alphabetic = sync.OnceValue(func() runeSet { return fromTables(unicode.L, unicode.Nl, unicode.Other_Alphabetic) })

// wordSet is \w, as https://www.unicode.org/reports/tr18/#word defines it.
var wordSet = sync.OnceValue(func() runeSet {
	return union(alphabetic(), fromTables(unicode.M, unicode.Nd, unicode.Pc, unicode.Join_Control))
})

var digitSet = sync.OnceValue(func() runeSet { return fromTables(unicode.Nd) })

var spaceSet = sync.OnceValue(func() runeSet { return fromTables(unicode.White_Space) })

// posixSets are the classes of [[:name:]], of ASCII only.
var posixSets = map[string]runeSet{
	"alnum": {'0', '9', 'A', 'Z', 'a', 'z'}, "alpha": {'A', 'Z', 'a', 'z'}, "ascii": {0, 0x7f}, "blank": {'\t', '\t', ' ', ' '},
	"cntrl": {0, 0x1f, 0x7f, 0x7f}, "digit": {'0', '9'}, "graph": {'!', '~'}, "lower": {'a', 'z'}, "print": {' ', '~'},
	"punct": {'!', '/', ':', '@', '[', '`', '{', '~'}, "space": {'\t', '\r', ' ', ' '}, "upper": {'A', 'Z'},
	"word": {'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}, "xdigit": {'0', '9', 'A', 'F', 'a', 'f'},
}

// perlSet is the set of \d, \s or \w.
func perlSet(name rune, unicodeMode bool) runeSet {
	switch {
	case name == 'd' && unicodeMode:
		return digitSet()
	case name == 'd':
		return posixSets["digit"]
	case name == 's' && unicodeMode:
		return spaceSet()
	case name == 's':
		return posixSets["space"]
	case unicodeMode:
		return wordSet()
	}
	return posixSets["word"]
}
