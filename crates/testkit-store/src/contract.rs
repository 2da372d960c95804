//! Clauses of the store contract.

use std::sync::Arc;

use mcp_flow_session::store::{Append, Census, Filter, PageRequest, Phase};
use mcp_flow_session::{Divergence, JournalEvent, Owner, SessionId, State, StoreError, Timestamp};

use super::{Opened, append, ended, id, noted, started, summary};

/// Appended events are read in order and unchanged; an unknown session has none.
pub async fn appended_events_are_read_back(store: Opened) {
    assert_eq!(store.read(id(1)).await.unwrap(), []);
    let first = vec![started("ada"), noted(1)];
    store.append(append(id(1), 0, first.clone())).await.unwrap();
    let second = vec![noted(2), noted(3)];
    store.append(append(id(1), 2, second.clone())).await.unwrap();
    store.append(append(id(2), 0, vec![started("bob")])).await.unwrap();
    assert_eq!(store.read(id(1)).await.unwrap(), [first, second].concat());
    assert_eq!(store.read(id(2)).await.unwrap(), [started("bob")]);
}

/// An append at an outdated length conflicts and changes nothing.
pub async fn an_append_at_an_outdated_length_conflicts(store: Opened) {
    let refused = store.append(append(id(1), 1, vec![noted(1)])).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(store.read(id(1)).await.unwrap(), []);
    store.append(append(id(1), 0, vec![started("ada"), noted(1)])).await.unwrap();
    for length in [0, 1, 3, 1000] {
        let refused = store.append(append(id(1), length, vec![noted(9)])).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{length}: {refused:?}");
    }
    assert_eq!(store.read(id(1)).await.unwrap(), [started("ada"), noted(1)]);
}

/// C-11: an append that replaces a journal erases all before it.
pub async fn replacing_a_journal_erases_it(store: Opened) {
    store.append(append(id(1), 0, vec![started("ada"), noted(1)])).await.unwrap();
    store.append(append(id(1), 2, vec![noted(2)])).await.unwrap();
    let end = Append {
        summary: summary("ada", State::Cancelled, Some(9)),
        replace: true,
        ..append(id(1), 3, vec![ended("ada")])
    };
    let early = Append { length: 2, ..end.clone() };
    assert!(matches!(store.append(early).await, Err(StoreError::Conflict(_))));
    store.append(end.clone()).await.unwrap();
    assert_eq!(store.read(id(1)).await.unwrap(), [ended("ada")]);
    // A session may start and end in one append.
    store.append(Append { id: id(2), length: 0, ..end }).await.unwrap();
    assert_eq!(store.read(id(2)).await.unwrap(), [ended("ada")]);
    let live = Filter { owner: Some(Owner::new("ada")), phase: Phase::Live };
    let page = PageRequest { after: None, most: 10 };
    assert_eq!(store.list(live, page).await.unwrap(), []);
}

/// An append that was decided before another writer ended or erased the session conflicts, even if
/// the length is the same by chance.
pub async fn nothing_follows_the_end(store: Opened) {
    store.append(append(id(1), 0, vec![started("ada")])).await.unwrap();
    let end = Append {
        summary: summary("ada", State::Cancelled, Some(9)),
        replace: true,
        ..append(id(1), 1, vec![ended("ada")])
    };
    store.append(end.clone()).await.unwrap();
    for stale in [append(id(1), 1, vec![noted(1)]), end] {
        let refused = store.append(stale).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    }
    assert_eq!(store.read(id(1)).await.unwrap(), [ended("ada")]);
    store.erase(id(1)).await.unwrap();
    let refused = store.append(append(id(1), 1, vec![noted(1)])).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(store.read(id(1)).await.unwrap(), []);
}

/// INT-074: sessions are counted by state, including after they change, end or are erased.
pub async fn sessions_are_counted(store: Opened) {
    let census = |waiting, working, ended| Census { waiting, working, ended };
    assert_eq!(store.census().await.unwrap(), census(0, 0, 0));
    let at = |state, append: Append| Append { summary: summary("ada", state, Some(9)), ..append };
    let begins = |number| append(id(number), 0, vec![started("ada")]);
    for (number, state) in [(1, State::Active), (2, State::WaitingUser), (3, State::WaitingUser)] {
        store.append(at(state, begins(number))).await.unwrap();
    }
    assert_eq!(store.census().await.unwrap(), census(2, 1, 0));
    store.append(at(State::WaitingUser, append(id(1), 1, vec![noted(1)]))).await.unwrap();
    store.append(at(State::Processing, append(id(2), 1, vec![noted(1)]))).await.unwrap();
    let end = Append { replace: true, ..append(id(3), 1, vec![ended("ada")]) };
    store.append(at(State::Error, end)).await.unwrap();
    assert_eq!(store.census().await.unwrap(), census(1, 1, 1));
    // One that conflicts, and one that starts with its end.
    assert!(store.append(at(State::Active, begins(1))).await.is_err());
    let at_once = Append { replace: true, ..append(id(4), 0, vec![ended("ada")]) };
    store.append(at(State::Completed, at_once)).await.unwrap();
    assert_eq!(store.census().await.unwrap(), census(1, 1, 2));
    for number in [1, 2, 3, 4, 5] {
        store.erase(id(number)).await.unwrap();
    }
    assert_eq!(store.census().await.unwrap(), census(0, 0, 0));
}

