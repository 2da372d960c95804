//! The scenario suite over the memory transport, in both encodings.

/// JSON messages.
mod json {
    mcp_flow_testkit_scenarios::suite!(|server| async move {
        mcp_flow_testkit_fixture::memory::connect(&server)
    });
}

/// The same messages as CBOR. Frames that are not JSON are sent unchanged and rejected as such.
mod cbor {
    mcp_flow_testkit_scenarios::suite!(|server| async move {
        mcp_flow_testkit_fixture::memory::connect_cbor(&server)
    });
}
