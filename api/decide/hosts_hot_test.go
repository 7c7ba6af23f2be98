package decide

import (
	"net/netip"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/nearstore"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/override"
)

// Rules of a host, of networks in a condition and with overrides of networks keep their limits over two nodes while
// their keys are hot.
func TestHotKeys_OfHostsAndNetworksKeepTheirLimits(t *testing.T) {
	for _, hot := range []string{rules.HotKeysLeased, rules.HotKeysSharded} {
		t.Run(hot, func(t *testing.T) {
			host, when := "*.example.com", `cidr(ip, "10.0.0.0/8")`
			byHost, byAddress := perUser("by-host", rules.FailClosed, 1000), perUser("by-address", rules.FailClosed, 250)
			byHost.Scope, byHost.Host, byHost.When = "host", &host, &when
			byAddress.Scope = "ip"
			for _, r := range []*rules.Rule{&byHost, &byAddress} {
				r.WindowMS, r.HotKeys = 3_600_000, hot
			}
			onStores(t, []rules.Rule{byHost, byAddress}, hotHosts)
		})
	}
}

func hotHosts(t *testing.T, f *fixture) {
	edit := override.New().Edit()
	edit.Add(override.Row{RuleID: 2, ID: 1, Match: "{ip:10.1.0.0/16}", Limit: 1500, Burst: -1})
	edit.Add(override.Row{RuleID: 2, ID: 2, Match: "{ip:10.1.9.0/24}", Blocked: true, Limit: -1, Burst: -1})
	f.opt.Sets.Store(f.opt.Sets.Load().WithOverrides(edit.Done(1, f.now.Load())))
	var nodes [2]*Checker
	var near [2]*nearstore.Store
	for n := range nodes {
		clock := func() time.Time { return time.UnixMilli(f.now.Load()) }
		s, err := nearstore.New(nearstore.Options{Store: f.store.Store, DenyCache: 100, HotRate: 10, Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(t.Context()) })
		opt := f.opt
		opt.Store, near[n] = s, s
		if nodes[n], err = NewChecker(opt); err != nil {
			t.Fatal(err)
		}
	}
	kinds := []struct {
		host, ip    string
		limits      int // that apply
		least, most int
		passed      int
	}{
		// Both rules apply. The override of the network raises the limit by address above that by host.
		{host: "acme.example.com", ip: "10.1.2.3", limits: 2, least: 850, most: 1000},
		// Outside that network only the rule by address applies, and no override.
		{host: "acme.example.com", ip: "192.0.2.1", limits: 1, least: 200, most: 250},
		{host: "example.com", ip: "10.1.2.4", limits: 1, least: 1300, most: 1500},
		{host: "blocked.example.com", ip: "10.1.9.1", limits: 2},
	}
	for range 450 {
		f.now.Add(1)
		for n, c := range nodes {
			for k := range kinds {
				kind := &kinds[k]
				d := match.Descriptor{Host: kind.host, IP: netip.MustParseAddr(kind.ip)}
				for range 2 {
					q, a := Question{Op: limiter.OpTake, Weight: 1, Descriptor: d}, Answer{}
					if err := c.Do(t.Context(), &q, &a); err != nil {
						t.Fatal(err)
					}
					if len(a.Limits) != kind.limits || a.Degraded != "" {
						t.Fatalf("%s from %s on node %d: %+v", kind.host, kind.ip, n, a)
					}
					if a.Allowed() {
						kind.passed++
					}
				}
			}
		}
	}
	for _, kind := range kinds {
		if kind.passed < kind.least || kind.passed > kind.most {
			t.Errorf("%s from %s: %d passed, want %d to %d", kind.host, kind.ip, kind.passed, kind.least, kind.most)
		}
	}
	if keys := len(near[0].HotKeys(10)); keys < 3 {
		t.Errorf("%d hot keys, want those of both rules", keys)
	}
}
