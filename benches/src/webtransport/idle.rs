//! Many idle connections, and one client that opens streams without end.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Serialize;
use tokio::time::timeout;

use super::client::Dialer;
use crate::{process::Memory, report::megabytes};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Idle {
    pub(super) connections: usize,
    pub(super) kilobytes_each: f64,
}

/// Holds idle connections open and measures the server's memory before and after.
pub(super) async fn hold_open(
    dialer: &Dialer,
    process: u32,
    connections: usize,
) -> anyhow::Result<Idle> {
    let before = Memory::settled(process)?;
    let mut open = Vec::with_capacity(connections);
    for number in 1..=connections {
        let client = dialer.connect().await;
        open.push(client.with_context(|| format!("connection {number} of {connections}"))?);
    }
    let after = settled(process).await?;
    // A connection the server has closed would seem to cost nothing.
    for client in &mut open {
        client.ping().await.context("an idle connection was lost")?;
    }
    let growth = after.resident.saturating_sub(before.resident);
    Ok(Idle { connections, kilobytes_each: growth as f64 / 1e3 / connections as f64 })
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Flood {
    pub(super) streams: usize,
    pub(super) growth_megabytes: f64,
}

/// Opens unsolicited streams while another client pings, and measures the server's memory.
pub(super) async fn flood(dialer: &Dialer, process: u32, streams: usize) -> anyhow::Result<Flood> {
    let before = settled(process).await?;
    let (flooder, mut bystander) = (dialer.connect().await?, dialer.connect().await?);
    for number in 0..streams {
        let opened = timeout(TIMEOUT, flooder.session.open_uni()).await;
        // A server may also disconnect such a client.
        let Ok(mut stream) = opened.context("the server lets no more streams be opened")? else {
            break;
        };
        let number = u32::try_from(number).expect("there are not so many streams");
        let header = [number.to_be_bytes(), [0; 4]].concat();
        // The server should reject it at once.
        let _ = stream.write_all(&header).await;
        if number % 10_000 == 0 {
            bystander.ping().await.context("another client was disturbed")?;
        }
    }
    bystander.ping().await.context("another client was disturbed")?;
    let peak = Memory::of(process)?.peak;
    ensure!(peak > 0, "a process has memory");
    Ok(Flood { streams, growth_megabytes: megabytes(peak.saturating_sub(before.resident)) })
}

/// Waits concurrently with the connections, which must be kept alive meanwhile.
async fn settled(process: u32) -> anyhow::Result<Memory> {
    tokio::task::spawn_blocking(move || Memory::settled(process)).await?
}

const TIMEOUT: Duration = Duration::from_secs(20);
