package policy

import (
	"path"
	"slices"
	"strings"
)

// directories are those that a command may be in when it opens a file or starts a
// program: that of the session, and each to which a cd may have led, whether it has run or
// not.
type directories struct {
	list  []string
	known bool   // there are no others
	moved bool   // there is another than that of the session
	stays []bool // for each cd, whether all that it may lead to is in the working directory
}

// maxDirectories bounds the list.
const maxDirectories = 64

// follow follows the changes of directory in a script.
func (s *Set) follow(sc *script) directories {
	d := directories{list: []string{s.place.Cwd}, known: !sc.lost}
	for _, change := range sc.cds {
		more, ok := s.leads(d.list, change, sc.homeless)
		if !ok || len(d.list)+len(more) > maxDirectories {
			d.known = false
			d.stays = append(d.stays, false)
			continue
		}
		d.stays = append(d.stays, d.known && !slices.ContainsFunc(more, func(dir string) bool { return !s.holds(dir) }))
		d.list = merge(d.list, more)
	}
	d.moved = !d.known || slices.ContainsFunc(d.list, func(dir string) bool {
		real, known := s.place.real(dir)
		return !known || real != s.cwd
	})
	return d
}

// leads are the directories to which a cd leads from each of a list: with .. taken away as
// text, as shells do it first, and as the kernel resolves it, which cd -P does and bash
// falls back to. It fails if they are not known.
func (s *Set) leads(from []string, change cd, homeless bool) (list []string, ok bool) {
	to, ok := change.operand()
	switch {
	case !ok, to.home && homeless, homeless && !strings.HasPrefix(to.value, ".") && !path.IsAbs(to.value): // CDPATH
		return nil, false
	case change.loops && !to.home && !path.IsAbs(to.value):
		return nil, false
	}
	for _, dir := range from {
		name := s.below(dir, to)
		real, known := s.place.real(name)
		if !known {
			return nil, false
		}
		list = merge(list, []string{path.Clean(name), real})
	}
	return list, true
}

// operand is the directory that a cd names; false if it is not known.
func (c cd) operand() (to word, ok bool) {
	words := c.operands
	for len(words) > 0 && strings.HasPrefix(words[0].value, "-") && !words[0].dynamic {
		option := words[0].value
		if words = words[1:]; option == "--" {
			break
		}
		if option == "-" || strings.Trim(option[1:], "LPe") != "" {
			return word{}, false
		}
	}
	switch {
	case len(words) == 0:
		return word{value: "~", home: true}, true
	case len(words) > 1, words[0].dynamic, words[0].value == "-", words[0].value == "":
		return word{}, false
	}
	return words[0], true
}

// below is the path of a word in a directory, with each .. where it stands.
func (s *Set) below(dir string, w word) string {
	switch {
	case w.home:
		return s.place.Home + w.value[1:]
	case path.IsAbs(w.value):
		return w.value
	}
	return dir + "/" + w.value
}

// places are the paths that a word may stand for; false if there may be others.
func (j *commandJudge) places(w word) (list []string, known bool) {
	if w.home || path.IsAbs(w.value) {
		return []string{j.below("", w)}, !w.home || !j.sc.homeless
	}
	for _, dir := range j.dirs.list {
		list = append(list, j.below(dir, w))
	}
	return list, j.dirs.known
}

// holds says whether a directory is in the working directory.
func (s *Set) holds(dir string) bool {
	real, known := s.place.real(dir)
	return known && s.inside(real)
}
