package fleet

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// SettingsKey is the hash in Redis, under a prefix, of the settings that must be
// the same on all nodes that share counters. No bucket has this name: after the
// prefix a bucket's name has a brace or a byte above 127.
func SettingsKey(prefix string) string { return prefix + "settings" }

// CompareSettings stores the settings of this node that no node has stored yet, and returns all stored settings. If
// none is missing it only reads, so that a server that refuses writes does not prevent the node from reading the
// settings of the others.
func CompareSettings(
	ctx context.Context, client redis.UniversalClient, prefix string, own map[string]string,
) (map[string]string, error) {
	key := SettingsKey(prefix)
	stored, err := client.HGetAll(ctx, key).Result()
	if err != nil {
		return nil, fmt.Errorf("compare settings in Redis: %w", err)
	}
	missing := map[string]string{}
	for name, value := range own {
		if _, ok := stored[name]; !ok {
			missing[name] = value
		}
	}
	if len(missing) == 0 {
		return stored, nil
	}
	var after *redis.MapStringStringCmd
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for name, value := range missing {
			p.HSetNX(ctx, key, name, value)
		}
		after = p.HGetAll(ctx, key)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("store settings in Redis: %w", err)
	}
	return after.Val(), nil
}
