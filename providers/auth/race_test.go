package auth

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"troupe/tools/testenv"
)

var refreshes = flag.Int("auth.refreshes", 150, "renewals of each of the two processes that share a file")

// toVendor leads requests to a vendor on this machine, whatever host they are for.
type toVendor struct{ to *url.URL }

func (v toVendor) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = v.to.Scheme, v.to.Host
	return http.DefaultTransport.RoundTrip(r)
}

// TestMain is also the other process of TestStore_processes.
func TestMain(m *testing.M) {
	if dir := os.Getenv("AUTH_TEST_DIR"); dir != "" {
		os.Exit(renewAll(dir, os.Getenv("AUTH_TEST_VENDOR"), os.Getenv("AUTH_TEST_COUNT")))
	}
	testenv.Isolate()
	os.Exit(m.Run())
}

// renewAll renews the login in a directory again and again.
func renewAll(dir, vendor, count string) int {
	to, err := url.Parse(vendor)
	if err != nil {
		return 2
	}
	n, _ := strconv.Atoi(count)
	s := Open(Config{Dir: dir, Transport: toVendor{to}})
	defer s.Close()
	for range n {
		if _, err := s.refresh(openAI, s.File().Entries[openAI]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// TestStore_processes: processes that share a file renew a login without ever using a
// refresh token that was used before, for which its family would be revoked.
func TestStore_processes(t *testing.T) {
	h := newHome(t)
	h.loggedIn(time.Minute)
	server := httptest.NewServer(h.vendor)
	defer server.Close()
	var running []*exec.Cmd
	for range 2 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "AUTH_TEST_DIR="+h.dir, "AUTH_TEST_VENDOR="+server.URL, "AUTH_TEST_COUNT="+strconv.Itoa(*refreshes))
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		running = append(running, cmd)
	}
	for _, cmd := range running {
		require.NoError(t, cmd.Wait())
	}
	assert.Zero(t, h.vendor.reuses)
	asked := h.vendor.asked(tokenPath)
	assert.GreaterOrEqual(t, asked, *refreshes, "who came second took what the first had got")
	assert.NoDirExists(t, lockOf(h.path()))
	assert.Contains(t, h.text(), fmt.Sprintf("refresh-canary-%d", asked+1), "the last one is there")
	assert.Contains(t, h.text(), "2.50", "and what others have written")
}

// TestStore_killed: a process that is killed while it renews leaves a file that can be read
// and a lock that can be taken over; at most one token is lost.
func TestStore_killed(t *testing.T) {
	h := newHome(t)
	h.loggedIn(time.Minute)
	var handling sync.RWMutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handling.RLock()
		defer handling.RUnlock()
		h.vendor.ServeHTTP(w, r)
	}))
	defer server.Close()
	for i := range 15 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "AUTH_TEST_DIR="+h.dir, "AUTH_TEST_VENDOR="+server.URL, "AUTH_TEST_COUNT=100000")
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		asked := h.vendor.asked(tokenPath)
		require.Eventually(t, func() bool { return h.vendor.asked(tokenPath) > asked+i%5 }, 20*time.Second, time.Millisecond)
		down := func(is bool) { // so that nothing it has asked is handled behind its death
			h.vendor.mu.Lock()
			defer h.vendor.mu.Unlock()
			h.vendor.fail = nil
			if is {
				h.vendor.fail = func(string) (int, string) { return http.StatusBadGateway, "" }
			}
		}
		down(true)
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
		server.CloseClientConnections()
		handling.Lock() // nothing is handled any more
		down(false)
		handling.Unlock()
		members, err := load(h.path())
		require.NoError(t, err)
		entry, err := parseEntry(find(members, openAI))
		require.NoError(t, err)
		h.vendor.mu.Lock()
		lost := h.vendor.spent[entry.Refresh]
		h.vendor.mu.Unlock()
		if lost { // between the answer and the renaming: somebody has to sign in again
			h.loggedIn(time.Minute)
		}
		if info, err := os.Stat(lockOf(h.path())); err == nil {
			then := info.ModTime().Add(-orphanAge)
			require.NoError(t, os.Chtimes(lockOf(h.path()), then, then))
		}
	}
	assert.Zero(t, h.vendor.reuses)
}
