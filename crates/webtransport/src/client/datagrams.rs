//! Decoding of received datagrams.

use bytes::Bytes;
use futures_util::{Stream, stream};
use mcp_flow_client::Error;
use mcp_flow_proto::webtransport::{AudioChunk, DatagramChannel};
use mcp_flow_proto::{Encoding, Raw, method, write};
use serde_json::{Map, Value};
use tokio::sync::broadcast;

use super::transport::WebTransport;

/// An audio chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedAudio {
    /// The request it belongs to, as announced by `$/audio`.
    pub request: u32,
    /// Sequence number, starting at 0. A gap shows that chunks were lost.
    pub sequence: u32,
    /// Start time in milliseconds, relative to the first chunk.
    pub timestamp: u32,
    /// The audio data, in the announced codec.
    pub data: Bytes,
}

/// Returns the audio chunks that the server sends from now on, until the connection is lost. A slow
/// receiver misses the oldest.
///
/// ```no_run
/// use futures_util::StreamExt;
/// use mcp_flow_webtransport::client::received_audio;
///
/// # async fn example(client: mcp_flow_client::Client) -> Result<(), mcp_flow_client::Error> {
/// let mut received_audio = received_audio(&client).await?;
/// let tone = client.call_tool("audio_tone", serde_json::json!({"frequency": 440}));
/// let playing = tokio::spawn(tone.into_future());
/// while let Some(chunk) = received_audio.next().await {
///     println!("{} ms: {} bytes", chunk.timestamp, chunk.data.len());
/// }
/// # Ok(())
/// # }
/// ```
pub async fn received_audio(
    client: &mcp_flow_client::Client,
) -> Result<impl Stream<Item = ReceivedAudio> + Send + Unpin + use<>, Error> {
    let transport = client.transport().await?;
    let webtransport = transport.as_any().and_then(|any| any.downcast_ref::<WebTransport>());
    let Some(webtransport) = webtransport else {
        return Err(Error::Usage("audio needs WebTransport".to_owned()));
    };
    let receiver = webtransport.audio();
    Ok(Box::pin(stream::unfold(receiver, |mut receiver| async move {
        loop {
            match receiver.recv().await {
                Ok(chunk) => return Some((chunk, receiver)),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    })))
}

/// The content of a datagram.
pub(super) enum DatagramContent {
    /// A notification in the encoding of the connection.
    Notification(Vec<u8>),
    Audio(ReceivedAudio),
}

/// Decodes a datagram; `None` if it is malformed.
pub(super) fn decode_datagram(
    channel: DatagramChannel,
    request: u32,
    payload: &Bytes,
    encoding: Encoding,
) -> Option<DatagramContent> {
    let method = match channel {
        DatagramChannel::Progress => method::PROGRESS,
        DatagramChannel::Log => method::MESSAGE,
        DatagramChannel::Audio => {
            let AudioChunk { sequence, timestamp, data } = AudioChunk::decode(payload)?;
            let data = payload.slice_ref(data);
            return Some(DatagramContent::Audio(ReceivedAudio {
                request,
                sequence,
                timestamp,
                data,
            }));
        }
    };
    let params: Map<String, Value> = match encoding {
        Encoding::Json => serde_json::from_slice(payload).ok()?,
        Encoding::Cbor => Raw::Cbor(payload).decode().ok()?,
    };
    let mut frame = Vec::new();
    write::notification(&mut frame, encoding, method, &params).ok()?;
    Some(DatagramContent::Notification(frame))
}

#[cfg(test)]
mod tests {
    use super::{DatagramContent, ReceivedAudio, decode_datagram};
    use bytes::Bytes;
    use mcp_flow_proto::Encoding;
    use mcp_flow_proto::webtransport::DatagramChannel;
    use serde_json::json;

    /// WT-020, WT-023: a datagram is decoded to the notification it stands for, in either encoding;
    /// malformed ones are dropped.
    #[test]
    fn datagrams_are_decoded_to_notifications() {
        let params = json!({"progressToken": 7, "progress": 1});
        for encoding in Encoding::ALL {
            let payload = Bytes::from(encoding.encode(&params).unwrap());
            let Some(DatagramContent::Notification(frame)) =
                decode_datagram(DatagramChannel::Progress, 7, &payload, encoding)
            else {
                panic!("it is one")
            };
            let expected =
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            let expected = encoding.encode(&expected).unwrap();
            assert_eq!(frame.len(), expected.len(), "{encoding:?}");
            for (channel, bad) in [
                (DatagramChannel::Progress, &b"\xff"[..]),
                (DatagramChannel::Log, b""),
                (DatagramChannel::Log, b"[]"),
                (DatagramChannel::Audio, b"\0\0\0\x01\0\0\0"),
            ] {
                let bad = Bytes::from_static(bad);
                assert!(decode_datagram(channel, 7, &bad, encoding).is_none(), "{bad:?}");
            }
        }
        let payload = Bytes::from_static(b"\0\0\0\x03\0\0\0\x3c\x01\x02");
        let Some(DatagramContent::Audio(chunk)) =
            decode_datagram(DatagramChannel::Audio, 7, &payload, Encoding::Json)
        else {
            panic!("it is one")
        };
        let data = Bytes::from_static(&[1, 2]);
        assert_eq!(chunk, ReceivedAudio { request: 7, sequence: 3, timestamp: 60, data });
    }
}
