module github.com/quorumlock/quorumlock/driver/redigo

go 1.25.0

require (
	github.com/gomodule/redigo v1.9.3
	github.com/quorumlock/quorumlock v0.1.0
)
