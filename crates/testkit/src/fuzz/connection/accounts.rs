//! Who is owed an answer, and who got one.

use std::collections::{HashMap, VecDeque};

use mcp_flow_proto::model::CancelParams;
use mcp_flow_proto::{
    Encoding, Incoming, InvalidMessage, Message, Notification, Raw, RequestId, method,
};

/// The answers of one connection by id; what has no id is answered with `null`.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    accounts: HashMap<Option<RequestId>, Account>,
    /// Whoever says so wants no answers any more.
    left: bool,
    /// The answers still to come, if they come in the order of their requests. They do as long as
    /// nothing acts on arrival.
    in_order: Option<VecDeque<Option<RequestId>>>,
}

#[derive(Debug, Default)]
struct Account {
    owed: usize,
    /// How many answers may be missing, because their requests were cancelled.
    waived: usize,
    answered: usize,
}

impl Accounts {
    pub(super) fn new(in_order: bool) -> Self {
        Self { in_order: in_order.then(VecDeque::new), ..Self::default() }
    }

    /// Notes what a frame calls for. A batch may hold this many messages, if any.
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

    /// Notes an answer, which must be called for.
    pub(super) fn note(&mut self, id: Option<RequestId>) {
        let account = self.account(id.clone());
        account.answered += 1;
        assert!(account.answered <= account.owed, "{id:?} is answered too often");
        if let Some(waiting) = &mut self.in_order {
            assert_eq!(waiting.pop_front(), Some(id), "answers come in order");
        }
    }

    /// Everybody got what was owed.
    pub(super) fn check(&self) {
        for (id, account) in &self.accounts {
            let settled = self.left || account.answered + account.waived >= account.owed;
            assert!(settled, "{id:?} is not answered: {account:?}");
        }
    }

    fn account(&mut self, id: Option<RequestId>) -> &mut Account {
        self.accounts.entry(id).or_default()
    }
}

fn elements(batch: Raw<'_>, longest: usize) -> Option<Vec<Raw<'_>>> {
    let elements = batch.elements(longest).unwrap()?;
    (!elements.is_empty()).then_some(elements)
}
