//! Callers that wait for a session: their clients are asked its questions, and get its result.
//!
//! A caller with a handshake is asked by request while it waits. A stateless one gets the questions
//! as the result of its request, and repeats it with the answers; the sealed state names the session
//! and the round, and a repeated round has the same outcome. Others may answer as well, whoever is
//! first.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::FuturesUnordered;
use mcp_flow_engine::model::event::{Ending, SessionEnded};
use mcp_flow_engine::model::{Owner, Prompt, SessionId};
use mcp_flow_engine::{
    AnswerReply, AnswerRequest, Engine, EngineError, OpenQuestion, QuestionId, SessionStatus,
    StartRequest, View,
};
use mcp_flow_proto::{OwnedRaw, RpcError};
use mcp_flow_server::input::InputRequired;
use mcp_flow_server::{Context, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::asked::{AskedQuestion, QuestionHints, fit};
use crate::error;
use crate::forward::{Forwarded, Progress};
use crate::isolation::Caller;
use crate::question::{AskCapabilities, refusal};
use crate::session::{
    ERROR, FLOW, JournaledCall, LARGE, RESULT, ROUNDS, Sessions, Turn, engine_failure, random_key,
    round_key,
};
use crate::upstream::Upstream;

/// The round of a session that a request continues, as its client carries it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct CarriedRound {
    session: SessionId,
    round: u32,
    /// Key of the call.
    call: String,
}

/// One caller that waits for a session.
struct Follower<'a> {
    sessions: &'a Arc<Sessions>,
    engine: Engine,
    upstream: &'a Arc<Upstream>,
    request: &'a Forwarded,
    context: &'a Context,
    owner: Owner,
    id: SessionId,
    key: String,
}

impl Sessions {
    /// The round that a request continues.
    pub(crate) fn carried(&self, context: &Context) -> Option<CarriedRound> {
        serde_json::from_value(context.carried()?).ok()
    }

    /// Begins a session for a call that asks, or needs approval, and follows it.
    pub(crate) async fn open(
        self: &Arc<Self>,
        upstream: &Arc<Upstream>,
        request: &Forwarded,
        context: &Context,
        asked: Option<Progress>,
    ) -> Outcome {
        let (engine, key) = (self.engine().clone(), random_key());
        engine.start_maintenance();
        if self.parked.len() >= MAX_PARKED {
            let what = "too many calls wait for answers; this one was cancelled";
            return Err(error::lost(upstream.name(), what));
        }
        let is_stateless = matches!(asked, Some(Progress::Asked(..)));
        let first = match asked {
            None => None,
            Some(Progress::Asked(questions, state)) => {
                self.tasks.insert(&key, upstream, &Caller::of(context), state.as_ref());
                Some(Turn::Asked { questions, state, is_live: false })
            }
            Some(Progress::Live(call, question)) => Some(self.park(&key, call, *question)),
            Some(Progress::Result(_)) => return Err(RpcError::internal()),
        };
        let call = JournaledCall {
            server: upstream.name().to_owned(),
            target: request.target(upstream),
            request: request.clone(),
            capabilities: AskCapabilities::of(context),
            first,
        };
        let owner = Owner::new(context.principal().name());
        self.prepare(&key, call, context);
        let params = Map::from_iter([
            ("call".to_owned(), key.as_str().into()),
            ("server".to_owned(), upstream.name().into()),
        ]);
        let time = if is_stateless { LONG_ANSWER } else { upstream.settings.answer_timeout };
        let start = StartRequest::new(FLOW, owner.clone()).params(params).inactivity(time);
        let started = engine.start(start).await;
        let view = started.map_err(|failure| {
            self.waiting.lock().remove(&key);
            self.forget(&key);
            engine_failure(upstream.name(), &failure)
        })?;
        self.watch(view.id, &owner, &key);
        let id = view.id;
        let sessions = self;
        let follower = Follower { sessions, engine, upstream, request, context, owner, id, key };
        follower.run(view, None).await
    }

