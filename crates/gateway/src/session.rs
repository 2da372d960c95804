//! Calls that ask, as sessions of the flow `gateway.call`.
//!
//! A session begins when an upstream asks or a call needs approval, and runs the rest of the call:
//! its journal has the request, the questions, the answers and the result. So anybody entitled can
//! answer, by any way that sessions are answered, and a restart loses only what cannot be kept: the
//! call of an upstream with a handshake, which ends with its connection.
//!
//! State outside of the journal is here, by the key of the call: the live call, the request of the
//! caller that waits, and results and answers that are too large.

mod turns;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::join_all;
use mcp_flow_engine::model::question::confirm;
use mcp_flow_engine::model::{Epoch, MemoryStore, Owner, Prompt, Question as _, SessionId};
use mcp_flow_engine::{
    AnswerRequest, Definition, Engine, EngineError, Flow, FlowError, FlowResult, SessionStatus,
};
use mcp_flow_proto::RpcError;
use mcp_flow_server::Context;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::asked::{APPROVAL, AskedQuestion, QuestionHints};
use crate::error;
use crate::forward::{Forwarded, Requester};
use crate::isolation::Caller;
use crate::large::{LargeValues, RETENTION};
use crate::live::ParkedCalls;
use crate::nodes::RemoteAnswers;
use crate::question::AskCapabilities;
use crate::task::{OpenTasks, RoundState};
use crate::upstream::Upstream;
use turns::Continued;

/// Calls that are sessions.
pub(crate) struct Sessions {
    engine: OnceLock<Engine>,
    /// Tells this process apart from those that wrote the journal before.
    instance: String,
    find_upstream: FindUpstream,
    /// Calls whose sessions begin.
    beginning: Mutex<HashMap<String, JournaledCall>>,
    pub(crate) parked: Arc<ParkedCalls>,
    pub(crate) tasks: OpenTasks,
    /// Fire when the upstream of a parked call goes on without an answer.
    withdrawals: Mutex<HashMap<String, Arc<Notify>>>,
    /// Requests of callers that wait for a session.
    pub(crate) waiting: Mutex<HashMap<String, Context>>,
    /// Results and answers that are too large for the journal.
    pub(crate) large: LargeValues,
    /// Answers for live calls of other processes, and from them.
    pub(crate) remote: RemoteAnswers,
    /// Sessions whose calls are left to the server, in a process that is none.
    pub(crate) left_to_server: Option<Mutex<HashSet<SessionId>>>,
    /// Processes that shared the store at the last heartbeat.
    pub(crate) nodes: Mutex<Vec<Epoch>>,
}

/// Finds an upstream by its name.
type FindUpstream = Box<dyn Fn(&str) -> Option<Arc<Upstream>> + Send + Sync>;

/// A call as its journal has it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct JournaledCall {
    pub(crate) server: String,
    pub(crate) target: String,
    pub(crate) request: Forwarded,
    pub(crate) capabilities: AskCapabilities,
    /// First question of the upstream; `None` if the call is sent once it is approved.
    pub(crate) first: Option<Turn>,
}

/// Outcome of a request to an upstream.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Turn {
    Asked {
        questions: Vec<AskedQuestion>,
        state: Option<RoundState>,
        is_live: bool,
    },
    Result(Value),
    /// Too large for the journal: in memory, under this key.
    Large(String),
    Failed(Value),
}

#[derive(Deserialize)]
struct CallParams {
    call: String,
}

