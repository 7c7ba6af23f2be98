package redisstore_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/limiter/redisstore"
)

func TestNewClient_ReadsEachFormOfAddress(t *testing.T) {
	tests := []struct {
		url, kind, addr string
		db              int
	}{
		{"redis://localhost", "one", "localhost:6379", 0},
		{"redis://:pa%40ss@10.0.0.1:7000/3", "one", "10.0.0.1:7000", 3},
		{"rediss://user:pass@[2001:db8::1]:7000", "one", "[2001:db8::1]:7000", 0},
		{"redis://a:1,b:2,c", "cluster", "a:1 b:2 c:6379", 0},
		{"redis://u:p@a:1,redis://b:2", "cluster", "a:1 b:2", 0},
		{"redis+sentinel://s1,s2:26380/main/2?sentinel_password=x", "sentinel", "", 2},
	}
	for _, tt := range tests {
		c, err := redisstore.NewClient(tt.url, redisstore.ClientOptions{})
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		kind, addr, db, retries := "", "", 0, 0
		switch c := c.(type) {
		case *redis.Client:
			o := c.Options()
			kind, addr, db, retries = "one", o.Addr, o.DB, o.MaxRetries
			if o.Addr == "FailoverClient" {
				kind, addr = "sentinel", ""
			}
		case *redis.ClusterClient:
			kind, addr, retries = "cluster", strings.Join(c.Options().Addrs, " "), c.Options().MaxRetries
		}
		if kind != tt.kind || addr != tt.addr || db != tt.db || retries > 0 {
			t.Errorf("%s: got %s %q db %d, %d retries", tt.url, kind, addr, db, retries)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNewClient_NamesTheSettingAndHidesThePassword(t *testing.T) {
	for _, url := range []string{
		"", "localhost:6379", "http://:hunter2@localhost", "redis://:hunter2@localhost:port", "redis://:hunter2@localhost:0",
		"redis://:hunter2@", "redis://:hunter2@localhost/db", "redis://hunter2@localhost", "redis://:hunter2@a:1,b:2/4",
		"redis://:hunter2@localhost?retries=3", "redis+sentinel://:hunter2@localhost", "redis://:hunter2@a,rediss://b",
		"redis://:hunter2%zz@localhost", "redis://:hunter2@a b", "redis://u:47hunter2/x@localhost",
		"redis://u:47?hunter2@localhost", "redis://u:hunter2/9@localhost",
		"redis://:hunter2@localhost?%zz",
	} {
		c, err := redisstore.NewClient(url, redisstore.ClientOptions{})
		if err == nil {
			_ = c.Close()
			t.Errorf("%q was accepted", url)
			continue
		}
		if !strings.HasPrefix(err.Error(), "REDIS_URL: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Who comes from envoyproxy/ratelimit has addresses without a scheme.
func TestNewClient_SaysTheRightFormOfAnAddressWithoutAScheme(t *testing.T) {
	for url, want := range map[string]string{
		"redis:6379":                         ": write redis://redis:6379, or rediss://redis:6379 for TLS",
		"a.example:7000,b:7001":              ": write redis://a.example:7000,b:7001, or rediss://",
		"mymaster,s1:26379,s2:26379":         ": write redis+sentinel://s1:26379,s2:26379/mymaster",
		"/var/run/nutcracker/ratelimit.sock": "; a Unix socket is not supported",
		"user:hunter2@redis:6379":            ", as in redis://host:6379",
		"redis":                              ", as in redis://host:6379",
	} {
		_, err := redisstore.NewClient(url, redisstore.ClientOptions{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
	}
}
