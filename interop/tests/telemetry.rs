//! OpenTelemetry, received by a collector that decodes with the official definitions.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use interop::{LIMIT, Served, program, python, run};
use mcp_flow::client::{Client, HttpOptions, Revision, RevisionPolicy, connector};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A collector, and everything it has received.
struct Collector {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    endpoints: Value,
    received: Vec<Value>,
}

impl Collector {
    async fn start() -> Self {
        let mut child = python("python/collector.py")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("interop/install has installed Python");
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut collector =
            Self { _child: child, lines, endpoints: Value::Null, received: Vec::new() };
        collector.endpoints = collector.next().await;
        collector
    }

    async fn next(&mut self) -> Value {
        let line = timeout(LIMIT, self.lines.next_line()).await;
        let line = line.expect("the collector receives something").unwrap().expect("it runs");
        serde_json::from_str(&line).unwrap()
    }

    /// Waits for a record of a signal. Returns it with the request that it came in.
    async fn find(&mut self, signal: &str, is_wanted: impl Fn(&Value) -> bool) -> (Value, Value) {
        let mut checked = 0;
        loop {
            for request in &self.received[checked..] {
                let mut records = request["records"].as_array().into_iter().flatten();
                if request["signal"] == signal
                    && let Some(found) = records.find(|record| is_wanted(record))
                {
                    return (found.clone(), request.clone());
                }
            }
            checked = self.received.len();
            let next = self.next().await;
            self.received.push(next);
        }
    }

    async fn span(&mut self, name: &str) -> Value {
        let found = timeout(LIMIT, self.find("traces", |span| span["name"] == name)).await;
        found.unwrap_or_else(|_| panic!("waited {LIMIT:?} for the span {name:?}")).0
    }

    /// A server that exports here; its batches are sent soon.
    fn serve(&self, protocol: &str, store: &Path) -> Command {
        let endpoint = if protocol == "grpc" { "grpc" } else { "http" };
        let mut command = Command::new(program());
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--json", "--diagnostics", "--store"])
            .arg(store)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", self.endpoints[endpoint].as_str().unwrap())
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue")
            .env("OTEL_SERVICE_NAME", "shop")
            .env("OTEL_BSP_SCHEDULE_DELAY", "20")
            .env("OTEL_BLRP_SCHEDULE_DELAY", "20")
            .env("OTEL_METRIC_EXPORT_INTERVAL", "100");
        command
    }
}

async fn connect(url: &str) -> Client {
    let builder = Client::builder()
        .with(|options| options.revision = RevisionPolicy::Only(Revision::V2025_11_25));
    let connector = connector(url, &HttpOptions::new()).unwrap();
    timeout(LIMIT, builder.connect_by(connector)).await.expect("it connects").unwrap()
}

fn traced() -> Map<String, Value> {
    let members = json!({
        "traceparent": format!("00-{TRACE}-{PARENT}-01"),
        "tracestate": "rojo=1",
        "baggage": "user=ada",
    });
    members.as_object().unwrap().clone()
}

fn memory() -> PathBuf {
    PathBuf::from("memory:")
}

