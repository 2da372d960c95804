//! Client scenarios: what a client must manage over every transport, against the
//! [`Fixture`](mcp_flow_testkit_fixture::Fixture).
//!
//! A transport starts a server and returns a connector, and [`client_suite!`](crate::client_suite)
//! makes one test of each scenario. It is the only list of scenarios: one that is missing there is
//! dead code and fails the build.

#![deny(dead_code)]

mod basics;
mod host;
mod prompts;
mod signing;
mod subscriptions;
mod tasks;

use std::pin::Pin;
use std::sync::Arc;

use mcp_flow_client::transport::Connector;
use mcp_flow_client::{Client, ClientBuilder, Revision, RevisionPolicy};
use mcp_flow_server::Server;

pub use host::{FormFiller, Scripted};

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
    let builder = builder.with(|options| options.revision = RevisionPolicy::Only(revision));
    builder.connect_by(reach(server.clone()).await).await.unwrap()
}

/// Every scenario with its future boxed, which compiles it once, in this crate.
pub mod boxed {
    use std::pin::Pin;

    use super::Reach;

    crate::client_suite! { @handshake functions () }
    crate::client_suite! { @stateless functions () }
}

/// Makes one test of every scenario for one transport. `handshake` leaves out the stateless era.
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
        $crate::client_suite! { @$then $context;
            basics {
                the_newest_common_revision_is_negotiated
            }
            tasks {
                a_call_follows_its_task
                the_host_answers_questions_of_tasks
                a_detached_task_is_followed_by_its_id
                cancelled_and_unwanted_tasks_are_no_results
            }
        }
    };
    (@handshake $then:ident $context:tt) => {
        $crate::client_suite! { @$then $context;
            basics {
                clients_speak_every_revision
                responses_are_matched_to_requests
                progress_and_logs_are_streams
                a_dropped_call_is_cancelled
                a_call_times_out
                server_errors_reach_the_caller
                paginated_lists_are_one_stream
                prompts_are_read_and_completed
                any_method_can_be_requested
            }
            prompts {
                the_host_answers_server_requests
                a_client_without_a_host_declines_everything
                rounds_continue_until_there_is_a_result
                a_session_runs_to_its_end
                a_session_is_resumed_by_another_client
                without_interaction_all_answers_are_asked_for_upfront
            }
            signing {
                signed_messages_are_accepted
                unsigned_messages_are_refused
                tampered_messages_are_refused
            }
            subscriptions {
                list_changes_are_announced_to_subscribers
                a_resource_is_read_again_after_a_change
            }
        }
    };
    (@functions (); $($module:ident { $($scenario:ident)* })*) => {
        $($(
            #[allow(missing_docs, reason = "the function itself is documented")]
            pub fn $scenario(reach: &Reach) -> Pin<Box<dyn Future<Output = ()> + '_>> {
                Box::pin(super::$module::$scenario(reach))
            }
        )*)*
    };
    (@tests ($reach:expr); $($module:ident { $($scenario:ident)* })*) => {
        $($(
            #[tokio::test]
            async fn $scenario() {
                $crate::client::boxed::$scenario(&|server| Box::pin(($reach)(server))).await;
            }
        )*)*
    };
}
