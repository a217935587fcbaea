//go:build linux

package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"troupe/e2e/browser"
	"troupe/e2e/figures"
)

// runPage measures the first paint of the page in browsers that have cached nothing: from the start of the
// navigation until the composer is on the screen.
func runPage(x *sampler) values {
	q, address, _ := x.serve()
	code := pageAddress.FindStringSubmatch(q.said())[2]
	var took []time.Duration
	for range x.scale(5, 2) {
		took = append(took, firstPaint(address, code))
		code = "" // it admits one browser; the page is the same for others
	}
	return values{"paint": figures.MS(figures.P50(took))}
}

// firstPaint opens the page in a new browser.
func firstPaint(address, code string) time.Duration {
	testing.Init() // package browser asks whether the run is short
	t := &driver{}
	defer t.close()
	tab := browser.Start(t).NewTab(t, 1280, 860, "light")
	tab.Load("http://" + address + "/#c=" + code)
	const painted = `(performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0)`
	tab.Until(painted + ` > 0`)
	ms, ok := tab.Eval(painted).(float64)
	if !ok {
		figures.Fail("no first paint")
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// driver is what package browser needs of a test: failures end the sample.
type driver struct {
	testing.TB
	cleanups []func()
}

func (d *driver) Helper()          {}
func (d *driver) Name() string     { return "bench" }
func (d *driver) Log(...any)       {}
func (d *driver) Cleanup(f func()) { d.cleanups = append(d.cleanups, f) }
func (d *driver) FailNow()         { figures.Fail("the browser failed") }
func (d *driver) Skip(args ...any) { figures.Fail("%s", fmt.Sprint(args...)) }
func (d *driver) Fatal(args ...any) {
	figures.Fail("%s", fmt.Sprint(args...))
}

func (d *driver) Errorf(format string, args ...any) { figures.Fail(format, args...) }

func (d *driver) TempDir() string {
	dir := figures.Get(os.MkdirTemp("", "troupe-bench-browser-"))
	d.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// close runs the cleanups, the latest first.
func (d *driver) close() {
	for i := len(d.cleanups) - 1; i >= 0; i-- {
		d.cleanups[i]()
	}
}
