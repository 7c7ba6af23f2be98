//! Plays the journey with the client that openapi-generator generates for Rust.

use openapi::apis::configuration::Configuration;
use openapi::apis::decisions_api::{check, check_batch, explain, reserve, settle};
use openapi::apis::rules_api::{create_rule, list_rules, patch_rule};
use openapi::apis::Error;
use openapi::models::{self, Answer, Check, DirectCheck, RequestCheck, Rule, RuleInput, RulePatch};

const MINUTE: i64 = 60_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let name = args[3].as_str();
    let node = Configuration {
        base_path: args[1].clone(),
        bearer_access_token: Some(args[2].clone()),
        ..Configuration::new()
    };
    rules(&node, name).await;
    checks(&node, name).await;
    reservation(&node, name).await;
    explanation(&node, name).await;
}

fn rule(name: String, limit: i64) -> RuleInput {
    RuleInput {
        scope: Some(Some("user".into())),
        limit: Some(Some(limit)),
        window_ms: Some(Some(MINUTE)),
        ..RuleInput::new(name)
    }
}

/// Steps 1 to 4. The client does not return headers, so that the entity tag is made of the version.
async fn rules(node: &Configuration, name: &str) {
    let input = RuleInput {
        mode: Some(Some(models::rule_input::Mode::Shadow)),
        fail_mode: Some(Some(models::rule_input::FailMode::Closed)),
        is_active: Some(Some(false)),
        ..rule(format!("{name}-shadow"), 9)
    };
    let shadow = create_rule(node, input, None).await.expect("create");
    let version = format!("\"{}\"", shadow.version);

    let change = RulePatch { limit: Some(Some(5)), ..RulePatch::new() };
    let patched: Rule = patch_rule(node, shadow.id, change, Some(&version), None).await.expect("patch");
    assert_eq!(patched.limit, Some(5));
    assert_eq!(patched.mode, Some(models::rule::Mode::Shadow));
    assert_eq!(patched.fail_mode, Some(models::rule::FailMode::Closed));
    assert_eq!(patched.is_active, Some(false));

    let change = RulePatch { limit: Some(Some(6)), ..RulePatch::new() };
    match patch_rule(node, shadow.id, change, Some(&version), None).await {
        Err(Error::ResponseError(stale)) => {
            assert_eq!(stale.status, reqwest::StatusCode::PRECONDITION_FAILED);
            assert!(stale.content.contains("/problems/stale"), "{}", stale.content);
        }
        other => panic!("stale patch: {other:?}"),
    }

    let input = RuleInput {
        when: Some(Some(format!("user == \"{name}\""))),
        ..rule(format!("{name}-users"), 2)
    };
    create_rule(node, input, None).await.expect("create");
}

async fn decide(node: &Configuration, question: Check) -> Answer {
    check(node, question, None).await.expect("check")
}

/// Steps 5 to 8.
async fn checks(node: &Configuration, name: &str) {
    for allowed in [true, true, false] {
        let facts = RequestCheck { user: Some(name.into()), ..RequestCheck::new() };
        let answer = decide(node, Check::RequestCheck(Box::new(facts))).await;
        assert_eq!(answer.allowed, allowed, "{answer:?}");
        if !allowed {
            assert_eq!(answer.status, models::answer::Status::Variant429);
            assert_eq!(answer.rule, Some(format!("{name}-users")));
            assert!(answer.retry_after_ms > Some(0), "{answer:?}");
            assert_eq!(answer.body.expect("body").status, models::answer_body::Status::Variant429);
        }
    }

    for allowed in [true, false] {
        let direct = DirectCheck::new(name.into(), 1, MINUTE);
        let answer = decide(node, Check::DirectCheck(Box::new(direct))).await;
        assert_eq!((answer.allowed, answer.remaining), (allowed, Some(0)));
    }

    let several = models::LimitsCheck::new(vec![
        models::DirectLimit::new(format!("{name}-a"), 5, MINUTE),
        models::DirectLimit::new(format!("{name}-b"), 7, MINUTE),
    ]);
    let answer = decide(node, Check::LimitsCheck(Box::new(several))).await;
    assert!(answer.allowed && answer.limits.len() == 2 && answer.limits[1].limit == Some(7), "{answer:?}");

    let question = models::Question::DirectCheck(Box::new(DirectCheck::new(format!("{name}-batch"), 9, MINUTE)));
    let batch = models::BatchCheck::new(vec![question.clone(), question]);
    let results = check_batch(node, batch, None).await.expect("batch").results;
    assert_eq!(results[1].remaining, Some(7));
}

/// Step 9.
async fn reservation(node: &Configuration, name: &str) {
    let estimate = models::DirectReserve {
        weight: Some(1),
        ..models::DirectReserve::new(format!("{name}-reserve"), 9, MINUTE)
    };
    let reserved = reserve(node, models::Reserve::DirectReserve(Box::new(estimate)), None).await.expect("reserve");
    assert!(reserved.allowed, "{reserved:?}");
    let settlement = models::Settlement {
        weight: Some(0),
        reservation: Some(reserved.reservation.expect("reservation")),
        ..models::Settlement::new()
    };
    let settled = settle(node, settlement, None).await.expect("settle");
    assert_eq!(settled.refunded, Some(1));
}

/// Steps 10 to 12.
async fn explanation(node: &Configuration, name: &str) {
    let (shadow, users) = (format!("{name}-shadow"), format!("{name}-users"));
    let facts = models::RequestQuestion { user: Some(name.into()), ..models::RequestQuestion::new() };
    let why = explain(node, models::ExplainQuestion::RequestQuestion(Box::new(facts))).await.expect("explain");
    assert!(!why.decision.allowed, "{why:?}");
    assert!(why.rules.expect("rules").iter().any(|r| r.name == users && r.matched));

    let page = list_rules(node, Some(name), None, None, None, None, None, None, None, None, None, None)
        .await
        .expect("list");
    assert_eq!(page.rules.iter().map(|r| r.name.clone()).collect::<Vec<_>>(), [shadow, users]);

    match create_rule(node, rule("Not A Name".into(), 1), None).await {
        Err(Error::ResponseError(refused)) => {
            assert_eq!(refused.status, reqwest::StatusCode::UNPROCESSABLE_ENTITY);
            // The type of the error has one alternative for each status. The first always fits.
            let Some(openapi::apis::rules_api::CreateRuleError::Status400(problem)) = refused.entity else {
                panic!("no problem document: {}", refused.content);
            };
            assert!(problem.errors.expect("errors").iter().any(|e| e.field == "name"));
        }
        other => panic!("bad rule: {other:?}"),
    }
}
