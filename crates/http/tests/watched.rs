//! What operators ask for: figures, and whether the server can do its work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::start_with;
use mcp_flow_server::Server;
use mcp_flow_testkit::http::Request;

/// Issue (observability): readiness tells what does not work, and when it works again; being alive is
/// something else.
#[tokio::test]
async fn readiness_tells_the_truth() {
    let server = Server::builder("watched", "1.0.0").build().unwrap();
    let works = Arc::new(AtomicBool::new(true));
    let asked = works.clone();
    let running = start_with(&server, |bound| {
        bound.readiness(move || {
            let works = asked.load(Ordering::Relaxed);
            async move { works.then_some(()).ok_or("the disk is full".to_owned()) }
        })
    })
    .await;
    for (works_now, status, told) in [(true, 200, "ready"), (false, 503, "full"), (true, 200, "")] {
        works.store(works_now, Ordering::Relaxed);
        let mut answer = running.send(Request::get("/readyz")).await;
        assert_eq!(answer.status, status);
        let text = answer.text().await;
        assert!(text.contains(told), "{text}");
        assert_eq!(running.send(Request::get("/healthz")).await.status, 200);
    }
    running.stop().await;
}

/// MCP-075: figures of others are beside those of HTTP, which count refusals by status.
#[tokio::test]
async fn figures_are_in_one_place() {
    let server = Server::builder("watched", "1.0.0").build().unwrap();
    let running =
        start_with(&server, |bound| bound.figures(|| async { "more_total 7\n".to_owned() })).await;
    running.send(Request::get("/nowhere")).await;
    let text = running.send(Request::get("/metrics")).await.text().await;
    for line in [
        "more_total 7",
        "mcp_flow_http_refusals_total{status=\"404\"} 1",
        "mcp_flow_http_refusals_total{status=\"401\"} 0",
        "mcp_flow_http_answers_total{class=\"4xx\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    running.stop().await;
}
