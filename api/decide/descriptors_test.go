package decide

import (
	"testing"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/rules"
)

func TestDescriptors_AreTakenTogetherOrNotAtAll(t *testing.T) {
	onStores(t, []rules.Rule{shop("pay", "path=/pay", 5), shop("users", "user", 3)}, func(t *testing.T, f *fixture) {
		f.expect(t, "allowed: ok 3, ok 1", asked("path=/pay", 2, ""), asked("user=a", 2, ""))
		a := f.expect(t, "denied: ok 3, over 1", asked("path=/pay", 2, ""), asked("user=a", 2, ""))
		if a.Strictest != 1 || a.Statuses[1].Limit != 1 || a.Limits[1].Rule != "users" {
			t.Errorf("strictest %d of %+v", a.Strictest, a.Limits)
		}
		f.expect(t, "denied: over 3, over 1", asked("path=/pay", 4, ""), asked("user=a", 2, ""))
		f.levels(t, "3 1 3", "path=/pay", "user=a", "user=b")
		f.expect(t, "allowed: none, ok 0", asked("path=/other", 1, ""), asked("user=a", 1, ""))
		f.expect(t, "allowed: none", asked("user=a path=/pay", 1, ""))
	})
}

func TestDescriptors_OfOneBucketAddUp(t *testing.T) {
	onStores(t, []rules.Rule{shop("users", "user", 10), shop("all", "all", 100)}, func(t *testing.T, f *fixture) {
		f.expect(t, "allowed: ok 9, ok 97, ok 7, ok 4",
			asked("user=a", 1, ""), asked("all=1", 3, ""), asked("user=a", 2, ""), asked("user=a", 3, ""))
		// The first two of three would fit.
		a := f.expect(t, "denied: ok 4, ok 4, over 4, ok 97",
			asked("user=a", 1, ""), asked("user=a", 3, ""), asked("user=a", 1, ""), asked("all=1", 0, ""))
		if len(a.Limits) != 2 || a.Limits[0].Weight != 5 {
			t.Errorf("limits %+v", a.Limits)
		}
		f.levels(t, "4 97", "user=a", "all=1")
	})
}

// The examples of the issue: an answer of 1,200 tokens against 900 left is charged, after a look.
func TestDescriptors_AnExplicitAddendIsCharged(t *testing.T) {
	rs := []rules.Rule{shop("tokens", "tokens", 1000, charged), shop("calls", "calls", 1), shop("plain", "plain", 10)}
	onStores(t, rs, func(t *testing.T, f *fixture) {
		f.expect(t, "allowed: ok 900", asked("tokens=a", 100, "e"))
		f.expect(t, "allowed: ok 900", asked("tokens=a", 0, "e"))
		f.expect(t, "denied: over 0", asked("tokens=a", 1200, "e"))
		f.expect(t, "denied: over 0", asked("tokens=a", 0, "e"))
		f.expect(t, "denied: over 0", asked("tokens=a", 1, ""))
		// To the limit is not above it.
		f.expect(t, "allowed: ok 0", asked("tokens=b", 1000, "e"))
		f.expect(t, "allowed: ok 0", asked("tokens=b", 0, "e"))
		f.expect(t, "denied: over 0", asked("tokens=b", 1, "e"))
		// Without an explicit addend it is a take, which spends nothing if it does not fit.
		f.expect(t, "denied: over 1000", asked("tokens=c", 1200, ""))
		// A rule with addend take does not charge.
		f.expect(t, "denied: over 10", asked("plain=a", 12, "e"))
		// It is charged also if another descriptor is over its limit, and the others are not taken.
		f.expect(t, "allowed: ok 0, ok 7", asked("calls=a", 1, ""), asked("plain=a", 3, "e"))
		f.expect(t, "denied: over 0, ok 700, ok 7", asked("calls=a", 1, "e"), asked("tokens=d", 300, "e"),
			asked("plain=a", 1, "e"))
		// A report that is over its limit denies the call, so the takes of the call are undone.
		f.expect(t, "denied: over 0, ok 7", asked("tokens=d", 701, "e"), asked("plain=a", 1, "e"))
		f.levels(t, "0 7", "tokens=d", "plain=a")
		// Two reports on one bucket are charged one after the other.
		f.expect(t, "denied: ok 400, over 0", asked("tokens=e", 600, "e"), asked("tokens=e", 600, "e"))
	})
}

