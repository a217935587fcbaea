package registry

import (
	"context"

	"troupe/protocol"
	"troupe/providers"
)

// virtualOf is who routes the requests of a model, nil if it answers itself.
func (r *Registry) virtualOf(model *protocol.Model) *providers.Virtual {
	for _, v := range r.virtual[model.Provider] {
		if v.Model.ID == model.ID {
			return v
		}
	}
	return nil
}

// route has a request answered by the model that it is meant for.
func (r *Registry) route(ctx context.Context, v *providers.Virtual, req providers.Request, yield func(protocol.Part, error) bool) {
	to, err := v.Route(ctx, req)
	if err != nil {
		yield(nil, err)
		return
	}
	catalog, _ := r.Catalog() // what is wrong with files was said before
	model := catalog.Find(to.Provider, to.ModelID)
	switch {
	case model == nil:
		err = protocol.ErrorInvalid.Errorf("%s/%s was routed to %s/%s, which is not a known model", v.Model.Provider, v.Model.ID, to.Provider, to.ModelID)
	case r.virtualOf(model) != nil:
		err = protocol.ErrorInvalid.Errorf("%s/%s was routed to %s/%s, which is virtual, too", v.Model.Provider, v.Model.ID, to.Provider, to.ModelID)
	}
	if err != nil {
		yield(nil, err)
		return
	}
	req.Model, req.Thinking = model, model.Clamp(to.Level)
	for part, err := range r.Stream(ctx, req) {
		if start, ok := part.(protocol.PartStart); ok {
			start.Model = model
			part = start
		}
		if !yield(part, err) {
			return
		}
	}
}
