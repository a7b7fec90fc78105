package inspect

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// unsynced is STA_UNSYNC of adjtimex(2).
const unsynced = 0x40

func readTimekeeping() (k timekeeping) {
	k.asleep = true // by CLOCK_BOOTTIME, which every kernel has that Go runs on
	var t syscall.Timex
	if _, err := syscall.Adjtimex(&t); err == nil {
		k.ok, k.synced = true, t.Status&unsynced == 0
	}
	return k
}

// readQuota reads cpu.stat of the control group that this process is in, of either version.
func readQuota() quota {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return quota{}
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, folder := range quotaFolders(parts[1], parts[2]) {
			if text, err := os.ReadFile(filepath.Join(folder, "cpu.stat")); err == nil { //nolint:gosec // of the kernel
				return parseQuota(string(text))
			}
		}
	}
	return quota{}
}

// quotaFolders are where a group's files may be: in a container its own is the root.
func quotaFolders(controllers, group string) []string {
	switch {
	case controllers == "":
		return []string{filepath.Join("/sys/fs/cgroup", group), "/sys/fs/cgroup"}
	case strings.Contains(","+controllers+",", ",cpu,"):
		return []string{filepath.Join("/sys/fs/cgroup/cpu", group), "/sys/fs/cgroup/cpu"}
	}
	return nil
}

func parseQuota(text string) (q quota) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case name == "nr_periods":
			q.periods, q.ok = n, true
		case name == "nr_throttled":
			q.throttled = n
		}
	}
	return q
}
