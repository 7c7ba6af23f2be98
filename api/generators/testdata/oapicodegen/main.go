// Command oapicodegen plays the journey with the client that oapi-codegen generates.
package main

import (
	"context"
	"net/http"
	"os"
	"slices"

	"sluice/api/generators/testdata/assert"
	"sluice/api/generators/testdata/oapicodegen/client"
)

const minute = 60_000

func main() {
	ctx, url, token, name := context.Background(), os.Args[1], os.Args[2], os.Args[3]
	authorize := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	c, err := client.NewClientWithResponses(url, client.WithRequestEditorFn(authorize))
	assert.No(err, "client")
	rules(ctx, c, name)
	checks(ctx, c, name)
	reserve(ctx, c, name)
	explain(ctx, c, name)
}

// rules are steps 1 to 4.
func rules(ctx context.Context, c *client.ClientWithResponses, name string) {
	shadow, err := c.CreateRuleWithResponse(ctx, nil, client.RuleInput{
		Name: name + "-shadow", Scope: new("user"), Limit: new(int64(9)), WindowMs: new(int64(minute)),
		Mode: new(client.RuleInputMode("shadow")), FailMode: new(client.RuleInputFailMode("closed")), IsActive: new(false),
	})
	assert.No(err, "create")
	assert.True(shadow.JSON201 != nil, "create", shadow.Body)

	version := &client.PatchRuleParams{IfMatch: new(shadow.HTTPResponse.Header.Get("ETag"))}
	id := *shadow.JSON201.Id
	patched, err := c.PatchRuleWithResponse(ctx, id, version, client.RulePatch{Limit: new(int64(5))})
	assert.No(err, "patch")
	rule := patched.JSON200
	assert.True(rule != nil && *rule.Limit == 5 && *rule.Mode == "shadow" && *rule.FailMode == "closed" && !*rule.IsActive,
		"patch", patched)
	stale, err := c.PatchRuleWithResponse(ctx, id, version, client.RulePatch{Limit: new(int64(6))})
	assert.No(err, "stale patch")
	problem := stale.ApplicationproblemJSON412
	assert.True(problem != nil && problem.Type == "/problems/stale", "stale patch", stale)

	users, err := c.CreateRuleWithResponse(ctx, nil, client.RuleInput{
		Name: name + "-users", Scope: new("user"), Limit: new(int64(2)), WindowMs: new(int64(minute)),
		When: new(`user == "` + name + `"`),
	})
	assert.No(err, "create")
	assert.True(users.JSON201 != nil, "create", users)
}

// checks are steps 5 to 8.
func checks(ctx context.Context, c *client.ClientWithResponses, name string) {
	var facts client.Check
	assert.No(facts.FromRequestCheck(client.RequestCheck{User: &name}), "facts")
	for _, allowed := range []bool{true, true, false} {
		reply, err := c.CheckWithResponse(ctx, nil, facts)
		assert.No(err, "check by facts")
		answer := reply.JSON200
		assert.True(answer != nil && answer.Allowed == allowed, "check by facts", reply)
		if !allowed {
			assert.True(answer.Status == 429 && *answer.Rule == name+"-users" && *answer.RetryAfterMs > 0 &&
				answer.Body.Status == 429, "denial", reply)
		}
	}

	var direct client.Check
	assert.No(direct.FromDirectCheck(client.DirectCheck{Key: name, Limit: 1, WindowMs: minute}), "direct check")
	for _, allowed := range []bool{true, false} {
		reply, err := c.CheckWithResponse(ctx, nil, direct)
		assert.No(err, "direct check")
		assert.True(reply.JSON200 != nil && reply.JSON200.Allowed == allowed && *reply.JSON200.Remaining == 0,
			"direct check", reply)
	}

	var several client.Check
	assert.No(several.FromLimitsCheck(client.LimitsCheck{Limits: client.DirectLimits{
		{Key: name + "-a", Limit: 5, WindowMs: minute}, {Key: name + "-b", Limit: 7, WindowMs: minute},
	}}), "limits")
	reply, err := c.CheckWithResponse(ctx, nil, several)
	assert.No(err, "limits")
	assert.True(reply.JSON200 != nil && reply.JSON200.Allowed && len(reply.JSON200.Limits) == 2 &&
		*reply.JSON200.Limits[1].Limit == 7, "limits", reply)

	var question client.Question
	assert.No(question.FromDirectCheck(client.DirectCheck{Key: name + "-batch", Limit: 9, WindowMs: minute}), "batch")
	batch, err := c.CheckBatchWithResponse(ctx, nil, client.BatchCheck{Checks: []client.Question{question, question}})
	assert.No(err, "batch")
	assert.True(batch.JSON200 != nil && *batch.JSON200.Results[1].Remaining == 7, "batch", batch)
}

// reserve is step 9.
func reserve(ctx context.Context, c *client.ClientWithResponses, name string) {
	var estimate client.Reserve
	assert.No(estimate.FromDirectReserve(client.DirectReserve{
		Key: name + "-reserve", Limit: 9, WindowMs: minute, Weight: new(int64(1)),
	}), "reserve")
	reserved, err := c.ReserveWithResponse(ctx, nil, estimate)
	assert.No(err, "reserve")
	assert.True(reserved.JSON200 != nil && reserved.JSON200.Allowed && reserved.JSON200.Reservation != nil,
		"reserve", reserved)
	settled, err := c.SettleWithResponse(ctx, nil,
		client.Settlement{Reservation: reserved.JSON200.Reservation, Weight: new(int64(0))})
	assert.No(err, "settle")
	assert.True(settled.JSON200 != nil && *settled.JSON200.Refunded == 1, "settle", settled)
}

// explain are steps 10 to 12.
func explain(ctx context.Context, c *client.ClientWithResponses, name string) {
	var why client.ExplainQuestion
	assert.No(why.FromRequestQuestion(client.RequestQuestion{User: &name}), "explain")
	explained, err := c.ExplainWithResponse(ctx, why)
	assert.No(err, "explain")
	assert.True(explained.JSON200 != nil && !explained.JSON200.Decision.Allowed &&
		slices.ContainsFunc(*explained.JSON200.Rules, func(r client.ConsideredRule) bool {
			return r.Name == name+"-users" && r.Matched
		}), "explain", explained)

	page, err := c.ListRulesWithResponse(ctx, &client.ListRulesParams{Q: &name})
	assert.No(err, "list")
	assert.True(page.JSON200 != nil && len(page.JSON200.Rules) == 2 && page.JSON200.Rules[0].Name == name+"-shadow" &&
		page.JSON200.Rules[1].Name == name+"-users", "list", page)

	refused, err := c.CreateRuleWithResponse(ctx, nil, client.RuleInput{
		Name: "Not A Name", Scope: new("user"), Limit: new(int64(1)), WindowMs: new(int64(minute)),
	})
	assert.No(err, "bad rule")
	problem := refused.ApplicationproblemJSON422
	assert.True(problem != nil && slices.ContainsFunc(*problem.Errors, func(e client.FieldError) bool {
		return e.Field == "name"
	}), "bad rule", refused)
}
