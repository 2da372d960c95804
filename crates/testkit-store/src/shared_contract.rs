//! Clauses of the contract of stores that several processes use at once. Each gets two connections
//! to one store, as two processes have them.

use std::time::Duration;

use mcp_flow_session::store::{
    Append, Fence, Head, NodeInfo, Record, RecordChange, SharedStore, StoreChange, StoreChanges,
};
use mcp_flow_session::{Epoch, SessionId, State, StoreError};

use super::{Opened, append, ended, id, noted, started, summary};

/// A node whose session was claimed by another cannot append any more, even at the right length;
/// the new holder can.
pub async fn zombie_writers_are_refused((one, two): (Opened, Opened)) {
    let (zombie, heir) = (join(&one).await, join(&two).await);
    one.append(held(append(id(1), 0, vec![started("ada")]), zombie)).await.unwrap();
    shared(&one).leave(zombie).await.unwrap();
    let claimed = shared(&two).claim(heir, 10, Vec::new()).await.unwrap();
    assert_eq!(claimed, [id(1)]);
    assert_eq!(shared(&two).held(heir).await.unwrap(), [id(1)]);
    for holder in [Some(zombie), None] {
        let fence = Fence { by: zombie, holder, steal: false };
        let refused = one.append(Append { fence, ..append(id(1), 1, vec![noted(1)]) }).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    }
    two.append(held(append(id(1), 1, vec![noted(2)]), heir)).await.unwrap();
    assert_eq!(one.read(id(1)).await.unwrap(), [started("ada"), noted(2)]);
    let head = Head { length: 2, is_ended: false, holder: Some(heir) };
    assert_eq!(shared(&one).head(id(1)).await.unwrap(), Some(head));
    assert_eq!(shared(&one).head(id(2)).await.unwrap(), None);
    // The end of a session takes it from whoever holds it.
    let fence = Fence { by: zombie, holder: None, steal: true };
    let end = Append {
        summary: summary("ada", State::Cancelled, Some(9)),
        replace: true,
        fence,
        ..append(id(1), 2, vec![ended("ada")])
    };
    one.append(end).await.unwrap();
    let head = Head { length: 1, is_ended: true, holder: None };
    assert_eq!(shared(&two).head(id(1)).await.unwrap(), Some(head));
}

/// A waiting session may be appended to by any node, which then holds it; released, by any again.
pub async fn the_appending_node_holds_waiting_sessions((one, two): (Opened, Opened)) {
    let (first, second) = (join(&one).await, join(&two).await);
    let free = |by, append| Append { fence: Fence { by, holder: None, steal: false }, ..append };
    one.append(free(first, append(id(1), 0, vec![started("ada")]))).await.unwrap();
    two.append(held(append(id(1), 1, vec![noted(1)]), second)).await.unwrap();
    let refused = one.append(free(first, append(id(1), 2, vec![noted(2)]))).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    two.append(free(second, append(id(1), 2, vec![noted(2)]))).await.unwrap();
    one.append(held(append(id(1), 3, vec![noted(3)]), first)).await.unwrap();
    // Nobody may claim what a live node holds.
    assert_eq!(shared(&two).claim(second, 10, Vec::new()).await.unwrap(), []);
}

/// Claims of several nodes are disjoint and complete, and include work that nobody holds.
pub async fn claims_are_disjoint((one, two): (Opened, Opened)) {
    const SESSIONS: usize = 60;
    let gone = join(&one).await;
    for number in 0..SESSIONS {
        let holder = if number % 3 == 0 { Epoch::NONE } else { gone };
        let fence = Fence { by: gone, holder: Some(holder), steal: false };
        let begin = append(id(number as u128), 0, vec![started("ada")]);
        one.append(Append { fence, ..begin }).await.unwrap();
    }
    shared(&one).leave(gone).await.unwrap();
    let (first, second) = (join(&one).await, join(&two).await);
    assert!(shared(&one).has_orphans().await.unwrap());
    let mut claimed: Vec<SessionId> = Vec::new();
    loop {
        let (mine, theirs) = tokio::join!(
            shared(&one).claim(first, 7, Vec::new()),
            shared(&two).claim(second, 7, Vec::new())
        );
        let (mine, theirs) = (mine.unwrap(), theirs.unwrap());
        if mine.is_empty() && theirs.is_empty() {
            break;
        }
        claimed.extend(mine.into_iter().chain(theirs));
    }
    claimed.sort_unstable();
    let mut expected: Vec<_> = (0..SESSIONS).map(|number| id(number as u128)).collect();
    expected.sort_unstable();
    assert_eq!(claimed, expected);
    assert!(!shared(&one).has_orphans().await.unwrap());
}

