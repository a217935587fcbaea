package extension

import (
	_ "embed"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
	"golang.org/x/text/unicode/norm"

	"troupe/tools/extension/quick"
)

func intlOps() map[string]operation {
	return map[string]operation{
		"intl.offset": func(c *opCall) (any, error) {
			at, err := inZone(c)
			if err != nil {
				return nil, err
			}
			_, seconds := at.Zone()
			return float64(seconds) / 60, nil
		},
		"intl.zone": func(c *opCall) (any, error) {
			at, err := inZone(c)
			if err != nil {
				return nil, err
			}
			name, _ := at.Zone()
			return name, nil
		},
		"intl.local": func(*opCall) (any, error) { return localZone(), nil },
		"intl.locale": func(c *opCall) (any, error) {
			if text := localeRecord(c.args.text(0)); text != "" {
				return quick.JSON(text), nil
			}
			return nil, nil
		},
		"intl.compare": func(c *opCall) (any, error) {
			order, err := collatorOf(c.args.text(0), c.args.text(1))
			if err != nil {
				return nil, err
			}
			return float64(order.compare(c.args.text(2), c.args.text(3))), nil
		},
	}
}

// inZone returns the time of an operation in its time zone: zone, milliseconds.
func inZone(c *opCall) (time.Time, error) {
	ms, _ := c.args.number(1)
	zone, err := time.LoadLocation(c.args.text(0))
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(int64(ms)).In(zone), nil
}

// localZone is the IANA name of the zone of this process, "UTC" if it is unknown.
func localZone() string {
	name, set := os.LookupEnv("TZ")
	if !set {
		link, _ := os.Readlink("/etc/localtime")
		_, name, _ = strings.Cut(link, "zoneinfo/")
	}
	if name = strings.TrimPrefix(name, ":"); name == "" {
		return "UTC"
	}
	return name
}

// locales are the formats of dates and numbers: see locales/generate.cjs.
//
//go:embed locales/locales.txt
var locales string

// localeRecord returns the record of a locale as JSON, or "" for an unknown locale. A language alone means the first of its
// locales.
func localeRecord(tag string) string {
	switch tag {
	case "no":
		tag = "nb"
	case "zh-Hans", "zh-Hans-CN":
		tag = "zh-CN"
	case "zh-Hant", "zh-Hant-TW":
		tag = "zh-TW"
	}
	mark := "\t"
	if !strings.Contains(tag, "-") {
		mark = "-"
	}
	rest := locales
	if !strings.HasPrefix(rest, tag+mark) {
		_, after, ok := strings.Cut(rest, "\n"+tag+mark)
		if !ok {
			return ""
		}
		rest = after
	}
	line, _, _ := strings.Cut(rest, "\n")
	return line[strings.IndexByte(line, '\t')+1:]
}

// collator compares texts. A collate.Collator has buffers, so mu guards it.
type collator struct {
	mu     sync.Mutex
	order  *collate.Collator
	rough  *collate.Collator     // decides first, nil if order alone decides
	upper  bool                  // capitals come first among texts that are equal for rough
	remove transform.Transformer // from texts that are equal for rough, nil for nothing
}

func (c *collator) compare(a, b string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rough != nil {
		if n := c.rough.CompareString(a, b); n != 0 {
			return n
		}
	}
	if c.remove != nil {
		a, _, _ = transform.String(c.remove, a)
		b, _, _ = transform.String(c.remove, b)
	}
	n := c.order.CompareString(a, b)
	if c.upper && n != 0 {
		if m := c.order.CompareString(strings.ToLower(a), strings.ToLower(b)); m != 0 {
			return m // they differ in more than case
		}
		n = -n
	}
	return n
}

// maxCollators bounds the collators that are kept: more locales and options than a few are a program's mistake.
const maxCollators = 64

// collators are those in use, by locale and mode.
var collators = struct {
	sync.Mutex
	all map[string]*collator
}{all: map[string]*collator{}}

// collatorOf returns the collator of a locale. The mode is a sensitivity of Intl.Collator, with " numeric" after it
// for numbers by value, and " upper" for capitals first.
func collatorOf(locale, mode string) (*collator, error) {
	collators.Lock()
	defer collators.Unlock()
	key := locale + " " + mode
	if c := collators.all[key]; c != nil {
		return c, nil
	}
	tag, err := language.Parse(locale)
	if err != nil {
		return nil, &failure{Name: "RangeError", Message: "Incorrect locale information provided: " + locale}
	}
	words := strings.Fields(mode)
	var numeric []collate.Option
	if slices.Contains(words, "numeric") {
		numeric = append(numeric, collate.Numeric)
	}
	order := func(o ...collate.Option) *collate.Collator { return collate.New(tag, append(o, numeric...)...) }
	c := &collator{}
	switch words[0] {
	case "base":
		c.order = order(collate.Loose)
	case "accent":
		c.order = order(collate.IgnoreCase, collate.IgnoreWidth)
	case "case": // the package has no case level: without their marks, texts differ in case only
		c.rough, c.order = order(collate.Loose), order()
		c.remove = transform.Chain(norm.NFD, runes.Remove(runes.In(unicode.Mn)), norm.NFC)
	default:
		c.order = order()
	}
	if slices.Contains(words, "upper") && (words[0] == "case" || words[0] == "variant") {
		if c.upper = true; c.rough == nil {
			c.rough = order(collate.IgnoreCase)
		}
	}
	if len(collators.all) >= maxCollators {
		clear(collators.all)
	}
	collators.all[key] = c
	return c, nil
}
