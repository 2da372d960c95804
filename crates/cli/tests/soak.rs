//! Soak test: clients of every kind connect, work and are killed, and the server must not leak.
//!
//! The server is the real program. Each client is a process of its own: this test, started again
//! with an [`assignment`](assignment::Assignment). It checks every reply; most clients are killed
//! at random moments and replaced. After each round of load all clients have ended. At each of
//! these idle points the server must hold no session, connection or file descriptor more than at
//! the start, and its memory may not have grown between the first of them, after a warm-up round,
//! and the last. Allocator caches do not count: glibc is configured to return freed memory at once
//! ([`server`]).
//!
//! `MCP_FLOW_SOAK_SECONDS` sets the duration, 30 by default. `MCP_FLOW_SOAK_SEED` repeats the
//! choices of an earlier run, which has printed its seed.

mod assignment;
mod client;
mod counts;
mod files;
mod library_client;
mod load_generator;
mod measurements;
mod scripted_client;
mod server;

use std::time::{Duration, Instant};

use assignment::Assignment;
use load_generator::LoadGenerator;
use measurements::Measurements;
use server::Server;

/// MCP-030, MCP-074, PAT-036: no reply is lost or duplicated, and everything of a disconnected or
/// killed client is freed.
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
    let mut measurements = Measurements::new(server.usage());
    let mut load = LoadGenerator::new(&server, seed);
    // An idle point takes as long as the idle timeouts.
    let round = (whole / 5).min(MAX_ROUND).saturating_sub(server::IDLE / 2);
    while measurements.idle_points() < MIN_IDLE_POINTS || begun.elapsed() + round / 2 < whole {
        load.run(round, &mut measurements).await;
        server.wait_until_idle(&mut measurements).await;
        eprintln!("{}", measurements.last());
    }
    eprintln!("{measurements}");
    measurements.check();
    server.end().await;
}

fn number_from(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

const MAX_ROUND: Duration = Duration::from_secs(45);

/// One after the warm-up, and two more.
const MIN_IDLE_POINTS: usize = 3;
