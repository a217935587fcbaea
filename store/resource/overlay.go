package resource

// Apply puts the members of a settings object over those that are there, for
// one session: what open_session brings. name stands for the source in
// problems.
func (s *Settings) Apply(name string, src []byte, d Dirs) []Problem {
	return s.apply(name, src, d.Cwd, Path)
}
