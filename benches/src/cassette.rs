//! Cost of recording over stdio, memory of a recorder through which a gigabyte passes, and speed of a
//! replay of many exchanges.

use std::{
    fs,
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::{
    binary::{McpFlow, Target},
    driver::{Load, Sample, measure},
    placement::{Cores, Placement},
    process::Memory,
    report::{self, Environment, Threshold, median, megabytes, name},
};

/// Compare recorded calls with plain ones, and measure recorders and replays
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Exchanges of each recording
    #[arg(long, value_name = "N", default_value = "100000")]
    #[arg(value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    exchanges: usize,

    /// Rounds; the median counts
    #[arg(long, value_name = "N", default_value = "5")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Bytes that pass through the recorder whose memory is measured
    #[arg(long, value_name = "BYTES", default_value = "1000000000")]
    bytes: u64,

    /// Placement of the driver and the server
    #[arg(long, value_enum, default_value = "one-each")]
    cores: Cores,

    #[command(flatten)]
    mcp_flow: McpFlow,
}

impl Arguments {
    /// Measures, writes `cassette.json`, and returns the report.
    pub(crate) fn run(self) -> anyhow::Result<String> {
        let Self { exchanges, rounds, bytes, cores, mcp_flow } = self;
        let target = Target::find()?;
        let mcp_flow = mcp_flow.locate(&target)?;
        let environment = Environment::describe()?;
        let placement = cores.place()?;
        let load = Load { calls: exchanges, in_flight: 64 };
        let file = target.scratch()?.join("cassette.jsonl");
        let mut samples = [const { Vec::new() }; 3];
        for round in 1..=rounds {
            eprintln!("round {round} of {rounds}");
            for (kind, samples) in ["plain", "record", "replay"].into_iter().zip(&mut samples) {
                let mut command = Command::new(&mcp_flow);
                match kind {
                    "plain" => command.args(STDIO),
                    "record" => command.arg(kind).arg(&file).arg("--").arg(&mcp_flow).args(STDIO),
                    _ => command.arg(kind).arg(&file),
                };
                samples.push(measure(command, load, placement)?);
            }
        }
        let speeds = samples.each_ref().map(|samples: &Vec<Sample>| {
            median(samples.iter().map(|sample| sample.calls_per_second).collect())
        });
        eprintln!("{} MB through a recorder", bytes / 1_000_000);
        let growth = megabytes(growth(&mcp_flow, &file, bytes, placement)?);
        fs::remove_file(&file).context("cannot remove the cassette")?;
        let [plain, recorded, replayed] = speeds;
        let results = Results {
            environment,
            exchanges,
            rounds,
            bytes,
            cores,
            speeds,
            growth_megabytes: growth,
            holds: [
                Threshold::at_least("recorded over stdio: calls/s", 0.87, recorded / plain),
                Threshold::new("recorder with a gigabyte: growth in MB", 32.0, growth),
                Threshold::at_least("replay over stdio: calls/s", 20_000.0, replayed),
            ],
        };
        let saved = report::save(&target, "cassette.json", &results)?;
        Ok(format!("{}\n{saved}", results.show()))
    }
}

/// Sends messages through a recorder to `cat` and back, and returns the growth of its memory.
fn growth(mcp_flow: &Path, file: &Path, bytes: u64, placement: Placement) -> anyhow::Result<u64> {
    let mut command = Command::new(mcp_flow);
    command.arg("record").arg(file).args(["--", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = placement.spawn(&mut command).context("cannot start the recorder")?;
    let mut input = child.stdin.take().context("stdin was asked to be piped")?;
    let mut output = child.stdout.take().context("stdout was asked to be piped")?;
    let mut echo = vec![0; BUFFER];
    // One small message first, so that everything has started.
    input.write_all(b"{}\n")?;
    output.read_exact(&mut echo[..3])?;
    let before = Memory::of(child.id())?.resident;
    // Most are larger than what is kept, or have very many values; the others are a text and rows.
    let text = |bytes| message(&format!("\"{}\"", "x".repeat(bytes)));
    let list =
        |part: &str, bytes: usize| message(&format!("[{}0]", part.repeat(bytes / part.len())));
    let row = r#"{"id":4711,"name":"a name","price":9.5,"tags":["new"]},"#;
    let kept = [text(900_000), list(row, 400_000)];
    let others =
        [text(2_000_000), list(row, 900_000), list("1,", 900_000), list(r#"{"a":0},"#, 900_000)];
    let sending = thread::spawn(move || -> std::io::Result<_> {
        let mut sent = 0;
        for number in 0_usize.. {
            let message: &Vec<u8> = match number % 10 {
                0 | 1 => &kept[number % 2],
                _ => &others[number % others.len()],
            };
            input.write_all(message)?;
            sent += message.len() as u64;
            if sent >= bytes {
                break;
            }
        }
        Ok((input, sent))
    });
    let mut received = 0;
    while received < bytes {
        let read = output.read(&mut echo)?;
        ensure!(read > 0, "the recorder closed its output after {received} bytes");
        received += read as u64;
    }
    let peak = Memory::of(child.id())?.peak;
    let reading = thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
    let Ok(sent) = sending.join() else { anyhow::bail!("the sender failed") };
    drop(sent?);
    if reading.join().is_err() {
        anyhow::bail!("the reader failed");
    }
    ensure!(child.wait()?.success(), "the recorder failed");
    Ok(peak.saturating_sub(before))
}

/// A response with a result.
fn message(value: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"value\":{value}}}}}\n").into_bytes()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    environment: Environment,
    exchanges: usize,
    rounds: u32,
    bytes: u64,
    cores: Cores,
    /// Calls per second: plain, recorded, replayed.
    speeds: [f64; 3],
    growth_megabytes: f64,
    holds: [Threshold; 3],
}

impl Results {
    fn show(&self) -> String {
        let mut rows = vec![["way", "calls/s"].map(str::to_owned)];
        let labels = ["plain", "recorded", "replayed"];
        let speeds = labels.into_iter().zip(self.speeds);
        rows.extend(speeds.map(|(label, speed)| [label.to_owned(), format!("{speed:.0}")]));
        let holds: Vec<String> = self.holds.iter().map(Threshold::to_string).collect();
        format!(
            "tools/call over stdio: {} exchanges, 64 in flight, {}, median of {} rounds; {} MB \
             through a recorder\n{}\n\n{}\n{}",
            self.exchanges,
            name(&self.cores),
            self.rounds,
            self.bytes / 1_000_000,
            self.environment,
            report::table(&rows),
            holds.join("\n"),
        )
    }
}

const STDIO: [&str; 3] = ["stdio", "--store", "memory:"];

const BUFFER: usize = 256 * 1024;
