package core

import (
	"slices"

	"troupe/protocol"
)

func (m *Machine) setModel(c Command, s protocol.SetModel) {
	model := c.Found
	for _, own := range []*protocol.Model{m.model, m.set.Model} { // the command line takes models that nobody has listed
		if model == nil && own != nil && !own.Missing && own.Provider == s.Provider && own.ID == s.ModelID {
			model = own
		}
	}
	if model == nil {
		m.fail(c, protocol.CodeModelNotFound.Errorf("Model not found: %s/%s", s.Provider, s.ModelID))
		return
	}
	if !c.Catalog.HasKey(s.Provider) {
		m.fail(c, protocol.CodeNoKey.Errorf("No API key for %s/%s", s.Provider, s.ModelID))
		return
	}
	if err := m.unpriced(model); err != nil {
		m.fail(c, err)
		return
	}
	m.selectModel(model)
	m.reply(c, model)
}

// selectModel takes effect with the next request. The thinking level follows
// what the model supports. To choose what is chosen already is worth no file.
func (m *Machine) selectModel(model *protocol.Model) {
	was := m.modelChoice
	m.model = model
	m.add(Append{
		Entry: protocol.ModelChange{Provider: model.Provider, ModelID: model.ID}, Durable: !sameModel(was.model, model), was: &earlier{model: &was},
	})
	m.setLevel(m.set.Rules.Clamp(model, m.level))
}

func (m *Machine) setLevel(level protocol.ThinkingLevel) {
	if level == m.level {
		return
	}
	was := m.modelChoice
	m.level = level
	m.add(Append{Entry: protocol.ThinkingLevelChange{ThinkingLevel: level}, Durable: true, was: &earlier{model: &was}})
	m.emit(protocol.ThinkingLevelChanged{Level: level})
}

// cycleModel selects the next model of the scope, or of everything there are
// credentials for. A current model outside the list leads to its first.
func (m *Machine) cycleModel(c Command) {
	scoped := len(m.set.Scope) > 0
	choices := slices.DeleteFunc(slices.Clone(m.set.Scope), func(s ScopedModel) bool { return !c.Catalog.HasKey(s.Model.Provider) })
	if !scoped {
		for _, model := range c.Catalog.Available() {
			choices = append(choices, ScopedModel{Model: model})
		}
	}
	choices = slices.DeleteFunc(choices, func(s ScopedModel) bool { return m.unpriced(s.Model) != nil })
	if len(choices) <= 1 {
		m.done(c, protocol.Null{})
		return
	}
	at := slices.IndexFunc(choices, func(s ScopedModel) bool { return sameModel(s.Model, m.model) })
	next := choices[(at+1)%len(choices)]
	m.selectModel(next.Model)
	if next.Level != "" {
		m.setLevel(m.set.Rules.Clamp(next.Model, next.Level))
	}
	m.reply(c, protocol.ModelChoice{Model: next.Model, ThinkingLevel: m.Level(), IsScoped: scoped})
}

func sameModel(a, b *protocol.Model) bool {
	return a != nil && b != nil && a.Provider == b.Provider && a.ID == b.ID
}

func (m *Machine) cycleLevel(c Command) {
	levels := m.set.Rules.Levels(m.model)
	if len(levels) <= 1 {
		m.done(c, protocol.Null{})
		return
	}
	next := levels[(slices.Index(levels, m.Level())+1)%len(levels)]
	m.setLevel(next)
	m.reply(c, protocol.LevelChoice{Level: next})
}

func (m *Machine) setName(c Command, s protocol.SetSessionName) {
	m.name = s.Name
	m.append(protocol.SessionInfo{Name: s.Name})
	m.emit(protocol.SessionInfoChanged{Name: s.Name})
	m.reply(c, nil)
}

func (m *Machine) setLabel(c Command, l protocol.SetEntryLabel) {
	if !m.log.Has(l.TargetID) {
		m.fail(c, protocol.CodeNotFound.Errorf("Entry %s not found", l.TargetID))
		return
	}
	m.append(protocol.Label{TargetID: l.TargetID, Label: l.Label})
	m.reply(c, nil)
}

// setActiveTools chooses what the model may call, from its next request on.
func (m *Machine) setActiveTools(c Command, s protocol.SetActiveTools) {
	active := []string{}
	for _, name := range s.ToolNames {
		if (m.builtIn(name) != nil || m.isHosts(name)) && !slices.Contains(active, name) {
			active = append(active, name)
		}
	}
	was := m.choices
	m.tools, m.picked = active, true
	m.chosen(c, was, protocol.ActiveTools{ActiveToolNames: active})
}

func (m *Machine) reloadResources(c Command) {
	if !m.isIdle() {
		m.fail(c, protocol.CodeSessionBusy.Errorf("Wait for the current response to finish before reloading."))
		return
	}
	m.reloading = true
	m.do(Reconfigure{c.Seq})
}

// apply takes on new settings. What clients have chosen stays chosen.
func (in Reconfigured) apply(m *Machine) {
	was := m.set.Extensions.Tools
	in.Settings.Retained, in.Settings.FailsOver, in.Settings.Opened = m.set.Retained, m.set.FailsOver, m.set.Opened // which no setting says
	m.set = in.Settings
	m.extensionsChanged(was)
	m.keepChoices(nil)
	m.limitsChanged(in.Spent)
	if in.Seq != 0 {
		m.reloading = false
		m.emit(m.changed("reload"))
		m.do(Reply{Seq: in.Seq, Data: in.Data})
	}
}
