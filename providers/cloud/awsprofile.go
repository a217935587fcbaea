package cloud

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"troupe/protocol/bounded"
)

// maxProfiles bounds a file of profiles.
const maxProfiles = 4 << 20

// iniValue is what a key of a file of profiles has: text or, where that is empty, keys of its
// own in the indented lines below.
type iniValue struct {
	text   string
	nested map[string]string
}

// iniSection is a section of a file of profiles. err says why nobody may use it.
type iniSection struct {
	values map[string]iniValue
	err    error
}

// has says whether a key is there, even without a value.
func (s *iniSection) has(key string) bool {
	_, found := s.values[key]
	return found
}

// iniSections are the sections of files of profiles by name, as "profile x" where their kind
// is part of it.
type iniSections map[string]*iniSection

// parseINI reads a file of profiles as AWS's SDK for Go does (config/internal/ini), which is
// lenient: it overlooks a line that it does not understand. The last of several values of a key
// counts.
func parseINI(text string) iniSections {
	r := iniReader{sections: iniSections{}}
	for line := range strings.SplitSeq(text, "\n") {
		r.line(line)
	}
	return r.sections
}

// iniReader knows where in a file the next line belongs.
type iniReader struct {
	sections iniSections
	section  *iniSection // nil before the first
	key      string      // the one that indented lines belong to
}

func (r *iniReader) line(line string) {
	content := strings.TrimLeft(line, " \t")
	if strings.TrimSpace(line) == "" || content[0] == '#' || content[0] == ';' {
		return
	}
	if name, is := sectionName(line); is {
		r.begin(name)
		return
	}
	if r.section == nil {
		return
	}
	if indented := line[0] == ' ' || line[0] == '\t'; !indented {
		if key, value, is := splitProperty(strings.TrimRight(withoutComment(line), " \t")); is {
			r.set(key, value)
		}
	} else if key, value, is := splitProperty(content); is {
		r.nest(key, value)
	} else {
		r.extend(content)
	}
}

// sectionName is the name in "[kind name] # comment", with one blank between the two.
func sectionName(line string) (name string, is bool) {
	line, _, _ = strings.Cut(line, "#")
	line, _, _ = strings.Cut(line, ";")
	line = strings.TrimSpace(line)
	if len(line) < 2 || line[0] != '[' || line[len(line)-1] != ']' {
		return "", false
	}
	name = strings.TrimSpace(line[1 : len(line)-1])
	if end := strings.IndexAny(name, " \t"); end > 0 {
		name = name[:end] + " " + strings.TrimLeft(name[end:], " \t")
	}
	return name, true
}

func (r *iniReader) begin(name string) {
	r.key, r.section = "", r.sections[name]
	if r.section == nil && name != "" {
		r.section = &iniSection{values: map[string]iniValue{}}
		r.sections[name] = r.section
	}
}

func (r *iniReader) set(key, value string) {
	r.key = key
	r.section.values[key] = iniValue{text: value}
}

// nest takes an indented property, which belongs to the key above if that has no text, and else
// to the section.
func (r *iniReader) nest(key, value string) {
	above := r.section.values[r.key]
	if r.key == "" || above.text != "" {
		r.set(key, strings.TrimSpace(withoutComment(value)))
		return
	}
	if above.nested == nil {
		above.nested = map[string]string{}
		r.section.values[r.key] = above
	}
	above.nested[key] = value
}

// extend takes an indented line without a key, which goes on with the text above.
func (r *iniReader) extend(line string) {
	if above := r.section.values[r.key]; r.key != "" && above.text != "" {
		r.section.values[r.key] = iniValue{text: above.text + "\n" + line}
	}
}

// withoutComment ends a value before a comment, which has a blank before it: other values have
// such marks in them.
func withoutComment(value string) string {
	for _, mark := range []string{" #", " ;", "\t#", "\t;"} {
		value, _, _ = strings.Cut(value, mark)
	}
	return value
}

