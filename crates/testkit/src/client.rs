//! What a client must manage over every transport, against the server of [`fixture`](crate::fixture).
//!
//! A transport says how a server is started and reached, and [`client_suite!`](crate::client_suite)
//! makes one test of each scenario.

mod basics;
mod host;
mod questions;
mod signing;
mod watching;

use std::pin::Pin;
use std::sync::Arc;

use mcp_flow_client::transport::Connector;
use mcp_flow_client::{Client, ClientBuilder, Revision, Speak};
use mcp_flow_server::Server;

pub use host::Scripted;

/// Starts a server, and says how it is reached over the transport under test.
pub type Reach =
    dyn Fn(Server) -> Pin<Box<dyn Future<Output = Arc<dyn Connector>> + Send>> + Send + Sync;

/// A client of this server that speaks this revision.
pub async fn client(reach: &Reach, server: &Server, revision: Revision) -> Client {
    client_by(Client::builder(), reach, server, revision).await
}

/// The same, from a builder.
pub async fn client_by(
    builder: ClientBuilder,
    reach: &Reach,
    server: &Server,
    revision: Revision,
) -> Client {
    let builder = builder.with(|options| options.speak = Speak::Only(revision));
    builder.connect_by(reach(server.clone()).await).await.unwrap()
}

/// Every scenario, each with its future boxed, which compiles it once, in this crate.
pub mod boxed {
    use std::pin::Pin;

    use super::Reach;

    /// All that is in the modules beside this one.
    mod scenarios {
        pub(crate) use super::super::basics::*;
        pub(crate) use super::super::questions::*;
        pub(crate) use super::super::signing::*;
        pub(crate) use super::super::watching::*;
    }

    crate::client_suite! { @handshake functions () }
    crate::client_suite! { @stateless functions () }
}

/// Makes one test of every scenario for one transport; after `handshake`, of those for a transport
/// that wants one.
#[macro_export]
macro_rules! client_suite {
    (handshake; $reach:expr) => {
        $crate::client_suite! { @handshake tests ($reach) }
    };
    ($reach:expr) => {
        $crate::client_suite! { @handshake tests ($reach) }
        $crate::client_suite! { @stateless tests ($reach) }
    };
    (@stateless $then:ident $context:tt) => {
        $crate::client_suite! { @$then $context; the_newest_revision_is_found }
    };
    (@handshake $then:ident $context:tt) => {
        $crate::client_suite! { @$then $context;
            every_revision_is_spoken
            responses_find_their_requests
            progress_and_logs_are_streams
            a_dropped_call_is_cancelled
            a_call_has_a_time_limit
            errors_are_passed_on
            lists_come_whole_from_pages
            prompts_are_got_and_completed
            a_server_can_be_asked_anything
            questions_are_answered_by_the_host
            nobody_denies_everything
            rounds_go_on_until_the_server_is_content
            a_conversation_is_held
            a_conversation_is_left_and_taken_up
            without_conversations_everything_is_asked_upfront
            changes_are_told
            a_resource_is_read_again_after_a_change
            signed_messages_are_believed
            unsigned_messages_are_refused
            touched_messages_are_refused
        }
    };
    (@functions (); $($scenario:ident)*) => {
        $(
            #[allow(missing_docs, reason = "the function itself is documented")]
            pub fn $scenario(reach: &Reach) -> Pin<Box<dyn Future<Output = ()> + '_>> {
                Box::pin(scenarios::$scenario(reach))
            }
        )*
    };
    (@tests ($reach:expr); $($scenario:ident)*) => {
        $(
            #[tokio::test]
            async fn $scenario() {
                $crate::client::boxed::$scenario(&|server| Box::pin(($reach)(server))).await;
            }
        )*
    };
}
