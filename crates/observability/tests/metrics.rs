//! Metrics are correct, in a bounded number of series.

use mcp_flow_observability::metrics::Metrics;
use mcp_flow_proto::Revision;
use mcp_flow_server::{Context, Failure, Server, Tool};
use mcp_flow_testkit_fixture::memory::connect;
use serde_json::{Value, json};

fn server(metrics: &Metrics) -> Server {
    let fail = |_: &Context, _: Value| Err::<String, _>(Failure::new("NO", "it does not work"));
    let echo = Tool::builder("echo").quick(|_: &Context, given: Value| given.to_string()).unwrap();
    let fail = Tool::builder("fail").quick(fail).unwrap();
    metrics.add_to(Server::builder("counted", "1.0.0").tools([echo, fail])).build().unwrap()
}

fn sample(text: &str, series: &str) -> Option<f64> {
    let of = |line: &str| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(of)
}

/// MCP-075: counts, latency and success rate are exported.
#[tokio::test]
async fn calls_are_counted_by_method_and_outcome() {
    let metrics = Metrics::new(true);
    let server = server(&metrics);
    let mut peer = connect(&server);
    peer.initialize(Revision::V2025_11_25).await;
    for name in ["echo", "echo", "fail", "absent"] {
        peer.call_tool(name, json!({})).await;
    }
    peer.call("tools/list", json!({"cursor": 7})).await;
    let text = metrics.text();
    for (series, expected) in [
        ("mcp_flow_calls_total{method=\"initialize\",outcome=\"ok\"}", 1.0),
        ("mcp_flow_calls_total{method=\"tools/call\",outcome=\"ok\"}", 2.0),
        ("mcp_flow_calls_total{method=\"tools/call\",outcome=\"failed\"}", 1.0),
        ("mcp_flow_calls_total{method=\"tools/call\",outcome=\"UNKNOWN_TOOL\"}", 1.0),
        ("mcp_flow_calls_total{method=\"tools/list\",outcome=\"INVALID_PARAMS\"}", 1.0),
        ("mcp_flow_call_duration_seconds_bucket{method=\"tools/call\",le=\"+Inf\"}", 4.0),
        ("mcp_flow_call_duration_seconds_count{method=\"tools/call\"}", 4.0),
        ("mcp_flow_connections{transport=\"memory\"}", 1.0),
        ("mcp_flow_connections_opened_total{transport=\"memory\"}", 1.0),
        ("mcp_flow_tool_calls_total{tool=\"echo\",outcome=\"ok\"}", 2.0),
        ("mcp_flow_tool_calls_total{tool=\"fail\",outcome=\"failed\"}", 1.0),
    ] {
        assert_eq!(sample(&text, series), Some(expected), "{series}\n{text}");
    }
    for series in ["mcp_flow_request_bytes_total", "mcp_flow_result_bytes_total"] {
        assert!(sample(&text, series).unwrap() > 100.0, "{text}");
    }
    assert!(!text.contains("absent"), "{text}");
    // Buckets are cumulative.
    let buckets: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with("mcp_flow_call_duration_seconds_bucket{method=\"tools/c"))
        .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(buckets.len() > 10 && buckets.is_sorted(), "{buckets:?}");
}

/// Names that clients invent add no series.
#[tokio::test]
async fn names_invented_by_clients_add_no_series() {
    for tools in [false, true] {
        let metrics = Metrics::new(tools);
        let server = server(&metrics);
        let mut peer = connect(&server);
        peer.initialize(Revision::V2025_11_25).await;
        let mut series = 0;
        for number in 0..10_000 {
            let name = format!("made\"up\n{number}");
            peer.call(&name, json!({})).await;
            peer.call(&name, json!([])).await;
            peer.call_tool(&name, json!({})).await;
            if number == 0 {
                series = metrics.text().lines().count();
            }
        }
        let text = metrics.text();
        assert_eq!(text.lines().count(), series, "{text}");
        assert!(!text.contains("made"), "{text}");
        let unknown = "mcp_flow_calls_total{method=\"other\",outcome=\"METHOD_NOT_FOUND\"}";
        assert_eq!(sample(&text, unknown), Some(10_000.0), "{text}");
    }
}
