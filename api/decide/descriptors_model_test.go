package decide

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/rules"
)

// modelRules are the rules of the model, by the key of their descriptors. Every window is of the
// same minute, so a bucket is a number of units.
var modelRules = map[string]rules.Rule{
	"take":    shop("take", "take", 6),
	"other":   shop("other", "other", 4),
	"report":  shop("report", "report", 5, charged),
	"quota":   shop("quota", "quota", 3, quota),
	"slots":   shop("slots", "slots", 4, leased(60_000)),
	"tokens":  shop("tokens", "tokens", 4, quota, charged),
	"shadow":  shop("shadow", "shadow", 2, shadowed),
	"vip":     shop("vip", "vip", 0, unlimited, replaces("take", "quota")),
	"replace": shop("replace", "replace", 5, replaces("other", "report")),
}

// naive is what a call of descriptors means, without stores, groups or requests.
type naive map[string]int64 // the level of each bucket

// naiveOne is one descriptor of a call, and what is expected of it.
type naiveOne struct {
	bucket    string
	rule      rules.Rule
	d         AskedDescriptor
	limited   bool
	over      bool
	full      bool
	remaining int64
	text      string
}

func (o *naiveOne) reports() bool {
	return o.rule.Addend == rules.AddendCharge && o.d.Explicit && o.d.Addend > 0 && !o.d.Negative
}

func (o *naiveOne) refunds() bool { return o.d.Negative && o.d.Addend > 0 }

// together reports whether the descriptor is taken with the others or not at all.
func (o *naiveOne) together() bool {
	return o.limited && o.rule.Mode != "shadow" && !o.rule.Quota && !o.reports() && !o.refunds()
}

func (o *naiveOne) isQuota() bool { return o.limited && o.rule.Quota && !o.refunds() }

func (n naive) left(o *naiveOne) int64 { return max(0, o.rule.Limit-n[o.bucket]) }

func (n naive) fits(o *naiveOne) bool { return n[o.bucket]+o.d.Addend <= o.rule.Limit }

// take takes one descriptor if it fits, and says what remains.
func (n naive) take(o *naiveOne) {
	if o.over = !n.fits(o); !o.over {
		n[o.bucket] += o.d.Addend
	}
	o.remaining = n.left(o)
}

// call makes a call and returns its expected text.
func (n naive) call(list []*naiveOne) string {
	for _, o := range list {
		o.limited = true
		if o.rule.Unlimited {
			o.limited, o.text = false, "unlimited"
			continue
		}
		for _, other := range list {
			for _, name := range other.rule.Replaces {
				if name == o.rule.Name {
					o.limited, o.text = false, "replaced"
				}
			}
		}
	}
	before := naive{}
	for k, v := range n {
		before[k] = v
	}
	taken, hasTakes := n.takeTogether(list), false
	for _, o := range list {
		hasTakes = hasTakes || o.together()
	}
	for _, o := range list {
		if o.isQuota() && !o.reports() {
			if taken {
				n.take(o)
			} else {
				o.over, o.remaining = !n.fits(o), n.left(o)
			}
		}
	}
	for _, o := range list {
		switch {
		case !o.limited:
		case o.refunds():
			n[o.bucket] = max(0, n[o.bucket]-o.d.Addend)
			o.remaining = n.left(o)
		case o.rule.Mode == "shadow":
			if n.take(o); o.over {
				o.over, o.remaining = false, 0
			}
		case o.reports():
			o.over = !n.fits(o)
			n[o.bucket] += o.d.Addend
			o.remaining = n.left(o)
		}
	}
	quotas, room := false, false
	for _, o := range list {
		quotas, room = quotas || o.isQuota(), room || o.isQuota() && !o.over
	}
	undone := quotas && !room
	for _, o := range list {
		if o.isQuota() && room {
			o.full, o.over = o.over, false
		}
		undone = undone || o.over && o.reports()
	}
	for _, o := range list {
		if o.together() && undone && taken {
			n[o.bucket] = before[o.bucket]
			o.remaining = n.left(o)
		}
	}
	verdict, texts := "allowed", []string(nil)
	for _, o := range list {
		if o.limited {
			o.text = fmt.Sprint("ok ", o.remaining)
		}
		if o.full {
			o.text = fmt.Sprint("full ", o.remaining)
		}
		if o.over {
			verdict, o.text = "denied", fmt.Sprint("over ", o.remaining)
		}
		texts = append(texts, o.text)
	}
	return verdict + ": " + strings.Join(texts, ", ")
}

