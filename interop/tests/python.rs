//! The official Python SDK.

use interop::{ARGUMENTS, Served, program, python, run};

/// MCP-006, MCP-016, MCP-017, MCP-028, PAT-032, MCP-085, MCP-086: with the handshake, with
/// `server/discover` first, and with neither, so that the first message is a plain request.
#[tokio::test]
async fn the_python_sdk_is_served_over_stdio_in_both_eras() {
    for (era, revision) in ERAS {
        let mut client = python("python/client.py");
        client.args([era, "stdio"]).arg(program()).args(ARGUMENTS);
        run(&mut client).await.report().check(revision);
    }
}

/// MCP-009, MCP-020, MCP-030: the same over HTTP, and no session is left over.
#[tokio::test]
async fn the_python_sdk_is_served_over_http_in_both_eras() {
    for kind in ["mcp", "sse"] {
        for (era, revision) in ERAS {
            let served = Served::start().await;
            let mut client = python("python/client.py");
            run(client.args([era, kind, served.url(kind)])).await.report().check(revision);
            served.end().await;
        }
    }
}

/// Ways the SDK connects, and the revision each should negotiate.
const ERAS: [(&str, &str); 3] =
    [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")];
