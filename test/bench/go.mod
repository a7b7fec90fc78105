module github.com/quorumlock/quorumlock/test/bench

go 1.26.0

require (
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/gomodule/redigo v1.9.3
	github.com/quorumlock/quorumlock v0.1.0
	github.com/quorumlock/quorumlock/driver/goredis v0.1.0
	github.com/quorumlock/quorumlock/driver/redigo v0.1.0
	github.com/quorumlock/quorumlock/driver/rueidis v0.1.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	golang.org/x/sync v0.24.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	github.com/quorumlock/quorumlock => ../..
	github.com/quorumlock/quorumlock/driver/goredis => ../../driver/goredis
	github.com/quorumlock/quorumlock/driver/redigo => ../../driver/redigo
	github.com/quorumlock/quorumlock/driver/rueidis => ../../driver/rueidis
)
