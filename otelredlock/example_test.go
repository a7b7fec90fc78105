package otelredlock_test

import (
	"fmt"
	"strings"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/otelredlock"
	"github.com/quorumlock/quorumlock/redlock"
)

// A service tells the providers that it has set for OpenTelemetry. Its metrics name keys by what is
// before their ids.
func Example() {
	var nodes []driver.Node // goredis.Open("redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3")

	telemetry, err := otelredlock.New(otelredlock.WithKeyName(func(key string) string {
		name, _, _ := strings.Cut(key, ":") // orders of orders:42
		return name
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	locker, err := redlock.New(nodes, redlock.WithHooks(telemetry.Hooks()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	defer telemetry.Observe(locker)()
}
