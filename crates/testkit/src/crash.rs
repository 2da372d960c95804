//! Conversations with a program that is killed again and again.
//!
//! The program serves the flow `ledger`, which asks for twelve entries and appends each to a file
//! in a step. Wherever a kill falls, in the start, in a request, in a step or between them, what
//! must hold is the same:
//!
//! - A step that was not interrupted has happened once; one that was has happened at least once,
//!   each time with the same key.
//! - An answer that was accepted is not asked for again.
//! - The final result is the one that all answers lead to, however often it is asked for.
//!
//! How a turn is made is up to a [`Talk`], so that every transport can be tried in the same way.
//! [`Rounds`] and [`Pushed`] are two of them.

mod book;
mod chance;
mod client;
mod pushed;
mod rounds;
mod server;

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::wait::within;
use book::Book;
use chance::{Chance, Fate};
use client::{Client, Move};
use server::Server;

pub use pushed::Pushed;
pub use rounds::Rounds;

/// One connection to the program, and how a conversation is held over it.
///
/// Every method gives `None` where the connection ends before there is an answer. What the program
/// says must be right at all times: a refusal is a failure of the test.
pub trait Talk: Sized {
    /// Connects to a program that has said where everything is.
    fn connect(places: &Value) -> impl Future<Output = Option<Self>>;

    /// Starts a flow.
    fn begin(&mut self, flow: &str, params: &Value) -> impl Future<Output = Option<Heard>>;

    /// Answers a question, perhaps once more.
    fn answer(&mut self, asked: &Asked, text: &str) -> impl Future<Output = Option<Heard>>;

    /// Finds out what has become of a question that was answered, or that may have been.
    fn look(&mut self, asked: &Asked) -> impl Future<Output = Option<Heard>>;
}

/// A question for an entry.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Which entry is asked for, from 1.
    pub number: u32,
    /// What the client needs to answer it.
    pub carried: Value,
}

impl Asked {
    /// Reads the number out of the question `Entry 3 of 12?`.
    pub fn read(message: &Value, carried: Value) -> Self {
        let number = message.as_str().and_then(|message| message.split(' ').nth(1)?.parse().ok());
        let number = number.unwrap_or_else(|| panic!("{message} does not ask for an entry"));
        Self { number, carried }
    }
}

/// What a client is told.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The next question.
    Asked(Asked),
    /// That its answer was accepted, and nothing more as yet.
    Accepted,
    /// What all came to.
    Ended(Value),
}

/// Holds conversations with a program until it was killed often enough, and checks that each ends
/// as if nothing had happened.
///
/// `MCP_FLOW_CRASH_POINTS` says how often; 200 times if it is not set. `MCP_FLOW_CRASH_SEED` makes
/// the same choices again as an earlier run, which has printed its seed.
pub async fn survive<T: Talk>(program: &Path) {
    let mut chance = Chance::from_environment();
    let mut interrupted = 0;
    while chance.is_left() {
        interrupted += converse::<T>(program, &mut chance).await;
    }
    eprintln!("{chance}, {interrupted} of them perhaps inside a step");
    assert!(chance.points() < 100 || interrupted > 0, "no kill fell inside a step");
}

/// Holds one conversation. How many kills may have fallen inside a step.
async fn converse<T: Talk>(program: &Path, chance: &mut Chance) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let mut book = Book::new(folder.path().join("ledger"));
    let mut client = Client::default();
    let params = json!({"pause": chance.below(9)});
    let mut server = Server::start(program, folder.path(), chance, || {}).await;
    let mut talk: Option<T> = None;
    while let Some(turn) = client.turn(chance) {
        let fate = chance.fate();
        let begun = std::time::Instant::now();
        let heard = {
            let exchange = exchange(&mut talk, &server.places, &turn, &params);
            tokio::select! {
                heard = within("an answer", exchange) => heard,
                () = fate.strikes(&book) => None,
            }
        };
        if fate == Fate::Spared {
            chance.took(begun.elapsed());
            assert!(heard.is_some(), "the connection was lost, and nobody was killed: {turn:?}");
        }
        client.hear(turn, heard);
        if fate != Fate::Spared {
            server.kill().await;
            talk = None;
            client.lose();
            book.note_kill(client.done());
            let killed = || book.note_kill(client.done());
            server = Server::start(program, folder.path(), chance, killed).await;
        }
        book.check(client.done());
    }
    server.kill().await;
    book.interrupted()
}

async fn exchange<T: Talk>(
    talk: &mut Option<T>,
    places: &Value,
    turn: &Move,
    params: &Value,
) -> Option<Heard> {
    if talk.is_none() {
        *talk = Some(T::connect(places).await?);
    }
    let talk = talk.as_mut()?;
    match turn {
        Move::Begin => talk.begin("ledger", params).await,
        Move::Answer(asked) => talk.answer(asked, &entry(asked.number)).await,
        Move::Look(asked) => talk.look(asked).await,
    }
}

/// The port of a program that has said where everything is.
fn address(places: &Value) -> SocketAddr {
    let address = places["mcp"].as_str().and_then(|url| url.split('/').nth(2));
    address.and_then(|address| address.parse().ok()).expect("a program says where it listens")
}

/// What is entered under a number.
fn entry(number: u32) -> String {
    format!("entry number {number}")
}

/// How many entries the flow asks for.
const ENTRIES: u32 = 12;
