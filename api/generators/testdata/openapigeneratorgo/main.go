// Command openapigeneratorgo plays the journey with the client that openapi-generator generates for Go.
package main

import (
	"context"
	"errors"
	"os"
	"slices"

	"sluice/api/generators/testdata/assert"
	"sluice/api/generators/testdata/openapigeneratorgo/client"
)

const minute = 60_000

func main() {
	url, token, name := os.Args[1], os.Args[2], os.Args[3]
	configuration := client.NewConfiguration()
	configuration.Servers = client.ServerConfigurations{{URL: url}}
	c := client.NewAPIClient(configuration)
	ctx := context.WithValue(context.Background(), client.ContextAccessToken, token)
	rules(ctx, c, name)
	checks(ctx, c, name)
	reserve(ctx, c, name)
	explain(ctx, c, name)
}

// problem returns what the client decoded of an error, which must be a problem document.
func problem(err error, step string) client.Problem {
	var failed *client.GenericOpenAPIError
	assert.True(errors.As(err, &failed), step, err)
	p, ok := failed.Model().(client.Problem)
	assert.True(ok, step, string(failed.Body()))
	return p
}

// rules are steps 1 to 4.
func rules(ctx context.Context, c *client.APIClient, name string) {
	input := client.NewRuleInput(name + "-shadow")
	input.SetScope("user")
	input.SetLimit(9)
	input.SetWindowMs(minute)
	input.SetMode("shadow")
	input.SetFailMode("closed")
	input.SetIsActive(false)
	shadow, response, err := c.RulesAPI.CreateRule(ctx).RuleInput(*input).Execute()
	assert.No(err, "create")
	_ = response.Body.Close()
	version := response.Header.Get("ETag")

	change := client.NewRulePatch()
	change.SetLimit(5)
	rule, response, err := c.RulesAPI.PatchRule(ctx, shadow.Id).IfMatch(version).RulePatch(*change).Execute()
	assert.No(err, "patch")
	_ = response.Body.Close()
	assert.True(*rule.Limit.Get() == 5 && *rule.Mode.Get() == "shadow" && *rule.FailMode.Get() == "closed" &&
		!*rule.IsActive.Get(), "patch", rule)
	change.SetLimit(6)
	_, _, err = c.RulesAPI.PatchRule(ctx, shadow.Id).IfMatch(version).RulePatch(*change).Execute()
	stale := problem(err, "stale patch")
	assert.True(stale.Type == "/problems/stale" && stale.Status == 412, "stale patch", stale)

	input = client.NewRuleInput(name + "-users")
	input.SetScope("user")
	input.SetLimit(2)
	input.SetWindowMs(minute)
	input.SetWhen(`user == "` + name + `"`)
	_, _, err = c.RulesAPI.CreateRule(ctx).RuleInput(*input).Execute()
	assert.No(err, "create")
}

// checks are steps 5 to 8.
func checks(ctx context.Context, c *client.APIClient, name string) {
	check := func(question client.Check, step string) *client.Answer {
		answer, _, err := c.DecisionsAPI.Check(ctx).Check(question).Execute()
		assert.No(err, step)
		return answer
	}
	facts := client.RequestCheck{User: &name}
	for _, allowed := range []bool{true, true, false} {
		answer := check(client.RequestCheckAsCheck(&facts), "check by facts")
		assert.True(answer.Allowed == allowed, "check by facts", answer)
		if !allowed {
			assert.True(answer.Status == 429 && *answer.Rule.Get() == name+"-users" && *answer.RetryAfterMs > 0 &&
				answer.Body.Status == 429, "denial", answer)
		}
	}

	direct := client.NewDirectCheck(name, 1, minute)
	for _, allowed := range []bool{true, false} {
		answer := check(client.DirectCheckAsCheck(direct), "direct check")
		assert.True(answer.Allowed == allowed && *answer.Remaining == 0, "direct check", answer)
	}

	several := client.NewLimitsCheck([]client.DirectLimit{
		*client.NewDirectLimit(name+"-a", 5, minute), *client.NewDirectLimit(name+"-b", 7, minute),
	})
	answer := check(client.LimitsCheckAsCheck(several), "limits")
	assert.True(answer.Allowed && len(answer.Limits) == 2 && answer.Limits[1].GetLimit() == 7, "limits", answer)

	question := client.DirectCheckAsQuestion(client.NewDirectCheck(name+"-batch", 9, minute))
	batch, _, err := c.DecisionsAPI.CheckBatch(ctx).
		BatchCheck(*client.NewBatchCheck([]client.Question{question, question})).Execute()
	assert.No(err, "batch")
	assert.True(*batch.Results[1].Remaining == 7, "batch", batch)
}

// reserve is step 9.
func reserve(ctx context.Context, c *client.APIClient, name string) {
	estimate := client.NewDirectReserve(name+"-reserve", 9, minute)
	estimate.SetWeight(1)
	reserved, _, err := c.DecisionsAPI.Reserve(ctx).Reserve(client.DirectReserveAsReserve(estimate)).Execute()
	assert.No(err, "reserve")
	assert.True(reserved.Allowed && reserved.Reservation != nil, "reserve", reserved)
	settlement := client.NewSettlement()
	settlement.SetReservation(*reserved.Reservation)
	settlement.SetWeight(0)
	settled, _, err := c.DecisionsAPI.Settle(ctx).Settlement(*settlement).Execute()
	assert.No(err, "settle")
	assert.True(*settled.Refunded == 1, "settle", settled)
}

// explain are steps 10 to 12.
func explain(ctx context.Context, c *client.APIClient, name string) {
	why := client.RequestQuestionAsExplainQuestion(&client.RequestQuestion{User: &name})
	explained, _, err := c.DecisionsAPI.Explain(ctx).ExplainQuestion(why).Execute()
	assert.No(err, "explain")
	assert.True(!explained.Decision.Allowed && slices.ContainsFunc(explained.Rules, func(r client.ConsideredRule) bool {
		return r.Name == name+"-users" && r.Matched
	}), "explain", explained)

	page, _, err := c.RulesAPI.ListRules(ctx).Q(name).Execute()
	assert.No(err, "list")
	assert.True(len(page.Rules) == 2 && page.Rules[0].Name == name+"-shadow" && page.Rules[1].Name == name+"-users",
		"list", page)

	input := client.NewRuleInput("Not A Name")
	input.SetScope("user")
	input.SetLimit(1)
	input.SetWindowMs(minute)
	_, _, err = c.RulesAPI.CreateRule(ctx).RuleInput(*input).Execute()
	refused := problem(err, "bad rule")
	assert.True(slices.ContainsFunc(refused.Errors, func(e client.FieldError) bool { return e.Field == "name" }),
		"bad rule", refused)
}
