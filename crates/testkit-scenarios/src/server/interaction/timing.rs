//! Responses that are too early, too late, or pipelined.

use std::time::Duration;

use mcp_flow_proto::Revision;
use mcp_flow_server::Limits;
use serde_json::{Value, json};

use super::{pushed, ready_for, refused, respond, start, state};
use crate::server::Connect;
use mcp_flow_testkit::Peer;
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;

/// INT-034, INT-083, C-41: a client that reads but does not acknowledge a prompt cannot hold a
/// session forever, and a later response gets the reason.
pub(crate) async fn an_unacknowledged_prompt_ends_its_session(connect: &Connect) {
    let short = Limits { client_request_time: Duration::from_millis(50), ..Limits::default() };
    let fixture = Fixture::interactive_with_limits(short);
    let mut peer = ready_for(connect, &fixture, Revision::V2025_11_25).await;
    let id = start(&mut peer, "wizard", json!({})).await["sessionId"].clone();
    let ended = async {
        loop {
            let reported = state(&mut peer, &id).await;
            if reported["state"] != "waiting_user" {
                return reported;
            }
            tokio::task::yield_now().await;
        }
    };
    let reported = within("the session to end", ended).await;
    assert_eq!(
        (&reported["state"], &reported["metadata"]["error"]["name"]),
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

/// C-08: a client that completes a session while its flow runs gets the result, and no completion
/// is pushed.
pub(crate) async fn a_finished_session_is_not_completed_again(connect: &Connect) {
    let fixture = Fixture::interactive();
    let mut peer = ready_for(connect, &fixture, Revision::V2025_11_25).await;
    let id = start(&mut peer, "works", json!({})).await["sessionId"].clone();
    respond(&mut peer, &id, json!("one")).await;
    fixture.gate.until_waiting(1).await;
    let done = peer.call("interaction.complete", json!({"sessionId": id})).await;
    assert_eq!(done["result"], json!({"success": true, "finalResult": {"first": "one"}}));
    // A completion pushed for it would arrive before that of another session.
    let other = start(&mut peer, "simple", json!({})).await["sessionId"].clone();
    respond(&mut peer, &other, json!("Ada")).await;
    let complete = peer.find(|message| message["method"] == "interaction.complete").await;
    assert_eq!(complete["params"]["sessionId"], other, "{complete}");
    let more = peer.settle().await;
    assert!(more.iter().all(|one| one["method"] != "interaction.complete"), "{more:?}");
    let again = respond(&mut peer, &id, json!("one")).await;
    refused(&again, -32003, "INVALID_STATE_TRANSITION", id.as_str().unwrap());
}

/// INT-041, INT-068, C-56: a client that sends the same response twice without waiting has answered
/// one prompt. The second response is rejected, since its sender cannot have seen the next prompt.
pub(crate) async fn a_pipelined_response_does_not_answer_the_next_prompt(connect: &Connect) {
    second_response_is_rejected(connect, async |peer, responses| {
        for response in &responses {
            peer.send(response);
        }
        let first = peer.reply_to("response 0").await;
        [first, peer.reply_to("response 1").await]
    })
    .await;
}

/// INT-041, INT-068, C-56: the same holds for two responses in one batch, for transports that do
/// not keep order.
pub(crate) async fn a_response_in_a_batch_does_not_answer_the_next_prompt(connect: &Connect) {
    second_response_is_rejected(connect, async |peer, responses| {
        peer.send(Value::from_iter(responses));
        let replies = peer.find(Value::is_array).await;
        ["response 0", "response 1"].map(|id| {
            let reply = replies.as_array().unwrap().iter().find(|reply| reply["id"] == id);
            reply.cloned().expect("each response has its reply")
        })
    })
    .await;
}

/// Sends two identical responses with `send`, with prompts pushed and inline. The response is valid
/// for either prompt. Sent again after the second prompt, it is accepted.
async fn second_response_is_rejected(
    connect: &Connect,
    send: impl AsyncFn(&mut Peer, [Value; 2]) -> [Value; 2],
) {
    for is_inline in [false, true] {
        let fixture = Fixture::interactive();
        let mut peer = connect(fixture.server.clone()).await;
        let delivery = json!({"experimental": {"interaction": {"delivery": "inline"}}});
        let capabilities = if is_inline { delivery } else { json!({}) };
        peer.initialize_with(Revision::V2025_03_26, capabilities).await;
        for _ in 0..PIPELINED {
            let id = start(&mut peer, "wizard", json!({})).await["sessionId"].clone();
            if !is_inline {
                pushed(&mut peer, "interaction.prompt").await;
            }
            let responses = ["response 0", "response 1"].map(|request| {
                let params = json!({"sessionId": id, "response": {"value": ADDRESS}});
                json!({"jsonrpc": "2.0", "id": request, "method": "interaction.respond",
                    "params": params})
            });
            let replies = send(&mut peer, responses).await;
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
            let state = state(&mut peer, &id).await;
            assert_eq!(state["accumulatedData"], json!({"name": ADDRESS}));
            let accepted = respond(&mut peer, &id, json!(ADDRESS)).await;
            assert_eq!(accepted["result"]["accepted"], true, "{accepted}");
            if !is_inline {
                pushed(&mut peer, "interaction.complete").await;
            }
        }
    }
}

/// Sessions per delivery: enough for a race between a prompt and the second response to show.
const PIPELINED: usize = 25;

/// Valid as a name and as an email address, so that the wizard accepts it for both prompts.
const ADDRESS: &str = "ada@example.com";
