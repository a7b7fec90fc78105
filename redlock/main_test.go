package redlock

import (
	"testing"

	kernel "github.com/quorumlock/quorumlock/internal/lease"
	"github.com/quorumlock/quorumlock/test/leak"
)

func TestMain(m *testing.M) {
	kernel.Strict = true
	leak.Main(m)
}
