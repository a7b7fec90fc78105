package goredis

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// TestMend makes clients of mended options, as a wire does, for what a client makes
// of its options is what counts.
func TestMend(t *testing.T) {
	for name, user := range map[string]*redis.Options{
		"defaults": {},
		"all off":  {MaxRetries: -1, ReadTimeout: -1, WriteTimeout: -1, DialTimeout: -1, PoolTimeout: -1, MinRetryBackoff: -1, ConnMaxIdleTime: -1},
		"the odd": {
			MaxRetries: 7, ReadTimeout: -2, WriteTimeout: time.Nanosecond, DialerRetries: 9, PoolSize: 1, MaxActiveConns: 1,
			PipelinePoolSize: 50, ClientSideCacheConfig: &redis.ClientSideCacheConfig{},
		},
	} {
		user.Addr, user.DB, user.ClientName, user.Username = "127.0.0.1:1", 3, "locks", "locker"
		client := redis.NewClient(user)
		own := redis.NewClient(mend(client.Options()))
		o := own.Options()
		switch {
		case o.MaxRetries != 0 || o.DialerRetries != 1:
			t.Errorf("%s: %d retries and %d dials, want 0 and 1", name, o.MaxRetries, o.DialerRetries)
		case o.ReadTimeout != 0 || o.WriteTimeout != 0 || !o.ContextTimeoutEnabled:
			t.Errorf("%s: time-outs of %v and %v, the context's %t, want none but the context's", name, o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled)
		case o.DialTimeout <= 0:
			t.Errorf("%s: dials for ever", name)
		case o.MinIdleConns != 0 || o.PoolSize != 1 || o.PipelinePoolSize >= 0:
			t.Errorf("%s: more than the one connection that is counted", name)
		case o.MaintNotificationsConfig.Mode != maintnotifications.ModeDisabled || o.ClientSideCacheConfig != nil || o.ClientSideCache != nil:
			t.Errorf("%s: notifications or a cache", name)
		case o.Addr != "127.0.0.1:1" || o.DB != 3 || o.ClientName != "locks" || o.Username != "locker":
			t.Errorf("%s: another server, database or user: %+v", name, o)
		}
		_ = own.Close()
		_ = client.Close()
	}
}
