//! The official TypeScript SDKs.

use interop::{ARGUMENTS, node, program, run};

/// MCP-006, MCP-016, MCP-017, MCP-028, PAT-032, MCP-085, MCP-086: the line most hosts are built on.
#[tokio::test]
async fn the_typescript_sdk_1_is_served() {
    let mut client = node("typescript-1/client.mjs");
    run(client.arg(program()).args(ARGUMENTS)).await.report().check("2025-11-25");
}

/// MCP-006, MCP-016, MCP-017, MCP-028, PAT-032, MCP-085, MCP-086: with the handshake, without it,
/// and when the SDK asks the server first.
#[tokio::test]
async fn the_typescript_sdk_2_is_served_in_both_eras() {
    for (era, revision) in
        [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]
    {
        let mut client = node("typescript-2/client.mjs");
        run(client.arg(era).arg(program()).args(ARGUMENTS)).await.report().check(revision);
    }
}
