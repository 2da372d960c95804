//! Our own client, with all it can do.

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
use crate::soak::client::Leave;
use crate::soak::files;
use crate::soak::server::{IDLE, PROGRAM};
use crate::soak::tally::Tally;
use crate::support::control_stream;

pub(crate) async fn run(assignment: &Assignment, leave: Leave) {
    let speak = match assignment.kind.transport {
        Transport::Stateless => RevisionPolicy::Only(Revision::V2026_07_28),
        Transport::Session => RevisionPolicy::Only(Revision::V2025_11_25),
        _ => RevisionPolicy::Any,
    };
    let builder = Client::builder().with(|options| {
        options.revision = speak;
        // The server is there all the time: what is lost is lost, and must not be asked for again.
        options.backoff.attempts = 0;
    });
    let Assignment { kind, places, folder, .. } = assignment;
    let client = builder.connect_by(reach(kind.transport, places, folder)).await.unwrap();
    let mut typed = Typed {
        client,
        random: fastrand::Rng::with_seed(assignment.seed),
        last: u64::from(assignment.number) << 24,
        tally: Tally::default(),
    };
    while !leave.is_asked() {
        typed.work().await;
        typed.tally.report();
    }
    typed.client.close().await;
}

/// Has a server do once what it prepares for when it is first asked to: open a file, watch one.
pub(crate) async fn visit(places: &Value, folder: &Path) {
    let client = Client::builder().connect_by(reach(Transport::Tcp, places, folder)).await.unwrap();
    let mut visitor =
        Typed { client, random: fastrand::Rng::with_seed(0), last: 0, tally: Tally::default() };
    visitor.download().await;
    let uri = visitor.uri(files::PULSE).await;
    drop(visitor.client.listen(ChangeFilter::new().resource(&uri)).await.unwrap());
    visitor.client.close().await;
}

fn reach(transport: Transport, places: &Value, folder: &Path) -> Arc<dyn Connector> {
    let place = |name: &str| places[name].as_str().unwrap();
    let http = |name: &str| connector(place(name), &HttpOptions::new()).unwrap();
    match transport {
        Transport::Stdio => {
            let root = files::folder(folder);
            let options = ["stdio", "--diagnostics", "--store", "memory:", "--root"];
            let program = Program::new(PROGRAM).arguments(options).arguments([root]);
            let folder = files::stdio_folder(folder);
            Arc::new(program.folder(folder).stderr(Stderr::Keep))
        }
        Transport::Tcp => Arc::new(tcp(place("tcp").parse().unwrap())),
        Transport::Stateless | Transport::Session => http("mcp"),
        Transport::Legacy => http("sse"),
        Transport::WebSocket => http("websocket"),
        Transport::WebTransport => {
            let mut settings = control_stream::settings(places);
            settings.idle_timeout = IDLE;
            Arc::new(webtransport::client::server(place("webtransport"), settings))
        }
    }
}

struct Typed {
    client: Client,
    random: fastrand::Rng,
    /// The last number that was used; nobody uses one twice.
    last: u64,
    tally: Tally,
}

impl Typed {
    /// Does one thing after the other, as chance will have it.
    async fn work(&mut self) {
        match self.random.u32(..20) {
            0..6 => self.add().await,
            6..8 => self.give_up().await,
            8..10 => self.wait_with_progress().await,
            10..12 => self.echo().await,
            12..14 => self.download().await,
            14..16 => self.converse().await,
            16 => self.watch().await,
            17..19 => self.read().await,
            _ => self.list().await,
        }
    }

