//! Comparison of a store with a minimal model.

use std::collections::BTreeMap;

use mcp_flow_session::store::{Append, Filter, Listed, PageRequest, Phase, Summary};
use mcp_flow_session::{JournalEvent, SessionId, State, StoreError, Timestamp};

use super::{Opened, append, ended, id, noted, started, summary};

/// Any sequence of operations leaves the store in the state of the model.
pub async fn any_sequence_of_operations_matches_the_model(store: Opened) {
    let mut chance = Chance(7);
    let mut model = BTreeMap::<SessionId, (Vec<JournalEvent>, Summary)>::new();
    for step in 0..400 {
        let id = id(chance.below(12) as u128);
        let known = model.get(&id).map_or(0, |(events, _)| events.len());
        if chance.below(10) == 0 {
            store.erase(id).await.unwrap();
            model.remove(&id);
        } else {
            let length = if chance.below(5) == 0 { chance.below(6) } else { known };
            let write = chance.append(id, length, step);
            let written = store.append(write.clone()).await;
            let has_ended = model.get(&id).is_some_and(|(_, summary)| summary.state.is_final());
            if length == known && !has_ended {
                written.unwrap();
                let entry = model.entry(id).or_insert_with(|| (Vec::new(), write.summary.clone()));
                if write.replace {
                    entry.0.clear();
                }
                entry.0.extend(write.events);
                // Flow, owner and creation time of a session never change.
                entry.1 = write.summary;
            } else {
                assert!(matches!(written, Err(StoreError::Conflict(_))), "{written:?}");
            }
        }
        let expected = model.get(&id).map_or(Vec::new(), |(events, _)| events.clone());
        assert_eq!(store.read(id).await.unwrap(), expected, "after step {step}");
        compare(&store, &model, chance.below(300) as u64, step).await;
    }
}

async fn compare(
    store: &Opened,
    model: &BTreeMap<SessionId, (Vec<JournalEvent>, Summary)>,
    time: u64,
    step: usize,
) {
    let page = PageRequest { after: None, most: 100 };
    for phase in [Phase::Any, Phase::Working, Phase::Ended] {
        let listed = store.list(Filter { owner: None, phase }, page).await.unwrap();
        let expected: Vec<_> = model
            .iter()
            .filter(|(_, (_, summary))| phase.covers(summary.state))
            .map(|(id, (_, summary))| Listed { id: *id, summary: summary.clone() })
            .collect();
        assert_eq!(listed, expected, "{phase:?} after step {step}");
    }
    let mut expected: Vec<_> = model
        .iter()
        .filter_map(|(id, (_, summary))| Some((summary.deadline?.as_millis(), *id)))
        .filter(|(deadline, _)| *deadline <= time)
        .collect();
    expected.sort_unstable();
    let expected: Vec<_> = expected.into_iter().map(|(_, id)| id).collect();
    let due = store.due(Timestamp::from_millis(time), 100).await.unwrap();
    assert_eq!(due, expected, "due at {time} after step {step}");
}

/// Deterministic random numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn append(&mut self, id: SessionId, length: usize, step: usize) -> Append {
        let state = [State::WaitingUser, State::Processing, State::Error][self.below(3)];
        let deadline = (self.below(4) > 0).then(|| self.below(300) as u64);
        let replace = state.is_final();
        let first = if replace { ended("ada") } else { started("ada") };
        let mut events = if length == 0 || replace { vec![first] } else { vec![noted(step)] };
        if !replace {
            events.extend((0..self.below(3)).map(noted));
        }
        let summary = summary("ada", state, deadline);
        Append { summary, replace, ..append(id, length, events) }
    }
}
