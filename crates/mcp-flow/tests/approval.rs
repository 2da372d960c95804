//! C-33, PAT-028, PAT-049 to PAT-056: policies, reviews, rates, and two stub models: a command and
//! a chat endpoint.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_flow::client::approval::models::{Model, Models};
use mcp_flow::client::approval::{
    Approver, Policies, Policy, PolicyHost, PolicyTable, Rate, Review,
};
use mcp_flow::client::host::{DenyAll, ProposedCall, ServerIdentity};
use mcp_flow::client::{ChatModel, Client, CommandModel, Error, HttpOptions, in_process};
use mcp_flow::model::{CreateMessage, ModelHint, ModelPreferences, SampleResult, SamplingContent};
use mcp_flow::{AskError, Context, Revision, Tool};
use mcp_flow_testkit_fixture::Fixture;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server whose tool sends a sampling request with the given model preferences.
fn fixture() -> Fixture {
    let tool = Tool::builder("ask").handler(async |context: Context, arguments: Value| {
        let hints =
            arguments["hint"].as_str().map(|hint| ModelHint { name: Some(hint.to_owned()) });
        let preferences = ModelPreferences {
            hints: hints.into_iter().collect(),
            intelligence_priority: arguments["clever"].as_f64(),
            ..ModelPreferences::default()
        };
        let request = CreateMessage::new(100).user("Where is the tower?").prefer(preferences);
        let said = context.sample(request).await?;
        Ok::<_, AskError>(format!("{}: {}", said.model, said.text()))
    });
    Fixture::with(|builder| builder.tools(tool.unwrap()))
}

/// A chat completions endpoint that records its requests, one per connection.
async fn endpoint(status: &'static str, answer: Value) -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/chat/completions", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = asked.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            let body = loop {
                stream.read_buf(&mut request).await.unwrap();
                let text = String::from_utf8_lossy(&request).into_owned();
                let body = text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
                if let Some(body) = body.and_then(|body| serde_json::from_str(&body).ok()) {
                    break body;
                }
            };
            kept.lock().unwrap().push(body);
            let answer = answer.to_string();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                 connection: close\r\n\r\n{answer}",
                answer.len()
            );
            stream.write_all(head.as_bytes()).await.unwrap();
        }
    });
    (url, asked)
}

fn paris() -> Value {
    json!({"model": "acme-large-1", "choices": [{"finish_reason": "stop",
        "message": {"role": "assistant", "content": "Paris"}}]})
}

/// A command model and a chat completions model.
fn models(url: &str) -> Models {
    let command = CommandModel::new("tiny", "sh").arguments(["-c", "cat > /dev/null; echo here"]);
    let chat = ChatModel::new(url, "acme-large", &HttpOptions::new()).unwrap();
    Models::new([
        Model::new("tiny", command).ratings(1.0, 1.0, 0.1),
        Model::new("acme-large", chat).ratings(0.1, 0.3, 1.0),
    ])
}

async fn connect(guard: PolicyHost, revision: Revision) -> Client {
    let speak = mcp_flow::client::RevisionPolicy::Only(revision);
    let builder = Client::builder().host(guard).with(|options| options.revision = speak);
    builder.connect(in_process(&fixture().server)).await.unwrap()
}

fn allowing() -> Policies {
    let allow = || PolicyTable::new(Policy::Allow);
    Policies { calls: allow(), sampling: allow(), answers: allow(), questions: allow() }
}

const ERAS: [Revision; 2] = [Revision::V2025_11_25, Revision::V2026_07_28];

#[tokio::test]
async fn hints_and_priorities_choose_the_model() {
    let (url, asked) = endpoint("200 OK", paris()).await;
    for revision in ERAS {
        let guard = PolicyHost::new(DenyAll).policies(allowing()).models(models(&url));
        let client = connect(guard, revision).await;
        for (arguments, answer) in [
            (json!({}), "tiny: here"),
            (json!({"hint": "ACME"}), "acme-large-1: Paris"),
            (json!({"clever": 1.0}), "acme-large-1: Paris"),
            (json!({"hint": "tiny", "clever": 1.0}), "tiny: here"),
        ] {
            let outcome = client.call_tool("ask", arguments.clone()).await.unwrap();
            assert_eq!(outcome.text(), answer, "{arguments}");
        }
    }
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0]["messages"], json!([{"role": "user", "content": "Where is the tower?"}]));
    assert_eq!((&asked[0]["model"], &asked[0]["max_tokens"]), (&json!("acme-large"), &json!(100)));
}

/// Without an approver, ask means deny, and the denial has a reason.
#[tokio::test]
async fn without_an_approver_nothing_is_sent() {
    let (url, asked) = endpoint("200 OK", paris()).await;
    for sampling in [Policy::Ask, Policy::Deny] {
        let policies = Policies { sampling: PolicyTable::new(sampling), ..allowing() };
        let guard = || PolicyHost::new(DenyAll).policies(policies.clone()).models(models(&url));
        let client = connect(guard(), Revision::V2025_11_25).await;
        let outcome = client.call_tool("ask", json!({"hint": "acme"})).await.unwrap();
        assert!(outcome.is_error, "{}", outcome.text());
        let client = connect(guard(), Revision::V2026_07_28).await;
        let error = client.call_tool("ask", json!({"hint": "acme"})).await.unwrap_err();
        assert!(matches!(error, Error::Denied(_)), "{error}");
    }
    assert!(asked.lock().unwrap().is_empty());
}

