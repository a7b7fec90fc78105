package server

import "testing"

// Only what an fsync brought to the disk before it was acknowledged is safe.
func TestPowerCut(t *testing.T) {
	const cuts = 5
	for _, tt := range []struct {
		policy string
		loses  bool
	}{
		{"always", false},
		{"everysec", true},
		{"no", true},
	} {
		t.Run("appendfsync "+tt.policy, func(t *testing.T) {
			p := launchAs(t, Setup{Disk: true, Args: []string{"--appendonly", "yes", "--appendfsync", tt.policy}})
			lost := 0
			// On a slow machine the second may end between a write and the cut.
			for cut := 0; cut < cuts && (lost == 0 || !tt.loses); cut++ {
				ask(t, p, "SET", "first", "1") // which may begin the second
				ask(t, p, "SET", "last", "1")
				if err := p.PowerCut(); err != nil {
					t.Fatalf("PowerCut: %v", err)
				}
				if err := p.Start(); err != nil {
					t.Fatalf("Start after a power cut: %v", err)
				}
				if ask(t, p, "GETDEL", "last") == "" {
					lost++
				}
			}
			if (lost > 0) != tt.loses {
				t.Errorf("%d acknowledged writes were lost, want some: %v", lost, tt.loses)
			}
		})
	}
}

func TestPowerCutNeedsADisk(t *testing.T) {
	if err := launch(t).PowerCut(); err == nil {
		t.Error("power was cut to a server without a disk of its own")
	}
}
