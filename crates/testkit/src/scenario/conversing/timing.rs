//! Messages that come too early, too late, or at the same time as another.

use std::time::Duration;

use mcp_flow_proto::Revision;
use mcp_flow_server::Limits;
use serde_json::{Value, json};

use super::{pushed, ready_for, refused, respond, start, state};
use crate::fixture::Fixture;
use crate::peer::Peer;
use crate::scenario::Connect;
use crate::wait::within;

/// INT-034, INT-083, C-41: a client that listens and says nothing does not hold a session for ever,
/// and an answer that comes later is told what took too long.
pub(crate) async fn an_unacknowledged_prompt_ends_its_session(connect: &Connect) {
    let short = Limits { client_request_time: Duration::from_millis(50), ..Limits::default() };
    let fixture = Fixture::conversing_limited(short);
    let mut peer = ready_for(connect, &fixture, Revision::V2025_11_25).await;
    let id = start(&mut peer, "wizard", json!({})).await["sessionId"].clone();
    let ended = async {
        loop {
            let told = state(&mut peer, &id).await;
            if told["state"] != "waiting_user" {
                return told;
            }
            tokio::task::yield_now().await;
        }
    };
    let told = within("the session to end", ended).await;
    assert_eq!(
        (&told["state"], &told["metadata"]["error"]["name"]),
        (&json!("error"), &json!("TIMEOUT"))
    );
    let late = respond(&mut peer, &id, json!("Ada")).await;
    refused(&late, -32005, "TIMEOUT", id.as_str().unwrap());
    let data = &late["error"]["data"];
    assert_eq!(
        (&data["operation"], &data["sessionState"]),
        (&json!("interaction.prompt"), &json!("error"))
    );
}

/// C-08: a client that finishes a session while its flow is at work has the result, and no second
/// completion is pushed.
pub(crate) async fn a_finished_session_is_not_completed_again(connect: &Connect) {
    let fixture = Fixture::conversing();
    let mut peer = ready_for(connect, &fixture, Revision::V2025_11_25).await;
    let id = start(&mut peer, "works", json!({})).await["sessionId"].clone();
    respond(&mut peer, &id, json!("one")).await;
    fixture.gate.until_waiting(1).await;
    let done = peer.call("interaction.complete", json!({"sessionId": id})).await;
    assert_eq!(done["result"], json!({"success": true, "finalResult": {"first": "one"}}));
    // What was to be pushed for it would come before the end of another session.
    let other = start(&mut peer, "simple", json!({})).await["sessionId"].clone();
    respond(&mut peer, &other, json!("Ada")).await;
    let complete = peer.find(|message| message["method"] == "interaction.complete").await;
    assert_eq!(complete["params"]["sessionId"], other, "{complete}");
    let more = peer.settle().await;
    assert!(more.iter().all(|one| one["method"] != "interaction.complete"), "{more:?}");
    let again = respond(&mut peer, &id, json!("one")).await;
    refused(&again, -32003, "INVALID_STATE_TRANSITION", id.as_str().unwrap());
}

/// INT-041, INT-068, C-56: of two answers that come together the second is refused, since its sender
/// cannot have seen the next question; sent after that question, it is taken at once.
pub(crate) async fn an_unseen_question_cannot_be_answered(connect: &Connect) {
    for is_inline in [false, true] {
        let fixture = Fixture::conversing();
        let mut peer = connect(fixture.server.clone()).await;
        let delivery = json!({"experimental": {"interaction": {"delivery": "inline"}}});
        let capabilities = if is_inline { delivery } else { json!({}) };
        peer.initialize_with(Revision::V2025_03_26, capabilities).await;
        let id = start(&mut peer, "wizard", json!({})).await["sessionId"].clone();
        if !is_inline {
            pushed(&mut peer, "interaction.prompt").await;
        }
        let replies = both(&mut peer, &id, ["Ada", "ada@example.com"]).await;
        assert_eq!(replies[0]["result"]["accepted"], true, "{replies:?}");
        refused(&replies[1], -32003, "INVALID_STATE_TRANSITION", id.as_str().unwrap());
        let data = &replies[1]["error"]["data"];
        assert_eq!(
            (&data["from"], &data["to"]),
            (&json!("waiting_user"), &json!("processing")),
            "{replies:?}"
        );
        if !is_inline {
            let asked = pushed(&mut peer, "interaction.prompt").await;
            assert_eq!(asked["prompt"]["metadata"]["turnId"], 1);
        }
        let told = state(&mut peer, &id).await;
        assert_eq!(told["accumulatedData"], json!({"name": "Ada"}));
        let taken = respond(&mut peer, &id, json!("ada@example.com")).await;
        assert_eq!(taken["result"]["accepted"], true, "{taken}");
    }
}

/// Two answers in one message.
async fn both(peer: &mut Peer, id: &Value, answers: [&str; 2]) -> Vec<Value> {
    let respond = |(number, answer): (usize, &str)| {
        let params = json!({"sessionId": id, "response": {"value": answer}});
        json!({"jsonrpc": "2.0", "id": format!("answer {number}"),
            "method": "interaction.respond", "params": params})
    };
    peer.send(Value::from_iter(answers.into_iter().enumerate().map(respond)));
    let mut replies = peer.find(Value::is_array).await.as_array().cloned().unwrap_or_default();
    replies.sort_by_key(|reply| reply["id"].to_string());
    replies
}