/// Lists are complete, ordered, and filtered by owner and phase.
pub async fn lists_are_paginated(store: Opened) {
    let states = [State::WaitingUser, State::Processing, State::Completed, State::Active];
    for number in 0..40 {
        let owner = if number % 3 == 0 { "ada" } else { "bob" };
        let state = states[number % 4];
        let write = Append {
            summary: summary(owner, state, None),
            replace: state.is_final(),
            ..append(id(number as u128), 0, vec![started(owner)])
        };
        store.append(write).await.unwrap();
    }
    for owner in [None, Some("ada"), Some("bob"), Some("eve"), Some("ad")] {
        for phase in [Phase::Any, Phase::Live, Phase::Working, Phase::Waiting, Phase::Ended] {
            let mut expected: Vec<SessionId> = (0..40)
                .filter(|number| {
                    let named = if number % 3 == 0 { "ada" } else { "bob" };
                    owner.is_none_or(|owner| owner == named) && phase.covers(states[number % 4])
                })
                .map(|number| id(number as u128))
                .collect();
            expected.sort_unstable();
            for most in [1, 7, 100] {
                let (mut found, mut after) = (Vec::new(), None);
                loop {
                    let filter = Filter { owner: owner.map(Owner::new), phase };
                    let page = store.list(filter, PageRequest { after, most }).await.unwrap();
                    assert!(page.len() <= most);
                    let Some(last) = page.last() else { break };
                    after = Some(last.id);
                    for listed in page {
                        assert_eq!(listed.summary.flow, "sample");
                        assert_eq!(listed.summary.created, Timestamp::from_millis(1));
                        assert_eq!(listed.summary.touched, Timestamp::from_millis(2));
                        assert!(owner.is_none_or(|owner| listed.summary.owner.name() == owner));
                        found.push(listed.id);
                    }
                    assert!(found.len() <= 40, "the pages have no end");
                }
                assert_eq!(found, expected, "{owner:?} {phase:?} by {most}");
            }
        }
    }
}

/// INT-074: sessions that are due are listed, the most overdue first, after their deadline has
/// changed too.
pub async fn deadlines_come_due(store: Opened) {
    let at = Timestamp::from_millis;
    let write = |number: u128, length, deadline| Append {
        summary: summary("ada", State::WaitingUser, deadline),
        ..append(
            id(number),
            length,
            if length == 0 { vec![started("ada")] } else { vec![noted(length)] },
        )
    };
    for (number, deadline) in [(1, Some(100)), (2, Some(50)), (3, None), (4, Some(200))] {
        store.append(write(number, 0, deadline)).await.unwrap();
    }
    assert_eq!(store.due(at(49), 10).await.unwrap(), []);
    assert_eq!(store.due(at(50), 10).await.unwrap(), [id(2)]);
    assert_eq!(store.due(at(1_000), 10).await.unwrap(), [id(2), id(1), id(4)]);
    assert_eq!(store.due(at(1_000), 2).await.unwrap().len(), 2);
    // Later, earlier, never, and due.
    for (number, length, deadline) in
        [(2, 1, Some(300)), (4, 1, Some(10)), (1, 1, None), (3, 1, Some(60))]
    {
        store.append(write(number, length, deadline)).await.unwrap();
    }
    assert_eq!(store.due(at(100), 10).await.unwrap(), [id(4), id(3)]);
    assert_eq!(store.due(at(299), 10).await.unwrap(), [id(4), id(3)]);
    assert_eq!(store.due(at(300), 10).await.unwrap(), [id(4), id(3), id(2)]);
    store.erase(id(4)).await.unwrap();
    assert_eq!(store.due(at(300), 10).await.unwrap(), [id(3), id(2)]);
}

