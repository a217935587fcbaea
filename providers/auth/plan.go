package auth

import (
	"context"
	"net/http"

	"github.com/tidwall/gjson"
)

// PlanModel is a model that a plan lists. To be listed is no promise that it can be used.
type PlanModel struct {
	ID, Name string
	Context  int64 // tokens; 0 is not known
	Thinks   bool
	Sees     bool // images
}

// maxPlan bounds the models of a plan.
const maxPlan = 500

// InUse says whether requests have been made with a login in this process: only then its
// vendor is asked anything that no request needs.
func (s *Store) InUse(provider string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(provider).last != ""
}

// Plan asks which models the plan of a login lists, none where the vendor has documented no
// such list.
func (s *Store) Plan(ctx context.Context, provider string) ([]PlanModel, error) {
	if provider != openAI {
		return nil, nil
	}
	token, failed := s.token(ctx, provider, 0, true)
	if failed != nil {
		return nil, failed
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	out, err := s.callAs(ctx, token, http.MethodGet, openAIResource+"/models", "", nil)
	if err != nil {
		return nil, err
	}
	var list []PlanModel
	out.Get("models").ForEach(func(_, m gjson.Result) bool {
		id := m.Get("slug").Str
		if id == "" || id != clean(id) || m.Get("visibility").Str != "list" || len(list) == maxPlan {
			return true
		}
		one := PlanModel{ID: id, Name: clean(m.Get("display_name").Str), Context: max(m.Get("context_window").Int(), 0), Thinks: len(m.Get("supported_reasoning_levels").Array()) > 0}
		m.Get("input_modalities").ForEach(func(_, kind gjson.Result) bool {
			one.Sees = one.Sees || kind.Str == "image"
			return true
		})
		list = append(list, one)
		return true
	})
	return list, nil
}
