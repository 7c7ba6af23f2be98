"""Plays the journey with the client that openapi-python-client generates."""

import sys

from sluice_client import AuthenticatedClient, models
from sluice_client.api.decisions import check, check_batch, explain, reserve, settle
from sluice_client.api.rules import create_rule, list_rules, patch_rule

url, token, name = sys.argv[1:]
MINUTE = 60_000
client = AuthenticatedClient(base_url=url, token=token)


def play_rules():
    """Steps 1 to 4."""
    shadow = create_rule.sync_detailed(client=client, body=models.RuleInput(
        name=f"{name}-shadow", scope="user", limit=9, window_ms=MINUTE,
        mode=models.RuleInputModeType1.SHADOW, fail_mode=models.RuleInputFailModeType1.CLOSED, is_active=False))
    version = {"id": shadow.parsed.id, "if_match": shadow.headers["ETag"]}
    patched = patch_rule.sync(client=client, body=models.RulePatch(limit=5), **version)
    got = (patched.limit, patched.mode, patched.fail_mode, patched.is_active)
    assert got == (5, "shadow", "closed", False), got
    stale = patch_rule.sync(client=client, body=models.RulePatch(limit=6), **version)
    assert (stale.status, stale.type_) == (412, "/problems/stale"), stale
    users = create_rule.sync(client=client, body=models.RuleInput(
        name=f"{name}-users", scope="user", limit=2, window_ms=MINUTE, when=f'user == "{name}"'))
    assert users.name == f"{name}-users", users


def play_checks():
    """Steps 5 to 8."""
    for allowed in (True, True, False):
        answer = check.sync(client=client, body=models.RequestCheck(user=name))
        assert answer.allowed == allowed, answer
        if not allowed:
            assert (answer.rule, answer.status, answer.body.status) == (f"{name}-users", 429, 429), answer
            assert answer.retry_after_ms > 0 and answer.headers.retry_after == str(answer.retry_after_s), answer
    for allowed in (True, False):
        answer = check.sync(client=client, body=models.DirectCheck(key=name, limit=1, window_ms=MINUTE))
        assert answer.allowed == allowed, answer
    several = check.sync(client=client, body=models.LimitsCheck(limits=[
        models.DirectLimit(key=f"{name}-a", limit=5, window_ms=MINUTE),
        models.DirectLimit(key=f"{name}-b", limit=7, window_ms=MINUTE),
    ]))
    assert several.limits[1].limit == 7, several
    question = models.DirectCheck(key=f"{name}-batch", limit=9, window_ms=MINUTE)
    batch = check_batch.sync(client=client, body=models.BatchCheck(checks=[question, question]))
    assert batch.results[1].remaining == 7, batch


def play_reserve():
    """Step 9."""
    reserved = reserve.sync(client=client, body=models.DirectReserve(
        key=f"{name}-reserve", limit=9, window_ms=MINUTE, weight=1))
    settled = settle.sync(client=client, body=models.Settlement(reservation=reserved.reservation, weight=0))
    assert settled.refunded == 1, settled


def play_explain():
    """Steps 10 to 12."""
    explained = explain.sync(client=client, body=models.RequestQuestion(user=name))
    assert not explained.decision.allowed, explained
    assert any(r.name == f"{name}-users" and r.matched for r in explained.rules), explained
    page = list_rules.sync(client=client, q=name)
    assert [r.name for r in page.rules] == [f"{name}-shadow", f"{name}-users"], page
    refused = create_rule.sync(client=client, body=models.RuleInput(
        name="Not A Name", scope="user", limit=1, window_ms=MINUTE))
    assert refused.status == 422, refused
    assert any(e.field == "name" for e in refused.errors), refused


play_rules()
play_checks()
play_reserve()
play_explain()
