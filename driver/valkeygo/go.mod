module github.com/quorumlock/quorumlock/driver/valkeygo

go 1.25.0

require (
	github.com/quorumlock/quorumlock v0.1.0
	github.com/valkey-io/valkey-go v1.0.79
)

require golang.org/x/sys v0.47.0 // indirect
