//! Tests of flows by [`FlowTest`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_flow_client::interaction::NextStep;
use mcp_flow_engine::{Flow, FlowResult};
use mcp_flow_interaction::OfferedFlow;
use mcp_flow_session::JournalEvent;
use mcp_flow_session::question::{confirm, integer, text};
use mcp_flow_testing::{FlowTest, FlowTestError};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Deserialize)]
pub(crate) struct NoParams {}

/// Returns the days after which each of its timers fired.
async fn diary(flow: Flow, _: NoParams) -> FlowResult<Vec<u64>> {
    let began = flow.now();
    let mut days = Vec::new();
    for pause in [1, 3, 30] {
        flow.sleep(pause * DAY).await?;
        days.push(flow.now().since(began).as_secs() / DAY.as_secs());
    }
    Ok(days)
}

async fn book(flow: Flow, _: NoParams) -> FlowResult<Value> {
    let city = flow.ask("city", text("Where to?").length(2..=50)).await?;
    let nights = flow.ask("nights", integer("How many nights?").range(1..=9)).await?;
    if !flow.ask("sure", confirm("Book it?")).await? {
        return flow.decline("nothing was booked");
    }
    Ok(json!([city, nights]))
}

#[tokio::test]
async fn every_timer_on_the_way_fires_at_its_time() {
    let test = FlowTest::new(OfferedFlow::new("diary", diary)).await.unwrap();
    let session = test.start("diary", json!({})).await.unwrap();
    test.advance("2 days").await.unwrap();
    let asleep = session.view().await.unwrap();
    assert_eq!(asleep.wakes, Some(asleep.created.after(4 * DAY)));
    let unfinished = session.result().await.unwrap_err().to_string();
    assert_eq!(unfinished, "there is no result: the session sleeps until 2024-01-05T00:00:00.000Z");
    test.advance(40 * DAY).await.unwrap();
    assert_eq!(session.result().await.unwrap(), json!([1, 4, 34]));
    assert_eq!(test.now().to_iso8601(), "2024-02-12T00:00:00.000Z");
}

#[tokio::test]
async fn questions_are_answered_from_a_table() {
    let test = FlowTest::new(OfferedFlow::new("book", book)).await.unwrap();
    let session = test.start("book", json!({"city": "Oslo"})).await.unwrap();
    session.answer_all(json!({"sure": true, "nights": 3})).await.unwrap();
    assert_eq!(session.result().await.unwrap(), json!(["Oslo", 3]));

    for (answers, refused) in [
        (json!({"nights": 30}), "the answer to `nights` was rejected: "),
        (
            json!({"nights": 3, "color": "red"}),
            "no question has the key `color`; the session waits for an answer to `sure`",
        ),
        (
            json!({"nights": 3, "sure": false, "city": "Rome"}),
            "no question has the key `city`; the session was declined: nothing was booked",
        ),
    ] {
        let session = test.start("book", json!({"city": "Oslo"})).await.unwrap();
        let error = session.answer_all(answers).await.unwrap_err();
        assert!(error.to_string().starts_with(refused), "{error}");
    }
    let error = test.start("book", json!([])).await.unwrap_err();
    assert!(matches!(error, FlowTestError::BadParams(_)));
    let error = test.advance("3 moons").await.unwrap_err();
    assert!(format!("{error:?}").contains("write one such as \"3 days\""));
}

#[tokio::test]
async fn steps_fail_as_often_as_a_test_says() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let charge = move |flow: Flow, _: NoParams| {
        let calls = Arc::clone(&counted);
        async move {
            let mut errors: Vec<String> = Vec::new();
            loop {
                let charged = flow.step("charge", || async {
                    calls.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, String>(7)
                });
                match charged.await {
                    Ok(receipt) => return Ok(json!([receipt, errors])),
                    Err(error) => errors.push(error.to_string()),
                }
            }
        }
    };
    let test = FlowTest::new(OfferedFlow::new("charge", charge)).await.unwrap();
    test.fail_step("charge", 2, "the card was declined");
    let session = test.start("charge", json!({})).await.unwrap();
    let failed = "step `charge` failed: the card was declined";
    assert_eq!(session.result().await.unwrap(), json!([7, [failed, failed]]));
    assert_eq!(calls.load(Ordering::SeqCst), 1, "a step that has to fail does not run");
}

#[tokio::test]
async fn the_client_sees_the_sessions_of_the_test() {
    let test = FlowTest::new(OfferedFlow::new("book", book)).await.unwrap();
    let mut started = test.client().start_session("book", Map::new()).await.unwrap();
    let NextStep::Prompt(prompt) = started.next().await.unwrap() else { panic!("it asks") };
    assert_eq!(prompt.key.as_deref(), Some("city"));
    let session = test.session(started.id().parse().unwrap());
    session.answer_all([("city", json!("Rome")), ("nights", json!(1))]).await.unwrap();
    session.answer("sure", true).await.unwrap();
    let state = test.client().session_state(started.id()).await.unwrap();
    assert_eq!(state["result"]["data"]["value"], json!(["Rome", 1]));
    let called =
        test.client().call_tool("book", json!({"city": "Oslo", "nights": 2, "sure": true}));
    assert!(!called.await.unwrap().is_error);
}

/// The store has the end only, but a test the whole history.
#[tokio::test]
async fn histories_are_complete_after_the_end() {
    let test = FlowTest::new(OfferedFlow::new("book", book)).await.unwrap();
    let session = test.start("book", json!({})).await.unwrap();
    session.answer_all(json!({"city": "Oslo", "nights": 1})).await.unwrap();
    session.cancel(Some("too far".to_owned())).await.unwrap();
    let history = session.history();
    let answers = history.iter().filter(|event| matches!(event, JournalEvent::Answered(_)));
    assert_eq!(answers.count(), 2);
    assert!(matches!(history.first(), Some(JournalEvent::Started(_))));
    assert!(matches!(history.last(), Some(JournalEvent::Ended(_))));
    let error = session.result().await.unwrap_err().to_string();
    assert_eq!(error, "there is no result: the session was cancelled: too far");
}

/// A step that takes longer than the timer beside it does not hold the clock up.
#[tokio::test]
async fn timeouts_of_slow_steps_fire() {
    async fn slow(flow: Flow, _: NoParams) -> FlowResult<bool> {
        let stuck = flow.step("stuck", std::future::pending::<Result<(), String>>);
        Ok(flow.timeout(Duration::from_secs(3600), stuck).await.is_err())
    }
    let test = FlowTest::new(OfferedFlow::new("slow", slow)).await.unwrap();
    let session = test.start("slow", json!({})).await.unwrap();
    test.advance("1 hour").await.unwrap();
    assert_eq!(session.result().await.unwrap(), json!(true));
}
