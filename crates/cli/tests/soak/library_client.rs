//! The client library under load.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, TryStreamExt};
use mcp_flow::Revision;
use mcp_flow::client::interaction::{NextStep, ResponseOutcome};
use mcp_flow::client::transport::Connector;
use mcp_flow::client::{
    ChangeFilter, Client, HttpOptions, Program, RevisionPolicy, ServerChange, Stderr,
};
use mcp_flow::client::{connector, tcp};
use mcp_flow::webtransport;
use mcp_flow_testkit::http::Request;
use serde_json::{Value, json};

use crate::soak::assignment::{Assignment, Transport};
use crate::soak::client::StopSignal;
use crate::soak::counts::Counts;
use crate::soak::files;
use crate::soak::server::{IDLE, PROGRAM};
use crate::support::control_stream;

pub(crate) async fn run(assignment: &Assignment, stop: StopSignal) {
    let speak = match assignment.kind.transport {
        Transport::Stateless => RevisionPolicy::Only(Revision::V2026_07_28),
        Transport::Session => RevisionPolicy::Only(Revision::V2025_11_25),
        _ => RevisionPolicy::Any,
    };
    let builder = Client::builder().with(|options| {
        options.revision = speak;
        // The server is always reachable: a lost connection is a failure, and must not be retried.
        options.backoff.attempts = 0;
    });
    let Assignment { kind, endpoints, folder, .. } = assignment;
    let client = builder.connect_by(connector_to(kind.transport, endpoints, folder)).await.unwrap();
    let mut library = LibraryClient {
        client,
        random: fastrand::Rng::with_seed(assignment.seed),
        last: u64::from(assignment.number) << 24,
        counts: Counts::default(),
    };
    while !stop.is_set() {
        library.work().await;
        library.counts.report();
    }
    library.client.close().await;
}

/// Uses the server once, so that it creates what it keeps: an open file and a file watcher.
pub(crate) async fn use_once(endpoints: &Value, folder: &Path) {
    let client = Client::builder()
        .connect_by(connector_to(Transport::Tcp, endpoints, folder))
        .await
        .unwrap();
    let mut client = LibraryClient {
        client,
        random: fastrand::Rng::with_seed(0),
        last: 0,
        counts: Counts::default(),
    };
    client.download().await;
    let uri = client.uri(files::CHANGING).await;
    drop(client.client.listen(ChangeFilter::new().resource(&uri)).await.unwrap());
    client.client.close().await;
}

fn connector_to(transport: Transport, endpoints: &Value, folder: &Path) -> Arc<dyn Connector> {
    let endpoint = |name: &str| endpoints[name].as_str().unwrap();
    let http = |name: &str| connector(endpoint(name), &HttpOptions::new()).unwrap();
    match transport {
        Transport::Stdio => {
            let root = files::folder(folder);
            let options = ["stdio", "--diagnostics", "--store", "memory:", "--root"];
            let program = Program::new(PROGRAM).arguments(options).arguments([root]);
            let folder = files::stdio_folder(folder);
            Arc::new(program.folder(folder).stderr(Stderr::Keep))
        }
        Transport::Tcp => Arc::new(tcp(endpoint("tcp").parse().unwrap())),
        Transport::Stateless | Transport::Session => http("mcp"),
        Transport::Legacy => http("sse"),
        Transport::WebSocket => http("websocket"),
        Transport::WebTransport => {
            let mut settings = control_stream::settings(endpoints);
            settings.idle_timeout = IDLE;
            Arc::new(webtransport::client::server(endpoint("webtransport"), settings))
        }
    }
}

struct LibraryClient {
    client: Client,
    random: fastrand::Rng,
    /// The last value used; each is used once.
    last: u64,
    counts: Counts,
}

impl LibraryClient {
    /// Runs random operations one after the other.
    async fn work(&mut self) {
        match self.random.u32(..20) {
            0..6 => self.add().await,
            6..8 => self.cancel_call().await,
            8..10 => self.wait_with_progress().await,
            10..12 => self.echo().await,
            12..14 => self.download().await,
            14..16 => self.run_session().await,
            16 => self.watch().await,
            17..19 => self.read().await,
            _ => self.list().await,
        }
    }

    /// Concurrent calls, each with its own values.
    async fn add(&mut self) {
        let numbers: Vec<_> = (0..self.random.usize(1..=16))
            .map(|_| {
                self.last += 1;
                (self.last, self.random.u64(..1000))
            })
            .collect();
        let calls = numbers.iter().map(|(a, b)| {
            self.client.call_tool("calculator.add", json!({"a": a, "b": b})).into_future()
        });
        for ((a, b), sum) in numbers.iter().zip(join_all(calls).await) {
            assert_eq!(sum.unwrap().text(), (a + b).to_string());
            self.counts.replies += 1;
        }
    }

    /// A slow call that is dropped, which cancels it.
    async fn cancel_call(&mut self) {
        let call = self.client.call_tool("sleep", json!({"ms": LONG.as_millis()}));
        let patience = Duration::from_millis(self.random.u64(..50));
        let waited = tokio::time::timeout(patience, call.into_future()).await;
        assert!(waited.is_err(), "a long sleep ended: {waited:?}");
        self.counts.cancelled += 1;
    }

