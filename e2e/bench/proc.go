//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"troupe/e2e/figures"
)

// proc is a running agent. Its pipes are read and written by plain blocking
// system calls: nothing between the clock and the kernel.
type proc struct {
	cmd     *exec.Cmd
	in, out int
	buf     []byte // read and not yet returned
	pos     int
	spawned time.Time
	ids     int
	timer   *time.Timer
	stderr  *os.File
}

// patience is how long one sample may take before its process is killed.
const patience = 3 * time.Minute

// spawn starts a program with pipes of the default size.
func spawn(cmd *exec.Cmd) *proc {
	var in, out [2]int
	figures.Must(syscall.Pipe2(in[:], syscall.O_CLOEXEC))
	figures.Must(syscall.Pipe2(out[:], syscall.O_CLOEXEC))
	childIn, childOut := os.NewFile(uintptr(in[0]), "stdin"), os.NewFile(uintptr(out[1]), "stdout")
	cmd.Stdin, cmd.Stdout = childIn, childOut
	errs := figures.Get(os.CreateTemp("", "bench-stderr-"))
	os.Remove(errs.Name())
	cmd.Stderr = errs
	p := &proc{cmd: cmd, in: in[1], out: out[0], stderr: errs, spawned: time.Now()}
	figures.Must(cmd.Start())
	childIn.Close()
	childOut.Close()
	p.timer = time.AfterFunc(patience, func() { cmd.Process.Kill() })
	return p
}

func (p *proc) pid() int { return p.cmd.Process.Pid }

// send writes a line.
func (p *proc) send(line string) { p.write([]byte(line + "\n")) }

func (p *proc) write(b []byte) {
	for len(b) > 0 {
		n, err := syscall.Write(p.in, b)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		figures.Must(err)
		b = b[n:]
	}
}

// next returns the next line, valid until the next call.
func (p *proc) next() []byte {
	from := p.pos
	for {
		if i := bytes.IndexByte(p.buf[from:], '\n'); i >= 0 {
			line := p.buf[p.pos : from+i]
			p.pos = from + i + 1
			return line
		}
		if p.pos > 0 {
			p.buf = p.buf[:copy(p.buf, p.buf[p.pos:])]
			p.pos = 0
		}
		from = len(p.buf)
		if cap(p.buf)-len(p.buf) < 64<<10 {
			p.buf = append(make([]byte, 0, 2*cap(p.buf)+256<<10), p.buf...)
		}
		n, err := syscall.Read(p.out, p.buf[len(p.buf):cap(p.buf)])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			figures.Fail("%s: end of output (%v): %s", filepath.Base(p.cmd.Path), err, p.said())
		}
		p.buf = p.buf[:len(p.buf)+n]
	}
}

func (p *proc) said() string {
	b := make([]byte, 2000)
	n, _ := p.stderr.ReadAt(b, 0)
	return string(b[:n])
}

// until returns the next line with one of the marks in its first bytes.
func (p *proc) until(marks ...string) []byte {
	for {
		line := p.next()
		head := line[:min(len(line), 300)]
		for _, m := range marks {
			if bytes.Contains(head, []byte(m)) {
				return line
			}
		}
		if bytes.Contains(head, []byte(`"success":false`)) {
			figures.Fail("refused: %s", head)
		}
	}
}

const (
	response  = `"type":"response"`
	update    = `{"type":"message_update"`
	agentEnd  = `{"type":"agent_end"`
	toolStart = `{"type":"tool_execution_start"`
)

// watch reads on until a line with the mark has come, and says when that was: it closes
// the channel if the output ends before.
func (p *proc) watch(mark string) <-chan time.Time {
	at := make(chan time.Time, 1)
	go func() {
		defer close(at)
		defer func() { recover() }()
		p.until(mark)
		at <- time.Now()
	}()
	return at
}

// call sends a command and returns its answer.
func (p *proc) call(command string) []byte {
	p.ids++
	id := "r" + strconv.Itoa(p.ids)
	p.send(`{"id":"` + id + `",` + command[1:])
	line := p.until(`"` + id + `"`)
	for !bytes.Contains(line[:min(len(line), 300)], []byte(response)) { // updates of it may come first
		line = p.until(`"` + id + `"`)
	}
	if bytes.Contains(line[:min(len(line), 300)], []byte(`"success":false`)) {
		figures.Fail("%s: %s", command, line)
	}
	return line
}

// prompt runs a prompt to its end. It returns how long that took, and how many
// updates and bytes the agent wrote for it.
func (p *proc) prompt(text string) (took time.Duration, updates, size int) {
	begun := time.Now()
	p.ids++
	p.send(`{"id":"r` + strconv.Itoa(p.ids) + `","type":"prompt","message":"` + text + `"}`)
	for {
		line := p.next()
		size += len(line)
		if bytes.HasPrefix(line, []byte(update)) {
			updates++
		} else if bytes.HasPrefix(line, []byte(agentEnd)) {
			return time.Since(begun), updates, size
		} else if bytes.Contains(line[:min(len(line), 300)], []byte(`"success":false`)) {
			figures.Fail("prompt: %s", line)
		}
	}
}

// end ends the process, in order if it can.
func (p *proc) end() {
	syscall.Close(p.in)
	kill := time.AfterFunc(2*time.Second, func() { p.cmd.Process.Kill() })
	go func() { // it may have more to say
		b := make([]byte, 64<<10)
		for {
			if n, err := syscall.Read(p.out, b); n <= 0 && !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	}()
	p.cmd.Wait()
	kill.Stop()
	p.timer.Stop()
	syscall.Close(p.out)
	p.stderr.Close()
}

func (p *proc) memory() float64 { return figures.PrivateMemory(p.pid()) }
func (p *proc) peak() float64   { return figures.Memory(p.pid(), "VmHWM") }

// resetPeak makes the next peak count from now.
func (p *proc) resetPeak() {
	figures.Must(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.pid()), []byte("5"), 0))
}

// cpu is the processor time used so far, in seconds, to the nanosecond.
func (p *proc) cpu() float64 { return figures.CPU(p.pid()).Seconds() }

// during watches the process for a while: how many cores it takes, and the most of its memory.
func (p *proc) during(d time.Duration) (cores, memory float64) {
	begun, cpu := time.Now(), p.cpu()
	for time.Since(begun) < d {
		time.Sleep(500 * time.Millisecond)
		memory = max(memory, p.memory())
	}
	return (p.cpu() - cpu) / time.Since(begun).Seconds(), memory
}