/// Spans, metrics and logs of calls, over HTTP and gRPC, with the attributes of the conventions.
#[tokio::test]
async fn a_collector_receives_all_signals_over_http_and_grpc() {
    for protocol in ["http/protobuf", "grpc"] {
        let mut collector = Collector::start().await;
        let mut command = collector.serve(protocol, &memory());
        command.args(["--log-level", "info"]).env("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip");
        let served = Served::run(&mut command).await;
        let client = connect(served.url("mcp")).await;
        let sum = client.call_tool("calculator.add", json!({"a": 2, "b": 3})).meta(traced());
        assert_eq!(sum.await.unwrap().text(), "5");
        assert!(client.call_tool("fail", json!({})).await.unwrap().is_error);
        client.call_tool("no such tool", json!({})).await.unwrap_err();

        let is_call = |span: &Value| span["name"] == "tools/call calculator.add";
        let (span, request) = collector.find("traces", is_call).await;
        assert_eq!(request["protocol"], if protocol == "grpc" { "grpc" } else { "http" });
        assert_eq!(request["headers"]["x-tenant"], "blue");
        assert_eq!(request["resource"]["service.name"], "shop");
        assert_eq!(
            (&span["traceId"], &span["parentSpanId"], &span["traceState"], &span["kind"]),
            (&json!(TRACE), &json!(PARENT), &json!("rojo=1"), &json!("SPAN_KIND_SERVER"))
        );
        let attributes = &span["attributes"];
        for (name, value) in [
            ("mcp.method.name", "tools/call"),
            ("gen_ai.tool.name", "calculator.add"),
            ("gen_ai.operation.name", "execute_tool"),
            ("mcp.protocol.version", "2025-11-25"),
            ("network.transport", "tcp"),
            ("network.protocol.name", "http"),
        ] {
            assert_eq!(attributes[name], value, "{span:#}");
        }
        assert!(attributes["jsonrpc.request.id"].is_string(), "{span:#}");
        assert!(attributes["mcp.session.id"].is_string(), "{span:#}");
        assert!(attributes["error.type"].is_null() && span["status"].is_null(), "{span:#}");
        let handler = |part: &Value| part["parentSpanId"] == span["spanId"];
        let (handler, _) = collector.find("traces", handler).await;
        assert_eq!(handler["name"], "handler tools/call");

        let failed = collector.span("tools/call fail").await;
        assert_eq!(failed["attributes"]["error.type"], "tool_error");
        assert_eq!(failed["status"]["code"], "STATUS_CODE_ERROR");
        let is_unknown = |span: &Value| span["attributes"]["error.type"] == "-32602";
        let (unknown, _) = collector.find("traces", is_unknown).await;
        assert_eq!(unknown["name"], "tools/call", "names that clients invent are not in it");
        assert_eq!(unknown["attributes"]["rpc.response.status_code"], "-32602");

        collector.find("logs", |log| log["body"]["stringValue"] == "telemetry is exported").await;
        let (log, _) = collector.find("logs", |log| log["body"]["stringValue"] == "call").await;
        assert_eq!(log["severityText"], "INFO", "{log:#}");
        client.close().await;
        let is_operation = |metric: &Value| {
            let points = metric["histogram"]["dataPoints"].as_array().into_iter().flatten();
            metric["name"] == "mcp.server.operation.duration"
                && points.clone().any(|point| {
                    point["attributes"]["gen_ai.tool.name"] == "calculator.add"
                        && point["count"] == "1"
                        && point["explicitBounds"].as_array().is_some_and(|all| all.len() == 14)
                })
        };
        let (operations, _) = collector.find("metrics", is_operation).await;
        assert_eq!(operations["unit"], "s");
        let is_session = |metric: &Value| metric["name"] == "mcp.server.session.duration";
        collector.find("metrics", is_session).await;
    }
}

