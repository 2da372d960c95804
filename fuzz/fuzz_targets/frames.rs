//! Frames in lines, in any pieces.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_flow_testkit_fuzz::frames::run(data));