    /// Continues a session with the answers of a stateless caller.
    pub(crate) async fn resume(
        self: &Arc<Self>,
        upstream: &Arc<Upstream>,
        request: &Forwarded,
        context: &Context,
        carried: CarriedRound,
    ) -> Outcome {
        let CarriedRound { session: id, round, call: key } = carried;
        let (engine, owner) = (self.engine().clone(), Owner::new(context.principal().name()));
        engine.start_maintenance();
        self.waiting.lock().insert(key.clone(), context.clone());
        let sessions = self;
        let follower = Follower { sessions, engine, upstream, request, context, owner, id, key };
        let view = follower.view().await?;
        let mut is_unanswered = false;
        for open in view.questions() {
            let Some(hints) = hints(&open.prompt).filter(|hints| hints.round == round) else {
                continue;
            };
            match context.input_response(&shown_key(&hints)) {
                Some(result) => {
                    let answer = hints.question.answer_from_client(Ok(result));
                    follower.respond(&open.prompt, open.id(), answer).await?;
                }
                None => is_unanswered = true,
            }
        }
        let view = if is_unanswered { follower.view().await? } else { view };
        // What is not answered yet is asked again.
        if is_unanswered && let Some(required) = follower.required(&view)? {
            return required.reply(context);
        }
        let view = follower.view().await?;
        follower.run(view, Some(round)).await
    }
}

