//! Search for sessions by flow, state, owner, time and labels.

use std::collections::BTreeMap;

use mcp_flow_session::store::{Filter, Listed, PageRequest, Phase};
use mcp_flow_session::{Owner, SessionId, State, Timestamp};

use crate::engine::Engine;
use crate::error::EngineError;

/// Criteria of a search. Sessions match that fit all members that are set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionSearch {
    /// Owner of the session.
    pub owner: Option<Owner>,
    /// Name of its flow.
    pub flow: Option<String>,
    /// Its state.
    pub state: Option<State>,
    /// Set to find only sessions that are stuck.
    pub is_stuck: bool,
    /// Earliest time of its creation.
    pub from: Option<Timestamp>,
    /// Latest time of its creation.
    pub to: Option<Timestamp>,
    /// Labels that it has.
    pub labels: BTreeMap<String, String>,
}

/// A page of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundSessions {
    /// The sessions, ordered by id. There may be none on a page that is not the last.
    pub sessions: Vec<Listed>,
    /// Id after which the next page begins, if there may be more.
    pub next: Option<SessionId>,
}

impl SessionSearch {
    fn finds(&self, listed: &Listed) -> bool {
        let summary = &listed.summary;
        let is_any = |wanted: Option<bool>| wanted.unwrap_or(true);
        is_any(self.flow.as_ref().map(|flow| *flow == summary.flow))
            && is_any(self.state.map(|state| state == summary.state))
            && (!self.is_stuck || summary.stuck.is_some())
            && is_any(self.from.map(|from| from <= summary.created))
            && is_any(self.to.map(|to| summary.created <= to))
            && self.labels.iter().all(|(key, value)| summary.labels.get(key) == Some(value))
    }

    /// Returns the phase by which a store can leave out most of the others.
    fn phase(&self) -> Phase {
        match self.state {
            _ if self.is_stuck => Phase::Live,
            None => Phase::Any,
            Some(State::WaitingUser) => Phase::Waiting,
            Some(state) if state.is_final() => Phase::Ended,
            Some(_) => Phase::Working,
        }
    }
}

impl Engine {
    /// Searches sessions after an id, up to `most`. Stores index owners and phases only, so a page
    /// reads a bounded number of sessions, and may have fewer than there are.
    pub async fn search(
        &self,
        search: &SessionSearch,
        mut after: Option<SessionId>,
        most: usize,
    ) -> Result<FoundSessions, EngineError> {
        let filter = Filter { owner: search.owner.clone(), phase: search.phase() };
        let mut found = FoundSessions::default();
        let mut examined = 0;
        while examined < SCAN_LIMIT {
            let page = PageRequest { after, most: PAGE };
            let listed = self.list_all(filter.clone(), page).await?;
            let is_last = listed.len() < PAGE;
            for listed in listed {
                if found.sessions.len() == most {
                    found.next = after;
                    return Ok(found);
                }
                examined += 1;
                after = Some(listed.id);
                if search.finds(&listed) {
                    found.sessions.push(listed);
                }
            }
            if is_last {
                return Ok(found);
            }
        }
        found.next = after;
        Ok(found)
    }
}

/// Sessions read from the store at a time.
const PAGE: usize = 500;

/// Sessions that a page examines at most.
const SCAN_LIMIT: usize = 10_000;
