package main

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumlock/quorumlock/examples/internal/programtest"
	"github.com/quorumlock/quorumlock/redlocktest"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestThePageHasWhatTheWorkersDid(t *testing.T) {
	*listen = "127.0.0.1:0"
	ctx, interrupt := context.WithCancel(t.Context())
	told, err := programtest.Play(ctx, redlocktest.Start(t, 5), "until Ctrl-C", interrupt, run)
	if err != nil {
		t.Errorf("run = %v, want it to end by the interrupt", err)
	}
	// Over all time series of a metric, what the line says that begins so.
	sum := func(metric string) (total float64) {
		for line := range strings.Lines(told) {
			if strings.HasPrefix(line, "  "+metric) {
				value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:len(line)-1], 64)
				if err != nil {
					t.Error(err)
				}
				total += value
			}
		}
		return total
	}
	for metric, want := range map[string]float64{
		`redlock_acquire_duration_seconds_count{redlock_key_name="orders",redlock_outcome="acquired"`: 20,
		`redlock_hold_duration_seconds_count{redlock_end="released",redlock_key_name="orders"`:        20,
		`redlock_locks `:          0,
		`redlock_waiters `:        0,
		`redlock_lock_lost`:       0,
		`redlock_node_up{server_`: 5,
	} {
		if got := sum(metric); got != want {
			t.Errorf("%s is %v, want %v, in\n%s", metric, got, want, told)
		}
	}
	if held := sum("redlock_hold_duration_seconds_sum"); held < 0.4 {
		t.Errorf("the locks were held for %vs in all, want 20 times 20ms or more", held)
	}
}
