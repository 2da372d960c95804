//! Memory of a server whose client sends much and reads nothing, compared with the same server
//! idle, and the size of its program.

use std::{
    io::{self, Write},
    process::{ChildStdin, Command},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::ensure;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;

use crate::{
    binary::{McpFlow, Target},
    ledger::Ledger,
    peer::{Peer, Pipes},
    placement::Cores,
    process::Memory,
    report::{self, Environment, Threshold, megabytes},
};

/// Measure memory while replies are not read
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Calls of `echo` to send
    #[arg(long, value_name = "N", default_value = "10000")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    calls: usize,

    #[command(flatten)]
    mcp_flow: McpFlow,
}

impl Arguments {
    /// Measures, writes `memory.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let target = Target::find()?;
        let program = self.mcp_flow.locate(&target)?;
        let program_bytes = std::fs::metadata(&program)?.len();
        let mut command = Command::new(program);
        command.args(["stdio", "--diagnostics"]);
        let readings = flood(command, self.calls)?;
        let idle_private = megabytes(readings.idle_private_bytes);
        let growth = megabytes(readings.stalled_rss_bytes.saturating_sub(readings.idle_rss_bytes));
        let results = Results {
            environment: Environment::describe()?,
            calls: self.calls,
            text_bytes: TEXT_BYTES,
            holds: vec![
                Threshold::new("size of the program, MB", 22.0, megabytes(program_bytes)),
                Threshold::new("idle RSS, MB", 14.0, megabytes(readings.idle_rss_bytes)),
                Threshold::new("idle RSS without files, MB", 3.5, idle_private),
                Threshold::new("RSS growth while replies are not read, MB", 32.0, growth),
            ],
            readings,
        };
        let saved = report::save(&target, "memory.json", &results)?;
        Ok(format!("{}\n{saved}", results.show()))
    }
}

/// Sends every call before reading any reply, and measures the server's memory at each stage.
fn flood(command: Command, calls: usize) -> anyhow::Result<Readings> {
    let (mut peer, Pipes { requests, mut replies }) = Peer::start(command, Cores::Free.place()?)?;
    let process = peer.process();
    let idle = Memory::of(process)?;

    eprintln!("sending {calls} calls of {TEXT_BYTES} bytes, reading nothing");
    let sent = Arc::new(AtomicUsize::new(0));
    let writer = write_calls(requests, calls, Arc::clone(&sent));
    let stalled = Memory::settled(process)?;
    let calls_sent_while_stalled = sent.load(Ordering::Relaxed);

    eprintln!("{calls_sent_while_stalled} calls were taken; now reading every reply");
    let mut ledger = Ledger::new(calls);
    let text = text();
    peer.within(DRAIN_LIMIT, || {
        while ledger.open() > 0 {
            let more =
                replies.read_batch(|line| ledger.enter(line, |_, echo| echo == text).map(drop))?;
            ensure!(more, "the server closed its output with {} calls unanswered", ledger.open());
        }
        Ok(())
    })?;
    let requests = writer.join().expect("the writer does not panic")?;
    let drained = Memory::of(process)?;
    peer.finish(Pipes { requests, replies }, |line| ledger.enter(line, |_, _| true).map(drop))?;

    Ok(Readings {
        idle_rss_bytes: idle.resident,
        idle_private_bytes: idle.private,
        stalled_rss_bytes: stalled.resident,
        stalled_peak_rss_bytes: stalled.peak,
        calls_sent_while_stalled,
        drained_peak_rss_bytes: drained.peak,
    })
}

/// Writes from a separate thread, which is expected to block on a full pipe until replies are read.
///
/// If the server dies the thread ends with an error, so it need not be joined.
fn write_calls(
    mut requests: ChildStdin,
    calls: usize,
    sent: Arc<AtomicUsize>,
) -> JoinHandle<io::Result<ChildStdin>> {
    thread::spawn(move || {
        let params = format!(r#"{{"name":"echo","arguments":{{"text":"{}"}}}}"#, text());
        let mut request = Vec::new();
        for id in 0..calls {
            request.clear();
            writeln!(
                request,
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#
            )?;
            requests.write_all(&request)?;
            sent.fetch_add(1, Ordering::Relaxed);
        }
        Ok(requests)
    })
}

fn text() -> String {
    "x".repeat(TEXT_BYTES)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    environment: Environment,
    calls: usize,
    text_bytes: usize,
    readings: Readings,
    holds: Vec<Threshold>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Readings {
    idle_rss_bytes: u64,
    idle_private_bytes: u64,
    stalled_rss_bytes: u64,
    stalled_peak_rss_bytes: u64,
    calls_sent_while_stalled: usize,
    /// The peak until every reply was read.
    drained_peak_rss_bytes: u64,
}

impl Results {
    fn show(&self) -> String {
        let readings = &self.readings;
        let row = |stage: &str, bytes| [stage.to_owned(), format!("{:.1}", megabytes(bytes))];
        let rows = [
            ["stage", "RSS MB"].map(str::to_owned),
            row("idle", readings.idle_rss_bytes),
            row("replies not read", readings.stalled_rss_bytes),
            row("replies not read, peak", readings.stalled_peak_rss_bytes),
            row("all replies read, peak", readings.drained_peak_rss_bytes),
        ];
        let holds: Vec<String> = self.holds.iter().map(Threshold::to_string).collect();
        format!(
            "{} calls of echo with {} bytes over stdio, {}\n\n{}\n{} calls were taken while nobody \
             read; afterwards each was answered exactly once\n{}",
            self.calls,
            self.text_bytes,
            self.environment,
            report::table(&rows),
            readings.calls_sent_while_stalled,
            holds.join("\n"),
        )
    }
}

const TEXT_BYTES: usize = 64 * 1024;
const DRAIN_LIMIT: Duration = Duration::from_secs(300);
