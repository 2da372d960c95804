//! Checks of the session store and its key.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mcp_flow::engine::{Clock as _, SystemClock};
use mcp_flow::session::Timestamp;
use mcp_flow::session::store::StoreExamination;
use mcp_flow::store_sqlite::keys;

use super::Finding;
use crate::configuration::OfferSection;
use crate::platform;
use crate::server::store::{StoreUrl, open_url};

/// Opens an existing store and writes to it. A missing one is not created.
pub(super) fn check(offer: &OfferSection) -> Vec<Finding> {
    if !offer.interaction || offer.stateless && !offer.replay_guard {
        return vec![Finding::ok("store", "not needed")];
    }
    let default = StoreUrl::default();
    let url = offer.store.as_ref().unwrap_or(&default);
    if *url == StoreUrl::Memory {
        let advice = "set offer.store = \"sqlite:PATH\" to keep them";
        let problem = "sessions are kept in memory and lost when the server exits";
        return vec![Finding::warn("store", problem, advice)];
    }
    let mut findings = Vec::new();
    if let Some(path) = url.path() {
        findings.extend(check_key(path));
        if !path.exists() {
            findings.push(match is_writable_folder(path) {
                true => Finding::ok("store", format!("{} will be created", path.display())),
                false => Finding::fail(
                    "store",
                    format!("cannot create {}", path.display()),
                    "create its directory and make it writable for the server",
                ),
            });
            return findings;
        }
    }
    let measured = open_and_write(url);
    if let Ok(Measured { examined: Some((examined, here)), .. }) = &measured {
        findings.extend(examined.problems.iter().map(|problem| {
            Finding::warn("store", problem.clone(), "contact the administrator of the database")
        }));
        findings.extend(examined.clock.map(|there| check_clock(there, *here)));
    }
    findings.push(match measured {
        Ok(Measured { latency, nodes, .. }) => {
            let millis = latency.as_secs_f64() * 1000.0;
            let nodes = nodes.map_or(String::new(), |nodes| format!(", {nodes} live nodes"));
            let text = format!("{url} can be opened and written, in {millis:.1} ms{nodes}");
            match latency > SLOW {
                true => Finding::warn("store", text, "use a faster disk, or a nearer server"),
                false => Finding::ok("store", text),
            }
        }
        Err(problem) => {
            let problem = format!("cannot open {url}: {problem:#}");
            let advice = "or choose another file or \"memory:\" with --store or offer.store";
            Finding::fail("store", problem, advice)
        }
    });
    findings
}

/// A store that was tried.
struct Measured {
    /// Time of a durable write.
    latency: Duration,
    /// Number of live nodes, if several can use it.
    nodes: Option<usize>,
    /// Report of the store about itself, and the local time at which it was made.
    examined: Option<(StoreExamination, Timestamp)>,
}

/// Compares the clock of the store with that of this machine.
fn check_clock(there: Timestamp, here: Timestamp) -> Finding {
    let seconds = Duration::from_millis(there.as_millis().abs_diff(here.as_millis())).as_secs_f64();
    match seconds > CLOCK_TOLERANCE {
        true => Finding::warn(
            "clock of the store",
            format!("differs from the one of this machine by {seconds:.1} s"),
            "synchronize both machines by NTP; until then sessions expire by the earlier clock",
        ),
        false => {
            Finding::ok("clock of the store", format!("within {seconds:.1} s of this machine's"))
        }
    }
}

fn open_and_write(url: &StoreUrl) -> anyhow::Result<Measured> {
    let opened = open_url(url)?.and_then(|opened| opened.store);
    let store = opened.context("it is not on disk")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Once to connect, and once to measure.
        store.probe().await?;
        let begun = Instant::now();
        store.probe().await?;
        let latency = begun.elapsed();
        let Some(shared) = store.shared() else {
            return Ok(Measured { latency, nodes: None, examined: None });
        };
        let nodes = Some(shared.nodes().await?.len());
        let examined = shared.examine().await?;
        Ok(Measured { latency, nodes, examined: Some((examined, SystemClock.now())) })
    })
}

/// Checks that only the owner can read the key that encrypts the store.
fn check_key(journal: &Path) -> Option<Finding> {
    let path = keys::path(journal);
    if std::env::var_os(keys::VARIABLE).is_some() || !path.exists() {
        return None;
    }
    Some(match mcp_flow::seal::file::load(&path) {
        Ok(_) => Finding::ok("key", format!("{} is readable by its owner only", path.display())),
        Err(error) => Finding::fail(
            "key",
            error.to_string(),
            "restore the key from a backup; a store cannot be read without it",
        ),
    })
}

/// Returns whether a file can be created, in its directory or the nearest existing one.
pub(super) fn is_writable_folder(path: &Path) -> bool {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.ancestors().skip(1).find(|folder| folder.exists());
    folder.is_some_and(|folder| folder.is_dir() && platform::is_writable(folder))
}

/// Time of a durable write that people notice.
const SLOW: Duration = Duration::from_millis(100);

/// Seconds by which clocks may differ.
const CLOCK_TOLERANCE: f64 = 1.0;
