//! Latency from an answer to the next question, with forms over stdio (2025-11-25).
//!
//! The official SDK stores nothing; MCP Flow keeps the session in memory, or durably.

use std::{
    io::Write,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Bench;
use crate::{
    peer::{Peer, Pipes},
    placement::Placement,
    process::CpuTime,
    report::median,
    servers::rmcp::Settings,
};

/// The latency of one server.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QuestionLatency {
    pub(super) label: String,
    pub(super) latency_microseconds: f64,
    pub(super) cpu_microseconds: f64,
}

/// Measures the SDK in every configuration and keeps the fastest, then MCP Flow in memory and on
/// disk.
pub(super) fn measure(
    bench: Bench<'_>,
    benches: &Path,
    rounds: usize,
) -> anyhow::Result<Vec<QuestionLatency>> {
    let mut contestants = Vec::new();
    for settings in Settings::all() {
        let [runtime, transport] = settings.to_arguments();
        let arguments = vec!["serve-rmcp-asking".to_owned(), runtime, transport];
        contestants.push((format!("rmcp 3.8 ({settings})"), benches, arguments));
    }
    for (label, store) in
        [("mcp-flow, memory:", "memory:"), ("mcp-flow, redb:", "redb:asking.redb")]
    {
        let arguments = ["stdio", "--diagnostics", "--ledger", "--store", store];
        contestants.push((label.to_owned(), bench.mcp_flow, arguments.map(str::to_owned).into()));
    }
    let mut measured: Vec<(String, Vec<QuestionLatency>)> = Vec::new();
    for (label, program, arguments) in &contestants {
        eprintln!("asking by forms: {label}");
        let mut samples = Vec::new();
        for _ in 0..rounds {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(bench.folder);
            samples.push(ask(label, command, bench.free)?);
        }
        measured.push((label.clone(), samples));
    }
    let medians = measured.into_iter().map(|(label, samples)| QuestionLatency {
        label,
        latency_microseconds: median(samples.iter().map(|s| s.latency_microseconds).collect()),
        cpu_microseconds: median(samples.iter().map(|s| s.cpu_microseconds).collect()),
    });
    let (mut references, ours): (Vec<_>, Vec<_>) =
        medians.partition(|asking| asking.label.starts_with("rmcp"));
    references.sort_by(|a, b| a.latency_microseconds.total_cmp(&b.latency_microseconds));
    references.truncate(1);
    Ok([references, ours].concat())
}

fn ask(label: &str, command: Command, placement: Placement) -> anyhow::Result<QuestionLatency> {
    let capabilities = json!({"elicitation": {}});
    let (mut peer, mut pipes) = Peer::start_as(&capabilities, command, placement)?;
    let process = peer.process();
    peer.within(Duration::from_secs(60), || {
        converse(&mut pipes, WARM_UP)?;
        let before = CpuTime::of(process)?;
        let mut latencies = Vec::new();
        for _ in 0..SESSIONS {
            latencies.extend(converse(&mut pipes, ENTRIES)?);
        }
        let cpu = CpuTime::of(process)?.since(before);
        let count = latencies.len() as f64;
        Ok(QuestionLatency {
            label: label.to_owned(),
            latency_microseconds: median(latencies),
            cpu_microseconds: cpu.as_secs_f64() * 1e6 / count,
        })
    })
}

/// Makes one call and answers all its questions. Returns the microseconds from each answer to the
/// next message.
fn converse(pipes: &mut Pipes, entries: usize) -> anyhow::Result<Vec<f64>> {
    let params = json!({"name": "ledger", "arguments": {"entries": entries}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    writeln!(pipes.requests, "{call}")?;
    let mut latencies = Vec::new();
    let mut answered = None;
    loop {
        let message = pipes.read_message()?;
        if let Some(answered) = answered {
            latencies.push(Instant::elapsed(&answered).as_secs_f64() * 1e6);
        }
        if message["method"] != "elicitation/create" {
            let text = message["result"]["content"][0]["text"].as_str();
            let text = text.with_context(|| format!("the call was answered with {message}"))?;
            ensure!(text.matches(ENTRY).count() == entries, "not all was entered: {text}");
            return Ok(latencies);
        }
        let fields = message["params"]["requestedSchema"]["properties"].as_object();
        let keys = fields.context("a form has fields")?.keys();
        let content: Map<_, _> = keys.map(|key| (key.clone(), ENTRY.into())).collect();
        let result = json!({"action": "accept", "content": Value::Object(content)});
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
        answered = Some(Instant::now());
        writeln!(pipes.requests, "{answer}")?;
    }
}

const ENTRY: &str = "entered";
const ENTRIES: usize = 50;
const WARM_UP: usize = 20;
const SESSIONS: usize = 10;
