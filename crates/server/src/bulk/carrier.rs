//! How a transport carries what is too large for a message.

use std::fmt;
use std::pin::Pin;

use mcp_flow_proto::webtransport::StreamError;
use mcp_flow_proto::{RequestId, RpcError};

use super::Bulk;
use crate::identity::Principal;

/// A transport's way beside its messages.
///
/// Put into [`ConnectionInfo::carrier`](crate::ConnectionInfo::carrier) by transports that have
/// one.
pub trait Carrier: Send + Sync + fmt::Debug + 'static {
    /// Says why nothing can be carried for a request, if that is so; what it returns goes inline
    /// then, as far as a result may be long.
    fn check(&self, _request: &RequestId) -> Result<(), CannotCarry> {
        Ok(())
    }

    /// Takes something over, for the result of a request, and says where it will be found. May
    /// wait for others to finish.
    fn carry<'a>(&'a self, request: &'a Carried<'a>, bulk: Bulk) -> Carrying<'a>;

    /// Returns whether something carried for a request has not reached the client yet, so that no
    /// other may use its id (C-51).
    fn is_open(&self, _request: &RequestId) -> bool {
        false
    }

    /// Hears that a request which something was carried for has its reply on its way: whether it
    /// is a result, which names what was carried, or it was refused or given up.
    fn replied(&self, _request: &RequestId, _is_result: bool) {}

    /// Hears that a request is cancelled, which may have been answered already.
    fn cancelled(&self, _request: &RequestId) {}

    /// Hears that the client could not read something to its end.
    fn failed(&self, _error: &StreamError) {}
}

/// What a [`Carrier`] is about to say.
pub type Carrying<'a> = Pin<Box<dyn Future<Output = Result<Found, CannotCarry>> + Send + 'a>>;

/// Whose result something belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Carried<'a> {
    /// The request.
    pub request: &'a RequestId,
    /// Whom it is made for.
    pub principal: &'a Principal,
}

/// Where something that is carried is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It can be fetched from here.
    Link(String),
    /// It comes on the execution stream of this tag.
    Stream(u32),
}

/// Why a transport does not take something over.
#[derive(Clone, Debug, PartialEq)]
pub struct CannotCarry(pub RpcError);

impl fmt::Display for CannotCarry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.name())
    }
}

impl std::error::Error for CannotCarry {}
