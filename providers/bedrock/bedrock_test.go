package bedrock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/protocol"
	"troupe/providers"
	"troupe/providers/providertest"
	"troupe/providers/wire"
)

// frame writes one frame of an event stream.
func frame(messageType, kind, payload string) []byte {
	var headers []byte
	add := func(name, value string) {
		headers = append(append(headers, byte(len(name))), name...)
		headers = append(binary.BigEndian.AppendUint16(append(headers, 7), uint16(len(value))), value...)
	}
	add(":message-type", messageType)
	add(map[string]string{"event": ":event-type", "exception": ":exception-type", "error": ":error-code"}[messageType], kind)
	add(":content-type", "application/json")
	headers = append(headers, 1, 'x', 4, 0, 0, 0, 9) // a header that is a number
	b := binary.BigEndian.AppendUint32(nil, uint32(12+len(headers)+len(payload)+4))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func event(kind, payload string) []byte { return frame("event", kind, payload) }

// answer thinks, speaks and calls two tools.
func answer() []byte {
	return bytes.Join([][]byte{
		event("messageStart", `{"role":"assistant","p":"abcd"}`),
		event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"Let me "}}}`),
		event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"think: é 😀"}}}`),
		event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"c2ln"}}}`),
		event("contentBlockStop", `{"contentBlockIndex":0}`),
		event("contentBlockDelta", `{"contentBlockIndex":1,"delta":{"text":"I will "}}`),
		event("contentBlockDelta", `{"contentBlockIndex":1,"delta":{"text":"read."}}`),
		event("contentBlockStop", `{"contentBlockIndex":1}`),
		event("contentBlockStart", `{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"tooluse_1","name":"read"}}}`),
		event("contentBlockDelta", `{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"path\":"}}}`),
		event("contentBlockDelta", `{"contentBlockIndex":2,"delta":{"toolUse":{"input":"\"a\"}"}}}`),
		event("contentBlockStop", `{"contentBlockIndex":2}`),
		event("contentBlockStart", `{"contentBlockIndex":3,"start":{"toolUse":{"toolUseId":"tooluse_2","name":"ls"}}}`),
		event("contentBlockStop", `{"contentBlockIndex":3}`),
		event("messageStop", `{"stopReason":"tool_use"}`),
		event("metadata", `{"usage":{"inputTokens":12,"outputTokens":34,"totalTokens":1046,"cacheReadInputTokens":800,"cacheWriteInputTokens":200},"metrics":{"latencyMs":5}}`),
	}, nil)
}

// serve answers with a stream, and keeps the request.
func serve(t *testing.T, status int, contentType string, body []byte) (ask func(providers.Request) (providertest.Folded, *protocol.StreamError), last func() (*http.Request, []byte)) {
	var request *http.Request
	var sent []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request = r
		sent, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	client := wire.NewClient(wire.ClientConfig{})
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return func(req providers.Request) (providertest.Folded, *protocol.StreamError) {
		m := *req.Model
		m.BaseURL, req.Model = server.URL, &m
		got, failed, problem := providertest.Fold(New(client).Stream(t.Context(), req))
		require.NoError(t, problem)
		return got, failed
	}, func() (*http.Request, []byte) { return request, sent }
}

const eventStream = "application/vnd.amazon.eventstream"

func question(id string) providers.Request {
	return providers.Request{
		Model:  &protocol.Model{ID: id, Provider: "amazon-bedrock", API: API, Reasoning: true, Input: []string{"text", "image"}, ContextWindow: 200_000, MaxTokens: 32_000},
		System: "Be kind.", Thinking: protocol.ThinkingMedium, Credentials: providers.Credentials{Key: "canary-key-0123456789", Bearer: true},
		Messages: []protocol.Message{&protocol.UserMessage{Content: protocol.TextContent("Hello")}},
		Tools:    []protocol.ToolInfo{{Name: "read", Description: "Reads.", Parameters: []byte(`{"type":"object"}`)}},
	}
}

const claudeID = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"

func TestAnswer(t *testing.T) {
	ask, last := serve(t, 200, eventStream, answer())
	req := question(claudeID)
	got, failed := ask(req)
	require.Nil(t, failed)
	assert.Equal(t, protocol.Content{
		protocol.Thinking{Thinking: "Let me think: é 😀", Signature: "c2ln"}, protocol.Text{Text: "I will read."},
		protocol.ToolCall{ID: "tooluse_1", Name: "read", Arguments: []byte(`{"path":"a"}`)}, protocol.ToolCall{ID: "tooluse_2", Name: "ls"},
	}, got.Content)
	assert.Equal(t, protocol.StopToolUse, got.Stop)
	assert.Equal(t, [5]int64{12, 34, 800, 200, 1046}, [5]int64{got.Usage.Input, got.Usage.Output, got.Usage.CacheRead, got.Usage.CacheWrite, got.Usage.TotalTokens})
	r, body := last()
	assert.Equal(t, "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream", r.URL.EscapedPath())
	assert.Equal(t, eventStream, r.Header.Get("Accept"))
	assert.NoError(t, providertest.CheckConverse(r.Header, body, req))
}

// TestCuts: an answer that ends early is an error after whatever byte, but for
// the trailing usage.
func TestCuts(t *testing.T) {
	whole := answer()
	stop := bytes.Index(whole, []byte(`{"stopReason":"tool_use"}`)) + len(`{"stopReason":"tool_use"}`) + 4
	for n := 0; n < len(whole); n++ {
		ask, _ := serve(t, 200, eventStream, whole[:n])
		if _, failed := ask(question(claudeID)); n < stop {
			require.NotNil(t, failed, "after %d bytes", n)
			require.Contains(t, []protocol.ErrorKind{protocol.ErrorCutStream, protocol.ErrorNetwork}, failed.Kind, "after %d bytes: %v", n, failed)
		}
	}
}

// TestFlippedBits: no broken bit passes the checksums.
func TestFlippedBits(t *testing.T) {
	whole := answer()
	for bit := range 8 * len(whole) {
		at := bit / 8
		broken := bytes.Clone(whole)
		broken[at] ^= 1 << (bit % 8)
		r := wire.NewFrameReader(bytes.NewReader(broken))
		var err error
		for err == nil {
			_, err = r.Next()
		}
		require.NotErrorIs(t, err, io.EOF, "byte %d", at)
	}
}

func TestExceptions(t *testing.T) {
	for kind, want := range map[string]protocol.ErrorKind{
		"throttlingException": protocol.ErrorRateLimit, "serviceUnavailableException": protocol.ErrorOverloaded,
		"internalServerException": protocol.ErrorServer, "modelStreamErrorException": protocol.ErrorServer,
		"validationException": protocol.ErrorInvalid, "accessDeniedException": protocol.ErrorAuth,
	} {
		stream := append(event("messageStart", `{"role":"assistant"}`), frame("exception", kind, `{"message":"It went wrong."}`)...)
		ask, _ := serve(t, 200, eventStream, stream)
		_, failed := ask(question(claudeID))
		require.NotNil(t, failed, kind)
		assert.Equal(t, want, failed.Kind, kind)
		assert.Contains(t, failed.Message, "It went wrong.", kind)
	}
	ask, _ := serve(t, 200, eventStream, frame("exception", "validationException", `{"message":"Input is too long for requested model."}`))
	_, failed := ask(question(claudeID))
	assert.Equal(t, protocol.ErrorOverflow, failed.Kind)
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status  int
		message string
		kind    protocol.ErrorKind
		says    string
	}{
		{400, "Invocation of model ID x with on-demand throughput isn’t supported. Retry with an inference profile.", protocol.ErrorInvalid, "us." + claudeID},
		{403, "The security token included in the request is expired", protocol.ErrorAuth, "AWS_BEARER_TOKEN_BEDROCK"},
		{429, "Too many requests, please wait before trying again.", protocol.ErrorRateLimit, "Too many requests"},
	} {
		ask, _ := serve(t, c.status, "application/json", fmt.Appendf(nil, `{"message":%q}`, c.message))
		_, failed := ask(question(claudeID))
		require.NotNil(t, failed)
		assert.Equal(t, c.kind, failed.Kind, c.message)
		assert.Contains(t, failed.Message, c.says)
	}
}

// TestFamilies: only Claude is told how to think, only Claude and Nova cache.
func TestFamilies(t *testing.T) {
	arn := "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
	for _, c := range []struct {
		id, compat      string
		points          int
		thinks, refused bool
	}{
		{claudeID, ``, 3, true, false},
		{"amazon.nova-pro-v1:0", ``, 2, false, false},
		{"openai.gpt-oss-120b-1:0", ``, 0, false, false},
		{arn, ``, 0, false, false},
		{arn, `{"family":"claude"}`, 3, true, false},
		{arn, `{"family":"Klaud"}`, 0, false, true},
	} {
		ask, last := serve(t, 200, eventStream, answer())
		req := question(c.id)
		req.Model.ProviderConfig = &protocol.ProviderConfig{Compat: []byte(c.compat)}
		_, failed := ask(req)
		require.Equal(t, c.refused, failed != nil, "%s: %v", c.id, failed)
		if c.refused {
			continue
		}
		r, body := last()
		assert.Equal(t, c.points, strings.Count(string(body), "cachePoint"), "%s: %s", c.id, body)
		assert.Equal(t, c.thinks, strings.Contains(string(body), "budget_tokens"), c.id)
		assert.NotContains(t, r.URL.EscapedPath(), ":")
		assert.Equal(t, 3, strings.Count(r.URL.EscapedPath(), "/"), r.URL.EscapedPath())
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(answer())
	f.Add(frame("error", "InternalError", ""))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := wire.NewFrameReader(bytes.NewReader(stream))
		for range len(stream)/16 + 1 {
			if _, err := r.Next(); err != nil {
				return
			}
		}
	})
}
