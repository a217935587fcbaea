// Command relay is the limit that an agent can be measured against: it moves
// the bytes that an agent has to move, between the same pipes, sockets, files
// and processes, and does nothing else. It knows no rules, keeps no order of
// writing before showing, checks nothing, and speaks just enough of the
// protocol for the driver in e2e/bench. With -cumulative every update carries
// the whole message twice, as the seeds of the protocol want it.
package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	r := &relay{model: os.Getenv("RELAY_MODEL"), cumulative: slices.Contains(os.Args[1:], "-cumulative")}
	var in []byte
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(0, buf)
		if n <= 0 || err != nil {
			break
		}
		in = append(in, buf[:n]...)
		r.mu.Lock()
		for {
			i := bytes.IndexByte(in, '\n')
			if i < 0 {
				break
			}
			r.command(in[:i])
			in = in[i+1:]
		}
		in = append(in[:0:0], in...)
		r.flush()
		r.mu.Unlock()
	}
	r.stop()
}

type relay struct {
	model      string
	cumulative bool

	mu      sync.Mutex
	out     []byte
	conn    net.Conn // idle, or that of the run
	child   *exec.Cmd
	running bool
	aborted bool
	history []byte // what the next request carries
	file    *os.File
	session []byte
	index   []int
	leaf    []byte // id of the last entry
}

func (r *relay) flush() {
	for len(r.out) > 0 {
		n, err := syscall.Write(1, r.out)
		if err != nil {
			os.Exit(1)
		}
		r.out = r.out[n:]
	}
	if cap(r.out) > 1<<20 {
		r.out = nil
	}
}

func member(line []byte, key string) []byte {
	_, rest, ok := bytes.Cut(line, []byte(`"`+key+`":"`))
	if !ok {
		return nil
	}
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return rest[:i]
		}
	}
	return nil
}

const state = `{"model":{"id":"mock-1","name":"mock-1","api":"anthropic-messages","provider":"mock","baseUrl":"http://127.0.0.1","reasoning":false,` +
	`"input":["text","image"],"contextWindow":200000,"maxTokens":4096},"thinkingLevel":"off","isStreaming":false,"isCompacting":false,"steeringMode":"one-at-a-time",` +
	`"followUpMode":"one-at-a-time","sessionId":"00000000-0000-0000-0000-000000000000","autoCompactionEnabled":true,"messageCount":0,"pendingMessageCount":0}`

func (r *relay) command(line []byte) {
	id := member(line, "id")
	kind := string(member(line, "type"))
	data := ""
	switch kind {
	case "get_state":
		data = state
	case "prompt":
		r.running, r.aborted = true, false
		if r.history == nil {
			r.remember()
		}
		r.history = append(r.history, `{"role":"user","content":"`...)
		r.history = append(append(r.history, member(line, "message")...), `"},`...)
		go r.run()
	case "abort":
		r.abort()
	case "bash":
		command := unescape(member(line, "command"))
		id := bytes.Clone(id)
		go func() {
			tail := r.bash(command, true)
			r.mu.Lock()
			r.respond(id, kind, `{"output":"`+escape(tail)+`","exitCode":0,"cancelled":false,"truncated":true}`)
			r.flush()
			r.mu.Unlock()
		}()
		return
	case "switch_session":
		r.open(unescape(member(line, "sessionPath")))
	case "set_session_name":
		r.append(`"type":"session_info","name":"`, member(line, "name"))
	}
	r.respond(id, kind, data)
}

func (r *relay) respond(id []byte, kind, data string) {
	r.out = append(append(r.out, `{"id":"`...), id...)
	r.out = append(append(r.out, `","type":"response","command":"`...), kind...)
	r.out = append(r.out, `","success":true`...)
	if data != "" {
		r.out = append(append(r.out, `,"data":`...), data...)
	}
	r.out = append(r.out, "}\n"...)
}

// append writes an entry as the sessions of pi have them: with an id of its own,
// that of the entry before, and the time.
func (r *relay) append(members string, value []byte) {
	id := fmt.Appendf(nil, "%08x", rand.Uint32())
	line := append([]byte(`{"id":"`), id...)
	line = append(append(line, `","parentId":"`...), r.leaf...)
	line = time.Now().UTC().AppendFormat(append(line, `","timestamp":"`...), "2006-01-02T15:04:05.000Z07:00")
	line = append(append(append(line, `",`...), members...), value...)
	if _, err := r.file.Write(append(line, "\"}\n"...)); err != nil {
		os.Exit(1)
	}
	r.leaf = id
}

func escape(b []byte) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(string(b))
}

func unescape(b []byte) string { s, _ := strconv.Unquote(`"` + string(b) + `"`); return s }

// open reads a session file whole and finds its lines.
func (r *relay) open(path string) {
	r.session, _ = os.ReadFile(path)
	r.index = r.index[:0]
	for at := 0; at < len(r.session); {
		r.index = append(r.index, at)
		i := bytes.IndexByte(r.session[at:], '\n')
		if i < 0 {
			break
		}
		at += i + 1
	}
	r.file, _ = os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	r.history = nil
}

// remember makes the conversation of the session that was opened, for a model.
func (r *relay) remember() {
	for i, at := range r.index {
		end := len(r.session)
		if i+1 < len(r.index) {
			end = r.index[i+1]
		}
		line := bytes.TrimSuffix(r.session[at:end], []byte("\n"))
		if _, message, ok := bytes.Cut(line, []byte(`"message":`)); ok {
			r.history = append(append(r.history, message[:len(message)-1]...), ',')
		}
	}
}

