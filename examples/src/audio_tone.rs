//! `audio_tone`: audio in numbered datagrams, of which some may be lost.

use std::f64::consts::TAU;
use std::time::Duration;

use mcp_flow::datagram::{AudioFormat, NotSupported};
use mcp_flow::prelude::*;
use tokio::time::{Instant, sleep_until};

/// Play a tone: audio in pieces of 20 ms, as datagrams, over WebTransport only
#[tool(category = "demonstration", read_only, open_world = false)]
pub async fn audio_tone(
    context: &Context,
    /// Frequency in hertz [default: 440]
    #[param(range = 20..=7000)]
    frequency: Option<u32>,
    /// Duration in milliseconds [default: 1000]
    #[param(range = 20..=60000)]
    duration: Option<u32>,
) -> Result<String, NotSupported> {
    let frequency = f64::from(frequency.unwrap_or(440));
    let pieces = duration.unwrap_or(1000).div_ceil(PIECE_TIME);
    let format = AudioFormat { codec: "audio/L16".to_owned(), sample_rate: RATE, channels: 1 };
    let mut audio = context.audio(&format)?;
    let start = Instant::now();
    let mut sent = 0;
    for piece in 0..pieces {
        let after = Duration::from_millis(u64::from(piece * PIECE_TIME));
        sleep_until(start + after).await;
        sent += u32::from(audio.send(after, &samples(frequency, piece * PIECE_SAMPLES)));
    }
    Ok(format!("{sent} packets of sound were queued as datagrams; some may be lost on the way."))
}

/// Encodes one piece of a tone, starting at a sample: 16 bits each, big-endian.
fn samples(frequency: f64, from: u32) -> Vec<u8> {
    let sample = |number: u32| {
        let turns = f64::from(number) * frequency / f64::from(RATE);
        #[expect(clippy::cast_possible_truncation, reason = "half of what fits")]
        let height = ((turns * TAU).sin() * f64::from(i16::MAX / 2)) as i16;
        height.to_be_bytes()
    };
    (from..from + PIECE_SAMPLES).flat_map(sample).collect()
}

/// Samples per second.
const RATE: u32 = 16_000;
/// Duration of a piece in milliseconds.
const PIECE_TIME: u32 = 20;
const PIECE_SAMPLES: u32 = RATE * PIECE_TIME / 1000;

#[cfg(test)]
mod tests {
    use super::{PIECE_SAMPLES, RATE, samples};
    use mcp_flow::{Revision, Server, tools};
    use mcp_flow_testkit_fixture::memory;
    use serde_json::json;

    /// WT-048: without datagrams, the call fails with a message.
    #[tokio::test]
    async fn without_datagrams_the_call_fails() {
        let server = Server::builder("test", "1").tools(tools![super::audio_tone]).build().unwrap();
        let mut peer = memory::connect(&server);
        peer.initialize(Revision::V2025_11_25).await;
        let refused = peer.call_tool("audio_tone", json!({})).await["error"].clone();
        assert_eq!(refused["code"], -32004);
        assert_eq!(refused["data"]["name"], "DATAGRAM_NOT_SUPPORTED");
    }

    #[test]
    fn a_tone_goes_on_from_piece_to_piece() {
        let first = samples(f64::from(RATE) / 4.0, 0);
        assert_eq!(first.len(), 2 * PIECE_SAMPLES as usize);
        // A quarter of a period each: zero, positive, zero, negative.
        let height = |sample: usize| i16::from_be_bytes([first[2 * sample], first[2 * sample + 1]]);
        assert_eq!((height(0), height(1), height(3)), (0, i16::MAX / 2, -(i16::MAX / 2)));
        assert_eq!(first, samples(f64::from(RATE) / 4.0, PIECE_SAMPLES));
    }
}