impl Follower<'_> {
    /// Follows the session to its end, or to the next question of a stateless caller, after a round
    /// that is answered.
    async fn run(&self, view: View, after: Option<u32>) -> Outcome {
        let gone = CancelOnDrop::new(self);
        let outcome = match self.context.revision().is_stateless() {
            true => self.until_asked(view, after).await,
            false => self.until_ended(view).await,
        };
        gone.disarm();
        self.sessions.waiting.lock().remove(&self.key);
        outcome
    }

    /// Waits for the next question, or for the end.
    async fn until_asked(&self, mut view: View, after: Option<u32>) -> Outcome {
        loop {
            if let Some(round) = after
                && let Some(required) = self.required_after(round, &view).await?
            {
                return required.reply(self.context);
            }
            match &view.status {
                SessionStatus::Ended(ended) => return self.reply(ended).await,
                SessionStatus::Waiting(_) => {
                    let open = self.round_of(&view);
                    let is_new = after.is_none_or(|after| open.is_some_and(|open| open > after));
                    if is_new && let Some(required) = self.required(&view)? {
                        return required.reply(self.context);
                    }
                }
                SessionStatus::Working(_) => {}
            }
            view = self.changed(&view).await?;
        }
    }

    /// Asks the client by request, until the session has ended.
    async fn until_ended(&self, mut view: View) -> Outcome {
        let mut asking = FuturesUnordered::<Abortable<BoxFuture<'_, (QuestionId, Value)>>>::new();
        let mut asked: Vec<(QuestionId, AbortHandle)> = Vec::new();
        loop {
            if let SessionStatus::Ended(ended) = &view.status {
                return self.reply(ended).await;
            }
            let open: Vec<&OpenQuestion> = view.questions().collect();
            for (_, others) in asked.extract_if(.., |(id, _)| open.iter().all(|o| o.id() != *id)) {
                // Somebody else has answered.
                others.abort();
            }
            for question in open {
                let id = question.id();
                if asked.iter().any(|(known, _)| *known == id) {
                    continue;
                }
                if let Some(hints) = self.askable(&question.prompt) {
                    let (handle, registration) = AbortHandle::new_pair();
                    let question: BoxFuture<'_, _> =
                        Box::pin(async move { (id, self.ask(&hints.question).await) });
                    asked.push((id, handle));
                    asking.push(Abortable::new(question, registration));
                }
            }
            tokio::select! {
                biased;
                Some(answered) = asking.next(), if !asking.is_empty() => {
                    let Ok((id, answer)) = answered else { continue };
                    let prompt = view.questions().find(|open| open.id() == id);
                    if let Some(prompt) = prompt.map(|open| open.prompt.clone()) {
                        self.respond(&prompt, id, answer).await?;
                    }
                    view = self.view().await?;
                }
                changed = self.changed(&view) => view = changed?,
            }
        }
    }

    /// Asks the client by request.
    async fn ask(&self, question: &AskedQuestion) -> Value {
        let limit = self.context.limits().answer_time;
        let result = match question.request_for(self.context.revision()) {
            Ok(request) => {
                let client = self.context.client();
                let asked = client.request_within::<Value>(limit, request.method, &request.params);
                asked.await.map_err(refusal)
            }
            Err(error) => Err(error),
        };
        question.answer_from_client(result)
    }

    /// The question of a prompt, if the client can be asked it.
    fn askable(&self, prompt: &Prompt) -> Option<QuestionHints> {
        let capabilities = AskCapabilities::of(self.context);
        hints(prompt).filter(|hints| {
            let AskedQuestion { method, params, .. } = &hints.question;
            capabilities.check(method, params).is_ok()
        })
    }

    /// Answers a question, unless somebody else has answered it meanwhile.
    async fn respond(
        &self,
        prompt: &Prompt,
        question: QuestionId,
        answer: Value,
    ) -> Result<(), RpcError> {
        let mut answer = fit(prompt, answer);
        if prompt.check(&answer).is_err() {
            answer = self.sessions.store_large(&answer);
        }
        let answer = AnswerRequest::from(answer).for_question(question);
        match self.engine.respond(self.id, &self.owner, answer).await {
            Ok(AnswerReply::Rejected { violation, .. }) => {
                let problem = format!("the answer was not accepted: {}", violation.error);
                Err(RpcError::invalid_params(problem))
            }
            Ok(_) | Err(EngineError::QuestionClosed(_) | EngineError::Transition { .. }) => Ok(()),
            Err(failure) => Err(engine_failure(self.upstream.name(), &failure)),
        }
    }

    async fn view(&self) -> Result<View, RpcError> {
        let view = self.engine.view(self.id, &self.owner).await;
        view.map_err(|failure| engine_failure(self.upstream.name(), &failure))
    }

    /// Waits until the session differs from a view of it.
    async fn changed(&self, before: &View) -> Result<View, RpcError> {
        let failed = |failure| engine_failure(self.upstream.name(), &failure);
        let subscribed = self.engine.subscribe(self.id, &self.owner).await;
        let mut notices = subscribed.map_err(failed)?;
        loop {
            let view = self.view().await?;
            if view.status != before.status || view.queued != before.queued {
                return Ok(view);
            }
            if notices.next().await.is_none() {
                return self.view().await;
            }
        }
    }

    fn round_of(&self, view: &View) -> Option<u32> {
        view.questions().find_map(|open| hints(&open.prompt)).map(|hints| hints.round)
    }

    /// The open questions for a stateless client; `None` if it cannot be asked them, so that others
    /// have to answer.
    fn required(&self, view: &View) -> Result<Option<InputRequired>, RpcError> {
        let questions: Vec<_> =
            view.questions().filter_map(|open| self.askable(&open.prompt)).collect();
        let Some(round) = questions.first().map(|hints| hints.round) else { return Ok(None) };
        let named = questions.iter().map(|hints| (shown_key(hints), &hints.question));
        self.require(round, named).map(Some)
    }

    /// The questions of the round after one that was answered, if there were any: the outcome of that
    /// round, however often it is repeated.
    async fn required_after(
        &self,
        round: u32,
        view: &View,
    ) -> Result<Option<InputRequired>, RpcError> {
        let next = round.saturating_add(1);
        let data = match &view.status {
            SessionStatus::Ended(SessionEnded {
                ending: Ending::Completed { data, .. }, ..
            }) => data.get(ROUNDS).and_then(Value::as_object).cloned().unwrap_or_default(),
            SessionStatus::Ended(ended) => ended.kept.clone(),
            _ if self.round_of(view).is_some_and(|open| open > next) => {
                let session = self.engine.inspect(self.id, &self.owner).await;
                session.map_err(|failure| engine_failure(self.upstream.name(), &failure))?.data
            }
            _ => return Ok(None),
        };
        let Some(kept) = data.get(&round_key(next)) else { return Ok(None) };
        let questions: Vec<AskedQuestion> =
            serde_json::from_value(kept.clone()).map_err(|_| RpcError::internal())?;
        let named = questions.iter().map(|question| (key_of(question, next), question));
        self.require(next, named).map(Some)
    }

    fn require<'a>(
        &self,
        round: u32,
        questions: impl Iterator<Item = (String, &'a AskedQuestion)>,
    ) -> Result<InputRequired, RpcError> {
        let mut required = InputRequired::new();
        for (key, question) in questions {
            required = required.ask(key, question.request_for(self.context.revision())?);
        }
        let carried = CarriedRound { session: self.id, round, call: self.key.clone() };
        let carried = serde_json::to_value(carried).map_err(|_| RpcError::internal())?;
        Ok(required.carry(carried))
    }

    /// Replies with the end of the session.
    async fn reply(&self, ended: &SessionEnded) -> Outcome {
        let server = self.upstream.name();
        if let Some(error) = ended.kept.get(ERROR) {
            return Err(error::from_journal(error));
        }
        let was_asked = ended.kept.contains_key(&round_key(1));
        let unanswered = |why: &str| match was_asked {
            true => error::lost(server, why),
            false => error::not_approved(server, why),
        };
        match &ended.ending {
            Ending::Completed { success: true, data, .. } => {
                let result = match data.get(LARGE).and_then(Value::as_str) {
                    Some(key) => self.sessions.large.get(key),
                    None => Some(Arc::new(OwnedRaw::Json(data[RESULT].to_string().into()))),
                };
                let Some(result) = result else {
                    let what = "the result was too large for the journal, and another process has it or it was \
                                dropped";
                    return Err(error::lost(server, what));
                };
                self.request.reply(self.upstream, self.context, &result).await
            }
            Ending::Completed { .. } => Err(error::not_approved(server, "The user denied it")),
            Ending::Cancelled { .. } => Err(unanswered("The session of the call was cancelled")),
            Ending::Expired(_) => Err(unanswered("No answer arrived in time")),
            Ending::Failed(fault) => Err(error::lost(server, &fault.message)),
        }
    }
}