/// A trace leads from the client through the gateway to the server behind it.
#[tokio::test]
async fn a_trace_leads_through_the_gateway() {
    let mut collector = Collector::start().await;
    let folder = tempfile::tempdir().unwrap();
    let recorded = folder.path().join("recorded");
    let mut inner = collector.serve("http/protobuf", &memory());
    let inner = Served::run(inner.arg("--record").arg(&recorded)).await;
    let file = folder.path().join("servers.json");
    let servers = json!({"mcpServers": {"inner": {"url": inner.url("mcp")}}});
    std::fs::write(&file, servers.to_string()).unwrap();
    let mut command = collector.serve("http/protobuf", &memory());
    command.arg("--gateway").arg(&file).args(["--no-examples"]);
    let outer = Served::run(command.env("OTEL_SERVICE_NAME", "gateway")).await;
    let client = connect(outer.url("mcp")).await;
    let echo = client.call_tool("inner.echo", json!({"text": "hi"})).meta(traced());
    assert_eq!(timeout(LIMIT, echo).await.expect("the call ends").unwrap().text(), "hi");

    let (last, request) = collector
        .find("traces", |span| {
            span["name"] == "tools/call echo" && span["kind"] == "SPAN_KIND_SERVER"
        })
        .await;
    assert_eq!(request["resource"]["service.name"], "shop");
    assert_eq!(last["traceId"], TRACE);
    let mut id = last["parentSpanId"].clone();
    let mut path = Vec::new();
    while id != PARENT {
        let (span, request) = collector.find("traces", |span| span["spanId"] == id).await;
        assert_eq!(request["resource"]["service.name"], "gateway", "{span:#}");
        path.push(span["name"].as_str().unwrap().to_owned());
        id = span["parentSpanId"].clone();
    }
    assert_eq!(path, ["tools/call echo", "handler tools/call", "tools/call inner.echo"]);
    let is_client = |metric: &Value| metric["name"] == "mcp.client.operation.duration";
    collector.find("metrics", is_client).await;
    // The log is exported from info on by default.
    let begins = |log: &Value| log["body"]["stringValue"] == "telemetry is exported";
    assert_eq!(collector.find("logs", begins).await.0["severityText"], "INFO");

    // The server behind it was given the baggage of the client, too.
    let file = std::fs::read_dir(&recorded).unwrap().next().unwrap().unwrap().path();
    let passed = async {
        loop {
            let text = std::fs::read_to_string(&file).unwrap();
            if let Some(call) = text.lines().find(|line| line.contains("\"tools/call\"")) {
                break serde_json::from_str::<Value>(call).unwrap();
            }
            tokio::task::yield_now().await;
        }
    };
    let call = timeout(LIMIT, passed).await.expect("the call is recorded");
    let meta = &call["message"]["params"]["_meta"];
    assert_eq!((&meta["baggage"], &meta["tracestate"]), (&json!("user=ada"), &json!("rojo=1")));

    // The dashboard and the alerts ask for metrics that there are.
    let metrics = outer.metrics().await;
    for text in [
        include_str!("../../docs/operations/dashboard.json"),
        include_str!("../../docs/operations/alerts.yaml"),
    ] {
        let names = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let mut names = names.filter(|name| name.starts_with("mcp_flow_")).peekable();
        assert!(names.peek().is_some());
        for name in names {
            let name = name.trim_end_matches("_bucket");
            assert!(metrics.contains(&format!("# TYPE {name} ")), "no {name} in {metrics}");
        }
    }
}

/// The steps of a flow are spans, and so is what a restarted server continues by itself.
#[tokio::test]
async fn steps_are_traced_before_and_after_a_crash() {
    let mut collector = Collector::start().await;
    let folder = tempfile::tempdir().unwrap();
    let store = PathBuf::from(format!("sqlite:{}", folder.path().join("journal.db").display()));
    let served = Served::run(&mut collector.serve("http/protobuf", &store)).await;
    let client = connect(served.url("mcp")).await;
    let start = json!({"toolName": "countdown", "initialParams": {"from": 60}});
    let started: Value = client.request("interaction.start", start).meta(traced()).await.unwrap();
    let step = collector.span("step tick").await;
    assert_eq!(step["traceId"], TRACE, "{step:#}");
    assert_eq!(step["attributes"]["mcp_flow.session.id"], started["sessionId"], "{step:#}");
    // Dropped: killed in the middle of a step.
    drop((client, served));

    let _served = Served::run(&mut collector.serve("http/protobuf", &store)).await;
    let resumed = collector.span("resume countdown").await;
    assert_eq!(resumed["attributes"]["mcp_flow.session.id"], started["sessionId"], "{resumed:#}");
    assert_eq!(resumed["links"][0]["traceId"], TRACE, "{resumed:#}");
    let is_step =
        |span: &Value| span["name"] == "step tick" && span["parentSpanId"] == resumed["spanId"];
    collector.find("traces", is_step).await;
}

/// The sampler, and the caller where it is asked, decide whether the spans of a call are exported.
#[tokio::test]
async fn samplers_decide_what_is_exported() {
    for (sampler, flags, is_sampled) in [
        ("always_off", "01", false),
        ("parentbased_always_on", "00", false),
        ("parentbased_always_off", "01", true),
        ("traceidratio", "00", true),
    ] {
        let mut collector = Collector::start().await;
        let mut command = collector.serve("http/protobuf", &memory());
        command.env("OTEL_TRACES_SAMPLER", sampler).env("OTEL_TRACES_SAMPLER_ARG", "1");
        let served = Served::run(&mut command).await;
        let client = connect(served.url("mcp")).await;
        let mut meta = traced();
        meta.insert("traceparent".to_owned(), json!(format!("00-{TRACE}-{PARENT}-{flags}")));
        let sum = client.call_tool("calculator.add", json!({"a": 2, "b": 3})).meta(meta);
        assert_eq!(sum.await.unwrap().text(), "5");
        client.close().await;
        // A server that stops exports what is left; another one comes after it.
        served.stop().await;
        let mut command = collector.serve("http/protobuf", &memory());
        let served = Served::run(command.env("OTEL_SERVICE_NAME", "last")).await;
        let client = connect(served.url("mcp")).await;
        client.call_tool("calculator.add", json!({"a": 2, "b": 3})).await.unwrap();
        let is_last =
            |span: &Value| span["name"] == "tools/call calculator.add" && span["traceId"] != TRACE;
        collector.find("traces", is_last).await;
        let mut spans = collector.received.iter().filter(|request| request["signal"] == "traces");
        let of_call = |request: &Value| {
            let mut records = request["records"].as_array().into_iter().flatten();
            records.any(|span| span["traceId"] == TRACE)
        };
        assert_eq!(spans.any(of_call), is_sampled, "{sampler} {flags}");
    }
}

