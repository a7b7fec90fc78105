package supervise

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
)

// A process is a descendant of this process that was found.
type process struct {
	pid    int
	began  uint64      // when it began, which tells it from another one that has its number later
	handle *os.Process // it alone, whoever has its number later, where the kernel has handles (5.3)
}

// id is what a descendant that is found again has again.
func (p process) id() process { return process{pid: p.pid, began: p.began} }

func (p process) signal(s syscall.Signal) { _ = p.handle.Signal(s) } // it may have ended, or be another user's

// below finds all descendants of this process, parents first, also those that have ended and were not
// reaped, and has each visited before its children are read. A descendant that is no child is reaped by
// its own parent, and its number may then be somebody else's: so its handle was taken before it was seen
// to have a parent that was found or this process, which is the next parent of an orphan.
func below(visit func(process)) []process {
	children, self := kinship(), os.Getpid()
	var all []process
	seen := map[int]bool{} // a number that was given twice meanwhile makes no ring
	find := func(parent int, pids []int) (found []process) {
		for _, pid := range pids {
			if seen[pid] {
				continue
			}
			handle, err := os.FindProcess(pid)
			if err != nil {
				continue
			}
			by, began := look(strconv.Itoa(pid))
			if began == 0 || by != parent && by != self {
				_ = handle.Release()
				continue
			}
			seen[pid] = true
			found = append(found, process{pid, began, handle})
			visit(found[len(found)-1])
		}
		return found
	}
	for level := find(self, children(self)); len(level) > 0; {
		all = append(all, level...)
		var next []process
		for _, p := range level {
			pids := children(p.pid)
			if err := p.handle.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) { // or they may be another's
				next = append(next, find(p.pid, pids)...)
			}
		}
		level = next
	}
	return all
}

func release(all []process) {
	for _, p := range all {
		_ = p.handle.Release()
	}
}

// kinship tells the children of a process: by the kernel's own lists, which take as long as a tree is
// large, or, where it was built without CONFIG_PROC_CHILDREN, by one reading of all processes.
func kinship() (children func(parent int) []int) {
	if listed() {
		return childrenOf
	}
	of := processes()
	return func(parent int) []int { return of[parent] }
}

var listed = sync.OnceValue(func() bool {
	self := strconv.Itoa(os.Getpid())
	_, err := os.Stat("/proc/" + self + "/task/" + self + "/children")
	return err == nil
})

// childrenOf are the children of a process, those that have ended and were not reaped as well.
func childrenOf(parent int) (pids []int) {
	tasks := "/proc/" + strconv.Itoa(parent) + "/task/"
	for _, task := range names(tasks) {
		for word := range bytes.FieldsSeq(contents(tasks + task + "/children")) {
			if pid, err := strconv.Atoi(string(word)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// children are those of this process.
func children() []int { return kinship()(os.Getpid()) }

// processes reads /proc once, and returns the processes by their parents.
func processes() map[int][]int {
	of := map[int][]int{}
	for _, name := range names("/proc") {
		if pid, err := strconv.Atoi(name); err == nil {
			parent, _ := look(name)
			of[parent] = append(of[parent], pid)
		}
	}
	return of
}

// look reads the parent of a process, and when it began; 0 and 0: it is gone.
func look(pid string) (parent int, began uint64) {
	stat := contents("/proc/" + pid + "/stat")
	// "7 (name) S 1 …": the name may have blanks and brackets. The parent is the 4th field, the
	// beginning the 22nd.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, 0
	}
	parent, _ = strconv.Atoi(string(fields[1]))
	began, _ = strconv.ParseUint(string(fields[19]), 10, 64)
	return parent, began
}

// names are those of a directory's files.
func names(path string) []string {
	directory, err := os.Open(path) //nolint:gosec // one of /proc
	if err != nil {
		return nil
	}
	defer func() { _ = directory.Close() }()
	all, _ := directory.Readdirnames(-1)
	return all
}

// contents reads a file; of one that is gone it is empty. By system calls it takes half of the time
// that package os takes, and it is called when a deadline is near.
func contents(path string) []byte {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = syscall.Close(fd) }()
	for text := []byte(nil); ; {
		if len(text) == cap(text) {
			text = slices.Grow(text, 1024)
		}
		n, err := syscall.Read(fd, text[len(text):cap(text)])
		if err != nil || n <= 0 {
			return text
		}
		text = text[:len(text)+n]
	}
}

// killBelow kills what runs below this process. All of it is stopped first, parents before children, or
// whoever is killed last would meanwhile start others. Those that were started while it was read are
// killed the next time round; the rounds have an end because what belongs to another user is not killed.
func killBelow() {
	killed := map[process]bool{}
	for range 10 {
		var fresh []process
		all := below(func(p process) {
			if !killed[p.id()] {
				killed[p.id()] = true
				p.signal(syscall.SIGSTOP)
				fresh = append(fresh, p)
			}
		})
		for _, p := range fresh {
			p.signal(syscall.SIGKILL)
		}
		release(all)
		if len(fresh) == 0 {
			return
		}
	}
}

// signalBelow sends each signal to all that runs below this process.
func signalBelow(signals ...syscall.Signal) {
	all := below(func(process) {})
	for _, s := range signals {
		for _, p := range all {
			p.signal(s)
		}
	}
	release(all)
}
