//! A service of rmcp whose panics stay within the request that caused them. rmcp never answers such a
//! request.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use rmcp::model::ProtocolVersion;
use rmcp::service::{NotificationContext, RequestContext, Service, ServiceRole};
use rmcp::{ErrorData, RoleServer, ServerHandler};

/// Answers requests whose handler panics with an error.
pub(crate) struct Contained<H>(pub(crate) H);

impl<H: ServerHandler> Service<RoleServer> for Contained<H> {
    async fn handle_request(
        &self,
        request: <RoleServer as ServiceRole>::PeerReq,
        context: RequestContext<RoleServer>,
    ) -> Result<<RoleServer as ServiceRole>::Resp, ErrorData> {
        let handled =
            AssertUnwindSafe(self.0.handle_request(request, context)).catch_unwind().await;
        // The text of a panic may have secrets in it, and was printed.
        handled.unwrap_or_else(|_| Err(ErrorData::internal_error("the handler panicked", None)))
    }

    async fn handle_notification(
        &self,
        notification: <RoleServer as ServiceRole>::PeerNot,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.handle_notification(notification, context).await
    }

    fn get_info(&self) -> <RoleServer as ServiceRole>::Info {
        Service::get_info(&self.0)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.0)
    }
}
