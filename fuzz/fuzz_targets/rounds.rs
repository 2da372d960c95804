//! Calls in several rounds.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_flow_testkit_fuzz::rounds::run(data));
