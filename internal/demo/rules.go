package demo

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/database"
	"sluice/rules"
	"sluice/rules/match"
)

// Names of the rules.
const (
	charges  = "charges-per-user"
	search   = "search-per-user"
	logins   = "logins-per-address"
	reports  = "reports-per-tenant"
	invoices = "invoices-per-user"
	quota    = "requests-per-tenant"
)

// pool is what reports may take beyond their limit.
const pool = "spare-report-servers"

// People who wrote the rules.
var (
	ada   = rules.Actor{Kind: "user", Name: "ada"}
	grace = rules.Actor{Kind: "user", Name: "grace"}
)

// Ages of what people wrote before the start.
const (
	ageOfRules, ageOfOverrides, ageOfEdit = 3 * 24 * time.Hour, 30 * time.Hour, 5 * time.Hour
)

// shopRules show different scopes, algorithms and modes.
func shopRules() []rules.Rule {
	list := []rules.Rule{
		{Name: charges, Description: "Protects the card processor.", Owner: new("payments"), Scope: "user",
			Route: new("/v1/charges"), Method: new("POST"), Limit: 40, WindowMS: 60_000,
			FailMode: rules.FailLocal, Candidate: &rules.Candidate{Limit: new(int64(60))}},
		{Name: search, Description: "One search per second on average.", Owner: new("catalogue"), Scope: "user",
			Route: new("/v1/search"), Algorithm: "token_bucket", Limit: 1, WindowMS: 1000, Burst: new(int64(5))},
		{Name: logins, Description: "Slows down the guessing of passwords. Who goes on is banned.", Owner: new("identity"),
			Scope: "ip", Route: new("/v1/login"), Method: new("POST"), Algorithm: "sliding_window_log", Limit: 30,
			WindowMS: 300_000, FailMode: rules.FailClosed,
			Ban: &rules.Ban{After: 50, WithinMS: 60_000, ForMS: 900_000}},
		{Name: reports, Description: "Twice as many while report servers are idle.", Owner: new("analytics"),
			Scope: "attr:tenant", Route: new("/v1/reports"), Limit: 10, WindowMS: 60_000, Throttle: rules.ThrottleElastic,
			ElasticPercent: new(int64(100)), Pool: new(pool)},
		{Name: invoices, Description: "On trial: it counts and denies nothing.", Owner: new("payments"), Scope: "user",
			Route: new("/v1/invoices"), Method: new("GET"), Limit: 40, WindowMS: 60_000, Mode: rules.ModeShadow},
		{Name: quota, Description: "The quota in the contract, by the day.", Owner: new("sales"), Scope: "attr:tenant",
			Algorithm: "fixed_window", Limit: 500_000, WindowMS: 86_400_000},
	}
	for i := range list {
		list[i].IsActive = true
		list[i].Normalize()
	}
	return list
}

// settable is a clock that somebody sets.
type settable struct{ at time.Time }

func (c *settable) now() time.Time { return c.at }

// writeRules writes rules, a pool, overrides and an edit, each at its time before now, and returns the rules by name.
func writeRules(ctx context.Context, db *database.DB, clock *settable, now time.Time) (map[string]rules.Rule, error) {
	clock.at = now.Add(-ageOfRules)
	spare := rules.NewPool()
	spare.Name, spare.Description, spare.Limit, spare.WindowMS = pool, "What idle report servers can do.", 120, 60_000
	if _, err := db.Pools().Create(ctx, ada, spare); err != nil {
		return nil, fmt.Errorf("pool: %w", err)
	}
	if err := db.ApplyPlan(ctx, ada, rules.MakePlan(nil, shopRules(), false)); err != nil {
		return nil, err
	}
	byName := map[string]rules.Rule{}
	for _, r := range shopRules() {
		stored, err := db.GetRuleByName(ctx, r.Name)
		if err != nil {
			return nil, err
		}
		byName[r.Name] = stored
	}
	clock.at = now.Add(-ageOfOverrides)
	for _, o := range []rules.Override{
		{RuleID: byName[charges].ID, Key: "user:reseller-7", Limit: new(int64(400)), Reason: "A reseller, by contract."},
		{RuleID: byName[logins].ID, Key: "ip:192.0.2.0/24", Unlimited: true, Reason: "Our own checks from outside."},
		{RuleID: byName[search].ID, Key: "user:crawler", Blocked: true, Reason: "Copies the whole catalogue.",
			ExpiresAt: new(now.Add(20 * time.Hour).Truncate(time.Minute))},
	} {
		if _, err := db.CreateOverride(ctx, grace, o, match.Options{}); err != nil {
			return nil, fmt.Errorf("override %s: %w", o.Key, err)
		}
	}
	clock.at = now.Add(-ageOfEdit)
	edited := byName[search]
	edited.Burst = new(int64(10))
	why := grace
	why.Reason = "The new search page asks several times at once."
	stored, err := db.UpdateRule(ctx, why, edited, edited.Version)
	byName[search] = stored
	return byName, err
}
