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

// CompareSettings stores those settings of this node that no node has stored yet,
// and returns all that are stored.
func CompareSettings(
	ctx context.Context, client redis.UniversalClient, prefix string, own map[string]string,
) (map[string]string, error) {
	var stored *redis.MapStringStringCmd
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for name, value := range own {
			p.HSetNX(ctx, SettingsKey(prefix), name, value)
		}
		stored = p.HGetAll(ctx, SettingsKey(prefix))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("compare settings in Redis: %w", err)
	}
	return stored.Val(), nil
}