    async fn wait_with_progress(&mut self) {
        let time = self.random.u64(60..200);
        let mut call = self.client.call_tool("sleep", json!({"ms": time})).start();
        let mut last = 0.0;
        while let Some(step) = call.next().await {
            assert!(step.progress > last, "progress rises");
            last = step.progress;
            self.counts.progress += 1;
        }
        assert!(last > 0.0, "no progress was received");
        assert_eq!(call.await.unwrap().text(), format!("slept {time} ms"));
        self.counts.replies += 1;
    }

    /// A large result in a message.
    async fn echo(&mut self) {
        self.last += 1;
        let text = format!("{}, ", self.last).repeat(self.random.usize(1..60_000));
        let echoed = self.client.call_tool("echo", json!({"text": text})).await.unwrap();
        assert!(echoed.text() == text, "{} bytes come back otherwise", text.len());
        self.counts.replies += 1;
        self.counts.bytes += text.len() as u64;
    }

    /// A large result over a side channel, if the transport has one; sometimes aborted.
    async fn download(&mut self) {
        let call = self.client.call_tool("read_file", json!({"path": files::LARGE}));
        let result = call.raw().await.unwrap();
        self.counts.replies += 1;
        let content = &result["content"][0];
        let whole = files::large();
        if content["type"] == "text" {
            assert!(content["text"] == whole.as_str(), "a file comes otherwise");
            self.counts.bytes += whole.len() as u64;
            return;
        }
        let link = content["uri"].as_str().unwrap_or_default();
        if self.client.transport().await.unwrap().name() == "websocket" {
            // This transport has no side channel; its link is fetched over HTTP.
            assert!(fetch(link).await == whole.as_bytes(), "a download comes otherwise");
            self.counts.bytes += whole.len() as u64;
            return;
        }
        let mut pieces = self.client.open_content(content).await.unwrap().bytes;
        let end = if self.random.bool() { usize::MAX } else { self.random.usize(..whole.len()) };
        let mut taken = 0;
        while taken < end
            && let Some(piece) = pieces.try_next().await.unwrap()
        {
            assert!(whole.as_bytes()[taken..].starts_with(&piece), "a file comes otherwise");
            taken += piece.len();
        }
        assert!(taken >= end.min(whole.len()), "{taken} bytes of {} came", whole.len());
        self.counts.bytes += taken as u64;
    }

    /// A flow session, sometimes abandoned.
    async fn run_session(&mut self) {
        self.last += 1;
        let name = format!("Ada {}", self.last);
        let email = format!("ada-{}@a.example", self.last);
        let start = json!({"toolName": "register", "timeout": IDLE.as_millis()});
        let begun = self.client.request("interaction.start", start).await.unwrap();
        self.counts.replies += 1;
        let mut session = self.client.resume_session(begun["sessionId"].as_str().unwrap());
        let answers = if self.random.u32(..3) > 0 { 2 } else { self.random.usize(..2) };
        for _ in 0..answers {
            let turn = session.next().await.unwrap();
            let NextStep::Prompt(question) = turn else { panic!("it is over: {turn:?}") };
            let answer = match &*question.prompt.message {
                "Enter name" => &name,
                "Enter email" => &email,
                other => panic!("{other} is asked"),
            };
            let verdict = session.answer(json!(answer)).await.unwrap();
            assert_eq!(verdict, ResponseOutcome::Accepted);
            self.counts.replies += 1;
        }
        if answers < 2 {
            self.counts.abandoned += 1;
            return;
        }
        let NextStep::Finished(finished) = session.next().await.unwrap() else {
            panic!("it asks on")
        };
        assert_eq!(finished.data, json!({"name": name, "email": email}));
        self.counts.sessions += 1;
    }

    /// A subscription until the first change.
    async fn watch(&mut self) {
        let uri = self.uri(files::CHANGING).await;
        let mut changes = self.client.listen(ChangeFilter::new().resource(&uri)).await.unwrap();
        let change = tokio::time::timeout(LIMIT, changes.next()).await;
        let change = change.expect("the file changes all the time").unwrap().unwrap();
        assert_eq!(change, ServerChange::Resource(uri));
        self.counts.changes += 1;
    }

    async fn read(&mut self) {
        let uri = self.uri(files::NOTE).await;
        assert_eq!(self.client.read_text(&uri).await.unwrap(), files::NOTED);
        self.counts.replies += 1;
    }

    async fn list(&mut self) {
        let tools = self.client.tools().all().await.unwrap();
        assert!(tools.iter().any(|tool| tool.name == "calculator.add"));
        let prompts = self.client.prompts().all().await.unwrap();
        assert!(!prompts.is_empty());
        self.client.ping().await.unwrap();
        self.counts.replies += 3;
    }

    /// The URI of a listed file.
    async fn uri(&mut self, name: &str) -> String {
        let listed: Vec<Value> =
            self.client.entries("resources/list", "resources").all().await.unwrap();
        self.counts.replies += 1;
        let mut uris = listed.iter().filter_map(|resource| resource["uri"].as_str());
        let found = uris.find(|uri| uri.ends_with(name));
        found.unwrap_or_else(|| panic!("{name} is not in {listed:?}")).to_owned()
    }
}

async fn fetch(link: &str) -> Vec<u8> {
    let (host, path) = link.strip_prefix("http://").and_then(|link| link.split_once('/')).unwrap();
    let request = Request::new("GET", &format!("/{path}")).header("host", host);
    request.send(host.parse().unwrap()).await.bytes().await
}

/// Longer than any client lives.
const LONG: Duration = Duration::from_secs(300);

const LIMIT: Duration = Duration::from_secs(30);
