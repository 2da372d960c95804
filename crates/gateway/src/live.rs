//! Calls to upstreams with a handshake, which live in this process while they wait for answers.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_client::Error;
use mcp_flow_proto::OwnedRaw;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::pool::Lease;
use crate::question::LiveQuestion;

/// A call to an upstream, with the questions it raises. Dropping it cancels the call.
pub(crate) struct LiveCall {
    response: BoxFuture<'static, Result<OwnedRaw, Error>>,
    questions: mpsc::Receiver<LiveQuestion>,
    _lease: Lease,
}

/// Progress of a live call.
pub(crate) enum LiveEvent {
    Response(Result<OwnedRaw, Error>),
    Question(Box<LiveQuestion>),
}

impl LiveCall {
    pub(crate) fn new(
        response: BoxFuture<'static, Result<OwnedRaw, Error>>,
        questions: mpsc::Receiver<LiveQuestion>,
        lease: Lease,
    ) -> Self {
        Self { response, questions, _lease: lease }
    }

    /// Waits for the response or the next question.
    pub(crate) async fn next(&mut self) -> LiveEvent {
        tokio::select! {
            biased;
            response = &mut self.response => LiveEvent::Response(response),
            Some(question) = self.questions.recv() => LiveEvent::Question(Box::new(question)),
        }
    }
}

/// Live calls that wait for an answer, by their keys.
#[derive(Default)]
pub(crate) struct ParkedCalls {
    calls: Mutex<HashMap<String, oneshot::Sender<Continuation>>>,
}

/// The answer for a parked call, and where its progress is expected.
struct Continuation {
    answer: Value,
    progress: oneshot::Sender<(LiveEvent, Option<LiveCall>)>,
}

impl ParkedCalls {
    /// Parks a call with its question. `on_withdrawn` is called if the call goes on without an answer.
    pub(crate) fn park(
        self: &Arc<Self>,
        key: &str,
        call: LiveCall,
        question: LiveQuestion,
        on_withdrawn: impl FnOnce() + Send + 'static,
    ) {
        let (sender, receiver) = oneshot::channel();
        self.calls.lock().insert(key.to_owned(), sender);
        tokio::spawn(drive(call, question, receiver, on_withdrawn));
    }

    /// Gives a parked call its answer, and waits for what follows; `None` if it is gone.
    pub(crate) async fn answer(
        &self,
        key: &str,
        answer: Value,
    ) -> Option<(LiveEvent, Option<LiveCall>)> {
        let parked = self.calls.lock().remove(key)?;
        let (progress, progressed) = oneshot::channel();
        parked.send(Continuation { answer, progress }).ok()?;
        progressed.await.ok()
    }

    /// Cancels a parked call.
    pub(crate) fn cancel(&self, key: &str) {
        self.calls.lock().remove(key);
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.calls.lock().contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.lock().len()
    }
}

/// Keeps a parked call alive until its answer comes, or the session ends and drops it.
async fn drive(
    mut call: LiveCall,
    question: LiveQuestion,
    mut answered: oneshot::Receiver<Continuation>,
    on_withdrawn: impl FnOnce(),
) {
    let LiveQuestion { asked, revision, mut answer } = question;
    let early = tokio::select! {
        biased;
        continuation = &mut answered => {
            let Ok(continuation) = continuation else { return };
            let result = asked.result_for(revision, &continuation.answer);
            let _ = answer.send(result);
            return proceed(call, continuation.progress, None).await;
        }
        response = &mut call.response => Some(LiveEvent::Response(response)),
        () = answer.closed() => None,
    };
    // The upstream has ended, or goes on without an answer.
    on_withdrawn();
    if let Ok(continuation) = answered.await {
        proceed(call, continuation.progress, early).await;
    }
}

/// Waits for the progress of a call, unless nobody expects it any more.
async fn proceed(
    mut call: LiveCall,
    mut progress: oneshot::Sender<(LiveEvent, Option<LiveCall>)>,
    early: Option<LiveEvent>,
) {
    let event = match early {
        Some(event) => event,
        None => tokio::select! {
            event = call.next() => event,
            () = progress.closed() => return,
        },
    };
    let call = matches!(event, LiveEvent::Question(_)).then_some(call);
    let _ = progress.send((event, call));
}
