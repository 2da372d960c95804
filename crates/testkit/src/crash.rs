//! Sessions with a program that is killed at random points.
//!
//! The program serves the flow `ledger`, a function or a tool file, which asks for twelve entries and
//! appends each to a file in a step. Wherever a kill falls, during startup, a request, a step or
//! between them:
//!
//! - A step that was not interrupted has run once; an interrupted one at least once, each time with
//!   the same idempotency key.
//! - An answer that was accepted is not asked for again.
//! - The final result follows from all answers, however often it is requested.
//!
//! A [`CrashClient`] connects over one transport: [`RoundsClient`], [`PushClient`] and
//! [`TasksClient`] are three of them.

mod client;
mod effects;
mod pushed;
mod rounds;
mod schedule;
mod server;
mod tasks;

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::wait::within;
use client::{Action, Client};
use effects::Effects;
use schedule::{InjectedFault, Schedule};
use server::{Program, Server};

pub use pushed::PushClient;
pub use rounds::RoundsClient;
pub use tasks::TasksClient;

/// Client connection to the killed program, with one way to run a session.
///
/// Every method returns `None` if the connection ends before there is a reply. The program must be
/// consistent at all times: an error reply fails the test.
pub trait CrashClient: Sized {
    /// Connects to a program that has reported its addresses.
    fn connect(addresses: &Value) -> impl Future<Output = Option<Self>>;

    /// Starts a flow.
    fn start(&mut self, flow: &str, params: &Value) -> impl Future<Output = Option<SessionReply>>;

    /// Answers a prompt, possibly again.
    fn respond(
        &mut self,
        prompt: &EntryPrompt,
        text: &str,
    ) -> impl Future<Output = Option<SessionReply>>;

    /// Queries the state of a prompt that was, or may have been, answered.
    fn query(&mut self, prompt: &EntryPrompt) -> impl Future<Output = Option<SessionReply>>;
}

/// A prompt for an entry.
#[derive(Clone, Debug)]
pub struct EntryPrompt {
    /// Number of the entry, from 1.
    pub number: u32,
    /// Data the client needs to answer it.
    pub carried: Value,
}

impl EntryPrompt {
    /// Reads the number from the message `Entry 3 of 12?`.
    pub fn read(message: &Value, carried: Value) -> Self {
        let number = message.as_str().and_then(|message| message.split(' ').nth(1)?.parse().ok());
        let number = number.unwrap_or_else(|| panic!("{message} does not ask for an entry"));
        Self { number, carried }
    }
}

/// Reply of the program.
#[derive(Clone, Debug)]
pub enum SessionReply {
    /// The next prompt.
    Prompt(EntryPrompt),
    /// The answer was accepted; nothing more yet.
    Accepted,
    /// The final result.
    Ended(Value),
}

/// Runs sessions with a program until it was killed often enough, and checks that each ends as if
/// nothing had happened.
///
/// `MCP_FLOW_CRASH_POINTS` sets the number of kills, 200 by default. `MCP_FLOW_CRASH_SEED` repeats
/// the choices of an earlier run, which printed its seed.
pub async fn survive<T: CrashClient>(program: &Path) {
    survive_with::<T>(Ledger::Function, program).await;
}

/// Form of the flow `ledger`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ledger {
    /// A function of the program.
    Function,
    /// A tool file.
    File,
}

impl Ledger {
    fn name(self) -> &'static str {
        match self {
            Self::Function => "ledger",
            Self::File => "ledger.file",
        }
    }
}

/// Runs sessions of one form of the flow, as [`survive`] does, with a quarter of the kills for files.
pub async fn survive_with<T: CrashClient>(ledger: Ledger, program: &Path) {
    let points = match ledger {
        Ledger::Function => POINTS,
        Ledger::File => POINTS / 4,
    };
    let mut schedule = Schedule::from_environment(points);
    let mut interrupted = 0;
    while schedule.has_more() {
        interrupted += run_session::<T>(Program { path: program, ledger }, &mut schedule).await;
    }
    eprintln!("{schedule}, {interrupted} of them perhaps inside a step");
    assert!(schedule.points() < 100 || interrupted > 0, "no kill fell inside a step");
}

