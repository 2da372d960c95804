//! Datagrams, as what they say.

use bytes::Bytes;
use futures_util::{Stream, stream};
use mcp_flow_client::Error;
use mcp_flow_proto::webtransport::{AudioChunk, Channel};
use mcp_flow_proto::{Encoding, Raw, method, write};
use serde_json::{Map, Value};
use tokio::sync::broadcast;

use super::carry::WebTransport;

/// A piece of sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sound {
    /// The request it belongs to, as announced by `$/audio`.
    pub request: u32,
    /// Which piece it is, from 0 on; a gap tells what was lost.
    pub sequence: u32,
    /// When it begins, in milliseconds from the first.
    pub timestamp: u32,
    /// The sound, in the codec announced.
    pub data: Bytes,
}

/// The sound that a server sends to this client from now on, until the connection is lost. Whoever
/// does not listen often enough misses the oldest.
///
/// ```no_run
/// use futures_util::StreamExt;
/// use mcp_flow_webtransport::client::sounds;
///
/// # async fn example(client: mcp_flow_client::Client) -> Result<(), mcp_flow_client::Error> {
/// let mut sounds = sounds(&client).await?;
/// let tone = client.call_tool("audio_tone", serde_json::json!({"frequency": 440}));
/// let playing = tokio::spawn(tone.into_future());
/// while let Some(sound) = sounds.next().await {
///     println!("{} ms: {} bytes", sound.timestamp, sound.data.len());
/// }
/// # Ok(())
/// # }
/// ```
pub async fn sounds(
    client: &mcp_flow_client::Client,
) -> Result<impl Stream<Item = Sound> + Send + Unpin + use<>, Error> {
    let transport = client.transport().await?;
    let webtransport = transport.as_any().and_then(|any| any.downcast_ref::<WebTransport>());
    let Some(webtransport) = webtransport else {
        return Err(Error::Usage("only WebTransport carries sound".to_owned()));
    };
    let receiver = webtransport.sounds();
    Ok(Box::pin(stream::unfold(receiver, |mut receiver| async move {
        loop {
            match receiver.recv().await {
                Ok(sound) => return Some((sound, receiver)),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    })))
}

/// What a datagram stands for.
pub(super) enum Meaning {
    /// A notification, in the encoding of the connection.
    Notification(Vec<u8>),
    Sound(Sound),
}

/// What a datagram says; `None` if it makes no sense.
pub(super) fn meaning(
    channel: Channel,
    request: u32,
    payload: &Bytes,
    encoding: Encoding,
) -> Option<Meaning> {
    let method = match channel {
        Channel::Progress => method::PROGRESS,
        Channel::Log => method::MESSAGE,
        Channel::Audio => {
            let AudioChunk { sequence, timestamp, data } = AudioChunk::decode(payload)?;
            let data = payload.slice_ref(data);
            return Some(Meaning::Sound(Sound { request, sequence, timestamp, data }));
        }
    };
    let params: Map<String, Value> = match encoding {
        Encoding::Json => serde_json::from_slice(payload).ok()?,
        Encoding::Cbor => Raw::Cbor(payload).decode().ok()?,
    };
    let mut frame = Vec::new();
    write::notification(&mut frame, encoding, method, &params).ok()?;
    Some(Meaning::Notification(frame))
}

#[cfg(test)]
mod tests {
    use super::{Meaning, Sound, meaning};
    use bytes::Bytes;
    use mcp_flow_proto::Encoding;
    use mcp_flow_proto::webtransport::Channel;
    use serde_json::json;

    /// WT-020, WT-023: a datagram is the notification it stands for, in either encoding; what makes
    /// no sense is nothing.
    #[test]
    fn datagrams_stand_for_notifications() {
        let params = json!({"progressToken": 7, "progress": 1});
        for encoding in Encoding::ALL {
            let payload = Bytes::from(encoding.encode(&params).unwrap());
            let Some(Meaning::Notification(frame)) =
                meaning(Channel::Progress, 7, &payload, encoding)
            else {
                panic!("it is one")
            };
            let expected =
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            let expected = encoding.encode(&expected).unwrap();
            assert_eq!(frame.len(), expected.len(), "{encoding:?}");
            for (channel, bad) in [
                (Channel::Progress, &b"\xff"[..]),
                (Channel::Log, b""),
                (Channel::Log, b"[]"),
                (Channel::Audio, b"\0\0\0\x01\0\0\0"),
            ] {
                let bad = Bytes::from_static(bad);
                assert!(meaning(channel, 7, &bad, encoding).is_none(), "{bad:?}");
            }
        }
        let payload = Bytes::from_static(b"\0\0\0\x03\0\0\0\x3c\x01\x02");
        let Some(Meaning::Sound(sound)) = meaning(Channel::Audio, 7, &payload, Encoding::Json)
        else {
            panic!("it is one")
        };
        let data = Bytes::from_static(&[1, 2]);
        assert_eq!(sound, Sound { request: 7, sequence: 3, timestamp: 60, data });
    }
}
