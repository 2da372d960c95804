//! Bookkeeping of expected and received responses.

use std::collections::{HashMap, VecDeque};

use mcp_flow_proto::model::CancelParams;
use mcp_flow_proto::{
    Encoding, Incoming, InvalidMessage, Message, Notification, Raw, RequestId, method,
};

/// Expected responses of one connection by id; messages without an id are answered with `null`.
#[derive(Debug, Default)]
pub(super) struct ExpectedResponses {
    expected: HashMap<Option<RequestId>, Account>,
    /// True after the client has announced that it wants no more responses.
    left: bool,
    /// Expected responses in the order of their requests, as long as no request is served on
    /// arrival.
    in_order: Option<VecDeque<Option<RequestId>>>,
}

#[derive(Debug, Default)]
struct Account {
    owed: usize,
    /// Number of responses that may be missing because their requests were cancelled.
    waived: usize,
    answered: usize,
}

impl ExpectedResponses {
    pub(super) fn new(in_order: bool) -> Self {
        Self { in_order: in_order.then(VecDeque::new), ..Self::default() }
    }

    /// Records the responses a frame calls for. `longest_batch` is the limit on the messages of a
    /// batch.
    pub(super) fn expect(&mut self, frame: &[u8], encoding: Encoding, longest_batch: usize) {
        match Incoming::decode(frame, encoding) {
            Ok(Incoming::Message(message)) => self.expect_message(Ok(message)),
            Ok(Incoming::Batch(batch)) => match elements(batch, longest_batch) {
                Some(elements) => {
                    self.in_order = None;
                    elements
                        .into_iter()
                        .map(Message::from_raw)
                        .for_each(|it| self.expect_message(it));
                }
                None => self.owe(None),
            },
            Err(refusal) => self.expect_message(Err(refusal)),
        }
    }

    fn expect_message(&mut self, message: Result<Message<'_>, InvalidMessage>) {
        match message {
            Ok(Message::Request(request)) => {
                if matches!(&*request.method, method::PING | method::SHUTDOWN) {
                    self.in_order = None;
                }
                self.owe(Some(request.id));
            }
            Ok(Message::Response(_)) => {}
            Ok(Message::Notification(notification)) => self.heed(&notification),
            Err(refusal) => self.owe(refusal.id),
        }
    }

    fn heed(&mut self, notification: &Notification<'_>) {
        match &*notification.method {
            method::EXIT => self.left = true,
            method::CANCELLED => {
                if let Some(cancel) = CancelParams::from_params(notification.params) {
                    self.account(Some(cancel.request_id)).waived += 1;
                }
            }
            method::CANCEL | method::SHUTDOWN_NOTIFICATION => {}
            _ => return,
        }
        self.in_order = None;
    }

    fn owe(&mut self, id: Option<RequestId>) {
        if let Some(waiting) = &mut self.in_order {
            waiting.push_back(id.clone());
        }
        self.account(id).owed += 1;
    }

    /// Records a response, which must be expected.
    pub(super) fn note(&mut self, id: Option<RequestId>) {
        let account = self.account(id.clone());
        account.answered += 1;
        assert!(account.answered <= account.owed, "{id:?} is answered too often");
        if let Some(waiting) = &mut self.in_order {
            assert_eq!(waiting.pop_front(), Some(id), "answers come in order");
        }
    }

    /// Checks that no response is missing.
    pub(super) fn check(&self) {
        for (id, account) in &self.expected {
            let settled = self.left || account.answered + account.waived >= account.owed;
            assert!(settled, "{id:?} is not answered: {account:?}");
        }
    }

    fn account(&mut self, id: Option<RequestId>) -> &mut Account {
        self.expected.entry(id).or_default()
    }
}

fn elements(batch: Raw<'_>, longest: usize) -> Option<Vec<Raw<'_>>> {
    let elements = batch.elements(longest).unwrap()?;
    (!elements.is_empty()).then_some(elements)
}