/// A session that its holder gives back can be claimed, by those who do not refuse it.
pub async fn released_sessions_can_be_claimed((one, two): (Opened, Opened)) {
    let (first, second) = (join(&one).await, join(&two).await);
    one.append(held(append(id(1), 0, vec![started("ada")]), first)).await.unwrap();
    // It is not the holder.
    shared(&two).release(second, id(1)).await.unwrap();
    assert_eq!(shared(&two).claim(second, 10, Vec::new()).await.unwrap(), []);
    shared(&one).release(first, id(1)).await.unwrap();
    assert!(shared(&two).has_orphans().await.unwrap());
    assert_eq!(shared(&one).claim(first, 1, vec![id(2), id(1)]).await.unwrap(), []);
    assert_eq!(shared(&two).claim(second, 1, vec![id(2)]).await.unwrap(), [id(1)]);
    let head = shared(&one).head(id(1)).await.unwrap();
    assert_eq!(head.and_then(|head| head.holder), Some(second));
}

/// A node that does not renew its lease is removed; it is told so, and its epoch is not used again.
pub async fn leases_expire((one, two): (Opened, Opened)) {
    let (silent, alive) = (join(&one).await, join(&two).await);
    assert!(silent < alive);
    one.append(held(append(id(1), 0, vec![started("ada")]), silent)).await.unwrap();
    let nodes = shared(&two).nodes().await.unwrap();
    let epochs: Vec<_> = nodes.iter().map(|node| node.epoch).collect();
    assert_eq!((epochs, &nodes[0].info), (vec![silent, alive], &info()));
    let expires = async {
        loop {
            assert!(shared(&two).beat(alive).await.unwrap().is_member);
            let claimed = shared(&two).claim(alive, 10, Vec::new()).await.unwrap();
            if !claimed.is_empty() {
                return claimed;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let expired = tokio::time::timeout(Duration::from_secs(60), expires).await;
    let claimed = expired.expect("a lease of a second has not expired after a minute");
    let nodes = shared(&two).nodes().await.unwrap();
    let epochs: Vec<_> = nodes.iter().map(|node| node.epoch).collect();
    assert_eq!((epochs, claimed), (vec![alive], vec![id(1)]));
    assert!(!shared(&one).beat(silent).await.unwrap().is_member);
    assert!(join(&one).await > alive);
}

/// A record is changed by its holder only, or by whoever takes it from the holder it expects; it is
/// gone after its lifetime.
pub async fn records_are_changed_by_their_holder((one, two): (Opened, Opened)) {
    let (first, second) = (join(&one).await, join(&two).await);
    let change = |from, holder: Option<Epoch>, value: &str| RecordChange {
        key: "a key".to_owned(),
        from,
        record: holder.map(|holder| Record { holder, value: value.into() }),
        lifetime: Duration::from_secs(60),
    };
    assert_eq!(shared(&one).record("a key".to_owned()).await.unwrap(), None);
    for (by, from, holder, value, is_changed) in [
        (&one, Some(first), Some(first), "nothing to replace", false),
        (&one, None, Some(first), "created", true),
        (&two, None, Some(second), "exists", false),
        (&two, Some(second), Some(second), "held by another", false),
        (&one, Some(first), Some(first), "replaced", true),
        (&two, Some(first), Some(second), "taken", true),
        (&one, Some(first), Some(first), "too late", false),
        (&one, Some(first), None, "too late to remove", false),
    ] {
        let changed = shared(by).change_record(change(from, holder, value)).await.unwrap();
        assert_eq!(changed, is_changed, "{value}");
    }
    let taken = Record { holder: second, value: "taken".into() };
    assert_eq!(shared(&one).record("a key".to_owned()).await.unwrap(), Some(taken));
    // Of two that take it at once, one wins.
    let (mine, theirs) = tokio::join!(
        shared(&one).change_record(change(Some(second), Some(first), "one")),
        shared(&two).change_record(change(Some(second), Some(Epoch::NONE), "two")),
    );
    assert_ne!(mine.unwrap(), theirs.unwrap());
    let holder = shared(&one).record("a key".to_owned()).await.unwrap().map(|kept| kept.holder);
    assert!(shared(&one).change_record(change(holder, None, "removed")).await.unwrap());
    assert_eq!(shared(&two).record("a key".to_owned()).await.unwrap(), None);
    let short = RecordChange { lifetime: Duration::ZERO, ..change(None, Some(first), "short") };
    assert!(shared(&one).change_record(short).await.unwrap());
    assert_eq!(shared(&two).record("a key".to_owned()).await.unwrap(), None);
    assert!(shared(&two).change_record(change(None, Some(second), "anew")).await.unwrap());
}

/// Each change by another node is heard of, or reported as missed.
pub async fn changes_are_delivered_or_missed((one, two): (Opened, Opened)) {
    let (listener, writer) = (join(&one).await, join(&two).await);
    let mut changes = shared(&one).changes(listener);
    // Whatever it takes to listen: heard from here on.
    settle(&mut *changes, &two, writer).await;
    let own = Fence { by: listener, holder: None, steal: false };
    one.append(Append { fence: own, ..append(id(7), 0, vec![started("ada")]) }).await.unwrap();
    let by = Fence { by: writer, holder: None, steal: false };
    for number in 1..=3 {
        two.append(Append { fence: by, ..append(id(number), 0, vec![started("ada")]) })
            .await
            .unwrap();
    }
    shared(&two).post(Some(writer), b"not for the listener".to_vec()).await.unwrap();
    shared(&two).post(Some(listener), b"to the listener".to_vec()).await.unwrap();
    let mut missing = vec![id(1), id(2), id(3)];
    let mut is_posted = false;
    while !missing.is_empty() || !is_posted {
        match next(&mut *changes).await {
            StoreChange::Session(changed) => {
                assert_ne!(changed, id(7), "a node does not hear of its own changes");
                missing.retain(|id| *id != changed);
            }
            StoreChange::Posted(message) => {
                assert_eq!(message, b"to the listener");
                is_posted = true;
            }
            StoreChange::Missed => missing.clear(),
        }
    }
}

/// An append that conflicts fails alone; those beside it in a batch are written.
pub async fn one_conflict_spoils_no_batch((one, two): (Opened, Opened)) {
    const WRITERS: usize = 64;
    let (first, second) = (join(&one).await, join(&two).await);
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..WRITERS {
        for (store, by) in [(&one, first), (&two, second)] {
            let store = std::sync::Arc::clone(store);
            writers.spawn(async move {
                let own = append(id(1000 + number as u128), 0, vec![started("ada")]);
                (number, store.append(held(own, by)).await)
            });
        }
    }
    let mut written = vec![0; WRITERS];
    for (number, done) in writers.join_all().await {
        match done {
            Ok(()) => written[number] += 1,
            Err(StoreError::Conflict(_)) => {}
            Err(error) => panic!("{number}: {error:?}"),
        }
    }
    assert_eq!(written, [1; WRITERS]);
    for number in 0..WRITERS {
        assert_eq!(one.read(id(1000 + number as u128)).await.unwrap(), [started("ada")]);
    }
}

/// Waits until a listener hears changes: it may take a connection first.
async fn settle(changes: &mut dyn StoreChanges, store: &Opened, by: Epoch) {
    let mut number = 0;
    let heard = async {
        loop {
            number += 1;
            let fence = Fence { by, holder: None, steal: false };
            let ping = append(id(5000), number - 1, vec![noted(number)]);
            store.append(Append { fence, ..ping }).await.unwrap();
            let waited = tokio::time::timeout(Duration::from_millis(200), changes.next()).await;
            if waited.is_ok() {
                return;
            }
        }
    };
    let heard = tokio::time::timeout(Duration::from_secs(60), heard).await;
    heard.expect("nothing was heard of another node for a minute");
    // What is left of the beginning.
    while let Ok(change) = tokio::time::timeout(Duration::from_millis(300), changes.next()).await {
        assert!(matches!(change, StoreChange::Session(_) | StoreChange::Missed), "{change:?}");
    }
}

async fn next(changes: &mut dyn StoreChanges) -> StoreChange {
    let next = tokio::time::timeout(Duration::from_secs(60), changes.next()).await;
    next.expect("a change was neither delivered nor reported as missed for a minute")
}

fn held(append: Append, by: Epoch) -> Append {
    let summary = summary("ada", State::Processing, None);
    Append { summary, fence: Fence { by, holder: Some(by), steal: false }, ..append }
}

async fn join(store: &Opened) -> Epoch {
    shared(store).join(info()).await.unwrap()
}

fn info() -> NodeInfo {
    NodeInfo { name: "test".into(), url: Some("http://127.0.0.1:1".into()), version: "1".into() }
}

fn shared(store: &Opened) -> &dyn SharedStore {
    store.shared().expect("the store can be shared")
}
