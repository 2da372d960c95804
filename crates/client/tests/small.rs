//! The client against the fixture, in one process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcp_flow_client::{Client, Revision, Speak};
use mcp_flow_stdio::client::in_process;
use mcp_flow_testkit::fixture::Fixture;
use serde_json::json;

/// MCP-040: connect, list, call, in every revision.
#[tokio::test]
async fn every_revision_is_spoken() {
    let fixture = Fixture::new();
    for revision in Revision::ALL {
        let client = Client::builder().with(|options| options.speak = Speak::Only(revision));
        let client = client.connect(in_process(&fixture.server)).await.unwrap();
        assert_eq!(client.server().await.unwrap().revision, revision);
        let tools = client.tools().all().await.unwrap();
        assert!(tools.len() > 5);
        let outcome = client.call_tool("math.add", json!({"a": 2, "b": 3})).await.unwrap();
        assert_eq!(outcome.text(), "5", "{revision}");
        client.ping().await.unwrap();
        client.close().await;
    }
}
