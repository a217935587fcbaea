// provides: @mariozechner/pi-agent-core, @earendil-works/pi-agent-core, @oh-my-pi/pi-agent-core, @mariozechner/pi-agent-core/*, @earendil-works/pi-agent-core/*
// node-only
