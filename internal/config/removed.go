package config

import "reflect"

// Removed are the settings of earlier versions. They are hidden, and setting one
// is an error that says what to do.
type Removed struct {
	OldPlainKeys     *bool   `name:"plain-keys" env:"SLUICE_PLAIN_KEYS" negatable:"" hidden:"" help:"the nodes read it from Redis. If it was true, run 'redis-cli HSET sl:settings names plain' (with your key prefix) before you start this version; see docs/operations.md"`
	OldDenyCacheSize *string `name:"deny-cache-size" env:"SLUICE_DENY_CACHE_SIZE" hidden:"" help:"the deny cache holds up to 100000 buckets"`
	OldHotKeys       *string `name:"hot-keys" env:"SLUICE_HOT_KEYS" hidden:"" help:"hot keys are always found. To serve the keys of a rule without leases and shards, set its hot_keys to exact"`
	OldHotKeyShards  *string `name:"hot-key-shards" env:"SLUICE_HOT_KEY_SHARDS" hidden:"" help:"a sharded key always has 8 shards"`
	OldMemoryBudget  *string `name:"memory-budget" env:"SLUICE_MEMORY_BUDGET" hidden:"" help:"the heap may grow to 64 MiB before garbage is collected. Set GOGC or GOMEMLIMIT for another trade of memory for processor time"`
}

// check reports every removed setting that is set.
func (r *Removed) check(c *checker) {
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag; !v.Field(i).IsNil() {
			c.fail(tag.Get("name"), tag.Get("env"), "was removed: %s. Remove the setting", tag.Get("help"))
		}
	}
}
