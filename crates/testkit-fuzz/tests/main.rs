//! Properties that hold for any bytes, checked with the seeds and with thousands of inputs derived
//! from them, the same ones each time.
//!
//! `MCP_FLOW_FUZZ_SEED` derives other inputs and `MCP_FLOW_FUZZ_RUNS` more of them. A failing input
//! is printed; add it to `fuzz/corpus` when the bug is fixed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use mcp_flow_testkit_fuzz::generate::{Random, input};
use mcp_flow_testkit_fuzz::{
    arguments, connection, frames, messages, rounds, shown, webtransport, workflows,
};

/// MCP-051, MCP-053: frames do not depend on how their bytes arrive.
#[test]
fn frames_do_not_depend_on_how_bytes_arrive() {
    explore("frames", frames::run);
}

/// MCP-022: no frame is fatal, and a valid one has the same meaning in both encodings.
#[test]
fn any_frame_decodes_to_a_message_or_an_error() {
    explore("messages", messages::run);
}

/// MCP-027, PAT-030: invalid arguments never reach the tool, and valid ones always do.
#[test]
fn any_arguments_are_validated_by_their_schema() {
    explore("arguments", arguments::run);
}

/// MCP-010, MCP-013: a request has one response and a notification none.
#[test]
fn every_request_is_answered_once() {
    explore("connection", connection::run);
}

/// C-06: a call in rounds is answered, whatever the client sends back.
#[test]
fn any_input_responses_are_accepted_or_refused() {
    explore("rounds", rounds::run);
}

/// WT-011 to WT-023, C-16: anything that arrives on a session is decoded, in any pieces and order.
#[test]
fn any_webtransport_bytes_are_handled() {
    explore("webtransport", webtransport::run);
}

/// WFL-030: reading any file terminates, and valid workflows stay valid.
#[test]
fn any_file_is_a_workflow_or_reports_problems() {
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

/// Prints the input if the test fails.
struct Shown<'a>(&'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was b\"{}\"", shown(self.0));
        }
    }
}

/// Seeds in a fixed order. Files that a fuzzer has added do not count.
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
