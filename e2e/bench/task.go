//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"troupe/e2e/figures"
)

// Requests of a child have this in them, those of its parent have not: it stands in what
// the child is told to be.
const childMark = "CHILD-OF-THE-BENCH"

// taskTool is how an agent has others work: pi by an example of an extension that comes
// with it, which starts a process for each.
type taskTool struct {
	name string
	how  how
	args func(n int, isolated bool) string
}

func (x *sampler) tasks(settings string, args ...string) taskTool {
	const head = "---\nname: worker\ndescription: Works.\n---\n" + childMark + "\n"
	x.write(filepath.Join(x.home, ".pi", "agent", "agents", "worker.md"), head)
	if x.agent.plays() == "troupe" {
		x.write(filepath.Join(x.home, ".pi", "agent", "settings.json"), settings)
		return taskTool{name: "task", how: how{args: args}, args: func(n int, isolated bool) string {
			var items []string
			for i := range n {
				items = append(items, fmt.Sprintf(`{"id":"T%d","description":"one","assignment":"go"}`, i))
			}
			return fmt.Sprintf(`{"agent":"worker","isolated":%t,"tasks":[%s]}`, isolated, strings.Join(items, ","))
		}}
	}
	cmd := x.agent.command(x.place, how{})
	cli := cmd.Args[1]
	examples := filepath.Join(filepath.Dir(filepath.Dir(cli)), "examples")
	found, _ := filepath.Glob(filepath.Join(examples, "*", "subagent", "index.ts"))
	if len(found) == 0 {
		figures.Fail("no example of subagents in %s", examples)
	}
	bin := filepath.Join(x.root, "bin", "pi") // what the example starts
	x.write(bin, fmt.Sprintf("#!/bin/sh\nexec '%s' '%s' \"$@\"\n", cmd.Path, cli))
	figures.Must(os.Chmod(bin, 0o700))
	return taskTool{name: "subagent", how: how{args: []string{"-e", found[0]}}, args: func(int, bool) string { return `{"agent":"worker","task":"go"}` }}
}

const tasksOn = `{"task":{"enabled":true,"maxConcurrency":100,"isolation":{"enabled":true}}}`

// runTask measures from the end of the model's answer that calls a task to the request of
// the child, beneath a session without and with a limit.
func runTask(x *sampler) values {
	v := values{"p50": x.callToRequest(x.tasks(tasksOn), 1, false)}
	if x.agent.plays() == "troupe" {
		v["budget"] = x.callToRequest(x.tasks(tasksOn, "--budget", "cost=1000"), 1, false)
	}
	return v
}

// callToRequest is the time until the last of n children asks.
func (x *sampler) callToRequest(t taskTool, n int, isolated bool) float64 {
	call, done := toolAnswer(1, t.name, t.args(n, isolated)), textAnswer(1, "done")
	var mu sync.Mutex
	var called, last time.Time
	turn := 0
	x.model.answers(func(a *ask) {
		if bytes.Contains(a.body, []byte(childMark)) {
			mu.Lock()
			last = a.at
			mu.Unlock()
			a.play(done)
			return
		}
		mu.Lock()
		turn++
		calls := turn%2 == 1
		mu.Unlock()
		if !calls {
			a.play(done)
			return
		}
		mu.Lock()
		called = time.Now()
		mu.Unlock()
		a.play(call)
	})
	q := x.ready(x.agent, t.how)
	var d []time.Duration
	times := x.scale(20, 8)
	if x.agent.peer || isolated {
		times = x.scale(5, 3)
	}
	for i := range times + 1 {
		q.prompt("go")
		mu.Lock()
		took := last.Sub(called)
		mu.Unlock()
		if took <= 0 {
			figures.Fail("no child asked")
		}
		if i > 0 { // the first one finds what is cached later
			d = append(d, took)
		}
	}
	q.end()
	return figures.MS(figures.P50(d))
}

