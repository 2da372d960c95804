//! Validation of tool arguments.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_flow_testkit_fuzz::arguments::run(data));
