//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"troupe/e2e/figures"
)

// model is a model server on loopback that is never the bottleneck: answers are
// bytes that were made before, and HTTP is what two programs on one machine
// need of it.
type model struct {
	l    net.Listener
	mu   sync.Mutex
	ask  func(*ask)
	open map[net.Conn]bool
}

// ask is a request that waits for its answer.
type ask struct {
	at   time.Time // when its last byte was read
	size int
	body []byte // of the request, while it is answered
	conn net.Conn
	gone bool // writing failed: the client has hung up
}

func newModel() *model {
	m := &model{l: figures.Get(net.Listen("tcp", "127.0.0.1:0")), open: map[net.Conn]bool{}}
	go func() {
		for {
			c, err := m.l.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			m.open[c] = true
			m.mu.Unlock()
			go m.serve(c)
		}
	}()
	return m
}

func (m *model) addr() string { return m.l.Addr().String() }

// answers sets what happens with requests from now on.
func (m *model) answers(f func(*ask)) {
	m.mu.Lock()
	m.ask = f
	m.mu.Unlock()
}

func (m *model) close() {
	m.l.Close()
	m.hangUp()
}

func (m *model) hangUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.open {
		c.Close()
	}
	clear(m.open)
}

func (m *model) serve(c net.Conn) {
	defer func() {
		c.Close()
		m.mu.Lock()
		delete(m.open, c)
		m.mu.Unlock()
	}()
	r := bufio.NewReaderSize(c, 64<<10)
	var body []byte
	for {
		size := 0
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(bytes.TrimSpace(line)) == 0 {
				break
			}
			if name, value, ok := strings.Cut(string(line), ":"); ok && strings.EqualFold(name, "content-length") {
				size, _ = strconv.Atoi(strings.TrimSpace(value))
			}
		}
		if cap(body) < size {
			body = make([]byte, size)
		}
		if _, err := io.ReadFull(r, body[:size]); err != nil {
			return
		}
		a := &ask{at: time.Now(), size: size, body: body[:size], conn: c}
		m.mu.Lock()
		f := m.ask
		m.mu.Unlock()
		f(a)
		if a.gone {
			return
		}
	}
}

func (a *ask) write(b []byte) {
	if !a.gone {
		_, err := a.conn.Write(b)
		a.gone = err != nil
	}
}

// play sends a rendered answer.
func (a *ask) play(answer []byte) { a.write(answer) }

// begin starts an answer that is sent in pieces.
func (a *ask) begin() {
	a.write(chunked("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n", opening))
}

// delta sends one piece of text.
func (a *ask) delta(text string) { a.write(chunked("", textDelta(text))) }

// end finishes an answer that was sent in pieces.
func (a *ask) end() { a.write(append(chunked("", closing("end_turn")), "0\r\n\r\n"...)) }

func chunked(before, data string) []byte {
	return fmt.Appendf(nil, "%s%x\r\n%s\r\n", before, len(data), data)
}

// The wire is anthropic-messages: all peers speak it.

const opening = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[]," +
	"\"model\":\"mock-1\",\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":100,\"output_tokens\":1,\"cache_read_input_tokens\":0,\"cache_creation_input_tokens\":0}}}\n\n" +
	"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"

func textDelta(text string) string {
	return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"" + text + "\"}}\n\n"
}

func closing(stop string) string {
	return "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"" + stop + "\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":10}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
}

func whole(body string) []byte {
	return []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// textAnswer is an answer of n pieces of text.
func textAnswer(n int, piece string) []byte {
	return whole(opening + strings.Repeat(textDelta(piece), n) + closing("end_turn"))
}

// bashAnswer is an answer that calls bash.
func bashAnswer(id int, command string) []byte {
	return toolAnswer(id, "bash", fmt.Sprintf(`{"command":%q}`, command))
}

// toolAnswer is an answer that calls a tool.
func toolAnswer(id int, name, args string) []byte {
	start, _, _ := strings.Cut(opening, "event: content_block_start")
	return whole(start +
		fmt.Sprintf("event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"toolu_%06d\",\"name\":\"%s\",\"input\":{}}}\n\n", id, name) +
		fmt.Sprintf("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":%q}}\n\n", args) +
		closing("tool_use"))
}