/// Cancels a session whose caller goes away, unless what it waits for can be answered later.
struct CancelOnDrop<'a> {
    follower: &'a Follower<'a>,
    is_armed: bool,
}

impl<'a> CancelOnDrop<'a> {
    fn new(follower: &'a Follower<'a>) -> Self {
        Self { follower, is_armed: true }
    }

    fn disarm(mut self) {
        self.is_armed = false;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        if !self.is_armed {
            return;
        }
        let Follower { sessions, engine, context, owner, id, key, .. } = self.follower;
        sessions.waiting.lock().remove(key);
        let is_live = sessions.parked.contains(key);
        // A lost connection is no reason to give up a question that can be answered later.
        if context.client().is_closed() && !is_live {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (engine, owner, id) = (engine.clone(), owner.clone(), *id);
        runtime.spawn(async move {
            let reason = Some("the call it belonged to was cancelled".to_owned());
            let _ = engine.cancel(id, &owner, reason).await;
        });
    }
}

/// Members of a question, as its prompt has them.
fn hints(prompt: &Prompt) -> Option<QuestionHints> {
    serde_json::from_value(prompt.ui.clone()?).ok()
}

/// Key under which a stateless client finds a question.
fn shown_key(hints: &QuestionHints) -> String {
    key_of(&hints.question, hints.round)
}

fn key_of(question: &AskedQuestion, round: u32) -> String {
    match question.key.as_str() {
        "" => format!("question-{round}"),
        key => key.to_owned(),
    }
}

/// Limit on live calls that wait for answers.
const MAX_PARKED: usize = 1000;

/// Time for answering a question of a stateless upstream, which waits with nothing.
const LONG_ANSWER: Duration = Duration::from_secs(24 * 60 * 60);
