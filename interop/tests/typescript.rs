//! The official TypeScript SDKs.

use interop::{ARGUMENTS, Served, node, program, run};

/// MCP-006, MCP-016, MCP-017, MCP-028, PAT-032, MCP-085, MCP-086: version 1, which most hosts use.
#[tokio::test]
async fn the_typescript_sdk_1_is_served_over_stdio() {
    let mut client = node("typescript-1/client.mjs");
    client.arg("stdio").arg(program()).args(ARGUMENTS);
    run(&mut client).await.report().check("2025-11-25");
}

/// MCP-009, MCP-020, MCP-030, MCP-041 to MCP-045: the same over every HTTP transport, and no
/// session is left over.
#[tokio::test]
async fn the_typescript_sdk_1_is_served_over_http() {
    for kind in ["mcp", "sse", "websocket"] {
        let served = Served::start().await;
        let mut client = node("typescript-1/client.mjs");
        run(client.args([kind, served.url(kind)])).await.report().check("2025-11-25");
        served.end().await;
    }
}

/// MCP-006, MCP-016, MCP-017, MCP-028, PAT-032, MCP-085, MCP-086: version 2: with the handshake,
/// without it, and with `server/discover` first.
#[tokio::test]
async fn the_typescript_sdk_2_is_served_over_stdio_in_both_eras() {
    for (era, revision) in ERAS {
        let mut client = node("typescript-2/client.mjs");
        client.args([era, "stdio"]).arg(program()).args(ARGUMENTS);
        run(&mut client).await.report().check(revision);
    }
}

/// MCP-009, MCP-020, MCP-030: the same over HTTP, and no session is left over.
#[tokio::test]
async fn the_typescript_sdk_2_is_served_over_http_in_both_eras() {
    for kind in ["mcp", "sse"] {
        for (era, revision) in ERAS {
            let served = Served::start().await;
            let mut client = node("typescript-2/client.mjs");
            run(client.args([era, kind, served.url(kind)])).await.report().check(revision);
            served.end().await;
        }
    }
}

/// Ways the SDK connects, and the revision each should negotiate.
const ERAS: [(&str, &str); 3] =
    [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")];
