//! Peer over a byte stream with newline-delimited JSON.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use crate::peer::Peer;

/// Connects a peer to the two halves of a stream. `held` is dropped when the other end has closed
/// its half.
pub fn connect(
    reader: impl AsyncRead + Unpin + Send + 'static,
    mut writer: impl AsyncWrite + Unpin + Send + 'static,
    held: impl Send + 'static,
) -> Peer {
    let (frames, mut incoming) = mpsc::unbounded_channel::<Vec<u8>>();
    let (outgoing, messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(mut frame) = incoming.recv().await {
            frame.push(b'\n');
            // A closed stream shows as missing messages.
            let _ = writer.write_all(&frame).await;
        }
        let _ = writer.shutdown().await;
    });
    tokio::spawn(async move {
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line)
                .unwrap_or_else(|error| panic!("a line holds {line:?}: {error}"));
            let _ = outgoing.send(message);
        }
        drop(held);
    });
    Peer::new(frames, messages)
}
