//! The official Python SDK.

use interop::{ARGUMENTS, program, python, run};

/// MCP-006, MCP-016, MCP-017, MCP-028, PAT-032, MCP-085, MCP-086: with the handshake, when the SDK
/// asks the server first, and with neither, so that the first message is a plain request.
#[tokio::test]
async fn the_python_sdk_is_served_in_both_eras() {
    for (era, revision) in
        [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]
    {
        let mut client = python("python/client.py");
        run(client.arg(era).arg(program()).args(ARGUMENTS)).await.report().check(revision);
    }
}
