package worker

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// left is what a process has open.
type left struct {
	stacks  []string // of its goroutines
	sockets int
}

// weight is what the process carries now.
func weight() Weight {
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	return Weight{Goroutines: runtime.NumGoroutine(), Heap: memory.HeapAlloc}
}

func remains() left {
	buffer := make([]byte, 4<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	return left{strings.Split(string(buffer), "\n\n"), sockets()}
}

// settle is how long what was closed may take to be gone.
const settle = 5 * time.Second

// since is what there is more than before, when what was closed has had time to go.
func (l left) since(before left) Farewell {
	for deadline := time.Now().Add(settle); l.more(before) && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		l = remains()
	}
	if !l.more(before) {
		return Farewell{}
	}
	return Farewell{Goroutines: strings.Join(l.stacks, "\n\n"), Sockets: l.sockets - before.sockets}
}

func (l left) more(before left) bool {
	return len(l.stacks) > len(before.stacks) || l.sockets > before.sockets
}

// sockets counts the process's sockets.
func sockets() (n int) {
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	for _, file := range files {
		to, err := os.Readlink(fmt.Sprint("/proc/self/fd/", file.Name()))
		if err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
