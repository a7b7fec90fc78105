package quorum

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) {
	lease.Strict = true
	leak.Main(m)
}
