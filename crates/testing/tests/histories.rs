//! Histories that are replayed against changed code, and sessions that are rewound.

use mcp_flow_engine::{Flow, FlowResult};
use mcp_flow_interaction::OfferedFlow;
use mcp_flow_session::question::{integer, text};
use mcp_flow_testing::{FlowTest, FlowTestError, replay};
use serde_json::{Value, json};

use super::flow_tests::NoParams;

async fn book(flow: Flow, _: NoParams) -> FlowResult<Value> {
    let city = flow.ask("city", text("Where to?")).await?;
    let nights = flow.ask("nights", integer("How many nights?")).await?;
    Ok(json!([city, nights]))
}

/// Like `book`, in other words.
async fn reworded(flow: Flow, _: NoParams) -> FlowResult<Value> {
    let city = flow.ask("city", text("Which city?").length(1..=99)).await?;
    let nights = flow.ask("nights", integer("For how long?")).await?;
    Ok(json!([city, nights]))
}

/// Like `book`, in another order.
async fn reordered(flow: Flow, _: NoParams) -> FlowResult<Value> {
    let nights = flow.ask("nights", integer("How many nights?")).await?;
    let city = flow.ask("city", text("Where to?")).await?;
    Ok(json!([city, nights]))
}

#[tokio::test]
async fn histories_show_whether_changed_code_fits() {
    let test = FlowTest::new(OfferedFlow::new("book", book)).await.unwrap();
    let session = test.start("book", json!({})).await.unwrap();
    session.answer("city", "Oslo").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("waiting.json");
    std::fs::write(&file, session.export().to_string()).unwrap();
    session.answer("nights", 3).await.unwrap();
    let whole = folder.path().join("whole.json");
    std::fs::write(&whole, session.export().to_string()).unwrap();
    for file in [&file, &whole] {
        replay(OfferedFlow::new("book", book), file).unwrap();
        replay(OfferedFlow::new("book", reworded), file).unwrap();
        let changed = replay(OfferedFlow::new("book", reordered), file).unwrap_err();
        assert!(matches!(changed, FlowTestError::Changed(_)), "{changed}");
        assert!(changed.to_string().contains("`city`"), "{changed}");
    }
    let edited = std::fs::read_to_string(&file).unwrap().replace("Oslo", "Rome");
    std::fs::write(&file, edited).unwrap();
    let edited = replay(OfferedFlow::new("book", book), &file).unwrap_err();
    assert!(matches!(edited, FlowTestError::BadHistory(_)), "{edited}");
    let missing = replay(OfferedFlow::new("book", book), folder.path().join("none")).unwrap_err();
    assert!(missing.to_string().starts_with("cannot read "), "{missing}");
}

#[tokio::test]
async fn answers_are_changed_by_rewinding() {
    let test = FlowTest::new(OfferedFlow::new("book", book)).await.unwrap();
    let session = test.start("book", json!({"city": "Oslo"})).await.unwrap();
    session.rewind("city").await.unwrap();
    session.answer_all(json!({"city": "Rome", "nights": 2})).await.unwrap();
    assert_eq!(session.result().await.unwrap(), json!(["Rome", 2]));
}
