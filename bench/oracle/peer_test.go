//go:build !race

package oracle

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/limiter"
	"github.com/envoyproxy/ratelimit/src/stats"
	"github.com/envoyproxy/ratelimit/src/utils"
	gostats "github.com/lyft/gostats"
)

// uncounted is a stats.Manager that counts nothing, because most of the peer's time would go there.
type uncounted struct{ stats.Manager }

var counter = gostats.NewStore(gostats.NewNullSink(), false).NewCounter("unused")

func (uncounted) NewStats(key string) stats.RateLimitStats { return stats.RateLimitStats{Key: key} }
func (uncounted) NewDomainStats(domain string) stats.DomainStats {
	return stats.DomainStats{Key: domain, NotFound: counter}
}

// A verdict says what applies to a descriptor. Two descriptors share a bucket if their buckets are equal.
type verdict struct {
	applied
	bucket string // "" for an unlimited one
}

// applied is the part of a verdict that the peer and Sluice must agree about word by word.
type applied struct {
	node      int // -1: nothing applies
	count     int64
	window    int64 // in milliseconds
	unlimited bool
	shadow    bool
	quota     bool
	replaces  string // numbers of nodes, sorted
}

var nothing = verdict{applied: applied{node: -1}}

// askPeer returns what the peer's own code applies to each descriptor. The error is the peer's refusal of the files.
func askPeer(fs []*file, ds []descriptor) (vs []verdict, err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case config.RateLimitConfigError:
			err = r
		default:
			panic(r)
		}
	}()
	var load []config.RateLimitConfigToLoad
	for i, f := range fs {
		name := fmt.Sprintf("%d.yaml", i)
		load = append(load, config.RateLimitConfigToLoad{Name: name,
			ConfigYaml: config.ConfigFileContentToYaml(name, f.yaml())})
	}
	c := config.NewRateLimitConfigImpl(load, uncounted{}, false)
	keys := limiter.NewCacheKeyGenerator("")
	named := nodesByName(fs)
	for _, d := range ds {
		sent := &ratelimit.RateLimitDescriptor{}
		for _, p := range d.pairs {
			sent.Entries = append(sent.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: p.key, Value: p.value})
		}
		found := c.GetLimit(context.Background(), d.domain, sent)
		if found == nil {
			vs = append(vs, nothing)
			continue
		}
		v := verdict{applied: applied{unlimited: found.Unlimited, shadow: found.ShadowMode, quota: found.QuotaMode,
			node: int(found.Limit.RequestsPerUnit) % nodes}}
		if number, ok := strings.CutPrefix(found.Name, "only-"); ok {
			if v.node, err = strconv.Atoi(number); err != nil {
				return nil, err
			}
		}
		var replaced []int
		for _, name := range found.Replaces {
			replaced = append(replaced, named[d.domain+" "+name]...)
		}
		v.replaces = numbers(replaced)
		if !found.Unlimited {
			v.count = int64(found.Limit.RequestsPerUnit)
			v.window = utils.UnitToDivider(found.Limit.Unit) * 1000
			v.bucket = keys.GenerateCacheKey(d.domain, sent, found, 0).Key
		}
		vs = append(vs, v)
	}
	return vs, nil
}

// nodesByName returns the numbers of the nodes by domain and name of their limits.
func nodesByName(fs []*file) map[string][]int {
	out := map[string][]int{}
	each(fs, func(f *file, path []*node) {
		// One without a limit cannot be replaced, and one that is hidden never applies.
		if n := path[len(path)-1]; n.Limit != nil && n.Limit.Name != "" && !n.Limit.Unlimited && !hidden(f, path) {
			name := f.Domain + " " + n.Limit.Name
			out[name] = append(out[name], n.number)
		}
	})
	return out
}

// hidden reports whether a pattern on the path is never reached, because an earlier one beside it fits all of its
// values.
func hidden(f *file, path []*node) bool {
	level := f.Descriptors
	for _, n := range path {
		for _, earlier := range level[:slices.Index(level, n)] {
			prefix, isPattern := strings.CutSuffix(earlier.Value, "*")
			if earlier.Key == n.Key && isPattern && strings.HasSuffix(n.Value, "*") && strings.HasPrefix(n.Value, prefix) {
				return true
			}
		}
		level = n.Descriptors
	}
	return false
}

// numbers writes a list of numbers as a sorted set.
func numbers(list []int) string {
	slices.Sort(list)
	return fmt.Sprint(slices.Compact(list))
}
