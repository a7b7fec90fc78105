module github.com/quorumlock/quorumlock/test/bench

go 1.26.0

require (
	github.com/go-redsync/redsync/v4 v4.18.1
	github.com/gomodule/redigo v1.9.3
	github.com/quorumlock/quorumlock v0.1.0
	github.com/quorumlock/quorumlock/driver/goredis v0.1.0
	github.com/quorumlock/quorumlock/driver/redigo v0.1.0
	github.com/quorumlock/quorumlock/driver/rueidis v0.1.0
	github.com/quorumlock/quorumlock/otelredlock v0.1.0
	github.com/quorumlock/quorumlock/test/integration v0.0.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	go.opentelemetry.io/otel/sdk v1.47.0
	go.opentelemetry.io/otel/sdk/metric v1.47.0
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.48.0
	gonum.org/v1/plot v0.17.0
)

require (
	codeberg.org/go-fonts/liberation v0.5.0 // indirect
	codeberg.org/go-latex/latex v0.2.0 // indirect
	codeberg.org/go-pdf/fpdf v0.11.1 // indirect
	git.sr.ht/~sbinet/gg v0.7.0 // indirect
	github.com/ajstarks/svgo v0.0.0-20211024235047-1546f124cd8b // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/golang/freetype v0.0.0-20170609003504-e2365dfdc4a0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/image v0.30.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)

replace (
	github.com/quorumlock/quorumlock => ../..
	github.com/quorumlock/quorumlock/driver/goredis => ../../driver/goredis
	github.com/quorumlock/quorumlock/driver/redigo => ../../driver/redigo
	github.com/quorumlock/quorumlock/driver/rueidis => ../../driver/rueidis
	github.com/quorumlock/quorumlock/otelredlock => ../../otelredlock
	github.com/quorumlock/quorumlock/test/integration => ../integration
)
