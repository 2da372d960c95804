//! Content from asynchronous readers: files, sockets, process output.
//!
//! For bytes in memory and blocking readers, see [`Content`] itself.

use mcp_flow_proto::model::{Content, Media, MediaError};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads an image of at most `limit` bytes; its MIME type is detected if none is given.
///
/// ```
/// use mcp_flow_server::proto::model::{Content, MediaError};
/// use mcp_flow_server::{Context, Tool, content};
/// use serde_json::Value;
///
/// let tool = Tool::builder("picture")
///     .description("Shows a picture")
///     .handler(async |_: Context, _: Value| -> Result<Content, MediaError> {
///         // Any `AsyncRead`, such as a file or a socket.
///         let source: &[u8] = b"\x89PNG\r\n\x1a\n...";
///         content::read_image(source, None, 1024 * 1024).await
///     })
///     .unwrap();
/// ```
pub async fn read_image(
    reader: impl AsyncRead,
    mime_type: Option<&str>,
    limit: usize,
) -> Result<Content, MediaError> {
    Media::Image.content(read(reader, limit).await?, mime_type)
}

/// Reads audio of at most `limit` bytes; its MIME type is detected if none is given.
///
/// ```
/// use mcp_flow_server::content;
/// use mcp_flow_server::proto::model::Content;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let source: &[u8] = b"OggS...";
/// let sound = content::read_audio(source, None, 1024 * 1024).await.unwrap();
/// assert_eq!(sound, Content::audio(source, "audio/ogg"));
///
/// let refused = content::read_audio(source, None, 4).await.unwrap_err();
/// assert!(refused.to_string().contains("larger than 4 bytes"));
/// # }
/// ```
pub async fn read_audio(
    reader: impl AsyncRead,
    mime_type: Option<&str>,
    limit: usize,
) -> Result<Content, MediaError> {
    Media::Audio.content(read(reader, limit).await?, mime_type)
}

async fn read(reader: impl AsyncRead, limit: usize) -> Result<Vec<u8>, MediaError> {
    let mut bytes = Vec::new();
    let reader = std::pin::pin!(reader);
    reader.take((limit as u64).saturating_add(1)).read_to_end(&mut bytes).await?;
    if bytes.len() > limit { Err(MediaError::TooLarge { limit }) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::{read_audio, read_image};
    use mcp_flow_proto::model::{Content, MediaError};
    use tokio::io::AsyncWriteExt;

    /// MCP-059, C-40: a source in pieces becomes content, up to its limit and no further.
    #[tokio::test]
    async fn a_source_is_read_up_to_its_limit() {
        let file = b"RIFF\x24\0\0\0WEBPVP8 ";
        for (limit, fits) in [(0, false), (15, false), (16, true), (usize::MAX, true)] {
            let (mut writer, reader) = tokio::io::duplex(3);
            let write = tokio::spawn(async move { writer.write_all(file).await });
            match read_image(reader, None, limit).await {
                Ok(content) => assert_eq!(content, Content::image(*file, "image/webp")),
                Err(error) => {
                    assert!(!fits && matches!(error, MediaError::TooLarge { .. }), "{error}");
                }
            }
            write.abort();
        }
        let endless = read_audio(tokio::io::repeat(0), Some("audio/basic"), 100).await;
        assert!(matches!(endless, Err(MediaError::TooLarge { limit: 100 })));
        let raw = read_audio(&[0, 1][..], Some("audio/basic"), 2).await.unwrap();
        assert_eq!(raw, Content::audio([0, 1], "audio/basic"));
    }
}
