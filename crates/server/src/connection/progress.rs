//! Progress notifications of a call, by datagram where the transport has them (C-45).

use std::sync::atomic::{AtomicU64, Ordering};

use mcp_flow_proto::model::ProgressParams;
use mcp_flow_proto::webtransport::DatagramChannel;
use mcp_flow_proto::{RequestId, method, write};
use parking_lot::Mutex;

use super::call::Call;

/// The progress of one call.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The token under which the caller asked for progress.
    token: Option<RequestId>,
    /// The last value sent, as bits of an `f64`.
    last: AtomicU64,
    /// The last notification sent by datagram, which may be lost, as a message.
    unconfirmed: Mutex<Option<Vec<u8>>>,
}

impl Progress {
    pub(super) fn new(token: Option<RequestId>) -> Self {
        let last = AtomicU64::new(f64::NEG_INFINITY.to_bits());
        Self { token, last, unconfirmed: Mutex::default() }
    }

    /// Returns whether the caller asked for progress.
    pub(crate) fn is_wanted(&self) -> bool {
        self.token.is_some()
    }

    /// Records a value; returns whether it is larger than the last.
    fn advance(&self, value: f64) -> bool {
        let last = f64::from_bits(self.last.load(Ordering::Relaxed));
        let advances = value > last;
        if advances {
            self.last.store(value.to_bits(), Ordering::Relaxed);
        }
        advances
    }
}

impl Call {
    /// Sends progress, if the caller asked for it and the value rises.
    pub(crate) fn send_progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        let Some(progress_token) = &self.progress.token else { return };
        let message = message.filter(|_| self.revision().features().progress_message);
        let params = ProgressParams { progress_token, progress, total, message };
        // A value that reaches its total is the last one, and must arrive.
        let is_last = total.is_some_and(|total| progress >= total);
        if is_last || !self.send_progress_datagram(&params) {
            self.notify(method::PROGRESS, &params, || {
                let advances = self.progress.advance(progress);
                if advances {
                    *self.progress.unconfirmed.lock() = None;
                }
                advances
            });
        }
    }

    /// Sends progress by datagram. Returns whether datagrams can carry it, even if the value did
    /// not rise.
    fn send_progress_datagram(&self, params: &ProgressParams<'_>) -> bool {
        let Some(datagrams) = &self.connection.info.datagrams else { return false };
        if !datagrams.are_supported() {
            return false;
        }
        let encoding = self.connection.output.encoding();
        let Ok(payload) = encoding.encode(params) else { return false };
        let mut advances = false;
        let mut allowed = || {
            advances = !self.is_answered() && self.progress.advance(params.progress);
            advances
        };
        let sent =
            datagrams.send(DatagramChannel::Progress, Some(&self.id), &payload, &mut allowed);
        if advances {
            let mut message = Vec::new();
            if write::notification(&mut message, encoding, method::PROGRESS, params).is_ok() {
                *self.progress.unconfirmed.lock() = Some(message);
            }
        }
        sent.is_ok()
    }

    /// Repeats the last progress sent by datagram as a message, so that it arrives before the
    /// reply.
    pub(super) fn confirm_progress(&self) {
        let Some(message) = self.progress.unconfirmed.lock().take() else { return };
        let wanted = || !self.is_answered();
        let output = &self.connection.output;
        output.send(&self.route, message.len(), wanted, |out| out.extend_from_slice(&message));
    }
}
