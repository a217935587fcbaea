package history

import (
	"fmt"

	"github.com/tidwall/gjson"
)

// What a model server sees: a request is {"n":1,"max":4096,"of":"…","results":[{"call":"c1","text":"…"}]},
// its output limit, the conversation that it is of and the results of the tool task in it; what has become
// of it {"n":1,"output":10}.
const (
	Asked    Kind = "asked"
	Answered Kind = "answered"
)

// requests are T8 and T16, as the model sees them: what was used up, what the answers under way may use up,
// and what one more may, is within the limit, or that one is alone; and what a call of the tool task has
// come to is always the same text.
func requests(records []Record, limit int64) (found []string) {
	var used, held int64
	flying, texts := map[int64]int64{}, map[string]string{}
	for _, r := range records {
		v := gjson.Parse(r.Line)
		switch n := v.Get("n").Int(); r.Kind {
		case Life: // what a process asked for that was killed is not answered
			clear(flying)
			held = 0
		case Asked:
			if need := v.Get("max").Int(); limit > 0 && len(flying) > 0 && used+held+need > limit {
				found = append(found, fmt.Sprintf("T8: a request of %d beside %d others, %d of %d used and %d reserved", need, len(flying), used, limit, held))
			}
			flying[n] = v.Get("max").Int()
			held += flying[n]
			found = append(found, sameResults(v, texts)...)
		case Answered:
			held -= flying[n]
			delete(flying, n)
			used += v.Get("output").Int()
		default:
		}
	}
	return found
}

// sameResults is T16 of a request: one result a call, of the same text as before, and not too long.
func sameResults(v gjson.Result, texts map[string]string) (found []string) {
	seen := map[string]bool{}
	for _, r := range v.Get("results").Array() {
		key, said := v.Get("of").Str+" "+r.Get("call").Str, r.Get("text").Str
		before, known := texts[key]
		if seen[key] || known && before != said || len(said) > maxTaskText {
			found = append(found, "T16: a model is shown another result of call "+r.Get("call").Str)
		}
		seen[key], texts[key] = true, said
	}
	return found
}
