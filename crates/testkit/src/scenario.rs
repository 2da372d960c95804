//! What every transport must carry, tried from outside.
//!
//! A transport says how to connect a [`Peer`] to a server, and [`suite!`](crate::suite) makes one
//! test of each scenario:
//!
//! ```text
//! mcp_flow_testkit::suite!(|server| async move { mcp_flow_testkit::memory::connect(&server) });
//! ```

mod asking;
mod bulk;
mod calls;
mod cancelling;
mod changes;
mod completion;
mod content;
mod conversing;
mod direct;
mod ending;
mod errors;
mod handshake;
mod limits;
mod notices;
mod permissions;
mod prompts;
mod resources;
mod watching;

use std::pin::Pin;

use mcp_flow_server::Server;

use crate::peer::Peer;

pub use handshake::stateless;

/// Connects a peer to a server over the transport under test.
pub type Connect = dyn Fn(Server) -> Pin<Box<dyn Future<Output = Peer> + Send>> + Send + Sync;

/// Every scenario, each with its future boxed.
///
/// The body of an async function is compiled where it is first polled. Boxing it here compiles it
/// once, in this crate, instead of once for every transport.
pub mod boxed {
    use std::pin::Pin;

    use super::Connect;

    /// All that is in the modules beside this one.
    mod scenarios {
        pub(crate) use super::super::asking::*;
        pub(crate) use super::super::bulk::*;
        pub(crate) use super::super::calls::*;
        pub(crate) use super::super::cancelling::*;
        pub(crate) use super::super::changes::*;
        pub(crate) use super::super::completion::*;
        pub(crate) use super::super::content::*;
        pub(crate) use super::super::conversing::*;
        pub(crate) use super::super::direct::*;
        pub(crate) use super::super::ending::*;
        pub(crate) use super::super::errors::*;
        pub(crate) use super::super::handshake::*;
        pub(crate) use super::super::limits::*;
        pub(crate) use super::super::notices::*;
        pub(crate) use super::super::permissions::*;
        pub(crate) use super::super::prompts::*;
        pub(crate) use super::super::resources::*;
        pub(crate) use super::super::watching::*;
    }

    crate::suite! { @apart functions () }
    crate::suite! { @ordered functions () }
}

