package inspect

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/quorumlock/driver"
	"github.com/quorumlock/quorumlock/test/fakenode"
)

func TestADoctorTakesNoLongerThanItSays(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ended bool // the context, before
		watch time.Duration
		most  time.Duration
	}{
		{"by default", false, 0, 3 * time.Second},
		{"for 10s", false, 10 * time.Second, 11 * time.Second},
		{"with a context that has ended", true, 0, 0},
		{"for 10s with a context that has ended", true, 10 * time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.ended {
				cancel()
			}
			silent := fakenode.New("silent")
			silent.Stop()
			begun := time.Now()
			r := Doctor(ctx, []driver.Node{{Name: "1", Driver: silent}, {Name: "2", Driver: silent}, {Name: "3", Driver: silent}}, Options{For: tt.watch})
			if took := time.Since(begun); took > tt.most || r.Verdict != Unfit || r.Fit != 0 {
				t.Errorf("%s the doctor of silent nodes takes %v, and says %s, %d fit; want %v at most, and unfit", tt.name, took, r.Verdict, r.Fit, tt.most)
			}
		})
	}
}