/// A session that continues after its server was killed is linked to the span that started it.
#[tokio::test]
async fn a_resumed_session_is_linked_to_its_start() {
    let mut collector = Collector::start().await;
    let folder = tempfile::tempdir().unwrap();
    let store = PathBuf::from(format!("sqlite:{}", folder.path().join("journal.db").display()));
    let served = Served::run(&mut collector.serve("http/protobuf", &store)).await;
    let client = connect(served.url("mcp")).await;
    let start = json!({"toolName": "register", "initialParams": {}});
    let started: Value = client.request("interaction.start", start).meta(traced()).await.unwrap();
    let id = started["sessionId"].as_str().unwrap().to_owned();
    let call = collector.span("interaction.start register").await;
    collector.span("store append").await;
    // Dropped: killed without a chance to write.
    drop((client, served));

    let served = Served::run(&mut collector.serve("http/protobuf", &store)).await;
    let client = connect(served.url("mcp")).await;
    let answer = json!({"sessionId": id, "response": {"value": "Ada"}});
    let _: Value = client.request("interaction.respond", answer).await.unwrap();
    let question = collector.span("question name").await;
    assert_eq!(question["traceId"], TRACE, "{question:#}");
    let is_parent = |span: &Value| span["spanId"] == question["parentSpanId"];
    let (handler, _) = collector.find("traces", is_parent).await;
    assert_eq!(handler["parentSpanId"], call["spanId"], "{handler:#}");
    let link = &question["links"][0];
    let answering = collector.span("interaction.respond register").await;
    assert_eq!(link["traceId"], answering["traceId"], "{question:#}");
    let is_append =
        |span: &Value| span["name"] == "store append" && span["traceId"] == answering["traceId"];
    let (append, _) = collector.find("traces", is_append).await;
    assert_eq!(append["links"][0]["traceId"], TRACE, "{append:#}");
    assert_eq!(question["attributes"]["mcp_flow.session.id"], id);
}

/// The metrics are what Prometheus reads.
#[tokio::test]
async fn promtool_accepts_the_metrics() {
    let collector = Collector::start().await;
    let served = Served::run(&mut collector.serve("http/protobuf", &memory())).await;
    let client = connect(served.url("mcp")).await;
    client.call_tool("calculator.add", json!({"a": 2, "b": 3})).await.unwrap();
    client.call_tool("fail", json!({})).await.unwrap();
    let metrics = served.metrics().await;
    let (_, metrics) = metrics.split_once("\r\n\r\n").unwrap();
    assert!(metrics.contains("mcp_flow_telemetry_dropped_total{signal=\"traces\"} 0"), "{metrics}");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("prometheus/.installed/promtool");
    let promtool = if own.exists() { own } else { "promtool".into() };
    let mut child = Command::new(&promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("interop/install has installed promtool");
    let mut input = child.stdin.take().unwrap();
    input.write_all(metrics.as_bytes()).await.unwrap();
    drop(input);
    let checked = timeout(LIMIT, child.wait_with_output()).await.expect("promtool ends").unwrap();
    assert!(checked.status.success() && checked.stderr.is_empty(), "{checked:?}\n{metrics}");
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operations/alerts.yaml");
    let rules = run(Command::new(&promtool).args(["check", "rules"]).arg(rules)).await;
    assert_eq!(rules.code, Some(0), "{rules:#?}");
}
