// Command ogen plays the journey with the client that ogen generates.
package main

import (
	"context"
	"os"
	"slices"

	"github.com/ogen-go/ogen/ogenerrors"

	"sluice/api/generators/testdata/assert"
	"sluice/api/generators/testdata/ogen/client"
)

const minute = 60_000

// credentials has a token, and nothing for the operations of gateways.
type credentials string

func (c credentials) Token(context.Context, client.OperationName) (client.Token, error) {
	return client.Token{Token: string(c)}, nil
}

func (credentials) Gateway(context.Context, client.OperationName) (client.Gateway, error) {
	return client.Gateway{}, ogenerrors.ErrSkipClientSecurity
}

func main() {
	ctx, url, token, name := context.Background(), os.Args[1], os.Args[2], os.Args[3]
	c, err := client.NewClient(url, credentials(token))
	assert.No(err, "client")
	rules(ctx, c, name)
	checks(ctx, c, name)
	reserve(ctx, c, name)
	explain(ctx, c, name)
}

// as returns the reply as T, which is one of the types that the operation can return.
func as[T any](reply any, err error, step string) T {
	assert.No(err, step)
	v, ok := reply.(T)
	assert.True(ok, step, reply)
	return v
}

// rules are steps 1 to 4.
func rules(ctx context.Context, c *client.Client, name string) {
	reply, err := c.CreateRule(ctx, &client.RuleInput{
		Name: name + "-shadow", Scope: client.NewOptNilString("user"), Limit: client.NewOptNilInt64(9),
		WindowMs: client.NewOptNilInt64(minute), Mode: client.NewOptNilRuleInputMode(client.RuleInputModeShadow),
		FailMode: client.NewOptNilRuleInputFailMode(client.RuleInputFailModeClosed), IsActive: client.NewOptNilBool(false),
	}, client.CreateRuleParams{})
	shadow := as[*client.RuleHeaders](reply, err, "create")

	version := client.PatchRuleParams{ID: shadow.Response.ID, IfMatch: client.NewOptString(shadow.ETag)}
	change, err := c.PatchRule(ctx, &client.PatchRuleApplicationMergePatchJSON{Limit: client.NewOptNilInt64(5)}, version)
	rule := as[*client.RuleReplyHeaders](change, err, "patch").Response
	assert.True(rule.Limit.Value == 5 && rule.Mode.Value == client.RuleModeShadow &&
		rule.FailMode.Value == client.RuleFailModeClosed && !rule.IsActive.Value, "patch", rule)
	change, err = c.PatchRule(ctx, &client.PatchRuleApplicationMergePatchJSON{Limit: client.NewOptNilInt64(6)}, version)
	stale := as[*client.PatchRulePreconditionFailed](change, err, "stale patch")
	assert.True(stale.Type == "/problems/stale", "stale patch", stale)

	reply, err = c.CreateRule(ctx, &client.RuleInput{
		Name: name + "-users", Scope: client.NewOptNilString("user"), Limit: client.NewOptNilInt64(2),
		WindowMs: client.NewOptNilInt64(minute), When: client.NewOptNilString(`user == "` + name + `"`),
	}, client.CreateRuleParams{})
	as[*client.RuleHeaders](reply, err, "create")
}

// checks are steps 5 to 8.
func checks(ctx context.Context, c *client.Client, name string) {
	check := func(question client.Check, step string) *client.Answer {
		reply, err := c.Check(ctx, question, client.CheckParams{})
		return as[*client.Answer](reply, err, step)
	}
	facts := client.NewRequestCheckCheck(client.RequestCheck{User: client.NewOptString(name)})
	for _, allowed := range []bool{true, true, false} {
		answer := check(facts, "check by facts")
		assert.True(answer.Allowed == allowed, "check by facts", answer)
		if !allowed {
			assert.True(answer.Status == 429 && answer.Rule.Value == name+"-users" && answer.RetryAfterMs.Value > 0 &&
				answer.Body.Value.Status == 429, "denial", answer)
		}
	}

	direct := client.DirectCheck{Key: name, Limit: 1, WindowMs: minute}
	for _, allowed := range []bool{true, false} {
		answer := check(client.NewDirectCheckCheck(direct), "direct check")
		assert.True(answer.Allowed == allowed && answer.Remaining.Value == 0, "direct check", answer)
	}

	answer := check(client.NewLimitsCheckCheck(client.LimitsCheck{Limits: client.DirectLimits{
		{Key: name + "-a", Limit: 5, WindowMs: minute}, {Key: name + "-b", Limit: 7, WindowMs: minute},
	}}), "limits")
	assert.True(answer.Allowed && len(answer.Limits) == 2 && answer.Limits[1].Limit.Value == 7, "limits", answer)

	question := client.NewDirectCheckQuestion(client.DirectCheck{Key: name + "-batch", Limit: 9, WindowMs: minute})
	reply, err := c.CheckBatch(ctx, &client.BatchCheck{Checks: []client.Question{question, question}},
		client.CheckBatchParams{})
	batch := as[*client.BatchAnswer](reply, err, "batch")
	assert.True(batch.Results[1].Remaining.Value == 7, "batch", batch)
}

// reserve is step 9.
func reserve(ctx context.Context, c *client.Client, name string) {
	reply, err := c.Reserve(ctx, client.NewDirectReserveReserve(client.DirectReserve{
		Key: name + "-reserve", Limit: 9, WindowMs: minute, Weight: client.NewOptWeight(1),
	}), client.ReserveParams{})
	reserved := as[*client.Answer](reply, err, "reserve")
	assert.True(reserved.Allowed && reserved.Reservation.Set, "reserve", reserved)
	end, err := c.Settle(ctx, &client.Settlement{
		Reservation: reserved.Reservation, Weight: client.NewOptUnits(0),
	}, client.SettleParams{})
	settled := as[*client.Answer](end, err, "settle")
	assert.True(settled.Refunded.Value == 1, "settle", settled)
}

// explain are steps 10 to 12.
func explain(ctx context.Context, c *client.Client, name string) {
	why, err := c.Explain(ctx,
		client.NewRequestQuestionExplainQuestion(client.RequestQuestion{User: client.NewOptString(name)}))
	explained := as[*client.Explanation](why, err, "explain")
	assert.True(!explained.Decision.Allowed && slices.ContainsFunc(explained.Rules, func(r client.ConsideredRule) bool {
		return r.Name == name+"-users" && r.Matched
	}), "explain", explained)

	reply, err := c.ListRules(ctx, client.ListRulesParams{Q: client.NewOptString(name)})
	page := as[*client.RulePage](reply, err, "list")
	assert.True(len(page.Rules) == 2 && page.Rules[0].Name == name+"-shadow" && page.Rules[1].Name == name+"-users",
		"list", page)

	bad, err := c.CreateRule(ctx, &client.RuleInput{
		Name: "Not A Name", Scope: client.NewOptNilString("user"), Limit: client.NewOptNilInt64(1),
		WindowMs: client.NewOptNilInt64(minute),
	}, client.CreateRuleParams{})
	refused := as[*client.CreateRuleUnprocessableEntity](bad, err, "bad rule")
	assert.True(slices.ContainsFunc(refused.Errors, func(e client.FieldError) bool { return e.Field == "name" }),
		"bad rule", refused)
}