    /// Many calls at once, each with numbers of its own.
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
            self.tally.replies += 1;
        }
    }

    /// A slow call that nobody waits for any more, which cancels it.
    async fn give_up(&mut self) {
        let call = self.client.call_tool("sleep", json!({"ms": LONG.as_millis()}));
        let patience = Duration::from_millis(self.random.u64(..50));
        let waited = tokio::time::timeout(patience, call.into_future()).await;
        assert!(waited.is_err(), "a long sleep ended: {waited:?}");
        self.tally.cancelled += 1;
    }

    async fn wait_with_progress(&mut self) {
        let time = self.random.u64(60..200);
        let mut call = self.client.call_tool("sleep", json!({"ms": time})).start();
        let mut last = 0.0;
        while let Some(step) = call.next().await {
            assert!(step.progress > last, "progress rises");
            last = step.progress;
            self.tally.progress += 1;
        }
        assert!(last > 0.0, "no progress was told");
        assert_eq!(call.await.unwrap().text(), format!("slept {time} ms"));
        self.tally.replies += 1;
    }

    /// A large result in a message.
    async fn echo(&mut self) {
        self.last += 1;
        let text = format!("{}, ", self.last).repeat(self.random.usize(1..60_000));
        let echoed = self.client.call_tool("echo", json!({"text": text})).await.unwrap();
        assert!(echoed.text() == text, "{} bytes come back otherwise", text.len());
        self.tally.replies += 1;
        self.tally.bytes += text.len() as u64;
    }

    /// A large result beside the message, where there is a way for it; sometimes not to its end.
    async fn download(&mut self) {
        let call = self.client.call_tool("read_file", json!({"path": files::LARGE}));
        let result = call.raw().await.unwrap();
        self.tally.replies += 1;
        let content = &result["content"][0];
        let whole = files::large();
        if content["type"] == "text" {
            assert!(content["text"] == whole.as_str(), "a file comes otherwise");
            self.tally.bytes += whole.len() as u64;
            return;
        }
        let link = content["uri"].as_str().unwrap_or_default();
        if self.client.transport().await.unwrap().name() == "websocket" {
            // A link for anybody who can fetch one, which this transport leaves to others.
            assert!(fetch(link).await == whole.as_bytes(), "a download comes otherwise");
            self.tally.bytes += whole.len() as u64;
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
        self.tally.bytes += taken as u64;
    }

    /// A session, sometimes left in the middle.
    async fn converse(&mut self) {
        self.last += 1;
        let name = format!("Ada {}", self.last);
        let email = format!("ada-{}@a.example", self.last);
        let start = json!({"toolName": "register", "timeout": IDLE.as_millis()});
        let begun = self.client.request("interaction.start", start).await.unwrap();
        self.tally.replies += 1;
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
            self.tally.replies += 1;
        }
        if answers < 2 {
            self.tally.left += 1;
            return;
        }
        let NextStep::Finished(finished) = session.next().await.unwrap() else {
            panic!("it asks on")
        };
        assert_eq!(finished.data, json!({"name": name, "email": email}));
        self.tally.conversations += 1;
    }

    /// A subscription until the first change.
    async fn watch(&mut self) {
        let uri = self.uri(files::PULSE).await;
        let mut changes = self.client.listen(ChangeFilter::new().resource(&uri)).await.unwrap();
        let change = tokio::time::timeout(LIMIT, changes.next()).await;
        let change = change.expect("the file changes all the time").unwrap().unwrap();
        assert_eq!(change, ServerChange::Resource(uri));
        self.tally.changes += 1;
    }

    async fn read(&mut self) {
        let uri = self.uri(files::NOTE).await;
        assert_eq!(self.client.read_text(&uri).await.unwrap(), files::NOTED);
        self.tally.replies += 1;
    }

    async fn list(&mut self) {
        let tools = self.client.tools().all().await.unwrap();
        assert!(tools.iter().any(|tool| tool.name == "calculator.add"));
        let prompts = self.client.prompts().all().await.unwrap();
        assert!(!prompts.is_empty());
        self.client.ping().await.unwrap();
        self.tally.replies += 3;
    }

    /// Under which URI a file is listed.
    async fn uri(&mut self, name: &str) -> String {
        let listed: Vec<Value> =
            self.client.entries("resources/list", "resources").all().await.unwrap();
        self.tally.replies += 1;
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
