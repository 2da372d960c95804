//! What both rivals over HTTP share: a free port, told to whoever started them.

use std::io::{self, Write};

use axum::{
    Router,
    serve::{Listener, ListenerExt},
};
use tokio::net::TcpListener;

/// Serves at a free port of this machine, and says which on stdout as `mcp-flow serve --json` does.
pub(crate) async fn serve(router: Router) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?)?;
    // Left on, Nagle's algorithm holds back the second write of a streamed reply for 40 ms.
    let listener = listener.tap_io(|socket| {
        // A socket that refuses is one whose client has gone, which its first read will tell.
        let _ = socket.set_nodelay(true);
    });
    axum::serve(listener, router).await
}

#[expect(clippy::disallowed_methods, reason = "whoever starts a rival waits for this line")]
fn announce(address: <TcpListener as Listener>::Addr) -> io::Result<()> {
    writeln!(io::stdout(), r#"{{"mcp":"http://{address}/mcp"}}"#)
}
