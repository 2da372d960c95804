//! Server scenarios: what every transport must carry, checked by a scripted peer.
//!
//! A transport connects a [`Peer`] to a server, and [`suite!`](crate::suite) makes one test of each
//! scenario:
//!
//! ```text
//! mcp_flow_testkit_scenarios::suite!(|server| async move { memory::connect(&server) });
//! ```
//!
//! `suite!` is the only list of scenarios: one that is missing there is dead code and fails the build.

#![deny(dead_code)]

mod bulk;
mod calls;
mod cancellation;
mod client_requests;
mod completion;
mod content;
mod direct;
mod errors;
mod handshake;
mod interaction;
mod limits;
mod list_changes;
mod notifications;
mod permissions;
mod prompts;
mod resources;
mod shutdown;
mod subscriptions;
mod tasks;

use std::pin::Pin;

use mcp_flow_server::Server;
use mcp_flow_testkit::Peer;

/// Connects a peer to a server over the transport under test.
pub type Connect = dyn Fn(Server) -> Pin<Box<dyn Future<Output = Peer> + Send>> + Send + Sync;

/// Every scenario with its future boxed.
///
/// The body of an async function is compiled where it is first polled. Boxing compiles it once, in
/// this crate, instead of once for every transport.
pub mod boxed {
    use std::pin::Pin;

    use super::Connect;

    crate::suite! { @unordered functions () }
    crate::suite! { @ordered functions () }
}