/// An approver that records what it reviews, and changes it.
struct Editor {
    shown: Arc<Mutex<Vec<String>>>,
    allows: bool,
}

impl Approver for Editor {
    fn is_present(&self) -> bool {
        true
    }

    fn review_call<'a>(
        &'a self,
        asker: &'a ServerIdentity,
        call: &'a ProposedCall<'a>,
    ) -> futures_util::future::BoxFuture<'a, bool> {
        let shown = format!("{} {} {:?}", asker.name, call.tool, call.arguments);
        self.shown.lock().unwrap().push(shown);
        Box::pin(async { self.allows })
    }

    fn review_request<'a>(
        &'a self,
        asker: &'a ServerIdentity,
        model: &'a str,
        mut request: CreateMessage,
    ) -> futures_util::future::BoxFuture<'a, Review<CreateMessage>> {
        self.shown.lock().unwrap().push(format!("{} to {model}", asker.name));
        request.messages[0].content = vec!["Where is the bridge?".into()];
        Box::pin(async { Review::Approved(request) })
    }

    fn review_answer<'a>(
        &'a self,
        _: &'a ServerIdentity,
        mut answer: SampleResult,
    ) -> futures_util::future::BoxFuture<'a, Review<SampleResult>> {
        answer.content = vec![SamplingContent::from("in the city")];
        Box::pin(async { Review::Approved(answer) })
    }
}

/// PAT-049, PAT-051, PAT-054: the approver's changes are sent, in both directions, and a review
/// names the requesting server.
#[tokio::test]
async fn reviews_can_change_requests_and_answers() {
    let (url, asked) = endpoint("200 OK", paris()).await;
    let shown = Arc::new(Mutex::new(Vec::new()));
    let guard = PolicyHost::new(Editor { shown: shown.clone(), allows: true }).models(models(&url));
    let client = connect(guard, Revision::V2025_11_25).await;
    let outcome = client.call_tool("ask", json!({"hint": "acme"})).await.unwrap();
    assert_eq!(outcome.text(), "acme-large-1: in the city");
    assert_eq!(asked.lock().unwrap()[0]["messages"][0]["content"], "Where is the bridge?");
    let shown = shown.lock().unwrap();
    assert!(shown[0].contains("ask") && shown[0].contains("acme"), "{shown:?}");
    assert_eq!(shown[1], "fixture to acme-large");
}

/// PAT-028: a call that is not approved is not sent.
#[tokio::test]
async fn calls_need_approval() {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let client =
        connect(PolicyHost::new(Editor { shown, allows: false }), Revision::V2025_11_25).await;
    let refused = client.call_tool("math.add", json!({"a": 1, "b": 2})).await.unwrap_err();
    assert!(matches!(refused, Error::Denied(_)), "{refused}");
    let target = client.target().to_owned();
    let rules = PolicyTable::new(Policy::Deny).server(target, Policy::Allow);
    let guard = PolicyHost::new(DenyAll).policies(Policies { calls: rules, ..Policies::default() });
    let client = connect(guard, Revision::V2025_11_25).await;
    client.call_tool("math.add", json!({"a": 1, "b": 2})).await.unwrap();
    let client = connect(PolicyHost::new(DenyAll), Revision::V2025_11_25).await;
    let refused = client.call_tool("math.add", json!({"a": 1, "b": 2})).await.unwrap_err();
    assert!(matches!(refused, Error::Denied(_)), "{refused}");
}

/// PAT-055, PAT-053: rate limits, timeouts and model errors are distinct from a denial.
#[tokio::test]
async fn sampling_failures_have_distinct_errors() {
    let slow = CommandModel::new("slow", "sleep").arguments(["60"]);
    let slow = Models::new([Model::new("slow", slow).timeout(Duration::from_millis(50))]);
    let broken = CommandModel::new("broken", "sh").arguments(["-c", "echo out of paper; exit 1"]);
    let broken = Models::new([Model::new("broken", broken)]);
    let (url, _) = endpoint("500 Internal Server Error", json!({"error": "overloaded"})).await;
    let chat = ChatModel::new(&url, "down", &HttpOptions::new()).unwrap();
    let down = Models::new([Model::new("down", chat)]);
    for (models, rate, words) in [
        (slow, 10, "took too long"),
        (broken, 10, "model failed"),
        (down, 10, "model failed"),
        (Models::new([]), 10, "rejected"),
        (models(&url), 0, "Too many requests"),
    ] {
        let guard = PolicyHost::new(DenyAll).policies(allowing()).models(models);
        let guard = guard.sampling_rate(Rate::per_minute(rate));
        let client = connect(guard, Revision::V2025_11_25).await;
        let outcome = client.call_tool("ask", json!({})).await.unwrap();
        assert!(outcome.text().contains(words), "{words}: {}", outcome.text());
    }
}
