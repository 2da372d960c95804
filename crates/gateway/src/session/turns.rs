//! One turn of a call: its answers go to the upstream, and what follows is kept.

use std::sync::Arc;

use mcp_flow_proto::{OwnedRaw, Revision, RpcError};
use serde_json::{Map, Value, json};

use super::{JournaledCall, LARGE, Sessions, Turn, random_key};
use crate::asked::AskedQuestion;
use crate::error;
use crate::forward::{Progress, Requester, failed};
use crate::live::{LiveCall, LiveEvent};
use crate::question::LiveQuestion;
use crate::recovery::Holder;
use crate::task::RoundState;
use crate::upstream::Upstream;

impl Sessions {
    /// Continues a call with the answers of a round.
    pub(super) async fn proceed<'a>(
        self: &Arc<Self>,
        continued: Continued<'_>,
        answers: impl Iterator<Item = (&'a AskedQuestion, &'a Value)>,
        begun: &str,
        owner: &str,
    ) -> Turn {
        let Continued { key, call, state, is_live, holder, asked } = continued;
        // Answers of a task can be sent again.
        let is_task = matches!(state, Some(RoundState::Task { .. }));
        let begun = if is_task { &self.instance } else { begun };
        let upstream = match self.upstream_for(call, begun) {
            Ok(upstream) => upstream,
            Err(error) => return Turn::Failed(error::to_journal(&error)),
        };
        let requester = self.requester(key, call, owner);
        self.tasks.insert(key, &upstream, &requester.caller, state.as_ref());
        let answers: Vec<_> =
            answers.map(|(question, answer)| (question, self.restore(answer))).collect();
        let sent = match is_live {
            false => {
                let results = answers.iter().filter_map(|(question, answer)| {
                    let result = question.result_for(Revision::V2026_07_28, answer);
                    Some((question.key.clone(), result.ok()?))
                });
                let results: Map<_, _> = results.collect();
                call.request.send_round(&upstream, &requester, results, state).await
            }
            true => {
                let answer = answers.into_iter().next().map(|(_, answer)| answer);
                let answer = answer.unwrap_or_default();
                if !self.parked.contains(key)
                    && let Some(turn) =
                        self.answer_elsewhere(key, holder.as_ref(), &call.server, &answer).await
                {
                    return turn;
                }
                match self.answer_parked(key, &upstream, answer).await {
                    Some(sent) => sent,
                    None => self.run_again(&upstream, call, &requester, asked).await,
                }
            }
        };
        self.tasks.note(key, &upstream, &requester.caller, &sent);
        self.turn(key, &upstream, sent)
    }

    /// Gives a live call of this process its answer, and waits for what follows; `None` if it is gone.
    async fn answer_parked(
        &self,
        key: &str,
        upstream: &Upstream,
        answer: Value,
    ) -> Option<Result<Progress, RpcError>> {
        Some(match self.parked.answer(key, answer).await? {
            (LiveEvent::Response(response), _) => {
                response.map(Progress::Result).map_err(|failure| failed(upstream, failure))
            }
            (LiveEvent::Question(question), Some(call)) => Ok(Progress::Live(call, question)),
            (LiveEvent::Question(_), None) => Err(RpcError::internal()),
        })
    }

    /// Gives a live call of this process an answer that another process took.
    pub(crate) async fn answer_here(&self, key: &str, server: &str, answer: Value) -> Turn {
        let lost = || error::lost(server, "it ended while the answer was on its way");
        let Some(upstream) = self.upstream(server) else {
            return Turn::Failed(error::to_journal(&lost()));
        };
        let sent = self.answer_parked(key, &upstream, answer).await;
        self.turn(key, &upstream, sent.unwrap_or_else(|| Err(lost())))
    }

    /// Finds an upstream by its name.
    pub(crate) fn upstream(&self, name: &str) -> Option<Arc<Upstream>> {
        (self.find_upstream)(name)
    }

    /// Sends a call again whose connection was lost with an earlier process, and gives the answers it
    /// had to the same questions.
    async fn run_again(
        &self,
        upstream: &Arc<Upstream>,
        call: &JournaledCall,
        requester: &Requester,
        asked: &[(AskedQuestion, Value)],
    ) -> Result<Progress, RpcError> {
        if !call.request.may_run_again(upstream) {
            let what = "the gateway was restarted while the call waited for an answer, and it may \
                        have taken effect up to that question";
            return Err(error::lost(upstream.name(), what));
        }
        let mut progress = call.request.send(upstream, requester).await?;
        for (question, answer) in asked {
            progress = match progress {
                Progress::Live(mut live, open) if open.asked == *question => {
                    let LiveQuestion { asked, revision, answer: sender } = *open;
                    let answer = self.restore(answer);
                    let _ = sender.send(asked.result_for(revision, &answer));
                    match live.next().await {
                        LiveEvent::Response(response) => {
                            let result = response.map_err(|failure| failed(upstream, failure))?;
                            Progress::Result(result)
                        }
                        LiveEvent::Question(next) => Progress::Live(live, next),
                    }
                }
                other => return Ok(other),
            };
        }
        Ok(progress)
    }

    /// The turn that follows from a request; a live call is parked.
    pub(super) fn turn(
        &self,
        key: &str,
        upstream: &Upstream,
        sent: Result<Progress, RpcError>,
    ) -> Turn {
        match sent {
            Ok(Progress::Result(result)) => self.keep(key, upstream, result),
            Ok(Progress::Asked(questions, state)) => {
                Turn::Asked { questions, state, is_live: false }
            }
            Ok(Progress::Live(call, question)) => self.park(key, call, *question),
            Err(error) => Turn::Failed(error::to_journal(&error)),
        }
    }

    /// Parks a live call with its question.
    pub(crate) fn park(&self, key: &str, call: LiveCall, question: LiveQuestion) -> Turn {
        let (asked, withdrawal) = (question.asked.clone(), self.withdrawal(key));
        self.parked.park(key, call, question, move || withdrawal.notify_one());
        Turn::Asked { questions: vec![asked], state: None, is_live: true }
    }

    /// A result for the journal, or for memory if it is too large.
    fn keep(&self, key: &str, upstream: &Upstream, result: OwnedRaw) -> Turn {
        if result.as_raw().bytes().len() > MAX_JOURNALED_BYTES {
            self.large.insert(key, result);
            return Turn::Large(key.to_owned());
        }
        match result.as_raw().decode() {
            Ok(value) => Turn::Result(value),
            Err(problem) => {
                let problem = format!("the result cannot be decoded: {problem}");
                Turn::Failed(error::to_journal(&error::unusable(upstream.name(), &problem)))
            }
        }
    }

    /// Keeps an answer that is too large for the journal in memory.
    pub(crate) fn store_large(&self, answer: &Value) -> Value {
        let key = random_key();
        let text = answer.to_string().into_boxed_str();
        self.large.insert(&key, OwnedRaw::Json(text));
        json!({"$content": {LARGE: key}})
    }

    /// The answer itself, if it was too large for the journal.
    fn restore(&self, answer: &Value) -> Value {
        let key = answer.get("$content").and_then(|content| content.get(LARGE));
        let Some(key) = key.and_then(Value::as_str) else { return answer.clone() };
        let large = self.large.get(key);
        large.and_then(|large| large.as_raw().decode().ok()).unwrap_or_default()
    }
}

/// A call between two rounds.
pub(super) struct Continued<'a> {
    pub(super) key: &'a str,
    pub(super) call: &'a JournaledCall,
    pub(super) state: Option<RoundState>,
    pub(super) is_live: bool,
    pub(super) holder: Option<Holder>,
    pub(super) asked: &'a [(AskedQuestion, Value)],
}

/// Limit on the bytes of a result in the journal.
const MAX_JOURNALED_BYTES: usize = 1024 * 1024;
