package web

import (
	"errors"
	"time"

	"sluice/internal/backtest"
	"sluice/internal/records"
	"sluice/internal/region"
	"sluice/limiter"
	"sluice/web/alerts"
	"sluice/web/inspect"
	"sluice/web/kit"
	"sluice/web/overview"
	"sluice/web/people"
	"sluice/web/pools"
	"sluice/web/profiles"
	"sluice/web/ruleedit"
	"sluice/web/rulepage"
	"sluice/web/signin"
	"sluice/web/transfer"
)

// Deps are the dependencies of the console: those that all areas share, and those of each area. Fields are required
// unless noted.
type Deps struct {
	kit.Deps
	// Welcome is the one-time link of the first start; nil if there is none.
	Welcome *Welcome
	// Settings returns the settings of this node, without secrets.
	Settings func() []SettingGroup
	// Regions is what this node knows of other regions; nil without regions.
	Regions func() region.Overview
	// DecisionLogs are the accounts of the decision logs of this node, by sink; nil if there are none.
	DecisionLogs map[string]func() records.Totals
	// Trials counts what rules on trial would have decided otherwise.
	Trials rulepage.Trials
	// Headers returns the response headers that the editor of rules shows.
	Headers ruleedit.HeadersOf
	// Replays reads the decision log.
	Replays *backtest.Jobs
	// Watching means that this node detects hot keys.
	Watching bool
	Pools    Pools
	Inspect  Inspect
	People   People
	Profiles Profiles
	Transfer Transfer
	Alerts   Alerts
}

func (d *Deps) check() error {
	return errors.Join(kit.RequireFields(*d, "Welcome", "Regions"),
		kit.RequireFields(d.Pools), kit.RequireFields(d.Inspect, "Spent", "Home"),
		kit.RequireFields(d.People), kit.RequireFields(d.Profiles), kit.RequireFields(d.Alerts))
}

type (
	// Pools are the dependencies of the area of pools.
	Pools = pools.Deps
	// Inspect are the dependencies of the area of requests and keys.
	Inspect = inspect.Deps
	// People are the dependencies of the area of accounts and tokens.
	People = people.Deps
	// Profiles are the dependencies of the area of profiles and gateways.
	Profiles = profiles.Deps
	// Transfer is the store of import and export.
	Transfer = transfer.Store
	// Alerts are the dependencies of the area of alerts and webhooks.
	Alerts = alerts.Deps
	// SSO is a single sign-on provider.
	SSO = kit.SSO
	// TourStop is a page of a tour of the console.
	TourStop = kit.TourStop
	// Welcome is the one-time link that creates the first account.
	Welcome = signin.Welcome
	// Node is the state of this node.
	Node = kit.Node
	// SettingGroup are the settings of one area.
	SettingGroup = overview.SettingGroup
	// Setting is one of them.
	Setting = overview.Setting
	// Header is one header of an answer.
	Header = ruleedit.Header
	// PoolState is the state of a pool.
	PoolState = pools.State
	// Explanation is the result of Inspect.Explain.
	Explanation = inspect.Explanation
	// ConsideredRule is one rule of an Explanation.
	ConsideredRule = inspect.ConsideredRule
	// AskedCall is a call of Envoy that Inspect.ExplainCall explains.
	AskedCall = inspect.AskedCall
	// ExplainedDescriptor is one descriptor of such a call.
	ExplainedDescriptor = inspect.ExplainedDescriptor
	// DeferredQueue is the queue of deferred requests of one rule.
	DeferredQueue = inspect.DeferredQueue
	// BucketFigures are the numbers of a bucket.
	BucketFigures = inspect.BucketFigures
	// Held are units of a bucket that callers hold.
	Held = inspect.Held
	// PoolShare is the part of a pool that a rule may use.
	PoolShare = inspect.PoolShare
)

// SignOnPath is where the provider of single sign-on sends browsers back to.
const SignOnPath = signin.SignOnPath

// NewWelcome creates the link of the first start. The secret is shown once; only its hash is kept.
func NewWelcome(now time.Time) (w *Welcome, secret string) { return signin.NewWelcome(now) }

// WelcomePath is the path of the link on the server.
func WelcomePath(secret string) string { return signin.WelcomePath(secret) }

// FiguresOf are the figures of a decision that a store made on a limit.
func FiguresOf(l limiter.Limit, d limiter.Decision) *BucketFigures { return inspect.FiguresOf(l, d) }
