//! The startup message for a person who starts the program without arguments in a terminal: what it serves,
//! where the console is, and what to try next.

use std::time::Duration;

use mcp_flow::Server;
use mcp_flow::client::{Client, in_process};
use serde_json::Value;

/// Formats the welcome in five lines, for a terminal of this width.
pub(crate) async fn welcome(server: &Server, endpoints: &Value, columns: Option<u16>) -> String {
    let offered = tokio::time::timeout(TIME_TO_LIST, Offered::list(server)).await;
    let offered = offered.ok().flatten().unwrap_or_default();
    let columns = columns.map_or(usize::MAX, usize::from);
    let wide = wide(&offered, endpoints);
    match wide.iter().all(|line| line.chars().count() <= columns) {
        true => wide.join("\n"),
        false => narrow(&offered, endpoints).join("\n"),
    }
}

/// Offer of the server to a local client.
#[derive(Debug, Default)]
struct Offered {
    /// Numbers with their units, such as "3 prompts".
    counts: String,
    /// True if there is the flow that shows what this program is about.
    has_example: bool,
}

impl Offered {
    /// Lists what the server offers, as a client of it. None if it requires authentication.
    async fn list(server: &Server) -> Option<Self> {
        let client = Client::builder().connect(in_process(server)).await.ok()?;
        let tools = client.tools().all().await.ok()?;
        let prompts = client.prompts().all().await.map(|prompts| prompts.len()).unwrap_or_default();
        client.close().await;
        let count = |number: usize, unit: &str| match number {
            0 => None,
            1 => Some(format!("1 {unit}")),
            more => Some(format!("{more} {unit}s")),
        };
        let counts = [count(tools.len(), "tool"), count(prompts, "prompt")];
        let counts: Vec<_> = counts.into_iter().flatten().collect();
        Some(Self {
            counts: counts.join(" and "),
            has_example: tools.iter().any(|tool| tool.name == EXAMPLE),
        })
    }

    fn counts(&self) -> &str {
        match self.counts.as_str() {
            "" => "MCP",
            counts => counts,
        }
    }
}

fn wide(offered: &Offered, endpoints: &Value) -> [String; 5] {
    let (console, mcp) = (text(endpoints, "http"), text(endpoints, "mcp"));
    let server = console.trim_end_matches('/');
    [
        format!("mcp-flow serves {} at {mcp}", offered.counts()),
        format!("  Console  {console}"),
        format!("  List     mcp-flow tools {server}"),
        match offered.has_example {
            true => format!("  Try      mcp-flow call {server} {EXAMPLE}"),
            false => "  Install  mcp-flow install flow".to_owned(),
        },
        "  Stop     ctrl-c; mcp-flow --help lists all commands".to_owned(),
    ]
}

/// Lines that fit 40 columns with the default address, so that a command is not broken in two.
fn narrow(offered: &Offered, endpoints: &Value) -> [String; 5] {
    let (console, mcp) = (text(endpoints, "http"), text(endpoints, "mcp"));
    [
        format!("{} at", offered.counts()),
        mcp.to_owned(),
        format!("Console: {console}"),
        format!("Try mcp-flow tools {}", console.trim_end_matches('/')),
        "Stop: ctrl-c. More: mcp-flow --help".to_owned(),
    ]
}

fn text<'a>(endpoints: &'a Value, name: &str) -> &'a str {
    endpoints[name].as_str().unwrap_or_default()
}

/// A flow that asks two questions.
const EXAMPLE: &str = "register";

/// Time for a gateway to list what its servers offer.
const TIME_TO_LIST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use mcp_flow::Server;
    use serde_json::json;

    use super::welcome;

    #[tokio::test]
    async fn five_lines_fit_the_terminal() {
        let server = Server::builder("s", "1").build().unwrap();
        let endpoints =
            json!({"http": "http://127.0.0.1:4433/", "mcp": "http://127.0.0.1:4433/mcp"});
        for columns in [Some(40), Some(80), None] {
            let text = welcome(&server, &endpoints, columns).await;
            assert_eq!(text.lines().count(), 5, "{text}");
            for line in text.lines() {
                assert!(columns.is_none_or(|columns| line.len() <= columns.into()), "{line:?}");
            }
            for part in ["http://127.0.0.1:4433/mcp", "mcp-flow tools http://127.0.0.1:4433"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }
}
