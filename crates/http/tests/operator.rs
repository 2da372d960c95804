//! Operator endpoints: metrics and health.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::start_with;
use mcp_flow_server::Server;
use mcp_flow_testkit::http::Request;

/// Readiness names the failing dependency and recovers with it; liveness does not depend on it.
#[tokio::test]
async fn readiness_follows_the_dependencies() {
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
    for (works_now, status, shown) in [(true, 200, "ready"), (false, 503, "full"), (true, 200, "")]
    {
        works.store(works_now, Ordering::Relaxed);
        let mut answer = running.send(Request::get("/readyz")).await;
        assert_eq!(answer.status, status);
        let text = answer.text().await;
        assert!(text.contains(shown), "{text}");
        assert_eq!(running.send(Request::get("/healthz")).await.status, 200);
    }
    running.stop().await;
}

/// MCP-075: added metrics follow those of HTTP, which count rejections by status.
#[tokio::test]
async fn added_metrics_follow_those_of_http() {
    let server = Server::builder("watched", "1.0.0").build().unwrap();
    let running =
        start_with(&server, |bound| bound.metrics(|| async { "more_total 7\n".to_owned() })).await;
    running.send(Request::get("/nowhere")).await;
    let text = running.send(Request::get("/metrics")).await.text().await;
    for line in [
        "more_total 7",
        "mcp_flow_http_rejections_total{status=\"404\"} 1",
        "mcp_flow_http_rejections_total{status=\"401\"} 0",
        "mcp_flow_http_responses_total{class=\"4xx\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    running.stop().await;
}