// takeTogether takes all that are taken together, or nothing.
func (n naive) takeTogether(list []*naiveOne) bool {
	sum, all := naive{}, true
	for _, o := range list {
		if o.together() {
			sum[o.bucket] += o.d.Addend
		}
	}
	for _, o := range list {
		all = all && (!o.together() || n[o.bucket]+sum[o.bucket] <= o.rule.Limit)
	}
	upTo := naive{}
	for _, o := range list {
		if !o.together() {
			continue
		}
		upTo[o.bucket] += o.d.Addend
		if o.remaining = n.left(o); all {
			o.remaining -= upTo[o.bucket]
		}
		denied := n[o.bucket]+sum[o.bucket] > o.rule.Limit
		o.over = denied && (upTo[o.bucket] > n.left(o) || sum[o.bucket] == 0)
	}
	for bucket, units := range sum {
		if all {
			n[bucket] += units
		}
	}
	return all
}

func TestDescriptors_AgreeWithANaiveModel(t *testing.T) {
	var keys []string
	var rs []rules.Rule
	for _, key := range []string{"take", "other", "slots", "report", "quota", "tokens", "shadow", "vip", "replace"} {
		keys, rs = append(keys, key), append(rs, modelRules[key])
	}
	f, runs := patient(t, rs, nil), 0
	rapid.Check(t, func(rt *rapid.T) {
		model := naive{}
		runs++ // its buckets are its own
		for range rapid.IntRange(1, 12).Draw(rt, "calls") {
			explicit := rapid.Bool().Draw(rt, "explicit")
			var list []*naiveOne
			var ds []AskedDescriptor
			signs := map[string]bool{}
			for range rapid.IntRange(1, 6).Draw(rt, "descriptors") {
				name := rapid.SampledFrom(keys).Draw(rt, "rule")
				value := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "value")
				o := &naiveOne{bucket: fmt.Sprint(name, "=", value, runs), rule: modelRules[name]}
				o.d = asked(o.bucket, rapid.Int64Range(0, 5).Draw(rt, "addend"), "")
				o.d.Explicit, o.d.Negative = explicit, rapid.IntRange(0, 4).Draw(rt, "negative") == 0
				// A refund of slots ends a whole lease, whatever its addend.
				o.d.Negative = o.d.Negative && name != "slots"
				// The order of a refund and a take of one bucket in one call is not part of the model.
				if negative, ok := signs[o.bucket]; ok && (negative != o.d.Negative || o.rule.Quota) {
					continue
				}
				signs[o.bucket] = o.d.Negative
				if o.d.Addend == 0 && (o.d.Negative || o.rule.Addend == rules.AddendCharge) {
					o.d.Addend = 1 // nor that of a look and another of these
				}
				list, ds = append(list, o), append(ds, o.d)
			}
			want := model.call(list)
			if got := f.call(ds...).text(); got != want {
				rt.Fatalf("%+v:\ngot  %s\nwant %s", ds, got, want)
			}
			for bucket := range signs {
				name, _, _ := strings.Cut(bucket, "=")
				o := &naiveOne{bucket: bucket, rule: modelRules[name]}
				if o.rule.Unlimited {
					continue
				}
				q := DescriptorQuestion{Domain: "shop", Look: true, Descriptors: []AskedDescriptor{asked(bucket, 0, "")}}
				got := f.callAs(&q).Statuses[0].Remaining
				if got != model.left(o) {
					rt.Fatalf("%+v: %d remain of %s, want %d", ds, got, bucket, model.left(o))
				}
			}
		}
	})
}