impl Sessions {
    pub(crate) fn new(
        find_upstream: impl Fn(&str) -> Option<Arc<Upstream>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            engine: OnceLock::new(),
            instance: random_key(),
            find_upstream: Box::new(find_upstream),
            beginning: Mutex::default(),
            parked: Arc::default(),
            tasks: OpenTasks::default(),
            withdrawals: Mutex::default(),
            waiting: Mutex::default(),
            large: LargeValues::default(),
            remote: RemoteAnswers::default(),
            left_to_server: None,
            nodes: Mutex::default(),
        }
    }

    /// The flow that runs the calls, for an engine.
    pub(crate) fn definition(self: &Arc<Self>) -> Definition {
        let sessions = Arc::downgrade(self);
        let run = move |flow: Flow, params: CallParams| {
            let sessions = sessions.upgrade();
            async move {
                let sessions = sessions.ok_or_else(|| FlowError::new("the gateway was closed"))?;
                sessions.run(flow, params.call).await
            }
        };
        Definition::new(FLOW, run)
            .description("A call of an upstream server that asks, or needs approval")
            .operation_limit(MAX_TURN_DURATION)
            .max_prompts(MAX_PROMPTS)
            .retention_with_data(RETENTION)
    }

    /// Sets the engine, which has the flow. Without one, sessions are in memory.
    pub(crate) fn set_engine(self: &Arc<Self>, engine: Engine) {
        if self.engine.set(engine).is_ok()
            && let Some(member) = self.engine().cluster()
        {
            self.connect(&member);
            self.recover_after_others(&member);
        }
    }

    pub(crate) fn engine(self: &Arc<Self>) -> &Engine {
        self.engine.get_or_init(|| {
            Engine::builder(Arc::new(MemoryStore::new())).flow(self.definition()).start()
        })
    }

    /// Prepares a call for its session, which begins with this key.
    pub(crate) fn prepare(&self, key: &str, call: JournaledCall, context: &Context) {
        self.beginning.lock().insert(key.to_owned(), call);
        self.waiting.lock().insert(key.to_owned(), context.clone());
    }

    /// Fires when an upstream withdraws its question.
    fn withdrawal(&self, key: &str) -> Arc<Notify> {
        self.withdrawals.lock().entry(key.to_owned()).or_default().clone()
    }

    /// Follows a session until it ends, and drops what belongs to it.
    pub(crate) fn watch(self: &Arc<Self>, id: SessionId, owner: &Owner, key: &str) {
        let (sessions, withdrawal) = (self.clone(), self.withdrawal(key));
        let (owner, key) = (owner.clone(), key.to_owned());
        tokio::spawn(async move {
            let engine = sessions.engine().clone();
            if let Ok(mut notices) = engine.subscribe(id, &owner).await {
                loop {
                    match engine.view(id, &owner).await {
                        Ok(view) if !matches!(view.status, SessionStatus::Ended(_)) => {}
                        Ok(_) => break sessions.tasks.cancel(&key),
                        Err(_) => break,
                    }
                    tokio::select! {
                        notice = notices.next() => if notice.is_none() { break },
                        () = withdrawal.notified() => withdraw(&engine, id, &owner).await,
                    }
                }
            }
            sessions.forget(&key);
            tokio::time::sleep(RETENTION).await;
            sessions.large.remove(&key);
        });
    }

    /// Drops what is in memory for a call, which cancels a live one.
    pub(crate) fn forget(&self, key: &str) {
        self.parked.cancel(key);
        self.beginning.lock().remove(key);
        self.withdrawals.lock().remove(key);
    }

    /// Runs a call from its approval or first question to its end.
    async fn run(self: Arc<Self>, flow: Flow, key: String) -> FlowResult<Value> {
        let call: JournaledCall = flow.lookup(CALL, || self.begin(&flow, &key)).await?;
        let mut turn = match call.first.clone() {
            Some(first) => first,
            None => match self.approve(&flow, &key, &call).await? {
                Some(turn) => turn,
                None => return flow.decline("the call was not approved"),
            },
        };
        let (mut number, mut asked, mut rounds) = (1, Vec::new(), Map::new());
        for round in 1..=MAX_ROUNDS {
            let Turn::Asked { questions, state, is_live } = turn else { break };
            flow.set(&round_key(round), &questions)?;
            let holder = match is_live {
                true => {
                    let found = async || {
                        self.leave_to_server(&flow).await;
                        Ok::<_, FlowError>(self.holder(&key).await)
                    };
                    flow.lookup(&format!("holder-{round}"), found).await?
                }
                false => None,
            };
            rounds.insert(round_key(round), serde_json::to_value(&questions)?);
            let asking = questions.iter().enumerate().map(|(index, question)| {
                let hints = QuestionHints {
                    server: call.server.clone(),
                    target: call.target.clone(),
                    round,
                    is_live,
                    holder: holder.clone(),
                    question: question.clone(),
                };
                let (key, prompt) = (question_key(number + index), question.prompt(hints));
                let flow = flow.clone();
                async move { flow.ask(&key, prompt).await }
            });
            let answers = join_all(asking).await.into_iter().collect::<FlowResult<Vec<_>>>()?;
            number += questions.len();
            asked.extend(questions.iter().cloned().zip(answers.iter().cloned()));
            let begun = flow.lookup(&format!("begun-{round}"), || self.own_instance(&flow)).await?;
            let progress =
                Continued { key: &key, call: &call, state, is_live, holder, asked: &asked };
            let owner = flow.owner();
            turn = flow
                .step(&format!("turn-{round}"), || async {
                    let answers = questions.iter().zip(&answers);
                    Ok::<_, FlowError>(self.proceed(progress, answers, &begun, owner.name()).await)
                })
                .await?;
        }
        match turn {
            Turn::Result(result) => Ok(json!({RESULT: result, ROUNDS: rounds})),
            Turn::Large(key) => Ok(json!({LARGE: key, ROUNDS: rounds})),
            Turn::Failed(error) => fail(&flow, error),
            Turn::Asked { .. } => {
                let error = error::unusable(&call.server, "it asked too many questions");
                fail(&flow, error::to_journal(&error))
            }
        }
    }

    /// Asks for approval, and sends the call if it is given.
    async fn approve(
        &self,
        flow: &Flow,
        key: &str,
        call: &JournaledCall,
    ) -> FlowResult<Option<Turn>> {
        let question =
            AskedQuestion::approval(&call.server, &call.target, call.request.arguments());
        let hints = QuestionHints {
            server: call.server.clone(),
            target: call.target.clone(),
            round: 0,
            is_live: false,
            holder: None,
            question: question.clone(),
        };
        let prompt = question.prompt(hints);
        let prompt = if prompt.validate().is_ok() { prompt } else { plain_prompt(&call.target) };
        if flow.ask(APPROVAL, prompt).await? != Value::Bool(true) {
            return Ok(None);
        }
        let begun = flow.lookup("begun-0", || self.own_instance(flow)).await?;
        let owner = flow.owner();
        let sent = flow.step("turn-0", || async {
            let turn = match self.upstream_for(call, &begun) {
                Ok(upstream) => {
                    let requester = self.requester(key, call, owner.name());
                    let sent = call.request.send(&upstream, &requester).await;
                    self.tasks.note(key, &upstream, &requester.caller, &sent);
                    self.turn(key, &upstream, sent)
                }
                Err(error) => Turn::Failed(error::to_journal(&error)),
            };
            Ok::<_, FlowError>(turn)
        });
        sent.await.map(Some)
    }

    /// Takes the call that a session begins with.
    async fn begin(&self, flow: &Flow, key: &str) -> Result<JournaledCall, FlowError> {
        self.leave_to_server(flow).await;
        let call = self.beginning.lock().remove(key);
        call.ok_or_else(|| FlowError::new("the call was not recorded before the gateway stopped"))
    }

    async fn own_instance(&self, flow: &Flow) -> Result<String, FlowError> {
        self.leave_to_server(flow).await;
        Ok(self.instance.clone())
    }

    /// Finds the upstream of a call, unless an earlier process was interrupted while it sent the
    /// request, and it may have taken effect.
    fn upstream_for(&self, call: &JournaledCall, begun: &str) -> Result<Arc<Upstream>, RpcError> {
        let upstream = self
            .upstream(&call.server)
            .ok_or_else(|| error::unavailable(&call.server, "it is no longer served", None))?;
        if begun != self.instance && !call.request.may_run_again(&upstream) {
            let what = "the gateway was stopped while the upstream worked on the call";
            return Err(error::lost(&call.server, what));
        }
        Ok(upstream)
    }

    /// The caller of a call, if it still waits.
    fn requester(&self, key: &str, call: &JournaledCall, owner: &str) -> Requester {
        let context = self.waiting.lock().get(key).cloned();
        match context {
            Some(context) => Requester::of(&context),
            None => Requester {
                caller: Caller::absent(owner),
                capabilities: call.capabilities,
                context: None,
            },
        }
    }
}

