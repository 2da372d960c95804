//! Replays with delays, on a clock that does not wait.

use std::sync::Arc;

use mcp_flow_cassette::{Cassette, Player, ReplayOptions, Tape, replay_stdio};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

/// A tape with calls of tools that took some milliseconds.
fn tape(calls: &[(&str, u64)]) -> Arc<Tape> {
    let mut text = "{\"cassette\":1}\n".to_owned();
    let mut at = 0;
    for (id, (name, time)) in calls.iter().enumerate() {
        let asked = json!({"id": id, "method": "tools/call", "params": {"name": name}});
        let answer = json!({"id": id, "result": name});
        let end = at + time;
        text += &format!("{}\n", json!({"at": at, "from": "client", "message": asked}));
        text += &format!("{}\n", json!({"at": end, "from": "server", "message": answer}));
        at = end;
    }
    Arc::new(Tape::new(&Cassette::parse(text.as_bytes()).unwrap(), &[]))
}

fn call(id: u64, name: &str) -> String {
    format!("{}\n", json!({"id": id, "method": "tools/call", "params": {"name": name}}))
}

/// Replays while the input stays open, until a number of replies.
async fn replies(tape: Arc<Tape>, input: String, count: usize) -> Vec<Value> {
    let options = ReplayOptions { has_delays: true, ..ReplayOptions::default() };
    let (client, server) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(server);
    tokio::spawn(replay_stdio(Player::new(tape, options), reader, writer));
    let (reader, mut writer) = tokio::io::split(client);
    writer.write_all(input.as_bytes()).await.unwrap();
    let mut lines = BufReader::new(reader).lines();
    let mut replies = Vec::new();
    while replies.len() < count {
        let line = lines.next_line().await.unwrap().expect("a reply");
        replies.push(serde_json::from_str(&line).unwrap());
    }
    replies
}

#[tokio::test(start_paused = true)]
async fn calls_do_not_wait_for_slower_ones() {
    let tape = tape(&[("slow", 5000), ("fast", 100), ("slow", 5000)]);
    let begun = tokio::time::Instant::now();
    let input = [call(1, "slow"), call(2, "slow"), call(3, "fast")].concat();
    let replies = replies(tape, input, 3).await;
    let ids: Vec<_> = replies.iter().map(|reply| reply["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [3, 1, 2]);
    // The clock is virtual.
    assert_eq!(begun.elapsed().as_secs(), 5, "both slow calls ran at once");
}

#[tokio::test(start_paused = true)]
async fn cancelled_calls_are_not_answered() {
    let tape = tape(&[("slow", 5000), ("slower", 6000)]);
    let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": 1}});
    let input = [call(1, "slow"), call(2, "slower"), format!("{cancel}\n")].concat();
    let replies = replies(tape, input, 1).await;
    assert_eq!(replies[0]["id"], 2);
}
