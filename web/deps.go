package web

import (
	"errors"
	"time"

	"sluice/limiter"
	"sluice/web/inspect"
	"sluice/web/kit"
	"sluice/web/overview"
	"sluice/web/people"
	"sluice/web/rulepages"
	"sluice/web/signin"
	"sluice/web/transfer"
)

// Deps is what the console needs: what all areas share, and what each does by
// itself. Fields without a remark must be given.
type Deps struct {
	kit.Deps
	// Welcome is the one-time link of the first start; nil if there is none.
	Welcome *Welcome
	// Settings is what this node runs with, without secrets.
	Settings  func() []SettingGroup
	RulePages RulePages
	Inspect   Inspect
	People    People
	Transfer  Transfer
}

func (d *Deps) check() error {
	return errors.Join(kit.Whole(*d, "Welcome"), kit.Whole(d.RulePages), kit.Whole(d.Inspect), kit.Whole(d.People))
}

type (
	// RulePages is what the area of rules needs.
	RulePages = rulepages.Deps
	// Inspect is what the area of requests and keys needs.
	Inspect = inspect.Deps
	// People is what the area of accounts and tokens needs.
	People = people.Deps
	// Transfer is what import and export need.
	Transfer = transfer.Store
	// SSO is single sign-on at one provider.
	SSO = kit.SSO
	// Welcome is the one-time link by which the first account is made.
	Welcome = signin.Welcome
	// Node is how this node is.
	Node = kit.Node
	// SettingGroup are the settings of one area.
	SettingGroup = overview.SettingGroup
	// Setting is one of them.
	Setting = overview.Setting
	// Header is one header of an answer.
	Header = rulepages.Header
	// PoolState is what a pool holds at a moment.
	PoolState = rulepages.PoolState
	// Explanation is what Inspect.Explain says.
	Explanation = inspect.Explanation
	// ConsideredRule is one rule of an Explanation.
	ConsideredRule = inspect.ConsideredRule
	// BucketFigures are what a bucket holds.
	BucketFigures = inspect.BucketFigures
	// PoolShare is what a rule may use of a pool.
	PoolShare = inspect.PoolShare
)

// SignOnPath is where the provider of single sign-on sends browsers back to.
const SignOnPath = signin.SignOnPath

// NewWelcome makes the link of the first start; secret is shown once and only its
// hash is kept.
func NewWelcome(now time.Time) (w *Welcome, secret string) { return signin.NewWelcome(now) }

// WelcomePath is the path of the link on the server.
func WelcomePath(secret string) string { return signin.WelcomePath(secret) }

// FiguresOf are the figures of a decision that a store made on a limit.
func FiguresOf(l limiter.Limit, d limiter.Decision) *BucketFigures { return inspect.FiguresOf(l, d) }
