"""Plays the journey with the client that openapi-generator's python generates."""

import sys

import sluice_client as api

url, token, name = sys.argv[1:]
MINUTE = 60_000
configuration = api.Configuration(host=url, access_token=token)
client = api.ApiClient(configuration)
rules_api = api.RulesApi(client)
decisions = api.DecisionsApi(client)


def problem(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except api.ApiException as e:
        return api.Problem.from_json(e.body)
    raise AssertionError("the call succeeded")


def rules():
    """Steps 1 to 4."""
    shadow = rules_api.create_rule_with_http_info(
        api.RuleInput(name=f"{name}-shadow", scope="user", limit=9, window_ms=MINUTE,
                      mode="shadow", fail_mode="closed", is_active=False))
    # The client has the names of headers as they were sent, which may be ETag, Etag or etag.
    etag = next(value for header, value in shadow.headers.items() if header.lower() == "etag")
    version = {"id": shadow.data.id, "if_match": etag}
    patched = rules_api.patch_rule(rule_patch=api.RulePatch(limit=5), **version)
    got = (patched.limit, patched.mode, patched.fail_mode, patched.is_active)
    assert got == (5, "shadow", "closed", False), got
    stale = problem(rules_api.patch_rule, rule_patch=api.RulePatch(limit=6), **version)
    assert (stale.status, stale.type) == (412, "/problems/stale"), stale
    users = rules_api.create_rule(
        api.RuleInput(name=f"{name}-users", scope="user", limit=2, window_ms=MINUTE, when=f'user == "{name}"'))
    assert users.name == f"{name}-users", users


def checks():
    """Steps 5 to 8."""
    for allowed in (True, True, False):
        answer = decisions.check(api.Check(api.RequestCheck(user=name)))
        assert answer.allowed == allowed, answer
        if not allowed:
            assert (answer.rule, answer.status, answer.body.status) == (f"{name}-users", 429, 429), answer
            assert answer.retry_after_ms > 0 and answer.headers.retry_after == str(answer.retry_after_s), answer
    for allowed in (True, False):
        answer = decisions.check(api.Check(api.DirectCheck(key=name, limit=1, window_ms=MINUTE)))
        assert answer.allowed == allowed, answer
    several = decisions.check(api.Check(api.LimitsCheck(limits=[
        api.DirectLimit(key=f"{name}-a", limit=5, window_ms=MINUTE),
        api.DirectLimit(key=f"{name}-b", limit=7, window_ms=MINUTE),
    ])))
    assert several.limits[1].limit == 7, several
    question = api.Question(api.DirectCheck(key=f"{name}-batch", limit=9, window_ms=MINUTE))
    batch = decisions.check_batch(api.BatchCheck(checks=[question, question]))
    assert batch.results[1].remaining == 7, batch


def reserve():
    """Step 9."""
    reserved = decisions.reserve(
        api.Reserve(api.DirectReserve(key=f"{name}-reserve", limit=9, window_ms=MINUTE, weight=1)))
    settled = decisions.settle(api.Settlement(reservation=reserved.reservation, weight=0))
    assert settled.refunded == 1, settled


def explain():
    """Steps 10 to 12."""
    explained = decisions.explain(api.ExplainQuestion(api.RequestQuestion(user=name)))
    assert not explained.decision.allowed, explained
    assert any(r.name == f"{name}-users" and r.matched for r in explained.rules), explained
    page = rules_api.list_rules(q=name)
    assert [r.name for r in page.rules] == [f"{name}-shadow", f"{name}-users"], page
    # The client itself refuses a bad name.
    refused = problem(rules_api.create_rule, api.RuleInput(name=name, scope="nothing", limit=1, window_ms=MINUTE))
    assert refused.status == 422, refused
    assert any(e.var_field == "scope" for e in refused.errors), refused


rules()
checks()
reserve()
explain()
