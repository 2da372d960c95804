//! What must be true of any bytes whatever, tried on the seeds and on some thousands of inputs
//! made from them, the same ones each time.
//!
//! `MCP_FLOW_FUZZ_SEED` makes other inputs and `MCP_FLOW_FUZZ_RUNS` more of them. An input that
//! fails is shown; put it into `fuzz/corpus` when the fault is mended.

use std::path::Path;

use mcp_flow_testkit::fuzz::generate::{Random, input};
use mcp_flow_testkit::fuzz::{
    arguments, connection, frames, messages, rounds, shown, webtransport, workflows,
};

/// MCP-051, MCP-053: lines do not depend on how their bytes arrive.
#[test]
fn any_bytes_become_the_lines_they_are() {
    explore("frames", frames::run);
}

/// MCP-022: no frame is fatal, and what is well formed means the same in both encodings.
#[test]
fn any_frame_becomes_a_message_or_a_refusal() {
    explore("messages", messages::run);
}

/// MCP-027, PAT-030: what breaks the schema never reaches the tool, and what does not always does.
#[test]
fn any_arguments_are_judged_by_their_schema() {
    explore("arguments", arguments::run);
}

/// MCP-010, MCP-013: a request has one answer and a notification none.
#[test]
fn any_lines_are_answered_as_they_should_be() {
    explore("connection", connection::run);
}

/// C-06: whatever a client brings back, its call is answered.
#[test]
fn any_answers_are_taken_or_refused() {
    explore("rounds", rounds::run);
}

/// WT-011 to WT-023, C-16: whatever comes on a session is what it is, however it comes.
#[test]
fn any_bytes_are_good_for_a_session() {
    explore("webtransport", webtransport::run);
}

/// WFL-030: whatever is in a file, reading it ends, and what is good stays so.
#[test]
fn any_file_is_a_workflow_or_says_why_not() {
    explore("workflows", workflows::run);
}

fn explore(target: &str, run: fn(&[u8])) {
    let seeds = seeds(target);
    let try_out = |data: &[u8]| {
        let _shown_if_it_fails = Shown(data);
        run(data);
    };
    seeds.iter().for_each(|seed| try_out(seed));
    let mut random = Random::new(number("MCP_FLOW_FUZZ_SEED", 1));
    for _ in 0..number("MCP_FLOW_FUZZ_RUNS", 20_000) {
        try_out(&input(&mut random, &seeds));
    }
}

/// Shows an input if the test fails while it is being tried.
struct Shown<'a>(&'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was b\"{}\"", shown(self.0));
        }
    }
}

/// The seeds, always in the same order. What a fuzzer has found beside them does not count.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|kind| kind == "seed"));
    paths.sort();
    assert!(!paths.is_empty(), "{target} has seeds");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn number(variable: &str, usual: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
