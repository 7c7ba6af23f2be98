package redisstore_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter/redisstore"
)

// order sends a command to a server as its default user.
func order(t *testing.T, addr string, args ...any) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	if err := c.Do(t.Context(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// Whatever the servers are, new connections use the current user and password.
func TestNewClient_ConnectsWithTheCurrentCredentials(t *testing.T) {
	cluster, single := testenv.SharedCluster(t), testenv.Redis(t)
	watcher := sentinel(t, single)
	for name, c := range map[string]struct {
		before, after string // of the credentials in the URL
		servers       []string
	}{
		"one server": {"redis://", "@" + single.Addr, []string{single.Addr}},
		"a cluster":  {"redis://", "@" + strings.Join(cluster.Addrs(), ","), cluster.Addrs()},
		"Sentinel":   {"redis+sentinel://", "@" + watcher + "/counters", []string{single.Addr}},
	} {
		t.Run(name, func(t *testing.T) {
			rotate := func(user, password string) {
				for _, addr := range c.servers {
					order(t, addr, "ACL", "SETUSER", user, "reset", "on", ">"+password, "~*", "&*", "+@all")
				}
			}
			var current atomic.Pointer[string]
			use := func(credentials string) {
				url := c.before + credentials + c.after
				current.Store(&url)
			}
			use("ada:first")
			client, err := redisstore.NewClient(*current.Load(), redisstore.ClientOptions{Current: func() string {
				return *current.Load()
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			works := func() error {
				ping := func(ctx context.Context, c *redis.Client) error { return c.Ping(ctx).Err() }
				if all, ok := client.(*redis.ClusterClient); ok {
					return all.ForEachShard(t.Context(), ping)
				}
				return client.Ping(t.Context()).Err()
			}
			rotate("ada", "first")
			if err := works(); err != nil {
				t.Fatal(err)
			}
			rotate("edda", "second")
			rotate("ada", "unknown")
			for _, addr := range c.servers {
				order(t, addr, "CLIENT", "KILL", "USER", "ada")
			}
			if works() == nil {
				t.Error("connections outlive the user")
			}
			use("edda:second")
			if err := works(); err != nil {
				t.Errorf("with other credentials: %v", err)
			}
		})
	}
}

func TestCheckURL_AllowsOtherCredentialsOnly(t *testing.T) {
	const inForce = "redis://ada:first@a:1,b:2"
	for value, want := range map[string]string{
		"redis://edda:second@a:1,b:2":            "",
		"redis://a:1,b:2":                        "",
		"redis://:second@a:1,redis://b:2":        "",
		"rediss://ada:hunter2@a:1,b:2":           "restart",
		"redis://ada:hunter2@a:1,b:3":            "restart",
		"redis://ada:hunter2@a:1":                "restart",
		"redis://ada:hunter2@a:1/1":              "restart",
		"redis+sentinel://ada:hunter2@a:1,b:2/x": "restart",
		"redis://ada:hunter2@a:x":                "port",
		"hunter2":                                "must start with redis://",
	} {
		err := redisstore.CheckURL(inForce, value)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error shows the password: %v", value, err)
		}
	}
	if err := redisstore.CheckURL("", inForce); err != nil {
		t.Errorf("the first value: %v", err)
	}
	if err := redisstore.CheckURL("redis+sentinel://s/x?sentinel_password=a",
		"redis+sentinel://s/x?sentinel_password=b"); err == nil {
		t.Error("another password of Sentinel is accepted")
	}
}