func (r *relay) abort() {
	if !r.running {
		return
	}
	r.running, r.aborted = false, true
	if r.child != nil {
		syscall.Kill(-r.child.Process.Pid, syscall.SIGKILL)
	}
	if r.conn != nil {
		r.conn.Close()
		r.conn = nil
	}
	r.out = append(r.out, `{"type":"agent_end","messages":[]}`+"\n"...)
}

func (r *relay) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = true
	r.abort()
}

// bash runs a command and keeps the end of its output, and all of it in a file
// if it is to be kept and is long.
func (r *relay) bash(command string, keep bool) []byte {
	cmd := exec.Command("/bin/bash", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pr, pw, err := os.Pipe()
	if err != nil {
		os.Exit(1)
	}
	cmd.Stdout, cmd.Stderr = pw, pw
	if err := cmd.Start(); err != nil {
		os.Exit(1)
	}
	pw.Close()
	r.mu.Lock()
	r.child = cmd
	if r.aborted && !keep {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	r.mu.Unlock()
	var tail []byte
	var full *os.File
	buf := make([]byte, 64<<10)
	for {
		n, err := pr.Read(buf)
		if n > 0 {
			if tail = append(tail, buf[:n]...); len(tail) > 128<<10 {
				if full == nil {
					if full, err = os.CreateTemp("", "relay-"); err != nil {
						os.Exit(1)
					}
					full.Write(tail)
				}
				tail = append(tail[:0], tail[len(tail)-50<<10:]...)
			} else if full != nil {
				full.Write(buf[:n])
			}
		}
		if err != nil {
			break
		}
	}
	pr.Close()
	cmd.Wait()
	if full != nil {
		full.Close()
		os.Remove(full.Name())
	}
	r.mu.Lock()
	r.child = nil
	r.mu.Unlock()
	return tail[max(0, len(tail)-50<<10):]
}

// run asks the model until it calls no more tools.
func (r *relay) run() {
	for {
		command, whole, ok := r.turn()
		if !ok {
			return
		}
		r.mu.Lock()
		r.history = append(append(append(r.history, `{"role":"assistant","content":"`...), whole...), `"},`...)
		if command == "" {
			if r.running {
				r.running = false
				r.out = append(append(r.out, `{"type":"agent_end","messages":["`...), whole...)
				r.out = append(r.out, "\"]}\n"...)
				r.flush()
			}
			r.mu.Unlock()
			return
		}
		r.out = append(r.out, `{"type":"tool_execution_start","toolCallId":"call","toolName":"bash","args":{}}`+"\n"...)
		r.flush()
		r.mu.Unlock()
		tail := r.bash(command, false)
		r.mu.Lock()
		if !r.running {
			r.mu.Unlock()
			return
		}
		text := escape(tail)
		r.history = append(append(append(r.history, `{"role":"user","content":"`...), text...), `"},`...)
		r.out = append(append(r.out, `{"type":"tool_execution_end","toolCallId":"call","toolName":"bash","result":"`...), text...)
		r.out = append(r.out, "\"}\n"...)
		r.flush()
		r.mu.Unlock()
	}
}

// turn makes one request and passes its answer on.
func (r *relay) turn() (command string, whole []byte, ok bool) {
	r.mu.Lock()
	body := append(append([]byte(`{"messages":[`), r.history...), `{}]}`...)
	conn := r.conn
	r.mu.Unlock()
	if conn == nil {
		var err error
		if conn, err = net.Dial("tcp", r.model); err != nil {
			os.Exit(1)
		}
	}
	r.mu.Lock()
	if !r.running {
		conn.Close()
		r.mu.Unlock()
		return "", nil, false
	}
	r.conn = conn
	r.mu.Unlock()
	head := "POST /v1/messages HTTP/1.1\r\nHost: model\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	conn.Write([]byte(head))
	conn.Write(body)

	buf := make([]byte, 64<<10)
	have, over := 0, false // chunk sizes, blank lines and what is left of the last answer are lines without data
	for !over {
		n, err := conn.Read(buf[have:])
		if err != nil && err != io.EOF || n == 0 {
			return "", nil, false
		}
		have += n
		r.mu.Lock()
		used := 0
		for {
			i := bytes.IndexByte(buf[used:have], '\n')
			if i < 0 {
				break
			}
			line := buf[used : used+i]
			used += i + 1
			if !bytes.HasPrefix(line, []byte("data: ")) || !r.running {
				continue
			}
			switch {
			case bytes.Contains(line, []byte(`"text_delta"`)):
				delta := member(line, "text")
				whole = append(whole, delta...)
				r.update(delta, whole)
			case bytes.Contains(line, []byte(`"input_json_delta"`)):
				if part := unescape(member(line, "partial_json")); part != "" {
					command = unescape(member([]byte(part), "command"))
				}
			case bytes.Contains(line, []byte(`"message_stop"`)):
				over = true
			}
		}
		have = copy(buf, buf[used:have])
		r.flush()
		r.mu.Unlock()
	}
	return command, whole, true
}

func (r *relay) update(delta, whole []byte) {
	o := append(r.out, `{"type":"message_update",`...)
	if r.cumulative {
		o = append(append(append(o, `"message":{"role":"assistant","content":[{"type":"text","text":"`...), whole...), `"}]},`...)
	}
	o = append(append(append(o, `"assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"`...), delta...), '"')
	if r.cumulative {
		o = append(append(append(o, `,"partial":{"role":"assistant","content":[{"type":"text","text":"`...), whole...), `"}]}`...)
	}
	r.out = append(o, "}}\n"...)
	if len(r.out) > 256<<10 {
		r.flush()
	}
}
