//go:build !race

package oracle

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	configs = flag.Int("configs", 1000, "configurations to compare")
	first   = flag.Int("first", 0, "number of the first configuration, to repeat one")
)

const descriptorsEach = 100

// The import and the tree apply to every descriptor what the peer's own code applies to it. Differences have the
// reasons that unambiguous and refusal name, and no other; the log counts them.
func TestConfigs_ApplyAsThere(t *testing.T) {
	t.Parallel()
	var (
		next  atomic.Int64
		mu    sync.Mutex
		total = tally{}
		wg    sync.WaitGroup
	)
	next.Store(int64(*first))
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			count := tally{}
			for n := int(next.Add(1)) - 1; n < *first+*configs && !t.Failed(); n = int(next.Add(1)) - 1 {
				if problem := compare(n, count); problem != "" {
					t.Errorf("configuration %d (repeat it with -configs 1 -first %[1]d): %s", n, problem)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for what, times := range count {
				total[what] += times
			}
		})
	}
	wg.Wait()
	t.Logf("%d configurations with %d descriptors each\n%s", *configs, descriptorsEach, total)
	if *first > 0 {
		return
	}
	for _, want := range reached {
		if total[want] == 0 {
			t.Errorf("no descriptor reached: %s", want)
		}
	}
}

// reached lists what the descriptors must have reached, so that the comparison means something.
var reached = []string{
	"a rule", "no rule", "unlimited", "shadow", "quota", "replaces", "share_threshold", "a pattern below another level",
	"detailed_metric", "value_to_metric", "a limit of 0", "a bucket of several descriptors",
}

// tally counts what was met.
type tally map[string]int

func (c tally) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%8d  %s\n", c[what], what)
	}
	return b.String()
}

// compare returns what differs without a reason, "" for nothing.
func compare(n int, count tally) string {
	g := generator{Rand: rand.New(rand.NewPCG(15, uint64(n)))}
	fs := g.files()
	ds := g.descriptors(fs, descriptorsEach)
	ours, err := askOurs(fs, ds)
	if err != nil && strings.Contains(err.Error(), refusal) {
		count["refused here: a key with a *"]++
		fs, ds = withoutStars.rewrite(fs, ds)
		ours, err = askOurs(fs, ds)
	}
	if err != nil {
		return fmt.Sprintf("the import: %v\n%s", err, text(fs))
	}
	plain, err := askPeer(unambiguous.rewrite(fs, ds))
	if err != nil {
		return fmt.Sprintf("the peer: %v\n%s", err, text(fs))
	}
	hereOf, thereOf := map[string]int{}, map[string]int{}
	for i := range ds {
		if ours[i].applied != plain[i].applied {
			return fmt.Sprintf("%q\nhere:  %+v\nthere: %+v\n%s", ds[i], ours[i], plain[i], text(fs))
		}
		here, seenHere := hereOf[ours[i].bucket]
		there, seenThere := thereOf[plain[i].bucket]
		if seenHere != seenThere || here != there {
			return fmt.Sprintf("%q\nhere it has the bucket of %q, there that of %q\n%s", ds[i], ds[here], ds[there], text(fs))
		}
		if !seenHere {
			hereOf[ours[i].bucket], thereOf[plain[i].bucket] = i, i
		}
	}
	ambiguous(fs, ds, ours, count)
	meet(fs, ds, ours, count)
	return ""
}

// ambiguous counts the differences to what the peer says of the texts as they are. They are those that unambiguous
// names, because without these it has agreed.
func ambiguous(fs []*file, ds []descriptor, ours []verdict, count tally) {
	said, err := askPeer(fs, ds)
	if err != nil {
		count["joined by an underscore: the file is refused there"]++
		return
	}
	here := map[string]string{}
	for i, v := range said {
		if v.applied != ours[i].applied {
			why := "joined by an underscore"
			if slices.ContainsFunc(ds[i].pairs, func(p pair) bool { return strings.HasSuffix(p.value, "*") }) {
				why = "a value that is the text of a pattern"
			}
			count[why+": another rule there"]++
		}
		if v.bucket == "" || ours[i].bucket == "" {
			continue
		}
		if was, ok := here[v.bucket]; !ok {
			here[v.bucket] = ours[i].bucket
		} else if was != ours[i].bucket {
			count["joined by an underscore: one bucket there, two here"]++
		}
	}
}

// meet counts what the descriptors reached.
func meet(fs []*file, ds []descriptor, ours []verdict, count tally) {
	paths := map[int][]*node{}
	each(fs, func(_ *file, path []*node) { paths[path[len(path)-1].number] = path })
	buckets := map[string]string{}
	for i, v := range ours {
		if v.node < 0 {
			count["no rule"]++
			continue
		}
		count["a rule"]++
		path := paths[v.node]
		last := path[len(path)-1]
		for what, met := range map[string]bool{
			"unlimited": v.unlimited, "shadow": v.shadow, "quota": v.quota, "replaces": v.replaces != "[]",
			"a limit of 0": v.count == 0 && !v.unlimited, "detailed_metric": last.DetailedMetric,
			"value_to_metric": last.ValueToMetric,
			"share_threshold": slices.ContainsFunc(path, func(n *node) bool { return n.Share }),
			"a pattern below another level": slices.ContainsFunc(path[1:], func(n *node) bool {
				return strings.HasSuffix(n.Value, "*")
			}),
		} {
			if met {
				count[what]++
			}
		}
		if v.bucket == "" {
			continue
		}
		sent := fmt.Sprint(ds[i])
		if was, ok := buckets[v.bucket]; ok && was != sent {
			count["a bucket of several descriptors"]++
		}
		buckets[v.bucket] = sent
	}
}

func text(fs []*file) string {
	var b strings.Builder
	for _, f := range fs {
		b.WriteString("---\n" + f.yaml())
	}
	return b.String()
}
