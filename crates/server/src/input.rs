//! Multi-round requests (2026-07-28).
//!
//! A stateless client cannot be sent requests. A call that needs input from it is answered with
//! `input_required`: the questions, by key, and a sealed `requestState` with the answers so far.
//! The client sends the same request again with the new answers and the state; the tool's function
//! runs again from the top and finds the answers there.
//!
//! A state is bound to one principal and one request (method and params), and expires. Clients can
//! neither read nor change it.
//!
//! Tools ask through [`Context`] (see [`ask`](crate::ask)) and need nothing from here. The public
//! part is for handlers that keep their own state between rounds: a tool may return
//! [`InputRequired`], and finds the answers in [`Context::input_response`] and its state in
//! [`Context::carried`].

mod answering;
mod fingerprint;
mod required;
mod round;
mod rounds;
mod sealing;
mod state;

use std::future::poll_fn;
use std::task::{Poll, Waker};

use mcp_flow_proto::model::InputParams;
use mcp_flow_proto::{Params, RpcError, method};

use crate::context::Context;
use crate::handler::Reply;
use answering::{finish_round, input_request};
use fingerprint::Fingerprint;

pub use required::InputRequired;
pub(crate) use round::{AskOutcome, Round};
pub(crate) use rounds::Rounds;
pub(crate) use sealing::{Sealing, random};

/// Runs the handler of a method, with multi-round input where the method allows it.
///
/// The client's answers are read before the handler is called. The params are gone once this
/// returns, so the fingerprint that the state is bound to is computed here, and only if needed.
pub(crate) fn serve(
    context: &Context,
    method: &str,
    params: Params<'_>,
    call: impl FnOnce(&Context) -> Reply,
) -> Reply {
    if !context.revision().is_stateless() || !TAKE_ROUNDS.contains(&method) {
        return call(context);
    }
    let request = || Fingerprint::of_request(method, params);
    match InputParams::from_params(params) {
        Ok(None) => context.rounds().allow(None),
        Ok(Some(input)) => match Round::resume(context, input, request) {
            Ok(round) => context.rounds().allow(Some(round)),
            Err(error) => return Reply::Ready(Err(error)),
        },
        Err(details) => return Reply::Ready(Err(RpcError::invalid_params(details))),
    }
    match call(context) {
        Reply::Ready(outcome) => Reply::Ready(finish_round(context, outcome, request)),
        Reply::Later(mut future) => {
            // Most calls that ask do so on the first poll, while the params are still available.
            let first = future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
            if let Poll::Ready(outcome) = first {
                return Reply::Ready(finish_round(context, outcome, request));
            }
            if let Some(outcome) = input_request(context, None, request) {
                return Reply::Ready(outcome);
            }
            let (context, request) = (context.clone(), request());
            Reply::Later(Box::pin(poll_fn(move |task| {
                if let Poll::Ready(outcome) = future.as_mut().poll(task) {
                    return Poll::Ready(finish_round(&context, outcome, || request));
                }
                input_request(&context, Some(task.waker()), || request)
                    .map_or(Poll::Pending, Poll::Ready)
            })))
        }
        Reply::Blocking(work) => {
            context.rounds().never_wait();
            let (context, request) = (context.clone(), request());
            Reply::Blocking(Box::new(move || finish_round(&context, work(), || request)))
        }
        listening @ Reply::Listen(_) => listening,
    }
}

/// The methods that the official text allows to take several rounds.
const TAKE_ROUNDS: [&str; 3] = [method::TOOLS_CALL, method::PROMPTS_GET, method::RESOURCES_READ];
