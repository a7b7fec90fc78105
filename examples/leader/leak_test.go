package main

import (
	"testing"

	"github.com/quorumlock/quorumlock/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
