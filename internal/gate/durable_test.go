package gate

import (
	"testing"

	"github.com/quorumlock/quorumlock/driver"
)

func TestAProofCountsInIntegers(t *testing.T) {
	d := Durability{Command: "WAITAOF", Replicas: 1}
	for kind := range driver.Kind(7) {
		odd, one := driver.Reply{Kind: kind, Int: 1}, driver.Reply{Kind: driver.Integer, Int: 1}
		for _, counts := range [][]driver.Reply{{odd, one}, {one, odd}} {
			err := d.missing(driver.Reply{Kind: driver.Array, Elems: counts})
			if (err == nil) != (kind == driver.Integer) {
				t.Errorf("a proof of %+v: %v, want it to count if both are integers", counts, err)
			}
		}
	}
}
