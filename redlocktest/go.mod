module github.com/quorumlock/quorumlock/redlocktest

go 1.25.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/quorumlock/quorumlock v0.1.0
)

require github.com/yuin/gopher-lua v1.1.1 // indirect