/// Answers the open question of a call that went on without an answer.
async fn withdraw(engine: &Engine, id: SessionId, owner: &Owner) {
    let Ok(view) = engine.view(id, owner).await else { return };
    if let SessionStatus::Waiting(open) = &view.status {
        let answer = AnswerRequest::from(Value::Null).for_question(open.id());
        let _ = engine.respond(id, owner, answer).await;
    }
}

fn fail<T>(flow: &Flow, error: Value) -> FlowResult<T> {
    let details = error["data"]["details"].as_str().or(error["message"].as_str());
    let message = format!(
        "{}: {}",
        error["data"]["name"].as_str().unwrap_or_default(),
        details.unwrap_or_default()
    );
    flow.set(ERROR, error)?;
    Err(FlowError::new(message))
}

/// The question for approval of a call that cannot be shown.
fn plain_prompt(target: &str) -> Prompt {
    confirm(format!("Allow a call of {target}?")).prompt().clone()
}

/// The error of a session that could not be used.
pub(crate) fn engine_failure(server: &str, failure: &EngineError) -> RpcError {
    match failure {
        EngineError::NotFound | EngineError::Expired(_) => {
            let what = "the call that asked is gone: its answer came too late, or its session was \
                        not kept";
            error::lost(server, what)
        }
        other => error::unavailable(server, &format!("its question cannot be kept: {other}"), None),
    }
}

/// Key of the questions of a round in the data of a session.
pub(crate) fn round_key(round: u32) -> String {
    format!("round-{round}")
}

fn question_key(number: usize) -> String {
    format!("question-{number}")
}

pub(crate) fn random_key() -> String {
    let mut bytes = [0; 16];
    // Without randomness there are no sessions either.
    let _ = getrandom::fill(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Name of the flow.
pub(crate) const FLOW: &str = "gateway.call";

/// Key of the step that records the call.
pub(crate) const CALL: &str = "call";

/// Error of a call, in the data of its session.
pub(crate) const ERROR: &str = "error";

/// Result of a call, in that of its session.
pub(crate) const RESULT: &str = "result";

/// Questions of a call, by round, in the result of its session.
pub(crate) const ROUNDS: &str = "rounds";

/// Key of a result or an answer that is in memory.
pub(crate) const LARGE: &str = "$large";

/// Limit on the rounds of one call.
const MAX_ROUNDS: u32 = 64;

/// Limit on the questions of one call.
const MAX_PROMPTS: u32 = 256;

/// Limit on the time between two questions.
const MAX_TURN_DURATION: Duration = Duration::from_secs(3600);
