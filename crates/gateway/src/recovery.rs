//! Live calls whose process has gone: they are reported as lost.
//!
//! A question of a live call names the process that has the call. Others that share the store leave
//! it alone while that process lives.

use std::sync::Arc;

use mcp_flow_engine::model::event::StepOutcome;
use mcp_flow_engine::model::store::{Filter, PageRequest, Phase};
use mcp_flow_engine::model::{Epoch, JournalEvent, Owner, SessionId};
use mcp_flow_engine::{ClusterMember, Engine};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::asked::QuestionHints;
use crate::session::{CALL, FLOW, JournaledCall, Sessions};

/// Process that has a live call, among those that share the store.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Holder {
    epoch: Epoch,
    /// Name of the process, which it keeps if it has to join again.
    name: String,
}

impl Holder {
    /// This process; `None` if nobody shares its store.
    pub(crate) async fn own(engine: &Engine) -> Option<Self> {
        let (member, epoch) = (engine.cluster()?, engine.epoch()?);
        let nodes = member.nodes().await.unwrap_or_default();
        let own = nodes.into_iter().find(|node| node.epoch == epoch);
        Some(Self { epoch, name: own.map(|node| node.info.name).unwrap_or_default() })
    }

    /// Returns whether it is another process, and alive, or may be.
    pub(crate) async fn is_elsewhere(&self, engine: &Engine) -> bool {
        let Some(member) = engine.cluster() else { return false };
        let own = engine.epoch();
        let Ok(nodes) = member.nodes().await else { return own != Some(self.epoch) };
        nodes.iter().any(|node| {
            let is_it =
                node.epoch == self.epoch || (!self.name.is_empty() && node.info.name == self.name);
            is_it && Some(node.epoch) != own
        })
    }
}

impl Sessions {
    /// Reports the live calls of processes that are gone as lost.
    pub(crate) async fn recover(self: &Arc<Self>) {
        let engine = self.engine().clone();
        let mut after = None;
        loop {
            let page = PageRequest { after, most: PAGE };
            let filter = Filter { owner: None, phase: Phase::Waiting };
            let Ok(listed) = engine.list_all(filter, page).await else { return };
            for session in listed.iter().filter(|listed| listed.summary.flow == FLOW) {
                self.withdraw_lost(&engine, session.id, &session.summary.owner).await;
            }
            match listed.last() {
                Some(last) if listed.len() == PAGE => after = Some(last.id),
                _ => return,
            }
        }
    }

    /// Withdraws the questions of a call whose process is gone, unless it is run again.
    async fn withdraw_lost(&self, engine: &Engine, id: SessionId, owner: &Owner) {
        let Ok(session) = engine.inspect(id, owner).await else { return };
        let key = session.started.params.get("call").and_then(Value::as_str).unwrap_or_default();
        let hints = session.open.as_ref().and_then(|open| open.prompt.ui.clone());
        let hints: Option<QuestionHints> = hints.and_then(|ui| serde_json::from_value(ui).ok());
        let Some(hints) = hints.filter(|hints| hints.is_live) else { return };
        if self.parked.contains(key) {
            return;
        }
        if let Some(holder) = &hints.holder
            && holder.is_elsewhere(engine).await
        {
            // Heartbeats tell when it is gone.
            engine.start_maintenance();
            return;
        }
        let Ok(journal) = engine.journal(id, owner).await else { return };
        let may_run_again = || {
            let call = journaled_call(&journal)?;
            Some(call.request.may_run_again(&*self.upstream(&call.server)?))
        };
        if may_run_again() != Some(true) {
            let _ = engine.respond(id, owner, Value::Null.into()).await;
        }
    }

    /// Recovers again whenever a process is gone.
    pub(crate) fn recover_after_others(self: &Arc<Self>, member: &ClusterMember) {
        let sessions = Arc::downgrade(self);
        member.on_heartbeat(move || {
            let Some(sessions) = sessions.upgrade() else { return };
            let Some(member) = sessions.engine().cluster() else { return };
            let now: Vec<_> = member.known_nodes().iter().map(|node| node.epoch).collect();
            let before = std::mem::replace(&mut *sessions.nodes.lock(), now.clone());
            if before.iter().any(|epoch| !now.contains(epoch)) {
                tokio::spawn(async move { sessions.recover().await });
            }
        });
    }
}

/// The call of a session, as its first step has recorded it.
fn journaled_call(journal: &[JournalEvent]) -> Option<JournaledCall> {
    journal.iter().find_map(|event| match event {
        JournalEvent::StepDone { key, outcome: StepOutcome::Ok(call), .. } if key == CALL => {
            serde_json::from_value(call.clone()).ok()
        }
        _ => None,
    })
}

/// Sessions that are listed at once.
const PAGE: usize = 100;
