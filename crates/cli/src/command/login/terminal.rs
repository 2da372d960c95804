//! The authorization page in the user's browser, and the redirect back.

use std::io::IsTerminal as _;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow::oauth::{LoopbackListener, UserAgent};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use url::Url;

use crate::client::browser::open_browser;

/// Prints the URL of the page, opens it in a browser if there is one, and waits for the redirect: to
/// a local port, or pasted into the terminal.
#[derive(Debug)]
pub(crate) struct Terminal {
    loopback: LoopbackListener,
    opens_browser: bool,
    /// Standard input belongs to the user. In a server it belongs to the client.
    reads_input: bool,
    limit: Duration,
}

impl Terminal {
    pub(crate) async fn open(
        port: u16,
        opens_browser: bool,
        limit: Duration,
    ) -> std::io::Result<Self> {
        let loopback = LoopbackListener::open(port).await?;
        Ok(Self { loopback, opens_browser, reads_input: true, limit })
    }

    /// Opens a browser and never reads standard input.
    pub(crate) async fn for_background(limit: Duration) -> std::io::Result<Self> {
        let loopback = LoopbackListener::open(0).await?;
        Ok(Self { loopback, opens_browser: true, reads_input: false, limit })
    }
}

impl UserAgent for Terminal {
    fn redirect_uri(&self) -> String {
        self.loopback.redirect_uri()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let state = page.query_pairs().find(|(name, _)| name == "state");
            let state = state.map(|(_, value)| value.into_owned()).unwrap_or_default();
            eprintln!("Open this page to log in:\n\n  {page}\n");
            if self.reads_input && std::io::stdin().is_terminal() {
                eprintln!("If the page it redirects to does not load, paste its URL here.");
            }
            if self.opens_browser {
                // Its URL was printed.
                let _ = open_browser(page);
            }
            tokio::select! {
                returned = self.loopback.wait(&state) => Ok(returned),
                pasted = pasted(), if self.reads_input => Ok(pasted),
                () = tokio::time::sleep(self.limit) => Err(format!(
                    "no login within {} s; allow more time with --timeout",
                    self.limit.as_secs()
                )),
            }
        })
    }
}

/// Reads lines until one is a redirect URL. Pends at the end of input.
async fn pasted() -> String {
    let input = BufReader::new(tokio::io::stdin().take(MAX_INPUT_LENGTH));
    let mut lines = input.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let line = line.trim();
        match Url::parse(line) {
            Ok(url) if url.query().is_some() => return line.to_owned(),
            _ if line.is_empty() => {}
            _ => eprintln!("This is not the redirect URL; paste all of it."),
        }
    }
    std::future::pending().await
}

/// Limit on pasted input, in bytes.
const MAX_INPUT_LENGTH: u64 = 64 * 1024;