// splitProperty splits at the first = or : and takes quotation marks away.
func splitProperty(line string) (key, value string, is bool) {
	at := strings.IndexAny(line, "=:")
	if at < 0 {
		return "", "", false
	}
	key, value = strings.ToLower(strings.TrimSpace(line[:at])), strings.TrimSpace(line[at+1:])
	if end := len(value) - 1; end > 0 && value[0] == value[end] && (value[0] == '"' || value[0] == '\'') {
		value = value[1:end]
	}
	return key, value, true
}

const (
	profilePrefix  = "profile "
	sessionPrefix  = "sso-session "
	servicesPrefix = "services "
)

// mergedKeys are those that the file of credentials may have instead of the file of
// configuration; of a profile that is in both, other keys there do not count.
var mergedKeys = []string{
	"role_arn", "source_profile", "credential_source", "external_id", "mfa_serial", "role_session_name", "duration_seconds",
	"region", "credential_process", "web_identity_token_file", "use_dualstack_endpoint", "use_fips_endpoint", "ca_bundle",
	"sso_session", "sso_account_id", "sso_region", "sso_role_name", "sso_start_url", "login_session",
}

// readProfiles reads both files of profiles. One that cannot be read counts as empty, as the
// SDK has it.
func readProfiles(configuration, credentials string) (iniSections, error) {
	sections, err := readINI(configuration)
	if err != nil {
		return nil, err
	}
	sections = sections.ofConfiguration()
	more, err := readINI(credentials)
	if err != nil {
		return nil, err
	}
	for name, section := range more {
		switch old := sections[name]; {
		case strings.HasPrefix(name, profilePrefix): // names of profiles stand alone in this file
		case old == nil:
			sections[name] = section
		default:
			old.merge(section)
		}
	}
	return sections, nil
}

func readINI(path string) (iniSections, error) {
	text, err := bounded.ReadFile(path, maxProfiles)
	if _, unread := errors.AsType[*fs.PathError](err); unread || path == os.DevNull {
		return iniSections{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to load shared config file, %s, %w", path, err)
	}
	sections := parseINI(string(text))
	for name, section := range sections {
		if section.has("aws_access_key_id") != section.has("aws_secret_access_key") {
			section.err = fmt.Errorf("partial credentials found for profile %s", name)
		}
	}
	return sections, nil
}

// ofConfiguration names profiles by their names alone. In this file all but the default have
// "profile " before them; what has neither that nor another known kind does not count.
func (s iniSections) ofConfiguration() iniSections {
	kept := iniSections{}
	renamed := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		switch short, is := strings.CutPrefix(name, profilePrefix); {
		case renamed[name]:
		case is:
			kept[short], renamed[short] = s[name], true
		case strings.HasPrefix(name, sessionPrefix), strings.HasPrefix(name, servicesPrefix), strings.EqualFold(name, "default"):
			kept[name] = s[name]
		}
	}
	return kept
}

// merge takes what the file of credentials says of a profile that the configuration has too.
// Keys come in pairs.
func (s *iniSection) merge(from *iniSection) {
	s.err = from.err
	keys := mergedKeys
	if from.has("aws_access_key_id") && from.has("aws_secret_access_key") {
		keys = slices.Concat(keys, []string{"aws_access_key_id", "aws_secret_access_key", "aws_session_token"})
	}
	for _, key := range keys {
		if value, found := from.values[key]; found {
			s.values[key] = iniValue{text: value.text}
		}
	}
}

// noProfileError says that a profile is in neither file.
type noProfileError struct{ name string }

func (e *noProfileError) Error() string {
	return "failed to get shared config profile, " + e.name
}

// awsProfile is a profile with what it refers to.
type awsProfile struct {
	name     string
	values   map[string]string
	source   *awsProfile                  // whose credentials assume the role
	session  *iniSection                  // its sso-session
	services map[string]map[string]string // settings by service
}

// get is the value of a key, or "".
func (p *awsProfile) get(key string) string { return p.values[key] }

// set says whether any of keys has a value.
func (p *awsProfile) set(keys ...string) bool { return p.count(keys) > 0 }

