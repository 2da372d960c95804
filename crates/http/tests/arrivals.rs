//! Requests that overtake each other on several connections.

use mcp_flow_testkit::http::{Connection, Request, Response};
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Value, json};

use crate::support::{Running, call, in_session, initialize_with, start, stateless_post};

/// INT-041, C-56: of two answers without a turn, the one that began to arrive before the reply to the
/// other is refused, although it is complete after it.
#[tokio::test]
async fn an_answer_does_not_overtake_the_next_question() {
    let running = start(&Fixture::interactive().server).await;
    let answer = |id: &Value| {
        let params = json!({"sessionId": id, "response": {"value": "Ada"}});
        stateless_post("interaction.respond", params)
    };
    let begin = || stateless_post("interaction.start", json!({"toolName": "wizard"}));
    for round in 0..3 {
        let id = running.send(begin()).await.json().await["result"]["sessionId"].clone();
        let second = Upload::begin(&running, answer(&id)).await;
        let first = running.send(answer(&id)).await.json().await;
        assert_eq!(first["result"]["next"]["prompt"]["message"], "Enter email", "{first}");
        let refused = second.finish().await.json().await;
        let data = &refused["error"]["data"];
        assert_eq!((&data["legacyCode"], &data["reason"]), (&json!(-32003), &json!("turn")));
        // One that follows the reply answers the next question, be it valid or not.
        let third = running.send(answer(&id)).await.json().await;
        assert_eq!(third["result"]["accepted"], false, "round {round}: {third}");
    }
    running.stop().await;
}

/// INT-041, C-56: of two answers that are written at once on two connections, the second does not
/// answer the next question.
#[tokio::test]
async fn answers_that_arrive_together_count_once() {
    let running = start(&Fixture::interactive().server).await;
    for _ in 0..5 {
        let begin = stateless_post("interaction.start", json!({"toolName": "wizard"}));
        let id = running.send(begin).await.json().await["result"]["sessionId"].clone();
        let params = json!({"sessionId": id, "response": {"value": "Ada"}});
        let answer = stateless_post("interaction.respond", params).bytes();
        let [mut first, mut second] = [connected(&running).await, connected(&running).await];
        first.write(&answer).await;
        second.write(&answer).await;
        let replies = [first.response().await.json().await, second.response().await.json().await];
        let is_refused = |reply: &&Value| reply["error"]["data"]["reason"] == "turn";
        assert_eq!(replies.iter().filter(is_refused).count(), 1, "{replies:?}");
    }
    running.stop().await;
}

/// C-62: a response that began to arrive before its request was sent guesses its id, and is ignored.
#[tokio::test]
async fn a_guessed_response_is_ignored() {
    let running = start(&Fixture::new().server).await;
    let opened = running.send(initialize_with(json!({"elicitation": {}}))).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(running.send(in_session(&session, ready)).await.status, 202);
    let accept = |id: &Value, name: &str| {
        let result = json!({"action": "accept", "content": {"name": name}});
        in_session(&session, json!({"jsonrpc": "2.0", "id": id, "result": result}))
    };
    let guess = Upload::begin(&running, accept(&json!(1), "Mallory")).await;
    let mut called = running.send(in_session(&session, call(7, "ask_name", json!({})))).await;
    let asked = called.message().await.unwrap();
    assert_eq!((&asked["method"], &asked["id"]), (&json!("elicitation/create"), &json!(1)));
    assert_eq!(guess.finish().await.status, 202);
    running.send(accept(&asked["id"], "Al")).await;
    let reply = called.message().await.unwrap();
    assert!(reply["result"]["content"][0]["text"].as_str().unwrap().contains("Al"), "{reply}");
    running.stop().await;
}

/// A connection that the server has accepted.
async fn connected(running: &Running) -> Connection {
    let mut connection = Connection::open(running.address).await;
    connection.write(&Request::new("GET", "/healthz").bytes()).await;
    let mut healthy = connection.response().await;
    assert_eq!(healthy.status, 200);
    healthy.bytes().await;
    healthy.into_connection()
}

/// A request whose head the server has read, and whose body it waits for.
struct Upload {
    connection: Connection,
    body: Vec<u8>,
}

impl Upload {
    async fn begin(running: &Running, request: Request) -> Self {
        let mut head = request.header("expect", "100-continue").bytes();
        let end = head.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let body = head.split_off(end);
        let mut connection = Connection::open(running.address).await;
        connection.write(&head).await;
        let interim = connection.response().await;
        assert_eq!(interim.status, 100);
        Self { connection: interim.into_connection(), body }
    }

    /// Sends the body, and returns the response.
    async fn finish(mut self) -> Response {
        self.connection.write(&self.body).await;
        self.connection.response().await
    }
}