/// Runs one session. Returns how many kills may have interrupted a step.
async fn run_session<T: CrashClient>(program: Program<'_>, schedule: &mut Schedule) -> usize {
    let folder = tempfile::tempdir().unwrap();
    if program.ledger == Ledger::File {
        std::fs::create_dir(folder.path().join(server::TOOLS)).unwrap();
        std::fs::write(folder.path().join(server::TOOLS).join("ledger.json"), ledger_file())
            .unwrap();
    }
    let mut effects = Effects::new(folder.path().join("ledger"));
    let mut client = Client::default();
    let params = json!({"pause": schedule.below(9)});
    let mut server = Server::start(program, folder.path(), schedule, || {}).await;
    let mut connection: Option<T> = None;
    while let Some(action) = client.action(schedule) {
        let fault = schedule.fault();
        let begun = std::time::Instant::now();
        let reply = {
            let flow = program.ledger.name();
            let exchange = exchange(&mut connection, &server.addresses, &action, (flow, &params));
            tokio::select! {
                reply = within("a reply", exchange) => reply,
                () = fault.until_kill(&effects) => None,
            }
        };
        if fault == InjectedFault::None {
            schedule.record_exchange(begun.elapsed());
            assert!(reply.is_some(), "the connection was lost, without a kill: {action:?}");
        }
        client.record(action, reply);
        if fault != InjectedFault::None {
            server.kill().await;
            connection = None;
            client.disconnect();
            effects.record_kill(client.done());
            let killed = || effects.record_kill(client.done());
            server = Server::start(program, folder.path(), schedule, killed).await;
        }
        effects.check(client.done());
    }
    server.kill().await;
    effects.interrupted()
}

async fn exchange<T: CrashClient>(
    connection: &mut Option<T>,
    addresses: &Value,
    action: &Action,
    (flow, params): (&str, &Value),
) -> Option<SessionReply> {
    if connection.is_none() {
        *connection = Some(T::connect(addresses).await?);
    }
    let connection = connection.as_mut()?;
    match action {
        Action::Start => connection.start(flow, params).await,
        Action::Answer(prompt) => connection.respond(prompt, &entry(prompt.number)).await,
        Action::Query(prompt) => connection.query(prompt).await,
    }
}

/// Returns the tool file of the flow.
fn ledger_file() -> String {
    let steps = (1..=ENTRIES).flat_map(|number| {
        let key = format!("entry_{number}");
        let entry = format!("{{{{{key}}}}}");
        let message = format!("Entry {number} of {ENTRIES}?");
        let arguments = json!({"number": number, "entry": entry, "key": key, "pause": "{{pause}}"});
        [
            json!({"ask": {"key": key, "type": "text", "message": message, "max": 200}}),
            json!({"call": {"tool": "ledger.append", "arguments": arguments}}),
        ]
    });
    let entries: Vec<_> = (1..=ENTRIES).map(|number| format!("{{{{entry_{number}}}}}")).collect();
    let steps: Vec<_> = steps.chain([json!({"return": {"entries": entries}})]).collect();
    let input = json!({"type": "object", "properties": {"pause": {"type": "integer"}}});
    let tool = json!({"name": Ledger::File.name(), "description": "Asks for entries and appends them",
        "task": "always", "input": input, "flow": steps});
    json!({"tools": [tool]}).to_string()
}

/// Address of a program that has reported its addresses.
pub(crate) fn address(addresses: &Value) -> SocketAddr {
    let address = addresses["mcp"].as_str().and_then(|url| url.split('/').nth(2));
    address.and_then(|address| address.parse().ok()).expect("a program says where it listens")
}

/// Entry for a number.
fn entry(number: u32) -> String {
    format!("entry number {number}")
}

/// Number of kills, unless the environment sets another.
const POINTS: usize = 200;

/// Number of entries the flow asks for.
const ENTRIES: u32 = 12;