// runTasks measures 100 children: how long until all have asked, and how long an abort
// takes while each of them runs a command. None is answered before all have asked, so that
// their commands do not count.
func runTasks(x *sampler) values {
	const n = 100
	t := x.tasks(tasksOn)
	pids := filepath.Join(x.root, "pids")
	figures.Must(os.MkdirAll(pids, 0o700))
	call, sleep := toolAnswer(1, t.name, t.args(n, false)), bashAnswer(2, "echo $$ > "+pids+"/$$; exec sleep 60")
	var mu sync.Mutex
	var called, last time.Time
	asked, all := 0, make(chan struct{})
	x.model.answers(func(a *ask) {
		if bytes.Contains(a.body, []byte(childMark)) {
			mu.Lock()
			if asked, last = asked+1, a.at; asked == n {
				close(all)
			}
			mu.Unlock()
			<-all
			a.play(sleep)
			return
		}
		mu.Lock()
		called = time.Now()
		mu.Unlock()
		a.play(call)
	})
	q := x.ready(x.agent, t.how)
	q.send(`{"id":"p","type":"prompt","message":"go"}`)
	ended := q.watch(agentEnd)
	var running []string
	for deadline := time.Now().Add(20 * time.Second); len(running) < n; time.Sleep(5 * time.Millisecond) {
		running, _ = filepath.Glob(filepath.Join(pids, "*"))
		if time.Now().After(deadline) {
			figures.Fail("%d of %d children run", len(running), n)
		}
	}
	time.Sleep(500 * time.Millisecond) // their shells become what they run: that is not what is measured
	var gone []<-chan time.Time
	for _, name := range running {
		gone = append(gone, figures.End(figures.Get(strconv.Atoi(filepath.Base(name)))))
	}
	begun := time.Now()
	q.send(`{"id":"a","type":"abort"}`)
	over, ok := <-ended
	if !ok {
		figures.Fail("no end: %s", q.said())
	}
	v := values{"abort": figures.MS(over.Sub(begun))}
	var end time.Time
	for _, g := range gone {
		at, ok := <-g
		if !ok {
			figures.Fail("a process stays")
		}
		if at.After(end) {
			end = at
		}
	}
	v["gone"] = figures.MS(end.Sub(begun))
	mu.Lock()
	defer mu.Unlock()
	if asked != n {
		figures.Fail("%d requests of %d children", asked, n)
	}
	v["last"] = figures.MS(last.Sub(called))
	return v
}

// runStreamingTasks has 100 children say 50 words a second each to a client that is told
// of all of it.
func runStreamingTasks(x *sampler) values {
	const n = 100
	t := x.tasks(tasksOn)
	call := toolAnswer(1, t.name, t.args(n, false))
	x.model.answers(func(a *ask) {
		if !bytes.Contains(a.body, []byte(childMark)) {
			a.play(call)
			return
		}
		a.begin()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for !a.gone {
			<-tick.C
			a.delta("word ")
		}
	})
	q := x.ready(x.agent, t.how)
	q.call(`{"type":"set_subagent_subscription","level":"events"}`)
	q.send(`{"id":"p","type":"prompt","message":"go"}`)
	for started := 0; started < n; started++ {
		q.until(`{"type":"subagent_start"`)
	}
	ended := q.watch(agentEnd)
	cores, memory := q.during(time.Duration(x.scale(10, 3)) * time.Second)
	abort := time.Now()
	q.send(`{"id":"a","type":"abort"}`)
	over, ok := <-ended
	if !ok {
		figures.Fail("no end: %s", q.said())
	}
	return values{"rss": memory, "cpu": cores * 10, "abort": figures.MS(over.Sub(abort))}
}

// runIsolatedTask measures a call whose children work in clones of a repository.
func runIsolatedTask(x *sampler) values {
	for i := range 1000 {
		x.write(filepath.Join(x.work, fmt.Sprintf("d%d", i%20), fmt.Sprintf("f%d.txt", i)), strings.Repeat("line\n", 200))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = x.work
		if out, err := cmd.CombinedOutput(); err != nil {
			figures.Fail("git: %s", out)
		}
	}
	t := x.tasks(tasksOn)
	return values{"p50": x.callToRequest(t, 1, true), "eight": x.callToRequest(t, 8, true)}
}
