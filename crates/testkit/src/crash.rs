//! Sessions with a program that is killed at random points.
//!
//! The program serves the flow `ledger`, which asks for twelve entries and appends each to a file in a
//! step. Wherever a kill falls, during startup, a request, a step or between them:
//!
//! - A step that was not interrupted has run once; an interrupted one at least once, each time with
//!   the same idempotency key.
//! - An answer that was accepted is not asked for again.
//! - The final result follows from all answers, however often it is requested.
//!
//! A [`CrashClient`] connects over one transport: [`RoundsClient`] and [`PushClient`] are two of them.

mod client;
mod effects;
mod pushed;
mod rounds;
mod schedule;
mod server;

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::wait::within;
use client::{Action, Client};
use effects::Effects;
use schedule::{InjectedFault, Schedule};
use server::Server;

pub use pushed::PushClient;
pub use rounds::RoundsClient;

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
    let mut schedule = Schedule::from_environment();
    let mut interrupted = 0;
    while schedule.has_more() {
        interrupted += run_session::<T>(program, &mut schedule).await;
    }
    eprintln!("{schedule}, {interrupted} of them perhaps inside a step");
    assert!(schedule.points() < 100 || interrupted > 0, "no kill fell inside a step");
}

/// Runs one session. Returns how many kills may have interrupted a step.
async fn run_session<T: CrashClient>(program: &Path, schedule: &mut Schedule) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let mut effects = Effects::new(folder.path().join("ledger"));
    let mut client = Client::default();
    let params = json!({"pause": schedule.below(9)});
    let mut server = Server::start(program, folder.path(), schedule, || {}).await;
    let mut connection: Option<T> = None;
    while let Some(action) = client.action(schedule) {
        let fault = schedule.fault();
        let begun = std::time::Instant::now();
        let reply = {
            let exchange = exchange(&mut connection, &server.addresses, &action, &params);
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
    params: &Value,
) -> Option<SessionReply> {
    if connection.is_none() {
        *connection = Some(T::connect(addresses).await?);
    }
    let connection = connection.as_mut()?;
    match action {
        Action::Start => connection.start("ledger", params).await,
        Action::Answer(prompt) => connection.respond(prompt, &entry(prompt.number)).await,
        Action::Query(prompt) => connection.query(prompt).await,
    }
}

/// Address of a program that has reported its addresses.
fn address(addresses: &Value) -> SocketAddr {
    let address = addresses["mcp"].as_str().and_then(|url| url.split('/').nth(2));
    address.and_then(|address| address.parse().ok()).expect("a program says where it listens")
}

/// Entry for a number.
fn entry(number: u32) -> String {
    format!("entry number {number}")
}

/// Number of entries the flow asks for.
const ENTRIES: u32 = 12;
