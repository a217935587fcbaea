package main

import (
	"fmt"
	"slices"
	"strings"
)

// maxTypo is the largest number of letters in which a mistyped word differs from the right one.
const maxTypo = 2

// closest returns the word that resembles the given one most, "" if none does; of two that are equally far
// away, one of the same length. In a short word fewer letters may differ: half of them at most, so that "run" is
// not taken for "man".
func closest(given string, words []string) (best string) {
	distance := maxTypo + 1
	for _, word := range words {
		d := typos(given, word)
		nearer := d < distance || d == distance && len(word) == len(given) && len(best) != len(given)
		if d <= maxTypo && d <= len(strings.TrimLeft(word, "-"))/2 && nearer {
			best, distance = word, d
		}
	}
	return best
}

// typos counts the letters that were left out, added, replaced or swapped with their neighbour: the
// distance of optimal string alignment (https://en.wikipedia.org/wiki/Damerau–Levenshtein_distance).
// Above maxTypo the result is maxTypo+1.
func typos(a, b string) int {
	if len(a)-len(b) > maxTypo || len(b)-len(a) > maxTypo {
		return maxTypo + 1
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			d := last[j]
			if a[i] != b[j] {
				d++
			}
			d = min(d, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row[j+1] = d
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], maxTypo+1)
}

// suggestion is an error that proposes a similar word, so its text does not refer to the help.
type suggestion struct{ error }

// unknownOptionError is the error for an option that none of some flags is.
func unknownOptionError(name string, sections []section) error {
	if best := closest(name, flagNames(sections)); best != "" {
		return suggestion{fmt.Errorf("unknown option %q (did you mean %q?)", name, best)}
	}
	return fmt.Errorf("unknown option %q", name)
}

// similarOption returns the option of ours that was probably meant, "" for none.
func similarOption(name string) string { return closest(name, flagNames(new(options).sections())) }

// accepted returns the flags that have one of some names, all for nil.
func accepted(sections []section, names []string) (list []section) {
	for _, s := range sections {
		kept := section{title: s.title}
		for _, f := range s.flags {
			if names == nil || slices.ContainsFunc(strings.Split(f.names, ", "), func(name string) bool { return slices.Contains(names, name) }) {
				kept.flags = append(kept.flags, f)
			}
		}
		if len(kept.flags) > 0 {
			list = append(list, kept)
		}
	}
	return list
}

// flagNames lists the names of flags.
func flagNames(sections []section) (names []string) {
	for _, s := range sections {
		for _, f := range s.flags {
			for name := range strings.SplitSeq(f.names, ", ") {
				names = append(names, name)
			}
		}
	}
	return names
}