func (p *awsProfile) count(keys []string) (n int) {
	for _, key := range keys {
		if p.values[key] != "" {
			n++
		}
	}
	return n
}

func (p *awsProfile) drop(keys ...string) {
	for _, key := range keys {
		delete(p.values, key)
	}
}

func (p *awsProfile) hasKeys() bool {
	return p.get("aws_access_key_id") != "" && p.get("aws_secret_access_key") != ""
}

// onceKeys are the keys that say where credentials come from, of which a profile has one, in
// the order in which the SDK names them.
var onceKeys = []string{"source_profile", "credential_source", "credential_process", "web_identity_token_file"}

// legacySSO are the keys of SSO without a session.
var legacySSO = []string{"sso_region", "sso_account_id", "sso_start_url", "sso_role_name"}

// profile finds a profile and those it refers to; seen are the names on the way. The second
// time that one is met it gives its keys and assumes no role: that is how a profile refers to
// itself.
func (s iniSections) profile(name string, seen map[string]bool) (*awsProfile, error) {
	section, found := s[name]
	if !found {
		return nil, &noProfileError{name}
	}
	if section.err != nil {
		return nil, fmt.Errorf("profile %s: %w", name, section.err)
	}
	p := &awsProfile{name: name, values: map[string]string{}}
	for key, value := range section.values {
		p.values[key] = value.text
	}
	if seen[name] {
		p.drop("role_arn", "external_id", "mfa_serial", "role_session_name", "source_profile")
	} else if p.get("role_arn") == "" && p.set("source_profile", "credential_source", "web_identity_token_file") {
		return nil, fmt.Errorf("profile %s requires role_arn beside source_profile, credential_source or web_identity_token_file", name)
	}
	if len(seen) > 0 && p.hasKeys() {
		return p, nil
	}
	seen[name] = true
	if p.count(onceKeys) > 1 {
		return nil, fmt.Errorf("profile %s has more than one of %s", name, strings.Join(onceKeys, ", "))
	}
	if err := s.link(p, seen); err != nil {
		return nil, err
	}
	return p, nil
}

// link finds what a profile refers to by name.
func (s iniSections) link(p *awsProfile, seen map[string]bool) (err error) {
	if source := p.get("source_profile"); source != "" {
		p.drop("credential_source", "credential_process", "web_identity_token_file", "aws_access_key_id", "aws_secret_access_key")
		p.drop(legacySSO...)
		p.source, err = s.profile(source, seen)
		if _, missing := err.(*noProfileError); missing {
			return fmt.Errorf("failed to load assume role %s, of profile %s, %w", p.get("role_arn"), source, err)
		}
		if err == nil && !p.source.hasKeys() && !p.source.set("sso_session") && !p.source.set(onceKeys...) && !p.source.set(legacySSO...) {
			err = fmt.Errorf("failed to load assume role %s, of profile %s, which has no credentials", p.get("role_arn"), source)
		}
		if err != nil {
			return err
		}
	}
	if name := p.get("sso_session"); name != "" {
		if p.session = s[sessionPrefix+strings.TrimSpace(name)]; p.session == nil {
			return fmt.Errorf("failed to find SSO session section, %s", name)
		}
	}
	if services := s[servicesPrefix+p.get("services")]; services != nil {
		p.services = map[string]map[string]string{}
		for name, value := range services.values {
			p.services[name] = value.nested
		}
	}
	return nil
}

// roleSeconds is how long a role is assumed for: 15 minutes, or what the profile wants where
// that is at least a minute more.
func (p *awsProfile) roleSeconds() string {
	if seconds, err := strconv.ParseInt(p.get("duration_seconds"), 0, 32); err == nil && seconds/60 > 15 {
		return strconv.FormatInt(seconds, 10)
	}
	return "900"
}

// awsFile is the path of a file in ~/.aws.
func awsFile(elements ...string) string {
	home, err := os.UserHomeDir()
	if who, unknown := user.Current(); err != nil && unknown == nil {
		home = who.HomeDir
	}
	return filepath.Join(append([]string{home, ".aws"}, elements...)...)
}