func TestDescriptors_NegativeAddendsAreGivenBack(t *testing.T) {
	rs := []rules.Rule{shop("users", "user", 10), shop("tokens", "tokens", 10, charged)}
	onStores(t, rs, func(t *testing.T, f *fixture) {
		f.expect(t, "allowed: ok 4, ok 0", asked("user=a", 6, ""), asked("tokens=a", 10, "e"))
		a := f.expect(t, "allowed: ok 6, ok 5", asked("user=a", 2, "en"), asked("tokens=a", 5, "en"))
		if !a.Limits[0].Returned || a.Limits[0].Decision.Refunded != 2 {
			t.Errorf("limit %+v", a.Limits[0])
		}
		f.expect(t, "allowed: ok 10", asked("user=a", 100, "en"))
		f.expect(t, "allowed: ok 10", asked("user=a", 1, "en"))
		// One call may take and give back. A denial of the take does not keep what is given back.
		f.expect(t, "denied: over 10, ok 8", asked("user=a", 11, ""), asked("tokens=a", 3, "en"))
		f.levels(t, "10 8", "user=a", "tokens=a")
		f.expect(t, "allowed: ok 8", asked("tokens=a", 0, "en"))
	})
}

func TestDescriptors_NegativeHitsReleaseTheOldestLease(t *testing.T) {
	rs := []rules.Rule{shop("slots", "slots", 3, leased(10_000)), shop("calls", "calls", 100)}
	onStores(t, rs, func(t *testing.T, f *fixture) {
		f.expect(t, "allowed: ok 1, ok 99", asked("slots=a", 2, ""), asked("calls=a", 1, ""))
		f.now.Add(1000)
		f.expect(t, "allowed: ok 0", asked("slots=a", 1, "e"))
		f.expect(t, "denied: over 0, ok 99", asked("slots=a", 1, ""), asked("calls=a", 1, ""))
		// The oldest lease has two units, whatever the addend.
		f.expect(t, "allowed: ok 2", asked("slots=a", 1, "en"))
		// The other one ends by itself, as for a caller that has vanished.
		f.now.Add(9_999)
		f.levels(t, "2", "slots=a")
		f.now.Add(1)
		f.levels(t, "3", "slots=a")
		f.expect(t, "allowed: ok 3", asked("slots=a", 1, "en"))
		// Two releases in one call end two leases.
		f.expect(t, "allowed: ok 2", asked("slots=a", 1, ""))
		f.now.Add(1)
		f.expect(t, "allowed: ok 1", asked("slots=a", 1, ""))
		f.expect(t, "allowed: ok 2, ok 3", asked("slots=a", 1, "n"), asked("slots=a", 1, "n"))
	})
}

func TestDescriptors_ALookBesideATakeOfTheSameSlots(t *testing.T) {
	look, take := asked("slots=a", 0, "e"), asked("slots=a", 1, "")
	onStores(t, []rules.Rule{shop("slots", "slots", 2, leased(60_000))}, func(t *testing.T, f *fixture) {
		for _, want := range []string{"allowed: ok 2, ok 1", "allowed: ok 1, ok 0", "denied: ok 0, over 0"} {
			f.expect(t, want, look, take)
		}
		f.now.Add(60_000)
		for _, want := range []string{"allowed: ok 1, ok 1", "allowed: ok 0, ok 0", "denied: over 0, over 0"} {
			f.expect(t, want, take, look)
		}
	})
}

func TestDescriptors_QuotasDenyOnlyTogether(t *testing.T) {
	onStores(t, quotaRules(), quotasDenyOnlyTogether)
}

// The limits of a call live in different slots of a cluster.
func TestDescriptors_QuotasOnACluster(t *testing.T) {
	quotasDenyOnlyTogether(t, patient(t, quotaRules(), func(clock func() int64) limiter.Store {
		return redisAt(t, testenv.SharedCluster(t).URL(), ownPrefix(), clock)
	}))
}

func quotaRules() []rules.Rule {
	return []rules.Rule{shop("gold", "gold", 2, quota), shop("silver", "silver", 3, quota), shop("calls", "calls", 4),
		shop("tokens", "tokens", 10, quota, charged)}
}

func quotasDenyOnlyTogether(t *testing.T, f *fixture) {
	both := []AskedDescriptor{asked("gold=a", 1, ""), asked("silver=a", 1, "")}
	f.expect(t, "allowed: ok 1, ok 2", both...)
	f.expect(t, "allowed: ok 0, ok 1", both...)
	f.expect(t, "allowed: full 0, ok 0", both...) // there is room in silver alone
	f.expect(t, "denied: over 0, over 0", both...)
	f.expect(t, "denied: over 0", both[0])
	// Beside other limits: these are taken only if the quotas are not over, and the other way round.
	f.expect(t, "allowed: ok 3, ok 1", asked("calls=a", 1, ""), asked("gold=b", 1, ""))
	f.expect(t, "denied: ok 3, over 0", asked("calls=a", 1, ""), both[0])
	f.expect(t, "denied: over 3, ok 1", asked("calls=a", 4, ""), asked("gold=b", 1, ""))
	f.levels(t, "3 1", "calls=a", "gold=b")
	f.expect(t, "allowed: ok 1, full 0, ok 3", asked("calls=a", 2, ""), both[0], asked("silver=c", 0, ""))
	// A quota with a report is charged in any case, and denies as a quota.
	f.expect(t, "allowed: full 0, ok 2", asked("tokens=a", 12, "e"), asked("silver=c", 1, ""))
	f.expect(t, "denied: over 0, ok 1", asked("tokens=a", 1, "e"), asked("calls=a", 1, ""))
	f.expect(t, "denied: over 0, ok 1, over 0", asked("tokens=a", 0, "e"), asked("calls=a", 1, ""), both[0])
	f.levels(t, "1 2", "calls=a", "silver=c")
}

