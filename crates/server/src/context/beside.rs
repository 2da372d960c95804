//! What leaves a call by another way than its messages: datagrams, and what its result only names.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use mcp_flow_proto::model::{LogMessage, ProgressParams};
use mcp_flow_proto::webtransport::Channel;
use mcp_flow_proto::{RpcError, method, write};

use super::Context;

impl Context {
    /// Whether the caller can be sent datagrams about this call.
    pub(crate) fn has_datagrams(&self) -> bool {
        let datagrams = self.call.shared.info.datagrams.as_ref();
        // A call without a number has none; nothing is sent to find that out.
        datagrams.is_some_and(|datagrams| {
            datagrams.are_supported()
                && datagrams.send(Channel::Audio, Some(self.id()), &[], &mut || false).is_ok()
        })
    }

    /// Sends a datagram about this call, unless it is answered. Returns whether it could be sent
    /// and was wanted.
    pub(crate) fn send_datagram(
        &self,
        channel: Channel,
        payload: &[u8],
        wanted: impl Fn() -> bool,
    ) -> bool {
        let Some(datagrams) = &self.call.shared.info.datagrams else { return false };
        let mut was_wanted = false;
        let mut allowed = || {
            was_wanted = !self.is_answered() && wanted();
            was_wanted
        };
        let sent = datagrams.send(channel, Some(self.id()), payload, &mut allowed);
        sent.is_ok() && was_wanted
    }

    /// Sends progress as a datagram. Returns whether that was the way for it, even if it was not
    /// wanted (C-45).
    pub(super) fn progress_by_datagram(
        &self,
        params: &ProgressParams<'_>,
        rises: impl Fn() -> bool,
    ) -> bool {
        let shared = &self.call.shared;
        let Some(datagrams) = &shared.info.datagrams else { return false };
        if !datagrams.are_supported() {
            return false;
        }
        let encoding = shared.encoding();
        let Ok(payload) = encoding.encode(params) else { return false };
        let mut has_risen = false;
        let mut allowed = || {
            has_risen = !self.is_answered() && rises();
            has_risen
        };
        let sent = datagrams.send(Channel::Progress, Some(self.id()), &payload, &mut allowed);
        if has_risen {
            let mut message = Vec::new();
            if write::notification(&mut message, encoding, method::PROGRESS, params).is_ok() {
                *self.unconfirmed() = Some(message);
            }
        }
        sent.is_ok()
    }

    /// Sends a log message as a datagram. Returns whether that was the way for it.
    pub(super) fn log_by_datagram(&self, message: &LogMessage<'_>) -> bool {
        let shared = &self.call.shared;
        let payload = shared.encoding().encode(message);
        payload.is_ok_and(|payload| self.send_datagram(Channel::Log, &payload, || true))
    }

    /// Forgets progress that a later one makes void. Always true.
    pub(super) fn forget_unconfirmed(&self) -> bool {
        *self.unconfirmed() = None;
        true
    }

    /// Sends the last progress once more, so that its end is always seen.
    pub(super) fn confirm_progress(&self) {
        let Some(message) = self.unconfirmed().take() else { return };
        let wanted = || !self.is_answered();
        let (shared, route) = (&self.call.shared, &self.call.route);
        shared.send(route, message.len(), wanted, |out| out.extend_from_slice(&message));
    }

    /// Notes that something of the result travels beside it.
    pub(crate) fn use_side_channel(&self) {
        self.call.uses_side_channel.store(true, Ordering::Release);
    }

    /// Tells what carries parts of the result that the reply has left, or never will.
    pub(super) fn notify_side_channel(&self, is_result: bool) {
        if self.call.uses_side_channel.load(Ordering::Acquire)
            && let Some(side_channel) = self.side_channel()
        {
            side_channel.replied(self.id(), is_result);
        }
    }

    /// Settles which error a failure of this call is answered with. The first one counts.
    pub(crate) fn fail_with(&self, error: RpcError) {
        let _ = self.call.refusal.set(error);
    }

    pub(super) fn refusal(&self) -> Option<RpcError> {
        self.call.refusal.get().cloned()
    }

    fn unconfirmed(&self) -> std::sync::MutexGuard<'_, Option<Vec<u8>>> {
        self.call.unconfirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