/// Makes one test of every scenario for one transport.
///
/// Where messages travel apart from each other, as over HTTP, `apart` leaves out what can only hold
/// where all of them go one way in, in order, and one way out.
#[macro_export]
macro_rules! suite {
    ($connect:expr) => {
        $crate::suite! { @apart tests ($connect) }
        $crate::suite! { @ordered tests ($connect) }
    };
    (apart: $connect:expr) => {
        $crate::suite! { @apart tests ($connect) }
    };
    (@ordered $then:ident $context:tt) => {
        $crate::suite! { @$then $context;
            in_order_means_in_order
            a_waiting_stateless_call_can_be_cancelled
            subscriptions_of_a_connection_are_bounded
        }
    };
    (@apart $then:ident $context:tt) => {
        $crate::suite! { @$then $context;
            requests_before_the_handshake_are_refused
            the_handshake_takes_three_messages
            versions_are_negotiated
            a_second_handshake_is_refused
            both_eras_share_a_connection
            stateless_faults_have_their_own_codes
            what_is_no_message_is_answered
            wrong_params_are_explained
            unknown_names_are_named
            notifications_are_never_answered
            batches_follow_the_revision
            a_tool_is_listed_and_called
            a_failing_tool_is_a_result
            a_panic_stays_in_its_call
            a_quick_call_overtakes_a_slow_one
            bad_arguments_follow_the_revision
            ids_come_back_as_they_were_sent
            the_caller_is_known
            every_tool_can_be_a_method
            a_direct_call_is_a_call
            content_follows_the_revision
            content_in_the_forms_of_seed_002
            odd_failures_tell_their_message
            output_is_filtered
            a_panic_in_a_filter_stays_in_its_call
            a_result_too_large_to_send_is_a_failure
            a_duplicate_id_is_refused
            requests_that_come_too_often_are_refused
            a_full_server_refuses_and_recovers
            a_cancelled_call_stops_and_is_silent
            a_cancel_by_the_other_name_is_answered
            a_blocking_call_is_told_to_stop
            what_cannot_be_cancelled_is_ignored
            progress_rises_and_ends_with_the_call
            log_messages_follow_the_level
            a_large_notice_is_not_taken_for_the_reply
            the_client_is_asked_and_answers
            a_person_is_asked_in_every_revision
            a_model_is_asked_in_every_revision
            roots_are_asked_for_in_every_revision
            a_refusal_is_told_apart_from_a_failure
            nothing_is_asked_that_was_not_declared
            answers_are_not_believed
            a_person_is_sent_to_a_url
            questions_at_once_are_asked_together
            what_is_missing_is_asked_again
            only_what_was_asked_can_be_answered
            a_request_state_is_good_for_one_request
            a_changed_question_is_noticed
            a_handler_keeps_its_own_state
            the_declaration_is_the_same_everywhere
            a_simple_conversation_takes_three_exchanges
            a_wizard_asks_one_question_after_another
            work_between_questions_is_told
            a_poller_finds_everything_in_results
            the_state_of_a_session_is_told
            what_cannot_be_done_to_a_session_is_named
            malformed_requests_name_their_field
            hostile_answers_are_rejected
            a_session_outlives_its_connection
            an_unacknowledged_prompt_ends_its_session
            a_finished_session_is_not_completed_again
            an_unseen_question_cannot_be_answered
            a_flow_is_asked_by_forms
            a_flow_is_asked_in_rounds
            a_flow_takes_everything_upfront
            a_round_without_forms_needs_everything
            only_an_open_question_can_be_declined
            the_last_answer_can_be_repeated_in_any_form
            conversations_can_be_switched_off
            without_conversations_nobody_is_asked
            a_burst_of_changes_is_told_once
            a_stateless_client_listens_for_changes
            what_cannot_be_listened_for_is_left_out
            nobody_begins_to_listen_at_the_end
            resources_are_listed_and_read
            resources_come_in_pages
            templates_are_listed_and_read
            resources_have_rules
            files_are_resources
            small_links_are_embedded
            a_subscriber_is_told_of_changes
            a_changed_file_is_told_of
            a_stateless_client_listens_for_resources
            a_changed_list_of_resources_is_told_of
            resource_subscriptions_are_bounded
            bulk_is_delivered
            bulk_has_a_limit
            partial_output_comes_before_the_result
            a_result_keeps_to_its_schema
            what_may_not_be_used_is_not_there
            rules_are_exchanged_while_clients_are_there
            sessions_need_their_flow
            a_prompt_is_listed_and_got
            arguments_of_a_prompt_are_harmless
            prompt_content_follows_the_revision
            wrong_requests_for_prompts_are_explained
            prompts_need_their_capability
            prompts_come_in_pages
            hidden_prompts_are_not_there
            changes_of_prompts_are_told
            arguments_are_completed
            wrong_completions_are_explained
            log_levels_that_are_none_are_refused
            calls_wait_for_a_place
            a_waiting_call_can_be_cancelled
            the_end_of_input_drains
            shutdown_is_answered_last
            shutdown_is_answered_though_asked_for_twice
        }
    };
    (@functions (); $($scenario:ident)*) => {
        $(
            #[allow(missing_docs, reason = "the function itself is documented")]
            pub fn $scenario(connect: &Connect) -> Pin<Box<dyn Future<Output = ()> + '_>> {
                Box::pin(scenarios::$scenario(connect))
            }
        )*
    };
    (@tests ($connect:expr); $($scenario:ident)*) => {
        $(
            #[tokio::test]
            async fn $scenario() {
                $crate::scenario::boxed::$scenario(&|server| Box::pin(($connect)(server))).await;
            }
        )*
    };
}
