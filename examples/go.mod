module github.com/quorumlock/quorumlock/examples

go 1.26.0

require (
	github.com/quorumlock/quorumlock v0.1.0
	github.com/quorumlock/quorumlock/driver/goredis v0.1.0
	github.com/quorumlock/quorumlock/driver/redigo v0.1.0
	github.com/quorumlock/quorumlock/driver/rueidis v0.1.0
	github.com/quorumlock/quorumlock/redlocktest v0.1.0
	github.com/redis/go-redis/v9 v9.23.0
	modernc.org/sqlite v1.60.1
)

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/gomodule/redigo v1.9.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
)

replace (
	github.com/quorumlock/quorumlock => ..
	github.com/quorumlock/quorumlock/driver/goredis => ../driver/goredis
	github.com/quorumlock/quorumlock/driver/redigo => ../driver/redigo
	github.com/quorumlock/quorumlock/driver/rueidis => ../driver/rueidis
	github.com/quorumlock/quorumlock/redlocktest => ../redlocktest
)