/// Makes one test of every scenario for one transport.
///
/// `unordered` is for transports that do not deliver messages in order, such as HTTP, and leaves out
/// the scenarios that depend on it.
#[macro_export]
macro_rules! suite {
    ($connect:expr) => {
        $crate::suite! { @unordered tests ($connect) }
        $crate::suite! { @ordered tests ($connect) }
    };
    (unordered: $connect:expr) => {
        $crate::suite! { @unordered tests ($connect) }
    };
    (@ordered $then:ident $context:tt) => {
        $crate::suite! { @$then $context;
            limits {
                a_waiting_stateless_call_can_be_cancelled
                one_permit_keeps_responses_in_order
            }
            interaction {
                a_pipelined_response_does_not_answer_the_next_prompt
            }
            list_changes {
                subscriptions_of_a_connection_are_bounded
            }
        }
    };
    (@unordered $then:ident $context:tt) => {
        $crate::suite! { @$then $context;
            handshake {
                requests_before_the_handshake_are_refused
                the_handshake_takes_three_messages
                versions_are_negotiated
                a_second_handshake_is_refused
                both_eras_share_a_connection
                stateless_errors_have_their_own_codes
            }
            errors {
                malformed_messages_are_answered_with_an_error
                invalid_params_are_explained
                unknown_methods_and_tools_are_named
                notifications_are_never_answered
                batches_are_served_by_revision
            }
            calls {
                a_tool_is_listed_and_called
                a_failing_tool_is_a_result
                a_panic_fails_only_its_call
                a_quick_call_overtakes_a_slow_one
                invalid_arguments_are_reported_by_revision
                ids_are_echoed_unchanged
                the_principal_comes_from_the_transport
                a_result_must_match_its_output_schema
            }
            direct {
                tools_can_be_called_as_methods
                direct_calls_behave_like_tool_calls
            }
            content {
                content_is_encoded_by_revision
                content_in_the_forms_of_seed_002
                every_failure_has_a_message
                output_filters_are_applied
                a_panic_in_a_filter_fails_only_its_call
                an_oversized_result_becomes_a_failure
            }
            bulk {
                bulk_is_delivered
                bulk_size_is_limited
                partial_output_precedes_the_result
            }
            limits {
                calls_wait_for_a_permit
                a_waiting_call_can_be_cancelled
                requests_above_the_rate_limit_are_refused
                a_full_server_refuses_and_recovers
            }
            cancellation {
                a_duplicate_id_is_refused
                a_cancelled_call_stops_without_a_response
                a_cancel_by_its_alias_is_answered
                a_blocking_call_is_signalled_to_stop
                cancels_without_a_running_call_are_ignored
            }
            notifications {
                progress_is_monotonic_and_ends_with_the_call
                a_large_notification_is_not_mistaken_for_the_response
                log_messages_follow_the_level
                invalid_log_levels_are_refused
                a_call_can_send_requests_to_the_client
            }
            client_requests {
                elicitation_works_in_every_revision
                sampling_works_in_every_revision
                roots_are_listed_in_every_revision
                a_declined_request_differs_from_a_failed_one
                undeclared_capabilities_are_not_used
                client_results_are_validated
                url_elicitation_works_in_every_revision
                concurrent_questions_share_a_round
                missing_answers_are_requested_again
                unrequested_answers_are_ignored
                a_request_state_is_valid_for_one_request
                a_changed_question_is_asked_again
                a_handler_can_carry_its_own_state
            }
            interaction {
                the_interaction_capability_is_declared_consistently
                a_simple_session_takes_three_requests
                a_wizard_prompts_in_sequence
                work_between_prompts_is_reported
                a_polling_client_gets_everything_in_results
                the_state_of_a_session_is_reported
                invalid_session_operations_have_their_own_errors
                malformed_requests_name_their_field
                hostile_answers_are_rejected
                a_session_outlives_its_connection
                an_unacknowledged_prompt_ends_its_session
                a_finished_session_is_not_completed_again
                a_response_in_a_batch_does_not_answer_the_next_prompt
                a_flow_prompts_by_elicitation
                a_flow_prompts_in_rounds
                only_an_open_prompt_can_be_declined
                the_last_answer_can_be_repeated_in_any_form
                a_flow_accepts_all_answers_upfront
                a_round_without_elicitation_needs_all_answers
                interaction_can_be_disabled
                a_server_with_interaction_disabled_prompts_no_client
            }
            list_changes {
                a_burst_of_changes_is_announced_once
                a_stateless_client_subscribes_to_changes
                unsupported_subscriptions_are_left_out
                no_subscription_begins_while_the_connection_ends
            }
            resources {
                resources_are_listed_and_read
                resources_are_paginated
                templates_are_listed_and_read
                resource_permissions_are_enforced
                files_are_resources
                small_linked_resources_are_embedded
            }
            subscriptions {
                subscribers_are_notified_of_changes
                subscribers_are_notified_of_changed_files
                a_stateless_client_subscribes_to_resources
                a_changed_resource_list_is_announced
                resource_subscriptions_are_bounded
            }
            tasks {
                a_long_call_continues_as_a_task
                tasks_end_in_every_way
                questions_of_a_task_are_answered_by_key
                changes_of_tasks_are_announced
                tasks_need_the_capability_of_each_request
            }
            permissions {
                forbidden_items_are_hidden
                permissions_can_be_replaced_while_clients_are_connected
                sessions_require_permission_for_their_flow
            }
            prompts {
                a_prompt_is_listed_and_read
                prompt_arguments_stay_plain_text
                prompt_content_is_encoded_by_revision
                invalid_prompt_requests_are_explained
                prompts_require_their_capability
                prompts_are_paginated
                forbidden_prompts_are_hidden
                prompt_changes_are_announced
            }
            completion {
                arguments_are_completed
                invalid_completions_are_explained
            }
            shutdown {
                end_of_input_drains_the_connection
                shutdown_is_answered_last
                a_repeated_shutdown_is_answered
            }
        }
    };
    (@functions (); $($module:ident { $($scenario:ident)* })*) => {
        $($(
            #[allow(missing_docs, reason = "the function itself is documented")]
            pub fn $scenario(connect: &Connect) -> Pin<Box<dyn Future<Output = ()> + '_>> {
                Box::pin(super::$module::$scenario(connect))
            }
        )*)*
    };
    (@tests ($connect:expr); $($module:ident { $($scenario:ident)* })*) => {
        $($(
            #[tokio::test]
            async fn $scenario() {
                $crate::server::boxed::$scenario(&|server| Box::pin(($connect)(server))).await;
            }
        )*)*
    };
}
