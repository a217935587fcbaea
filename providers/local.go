package providers

// LocalServer is a server of models, as it describes itself.
type LocalServer struct {
	Kind   string // which program it is
	Models []LocalModel
}

// LocalModel is a model of a local server.
type LocalModel struct {
	ID       string
	Context  int64 // tokens that it can have now; 0 is not known
	AtMost   bool  // Context is what it could have: the server decides when it loads it
	Vision   bool
	Thinking bool
	Loaded   bool
	Other    bool // nothing to talk to, as an embedding
}
