//! Requests that take several rounds (2026-07-28).
//!
//! A stateless client cannot be sent requests. A call that needs something from it is answered with
//! `input_required`: what is needed, by keys, and a sealed `requestState` that holds what was
//! answered so far. The client finds out and sends the same request again, with the answers and
//! the state; the tool's function runs again from the top, and what it asks is answered from there.
//!
//! A state is good for one principal, one request (its method and params) and a limited time. What
//! is in it no client can read or change.
//!
//! Tools ask through [`Context`] (see [`ask`](crate::ask)) and need nothing from here. What is
//! public is for those who keep the state of a conversation themselves: a tool may return
//! [`InputRequired`] and finds what came of it in [`Context::input_response`] and
//! [`Context::carried`].

mod answering;
mod fingerprint;
mod required;
mod round;
mod sealing;
mod state;

use std::future::poll_fn;
use std::task::{Poll, Waker};

use mcp_flow_proto::model::InputParams;
use mcp_flow_proto::{Params, RpcError, method};

use crate::context::Context;
use crate::handler::Reply;
use answering::{demanded, settle};
use fingerprint::Fingerprint;

pub use required::InputRequired;
pub(crate) use round::{Fate, Round};
pub(crate) use sealing::{Sealing, random};

/// Lets the handler of a method ask for input, where the method has that.
///
/// What the client brought along is read before the handler is called. The params are gone once
/// this returns, so what the state is bound to is made here, and only if it is needed.
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
        Ok(None) => context.allow_input(None),
        Ok(Some(input)) => match Round::resume(context, input, request) {
            Ok(round) => context.allow_input(Some(round)),
            Err(error) => return Reply::Ready(Err(error)),
        },
        Err(details) => return Reply::Ready(Err(RpcError::invalid_params(details))),
    }
    match call(context) {
        Reply::Ready(outcome) => Reply::Ready(settle(context, outcome, request)),
        Reply::Later(mut future) => {
            // Most calls that ask do so at once, while it is still known what was asked of them.
            let first = future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
            if let Poll::Ready(outcome) = first {
                return Reply::Ready(settle(context, outcome, request));
            }
            if let Some(outcome) = demanded(context, None, request) {
                return Reply::Ready(outcome);
            }
            let (context, request) = (context.clone(), request());
            Reply::Later(Box::pin(poll_fn(move |task| {
                if let Poll::Ready(outcome) = future.as_mut().poll(task) {
                    return Poll::Ready(settle(&context, outcome, || request));
                }
                demanded(&context, Some(task.waker()), || request)
                    .map_or(Poll::Pending, Poll::Ready)
            })))
        }
        Reply::Blocking(work) => {
            context.do_not_wait_for_input();
            let (context, request) = (context.clone(), request());
            Reply::Blocking(Box::new(move || settle(&context, work(), || request)))
        }
        listening @ Reply::Listen(_) => listening,
    }
}

/// The methods the official text allows to take several rounds.
const TAKE_ROUNDS: [&str; 3] = [method::TOOLS_CALL, "prompts/get", "resources/read"];
