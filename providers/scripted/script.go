package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/jsonc"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/wire"
)

// API is the wire's name in model descriptions.
const API = providers.ScriptedAPI

// Script is what to answer.
type Script struct {
	Answers []Answer `json:"answers"`
	Chunk   int      `json:"chunk,omitempty"`   // characters per delta, 0 for 16
	DelayMs int64    `json:"delayMs,omitempty"` // pause between deltas
	Loop    bool     `json:"loop,omitempty"`    // begin again when all is used
}

// Answer is one answer and when it fits; see the package comment.
type Answer struct {
	When  string              `json:"when,omitempty"`
	After string              `json:"after,omitempty"`
	Times int                 `json:"times,omitempty"`
	Steps []Step              `json:"steps"`
	Usage *protocol.Usage     `json:"usage,omitempty"`
	Stop  protocol.StopReason `json:"stop,omitempty"`
}

// Step is one thing that happens: the first field that is set says what.
type Step struct {
	Text      string          `json:"text,omitempty"`
	Thinking  string          `json:"thinking,omitempty"`
	Signature string          `json:"signature,omitempty"`
	Redacted  bool            `json:"redacted,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	ID        string          `json:"id,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	RawArgs   string          `json:"rawArgs,omitempty"`
	WaitMs    int64           `json:"waitMs,omitempty"`
	Stall     bool            `json:"stall,omitempty"`
	Cut       bool            `json:"cut,omitempty"`
	Error     *Failure        `json:"error,omitempty"`
}

// Failure is an error of the provider.
type Failure struct {
	Kind         protocol.ErrorKind `json:"kind,omitempty"`
	Status       int                `json:"status,omitempty"`
	Message      string             `json:"message,omitempty"`
	Body         string             `json:"body,omitempty"`
	RetryAfterMs int64              `json:"retryAfterMs,omitempty"`
}

// Parse reads a script, JSON or text.
func Parse(text []byte) (*Script, error) {
	s := &Script{}
	var err error
	if trimmed := strings.TrimSpace(string(text)); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "//") {
		dec := json.NewDecoder(strings.NewReader(string(jsonc.ToJSON(text))))
		dec.DisallowUnknownFields()
		err = dec.Decode(s)
	} else {
		err = s.parseText(trimmed)
	}
	if err != nil {
		return nil, err
	}
	return s, s.check()
}

// check refuses what could only be a mistake.
func (s *Script) check() error {
	for i := range s.Answers {
		a := &s.Answers[i]
		if a.When != "" && a.After != "" {
			return fmt.Errorf("answer %d: has both when and after", i+1)
		}
		if _, err := a.pattern(); err != nil {
			return fmt.Errorf("answer %d: when: %w", i+1, err)
		}
		for _, step := range a.Steps {
			if f := step.Error; f != nil && f.Kind == "" && f.Status == 0 && f.Body == "" {
				return fmt.Errorf("answer %d: error without kind, status or body", i+1)
			}
		}
	}
	return nil
}

// pattern is the expression of a When between slashes, nil for plain text.
func (a *Answer) pattern() (*regexp.Regexp, error) {
	if len(a.When) < 3 || a.When[0] != '/' || a.When[len(a.When)-1] != '/' {
		return nil, nil
	}
	return regexp.Compile("(?is)" + a.When[1:len(a.When)-1])
}

// fits says whether the answer is for a request that ends so: with words of the
// user, or with a result of a tool.
func (a *Answer) fits(userText, tool string) bool {
	switch {
	case a.After != "":
		return tool != "" && (a.After == "*" || a.After == tool)
	case a.When != "":
		if tool != "" {
			return false
		}
		if re, _ := a.pattern(); re != nil {
			return re.MatchString(userText)
		}
		return strings.Contains(strings.ToLower(userText), strings.ToLower(a.When))
	}
	return true
}

// conditional answers may be used again and again.
func (a *Answer) conditional() bool { return a.When != "" || a.After != "" }

func (f *Failure) err() *protocol.StreamError {
	err := &protocol.StreamError{Kind: f.Kind, Message: f.Message, Status: f.Status}
	body := f.Body
	if body == "" && f.Message == "" {
		body = fmt.Sprintf(`{"error":{"type":%q,"message":"scripted failure"}}`, f.kind())
	}
	if body != "" {
		classified := wire.Classify(f.Status, nil, []byte(body))
		err.Message, err.RetryAfter = classified.Message, classified.RetryAfter
	}
	err.Kind = f.kind()
	if f.RetryAfterMs > 0 {
		err.RetryAfter = time.Duration(f.RetryAfterMs) * time.Millisecond
	}
	return err
}

