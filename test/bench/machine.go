package main

import (
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// thisMachine describes where the run takes place.
func thisMachine(b *Bench) (Machine, error) {
	version, err := b.Site.Version()
	return Machine{
		Date:      time.Now().UTC().Format(time.DateOnly),
		Processor: processor(),
		Cores:     runtime.GOMAXPROCS(0),
		System:    runtime.GOOS + "/" + runtime.GOARCH,
		Go:        runtime.Version(),
		Server:    version,
		Nodes:     nodes,
		Rounds:    b.Rounds,
		Window:    b.Duration.String(),
	}, err
}

// processor is the processor's name, where Linux tells it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	found := regexp.MustCompile(`(?m)^model name\s*:(.*)$`).FindSubmatch(text)
	if found == nil {
		return "unknown processor"
	}
	return strings.TrimSpace(string(found[1]))
}
