package kernel

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestCrowd: everything that becomes ready at once is run, each thing once, also if much of
// it blocks.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool()
		const n = 2000
		var mu sync.Mutex
		ran := map[int]int{}
		for i := range n {
			p.submit(func() {
				if i%3 == 0 {
					time.Sleep(time.Hour)
				}
				mu.Lock()
				ran[i]++
				mu.Unlock()
			})
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		assert.Len(t, ran, n-(n+2)/3, "nothing waits for what blocks")
		mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.Len(t, ran, n)
		for i, times := range ran {
			assert.Equal(t, 1, times, i)
		}
		p.Close()
	})
}