/// A session with a timer is due when it wakes, if that is before its deadline, and is listed with
/// that time until it has woken.
pub async fn timers_come_due(store: Opened) {
    let at = Timestamp::from_millis;
    let write = |length: usize, deadline: Option<u64>, wakes: Option<u64>| {
        let mut summary = summary("ada", State::Processing, deadline);
        (summary.wakes, summary.is_asleep) = (wakes.map(at), wakes.is_some());
        let event = if length == 0 { started("ada") } else { noted(length) };
        Append { summary, ..append(id(1), length, vec![event]) }
    };
    let page = PageRequest { after: None, most: 10 };
    let states = [
        (Some(50), Some(70), Some(50)),
        (Some(300), None, Some(300)),
        (None, Some(60), Some(60)),
        (None, Some(90), Some(90)),
        (Some(80), Some(40), Some(40)),
        (None, None, None),
    ];
    for (length, (deadline, wakes, due)) in states.into_iter().enumerate() {
        let write = write(length, deadline, wakes);
        let expected = write.summary.clone();
        store.append(write).await.unwrap();
        let listed = store.list(Filter::default(), page).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].summary, expected);
        if let Some(due) = due {
            assert_eq!(store.due(at(due - 1), 10).await.unwrap(), [], "{deadline:?} {wakes:?}");
            assert_eq!(store.due(at(due), 10).await.unwrap(), [id(1)], "{deadline:?} {wakes:?}");
        }
    }
    assert_eq!(store.due(Timestamp::NEVER, 10).await.unwrap(), []);
}

/// A session that is stuck is due since then, and is listed with both sides of the difference until
/// it goes on.
pub async fn stuck_sessions_are_due(store: Opened) {
    let at = Timestamp::from_millis;
    let difference = Divergence {
        index: 2,
        turn: 1,
        recorded_key: "city".to_owned(),
        recorded: "Text \"Where to?\"".to_owned(),
        asked_key: "destination".to_owned(),
        asked: "a step".to_owned(),
    };
    let events = [
        started("ada"),
        JournalEvent::Stuck { divergence: difference.clone(), at: at(20) },
        JournalEvent::Unstuck { at: at(30) },
    ];
    let page = PageRequest { after: None, most: 10 };
    for (length, event) in events.iter().enumerate() {
        let mut summary = summary("ada", State::WaitingUser, None);
        summary.stuck = (length == 1).then(|| difference.clone());
        summary.touched = event.at();
        let write = Append { summary, ..append(id(1), length, vec![event.clone()]) };
        let expected = write.summary.clone();
        store.append(write).await.unwrap();
        assert_eq!(store.read(id(1)).await.unwrap(), events[..=length]);
        assert_eq!(store.list(Filter::default(), page).await.unwrap()[0].summary, expected);
        assert_eq!(store.due(at(19), 10).await.unwrap(), []);
        let due = store.due(at(20), 10).await.unwrap();
        assert_eq!(due.contains(&id(1)), length == 1, "after event {length}");
    }
}

/// An erased session leaves nothing.
pub async fn erased_sessions_are_forgotten(store: Opened) {
    store.erase(id(1)).await.unwrap();
    for round in 0..2 {
        let write = Append {
            summary: summary("ada", State::Processing, Some(5)),
            ..append(id(1), 0, vec![started("ada"), noted(round)])
        };
        store.append(write).await.unwrap();
        store.append(append(id(2), round, vec![noted(round)])).await.unwrap();
        store.erase(id(1)).await.unwrap();
        assert_eq!(store.read(id(1)).await.unwrap(), []);
        assert_eq!(store.due(Timestamp::NEVER, 10).await.unwrap(), []);
        let page = PageRequest { after: None, most: 10 };
        for phase in [Phase::Any, Phase::Working] {
            let left = store.list(Filter { owner: None, phase }, page).await.unwrap();
            assert!(left.iter().all(|listed| listed.id == id(2)), "{left:?}");
        }
    }
    assert_eq!(store.read(id(2)).await.unwrap(), [noted(0), noted(1)]);
}

/// One of several concurrent appends at one length succeeds; appends to different sessions all do.
pub async fn concurrent_writers_exclude_each_other(store: Opened) {
    const WRITERS: usize = 32;
    store.append(append(id(0), 0, vec![started("ada")])).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let own = append(id(writer as u128 + 1), 0, vec![noted(writer)]);
            store.append(own).await.unwrap();
            store.append(append(id(0), 1, vec![noted(writer)])).await.is_ok()
        });
    }
    let written = writers.join_all().await.into_iter().filter(|written| *written).count();
    assert_eq!(written, 1);
    assert_eq!(store.read(id(0)).await.unwrap().len(), 2);
    for writer in 0..WRITERS {
        assert_eq!(store.read(id(writer as u128 + 1)).await.unwrap(), [noted(writer)]);
    }
}
