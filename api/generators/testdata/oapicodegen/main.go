// Command oapicodegen sends requests to a server with the client that oapi-codegen generates.
package main

import (
	"context"
	"log"
	"net/http"
	"os"

	"sluice/api/generators/testdata/oapicodegen/client"
)

func want(ok bool, what string, got any) {
	if !ok {
		log.Fatalf("%s: %s", what, got)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx := context.Background()
	authorize := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Args[2])
		return nil
	}
	c, err := client.NewClientWithResponses(os.Args[1], client.WithRequestEditorFn(authorize))
	must(err)

	// A patch of one member leaves the others as they are.
	limit, window, mode, scope := int64(5), int64(60_000), client.RuleInputMode("shadow"), "user"
	rule := client.RuleInput{Name: "oapi", Scope: &scope, Limit: &limit, WindowMs: &window, Mode: &mode}
	created, err := c.CreateRuleWithResponse(ctx, nil, rule)
	must(err)
	want(created.JSON201 != nil, "create", created.Body)
	limit = 1
	patched, err := c.PatchRuleWithResponse(ctx, *created.JSON201.Id, nil, client.RulePatch{Limit: &limit})
	must(err)
	want(patched.JSON200 != nil && *patched.JSON200.Limit == 1 && *patched.JSON200.Mode == "shadow", "patch", patched.Body)
	mode = "enforce"
	rule.Limit = &limit
	put, err := c.PutRuleWithResponse(ctx, *created.JSON201.Id, nil, rule)
	must(err)
	want(put.JSON200 != nil, "put", put.Body)

	// By facts: the second request is denied, with a body for the client.
	var facts client.Check
	user := "oapi"
	must(facts.FromRequestCheck(client.RequestCheck{User: &user}))
	for _, allowed := range []bool{true, false} {
		answer, err := c.CheckWithResponse(ctx, nil, facts)
		must(err)
		want(answer.JSON200 != nil && answer.JSON200.Allowed == allowed, "check by facts", answer.Body)
		want(allowed || answer.JSON200.Body.Status == 429, "body of a denial", answer.Body)
	}

	// With a limit of the caller, alone and in a batch.
	var direct client.Check
	must(direct.FromDirectCheck(client.DirectCheck{Key: "oapi", Limit: 9, WindowMs: 60_000}))
	answer, err := c.CheckWithResponse(ctx, nil, direct)
	must(err)
	want(answer.JSON200 != nil && *answer.JSON200.Remaining == 8, "direct check", answer.Body)
	var question client.Question
	must(question.FromDirectCheck(client.DirectCheck{Key: "oapi", Limit: 9, WindowMs: 60_000}))
	batch, err := c.CheckBatchWithResponse(ctx, nil, client.BatchCheck{Checks: []client.Question{question, question}})
	must(err)
	want(batch.JSON200 != nil && *batch.JSON200.Results[1].Remaining == 6, "batch", batch.Body)

	// Explain, and a request with errors by field.
	var why client.ExplainQuestion
	must(why.FromRequestQuestion(client.RequestQuestion{User: &user}))
	explained, err := c.ExplainWithResponse(ctx, why)
	must(err)
	want(explained.JSON200 != nil && !explained.JSON200.Decision.Allowed, "explain", explained.Body)
	bad, err := c.CreateRuleWithResponse(ctx, nil, client.RuleInput{Name: "Not A Name"})
	must(err)
	problem := bad.ApplicationproblemJSON422
	want(bad.StatusCode() == http.StatusUnprocessableEntity && problem != nil && len(*problem.Errors) > 0, "422", bad.Body)
}
