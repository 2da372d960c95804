//! Clients of every kind that come, work and are killed, against one server that has to stay as it was.
//!
//! The server is the real program. Each client is a process of its own: this very test, started
//! again with an [`assignment`](assignment::Assignment). It checks every reply it gets; most of them
//! are killed, at random moments, and others come. Between rounds of load all are gone for a moment.
//! At each of these quiet moments the server must hold no session, no connection and no handle more
//! than at the start, and its memory may not have grown from the first of them, behind a round to
//! warm up, to the last. What counts there is memory the server holds: glibc is told to give back what
//! is freed at once ([`server`]).
//!
//! `MCP_FLOW_SOAK_SECONDS` says for how long, 30 if it is not set. `MCP_FLOW_SOAK_SEED` makes the same
//! choices again as an earlier run, which has printed its seed.

mod assignment;
mod client;
mod conductor;
mod counted;
mod figures;
mod files;
mod server;
mod tally;
mod typed;

use std::time::{Duration, Instant};

use assignment::Assignment;
use conductor::Conductor;
use figures::Figures;
use server::Server;

/// MCP-030, MCP-074, PAT-036: no reply is lost or doubled, and what clients leave behind, however
/// they leave, is cleared away.
#[test]
fn disconnected_clients_leave_nothing_behind() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match Assignment::from_environment() {
        Some(assignment) => runtime.block_on(client::run(assignment)),
        None => runtime.block_on(soak()),
    }
}

async fn soak() {
    let seconds = number_from("MCP_FLOW_SOAK_SECONDS").unwrap_or(30);
    let seed = number_from("MCP_FLOW_SOAK_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("{seconds} s; repeat these choices with MCP_FLOW_SOAK_SEED={seed}");
    let begun = Instant::now();
    let whole = Duration::from_secs(seconds);
    let server = Server::start().await;
    let mut figures = Figures::new(server.usage());
    let mut conductor = Conductor::new(&server, seed);
    // A quiet moment takes as long as the limits for what is idle.
    let round = (whole / 5).min(LONGEST_ROUND).saturating_sub(server::IDLE / 2);
    while figures.moments() < FEWEST_MOMENTS || begun.elapsed() + round / 2 < whole {
        conductor.load(round, &mut figures).await;
        server.quiet(&mut figures).await;
        eprintln!("{}", figures.last());
    }
    eprintln!("{figures}");
    figures.check();
    server.end().await;
}

fn number_from(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

const LONGEST_ROUND: Duration = Duration::from_secs(45);

/// One after warming up, and two more.
const FEWEST_MOMENTS: usize = 3;
