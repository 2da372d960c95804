//! Listener of the HTTP reference servers: binds a free port and prints it.

use std::io::{self, Write};

use axum::{
    Router,
    serve::{Listener, ListenerExt},
};
use tokio::net::TcpListener;

/// Serves on a free port and prints it to stdout as `mcp-flow serve --json` does.
pub(crate) async fn serve(router: Router) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?)?;
    // Nagle's algorithm would delay the second write of a streamed reply by 40 ms.
    let listener = listener.tap_io(|socket| {
        // It fails only if the client is gone, which the first read will show.
        let _ = socket.set_nodelay(true);
    });
    axum::serve(listener, router).await
}

#[expect(clippy::disallowed_methods, reason = "the parent process waits for this line")]
fn announce(address: <TcpListener as Listener>::Addr) -> io::Result<()> {
    writeln!(io::stdout(), r#"{{"mcp":"http://{address}/mcp"}}"#)
}