// Leases of a call whose quotas are all over are given back too.
func TestDescriptors_AnUndoneTakeHoldsNoLease(t *testing.T) {
	rs := []rules.Rule{shop("slots", "slots", 3, leased(10_000)), shop("calls", "calls", 9),
		shop("gold", "gold", 0, quota)}
	onStores(t, rs, func(t *testing.T, f *fixture) {
		f.expect(t, "denied: ok 3, ok 9, over 0", asked("slots=a", 2, ""), asked("calls=a", 1, ""), asked("gold=a", 1, ""))
		f.levels(t, "3 9", "slots=a", "calls=a")
	})
}

func TestDescriptors_ShadowRulesNeverDeny(t *testing.T) {
	limit := int64(1)
	rs := []rules.Rule{shop("trial", "trial", 2, shadowed), shop("calls", "calls", 5, func(r *rules.Rule) {
		r.Candidate = &rules.Candidate{Limit: &limit}
	})}
	onStores(t, rs, func(t *testing.T, f *fixture) {
		f.expect(t, "allowed: ok 4, ok 0", asked("calls=a", 1, ""), asked("trial=a", 2, ""))
		a := f.expect(t, "allowed: ok 3, ok 0", asked("calls=a", 1, ""), asked("trial=a", 1, ""))
		if len(a.Limits) != 3 || a.Strictest != 0 || !a.Limits[1].Shadow || !a.Limits[2].Candidate ||
			a.Limits[1].Decision.Allowed || a.Limits[2].Decision.Allowed {
			t.Errorf("limits %+v", a.Limits)
		}
		f.expect(t, "allowed: ok 1", asked("trial=a", 1, "n"))
		f.expect(t, "allowed: ok 0", asked("trial=a", 3, ""))
	})
}

func TestDescriptors_RulesReplaceOthers(t *testing.T) {
	rs := []rules.Rule{shop("general", "user", 3), shop("banned", "banned", 0, replaces("general", "vip")),
		shop("vip", "vip", 9, unlimited, replaces("general")), shop("own", "own", 5, replaces("banned"))}
	onStores(t, rs, func(t *testing.T, f *fixture) {
		f.expect(t, "allowed: unlimited, replaced", asked("vip=a", 1, ""), asked("user=a", 1, ""))
		f.expect(t, "denied: replaced, over 0", asked("user=a", 1, ""), asked("banned=a", 1, ""))
		// An unlimited rule is not replaced, and a replaced rule still replaces.
		f.expect(t, "denied: unlimited, over 0", asked("vip=a", 1, ""), asked("banned=a", 1, ""))
		f.expect(t, "allowed: replaced, ok 4, replaced", asked("banned=a", 1, ""), asked("own=a", 1, ""),
			asked("user=a", 1, ""))
		f.levels(t, "3", "user=a")
		// A limit that was sent is not part of it.
		f.expect(t, "allowed: ok 6, unlimited", withLimit(asked("user=b", 1, ""), 7), asked("vip=a", 1, ""))
		f.expect(t, "allowed: ok 2, ok 6", asked("user=c", 1, ""), withLimit(asked("vip=a", 1, ""), 7))
		f.expect(t, "allowed: ok 2, ok 6, ok 4", asked("user=d", 1, ""), withLimit(asked("vip=b", 1, ""), 7),
			asked("own=b", 1, ""))
	})
}