// kind is the kind given, or the one that status and body imply.
func (f *Failure) kind() protocol.ErrorKind {
	if f.Kind != "" {
		return f.Kind
	}
	return wire.Classify(f.Status, nil, []byte(f.Body)).Kind
}

// parseText reads the text form.
func (s *Script) parseText(text string) error {
	answer := Answer{}
	var prose []string
	flush := func() {
		if words := strings.Trim(strings.Join(prose, "\n"), "\n"); words != "" {
			answer.Steps = append(answer.Steps, Step{Text: words})
		}
		prose = nil
	}
	for number, line := range strings.Split(text, "\n") {
		line = strings.TrimRight(line, "\r")
		switch {
		case len(s.Answers) == 0 && len(answer.Steps) == 0 && len(prose) == 0 && strings.HasPrefix(line, "#"):
		case len(line) >= 3 && strings.Trim(line, "-") == "":
			flush()
			s.Answers = append(s.Answers, answer)
			answer = Answer{}
		case strings.HasPrefix(line, "@@"):
			prose = append(prose, line[1:])
		case strings.HasPrefix(line, "@"):
			flush()
			if err := s.directive(&answer, line[1:]); err != nil {
				return fmt.Errorf("line %d: %w", number+1, err)
			}
		default:
			prose = append(prose, line)
		}
	}
	flush()
	if len(answer.Steps) > 0 {
		s.Answers = append(s.Answers, answer)
	}
	return nil
}

// directive reads one line that begins with @.
func (s *Script) directive(a *Answer, line string) (err error) {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	add := func(step Step) { a.Steps = append(a.Steps, step) }
	switch word {
	case "when":
		a.When = rest
	case "after":
		a.After = rest
	case "times":
		a.Times, err = strconv.Atoi(rest)
	case "chunk":
		s.Chunk, err = strconv.Atoi(rest)
	case "delay":
		s.DelayMs, err = millis(rest)
	case "loop":
		s.Loop = true
	case "stop":
		a.Stop = protocol.StopReason(rest)
	case "think":
		add(Step{Thinking: rest})
	case "stall":
		add(Step{Stall: true})
	case "cut":
		add(Step{Cut: true})
	case "wait":
		var ms int64
		ms, err = millis(rest)
		add(Step{WaitMs: ms})
	case "tool":
		name, args, _ := strings.Cut(rest, " ")
		step := Step{Tool: name, Args: json.RawMessage(strings.TrimSpace(args))}
		if len(step.Args) > 0 && !json.Valid(step.Args) {
			step.Args, step.RawArgs = nil, strings.TrimSpace(args)
		}
		add(step)
	case "usage":
		a.Usage, err = parseUsage(rest)
	case "error":
		var f *Failure
		f, err = parseFailure(rest)
		add(Step{Error: f})
	default:
		err = fmt.Errorf("there is no @%s", word)
	}
	return err
}

func millis(s string) (int64, error) {
	d, err := time.ParseDuration(s)
	return d.Milliseconds(), err
}

func parseUsage(s string) (*protocol.Usage, error) {
	u := &protocol.Usage{}
	for _, field := range strings.Fields(s) {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("usage %s: %w", field, err)
		}
		switch name {
		case "input":
			u.Input = n
		case "output":
			u.Output = n
		case "cacheRead":
			u.CacheRead = n
		case "cacheWrite":
			u.CacheWrite = n
		default:
			return nil, fmt.Errorf("usage has no %q", name)
		}
	}
	return u, nil
}

func parseFailure(s string) (*Failure, error) {
	word, rest, _ := strings.Cut(s, " ")
	f := &Failure{}
	if status, err := strconv.Atoi(word); err == nil {
		f.Status = status
	} else if f.Kind = protocol.ErrorKind(word); word == "" {
		return nil, errors.New("error without kind or status")
	}
	rest = strings.TrimSpace(rest)
	if after, found := strings.CutPrefix(rest, "retry="); found {
		wait, message, _ := strings.Cut(after, " ")
		ms, err := millis(wait)
		if err != nil {
			return nil, err
		}
		f.RetryAfterMs, rest = ms, strings.TrimSpace(message)
	}
	f.Message = rest
	return f, nil
}
