package google

import (
	"regexp"
	"strings"
	"sync"

	"troupe/protocol"
	"troupe/providers"
)

// family is what a model's name tells about what it takes.
type family struct {
	levels bool // thinks by level, not by budget
	nested bool // takes images inside of tool results, and insists on signatures of calls
	ids    bool // calls have ids: models of other makers, which Google only hosts

	budgets map[protocol.ThinkingLevel]int64 // thinking tokens per level, nil where the model decides
	most    int64                            // thinking tokens the model can be given
	pro     bool                             // has two levels of thinking only
}

var gemini3 = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`gemini-([3-9]|\d\d)|gemini-[a-z-]*latest`)
})

// familyOf looks at the model's id, which gateways may put a prefix before.
func familyOf(req *providers.Request) family {
	id := strings.ToLower(req.Model.ID)
	f := family{
		ids: strings.Contains(id, "claude-") || strings.Contains(id, "gpt-oss-"),
		pro: strings.Contains(id, "-pro"),
	}
	f.nested = gemini3().MatchString(id)
	switch {
	case f.nested, strings.Contains(id, "gemma-4"):
		f.levels = true
	case strings.Contains(id, "2.5-pro"):
		f.budgets, f.most = budgets(128, 32768), 32768
	case strings.Contains(id, "2.5-flash-lite"):
		f.budgets, f.most = budgets(512, 24576), 24576
	case strings.Contains(id, "2.5-flash"):
		f.budgets, f.most = budgets(128, 24576), 24576
	default:
		word, _ := req.OwnWord()
		f.levels = word != ""
	}
	return f
}

func budgets(least, most int64) map[protocol.ThinkingLevel]int64 {
	return map[protocol.ThinkingLevel]int64{
		protocol.ThinkingMinimal: least, protocol.ThinkingLow: 2048, protocol.ThinkingMedium: 8192,
		protocol.ThinkingHigh: most, protocol.ThinkingXHigh: most, protocol.ThinkingMax: most,
	}
}

// level is the service's word for the request's thinking level.
func (f family) level(req *providers.Request) string {
	if word, _ := req.OwnWord(); word != "" {
		return strings.ToUpper(word)
	}
	level := req.Thinking
	switch {
	case level == protocol.ThinkingMinimal && f.pro:
		level = protocol.ThinkingLow
	case level == protocol.ThinkingXHigh, level == protocol.ThinkingMax, level == protocol.ThinkingMedium && f.pro:
		level = protocol.ThinkingHigh
	}
	return strings.ToUpper(string(level))
}

// budget is how many tokens of thinking the request's level is worth, dynamic
// where the model decides by itself.
func (f family) budget(req *providers.Request) int64 {
	n := req.Budgets[req.Thinking]
	if n <= 0 {
		n = f.budgets[req.Thinking]
	}
	switch {
	case n <= 0:
		return dynamic
	case f.most > 0:
		return min(n, f.most)
	}
	return n
}

const dynamic = -1