func TestDescriptors_ALimitThatIsSentReplacesTheRules(t *testing.T) {
	rs := []rules.Rule{shop("users", "user", 2),
		shop("bucket", "bucket", 10, func(r *rules.Rule) { r.Algorithm = "token_bucket" }),
		shop("trial", "trial", 1, shadowed), shop("gold", "gold", 1, quota), shop("slots", "slots", 2, leased(1000))}
	onStores(t, rs, func(t *testing.T, f *fixture) {
		f.expect(t, "allowed: ok 0", asked("user=a", 2, ""))
		f.expect(t, "denied: over 0", asked("user=a", 1, ""))
		a := f.expect(t, "allowed: ok 2", withLimit(asked("user=a", 1, ""), 5))
		if a.Limits[0].Rule != "users" || a.Limits[0].Limit.Count != 5 {
			t.Errorf("limit %+v", a.Limits[0])
		}
		f.expect(t, "denied: over 0", asked("user=a", 1, ""))
		f.expect(t, "allowed: ok 3", withLimit(asked("bucket=a", 1, ""), 4))
		// A count too large for the algorithm has a fixed window.
		f.expect(t, "allowed: ok 9007199254740989", withLimit(asked("bucket=a", 2, ""), 1<<53-1))
		// A domain is known by its rules. Without a rule the bucket is that of the descriptor.
		f.expect(t, "allowed: ok 1", withLimit(asked("other=a", 1, ""), 2))
		f.expect(t, "denied: over 1", withLimit(asked("other=a", 2, ""), 2))
		f.expect(t, "allowed: none", asked("other=a", 1, ""))
		got := f.callAs(&DescriptorQuestion{Domain: "unknown",
			Descriptors: []AskedDescriptor{withLimit(asked("user=a", 9, ""), 2)}})
		if got.text() != "allowed: none" {
			t.Errorf("unknown domain: %s", got.text())
		}
		// Neither shadow nor quota.
		f.expect(t, "denied: over 3", withLimit(asked("trial=a", 4, ""), 3))
		f.expect(t, "denied: over 3, ok 1", withLimit(asked("gold=a", 4, ""), 3), asked("gold=b", 0, ""))
		f.expect(t, "allowed: ok 4", withLimit(asked("slots=a", 1, ""), 5))
	})
}

func TestDescriptors_OfOneBucketWithTwoLimitsHaveTheSmaller(t *testing.T) {
	onStores(t, []rules.Rule{shop("users", "user", 5)}, func(t *testing.T, f *fixture) {
		f.expect(t, "denied: ok 3, over 3", asked("user=a", 2, ""), withLimit(asked("user=a", 2, ""), 3))
		f.expect(t, "allowed: ok 2, ok 1", asked("user=a", 1, ""), withLimit(asked("user=a", 1, ""), 3))
	})
}

func TestDescriptors_ALookSpendsNothing(t *testing.T) {
	rs := []rules.Rule{shop("users", "user", 3), shop("tokens", "tokens", 3, charged), shop("gold", "gold", 3, quota),
		shop("trial", "trial", 3, shadowed), shop("slots", "slots", 3, leased(10_000))}
	onStores(t, rs, func(t *testing.T, f *fixture) {
		f.expect(t, "allowed: ok 2, ok 2, ok 2, ok 2, ok 2", asked("user=a", 1, ""), asked("tokens=a", 1, "e"),
			asked("gold=a", 1, ""), asked("trial=a", 1, ""), asked("slots=a", 1, ""))
		q := DescriptorQuestion{Domain: "shop", Look: true, Descriptors: []AskedDescriptor{
			asked("user=a", 1, ""), asked("tokens=a", 1, "e"), asked("gold=a", 1, ""), asked("trial=a", 1, ""),
			asked("slots=a", 1, ""), asked("user=a", 9, "n"), asked("slots=a", 1, "n")}}
		for range 3 {
			if got := f.callAs(&q).text(); got != "allowed: ok 2, ok 2, ok 2, ok 2, ok 2, ok 2, ok 2" {
				t.Error(got)
			}
		}
		q.Descriptors = []AskedDescriptor{asked("tokens=a", 3, "e"), asked("gold=a", 3, ""), asked("trial=a", 3, "")}
		for range 2 {
			if got := f.callAs(&q).text(); got != "denied: over 2, over 2, ok 0" {
				t.Error(got)
			}
		}
	})
}

func TestDescriptors_ASoftRuleAdmitsAboveItsLimit(t *testing.T) {
	soft := int64(50)
	rs := []rules.Rule{shop("soft", "soft", 4, func(r *rules.Rule) { r.Throttle, r.SoftPercent = "soft", &soft })}
	onStores(t, rs, func(t *testing.T, f *fixture) {
		f.expect(t, "allowed: ok 0", asked("soft=a", 4, ""))
		if a := f.expect(t, "allowed: ok 0", asked("soft=a", 2, "")); !a.Soft || !a.Limits[0].Soft {
			t.Errorf("limit %+v", a.Limits[0])
		}
		f.expect(t, "denied: over 0", asked("soft=a", 1, ""))
		// A limit that is sent is never soft.
		f.expect(t, "denied: over 4", withLimit(asked("soft=b", 5, ""), 4))
	})
}
