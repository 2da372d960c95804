//! A WebTransport session.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_flow_testkit_fuzz::webtransport::run(data));
