//! Decoding of messages in both encodings.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_flow_testkit_fuzz::messages::run(data));
