//! Sessions that are found by labels, exported and imported.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_flow_engine::{
    Definition, Engine, EngineError, Flow, FlowResult, SessionHistory, SessionSearch,
};
use mcp_flow_session::event::FaultName;
use mcp_flow_session::question::text;
use mcp_flow_session::{MemoryStore, Owner, SessionId, State, Store};
use serde_json::{Value, json};

use super::support::{
    ManualClock, NoParams, answer, builder, fault, me, no_linger, open, params, result, start,
};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Labels its session with the answer, works, and asks once more.
async fn order(flow: Flow, charges: Arc<AtomicUsize>) -> FlowResult<Value> {
    flow.label("shop", "north")?;
    let customer = flow.ask("customer", text("Who?")).await?;
    flow.label("customer", &customer)?;
    let charge = || async { Ok::<_, String>(charges.fetch_add(1, Ordering::SeqCst)) };
    let charge: usize = flow.step("charge", charge).await?;
    let note = flow.ask("note", text("Anything else?")).await?;
    Ok(json!([customer, charge, note]))
}

fn engine(clock: &Arc<ManualClock>, charges: &Arc<AtomicUsize>) -> Engine {
    let charges = Arc::clone(charges);
    builder(Arc::new(MemoryStore::new()))
        .clock(clock.clone())
        .limits(no_linger())
        .flow(Definition::new("order", move |flow, _: NoParams| order(flow, Arc::clone(&charges))))
        .build()
}

#[tokio::test]
async fn sessions_are_found_by_flow_state_time_and_labels() {
    let clock = ManualClock::new();
    let engine = engine(&clock, &Arc::default());
    let mut ids = Vec::new();
    for customer in ["ada", "bob", "ada"] {
        let started = engine.start(start("order")).await.unwrap();
        answer(&engine, started.id, json!(customer)).await;
        ids.push(started.id);
        clock.forward(Duration::from_secs(60));
    }
    let wizard = engine.start(start("register")).await.unwrap();
    engine.cancel(ids[2], &me(), None).await.unwrap();
    let begun = wizard.created.as_millis() - 180_000;
    let at = |millis: u64| Some(mcp_flow_session::Timestamp::from_millis(begun + millis));
    let labelled = |labels: Value| SessionSearch {
        labels: serde_json::from_value(labels).unwrap(),
        ..SessionSearch::default()
    };
    let of = |change: fn(&mut SessionSearch)| {
        let mut search = SessionSearch::default();
        change(&mut search);
        search
    };
    let table = [
        (SessionSearch::default(), vec![ids[0], ids[1], ids[2], wizard.id]),
        (labelled(json!({"customer": "bob"})), vec![ids[1]]),
        // Also those that have ended.
        (labelled(json!({"customer": "ada", "shop": "north"})), vec![ids[0], ids[2]]),
        (labelled(json!({"customer": "ada", "shop": "south"})), vec![]),
        (of(|search| search.flow = Some("register".to_owned())), vec![wizard.id]),
        (of(|search| search.state = Some(State::Cancelled)), vec![ids[2]]),
        (of(|search| search.state = Some(State::WaitingUser)), vec![ids[0], ids[1], wizard.id]),
        (of(|search| search.owner = Some(Owner::new("eve"))), vec![]),
        (of(|search| search.is_stuck = true), vec![]),
        (
            SessionSearch { from: at(60_000), to: at(120_000), ..labelled(json!({})) },
            vec![ids[1], ids[2]],
        ),
    ];
    for (search, mut expected) in table {
        expected.sort_unstable();
        let found = engine.search(&search, None, 100).await.unwrap();
        let found: Vec<SessionId> = found.sessions.iter().map(|listed| listed.id).collect();
        assert_eq!(found, expected, "{search:?}");
    }
    let search = of(|search| search.flow = Some("order".to_owned()));
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = engine.search(&search, after, 1).await.unwrap();
        assert!(page.sessions.len() <= 1);
        found.extend(page.sessions.iter().map(|listed| listed.id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    ids.sort_unstable();
    assert_eq!(found, ids);
}

#[tokio::test]
async fn labels_are_bounded() {
    async fn label(flow: Flow, (key, value, count): (String, String, usize)) -> FlowResult<()> {
        flow.label(&key, &value)?;
        (1..count).try_for_each(|number| flow.label(&number.to_string(), number))?;
        // Another value of the same key needs no more room.
        flow.label(&key, "again")
    }
    for (key, value, count, is_allowed) in [
        ("a", "x".repeat(200), 16, true),
        ("a", "x".repeat(201), 1, false),
        ("a", String::new(), 17, false),
        ("", String::new(), 1, false),
        ("a=b", String::new(), 1, false),
        ("a\nb", String::new(), 1, false),
        (&"x".repeat(51), String::new(), 1, false),
    ] {
        let given = (key.to_owned(), value, count);
        let run = move |flow, _: NoParams| label(flow, given.clone());
        let store = Arc::new(MemoryStore::new()) as Arc<dyn Store>;
        let engine = builder(store).flow(Definition::new("label", run)).build();
        let view = engine.start(start("label")).await.unwrap();
        if is_allowed {
            assert_eq!(result(&view), Value::Null);
        } else {
            assert_eq!(fault(&view).name, FaultName::Failed, "{key} {count}");
        }
    }
}

/// An imported session goes on in another store: its steps do not run again, and its time begins
/// again.
#[tokio::test]
async fn exported_sessions_go_on_where_they_are_imported() {
    let (clock, charges) = (ManualClock::new(), Arc::<AtomicUsize>::default());
    let (from, to) = (engine(&clock, &charges), engine(&clock, &charges));
    let started = from.start(start("order")).await.unwrap();
    answer(&from, started.id, json!("ada")).await;
    let journal = from.journal(started.id, &me()).await.unwrap();
    let exported = SessionHistory { id: started.id, events: journal }.to_value();
    clock.forward(HOUR);

    let history = SessionHistory::read(&exported).unwrap();
    let view = to.import(history.clone(), false).await.unwrap();
    assert_eq!((view.id, &*open(&view).key), (started.id, "note"));
    to.maintain().await.unwrap();
    let again = to.import(history.clone(), false).await;
    assert!(matches!(again, Err(EngineError::SessionExists(id)) if id == started.id));
    let copy = to.import(history, true).await.unwrap();
    assert_ne!(copy.id, started.id);
    for id in [started.id, copy.id] {
        assert_eq!(result(&answer(&to, id, json!("thanks")).await), json!(["ada", 0, "thanks"]));
    }
    assert_eq!(charges.load(Ordering::SeqCst), 1);

    // Of an ended session there is the result.
    let ended = SessionHistory { id: copy.id, events: to.journal(copy.id, &me()).await.unwrap() };
    let third = engine(&clock, &charges).import(ended, false).await.unwrap();
    assert_eq!(result(&third), json!(["ada", 0, "thanks"]));
}

#[tokio::test]
async fn edited_histories_are_rejected_with_the_position() {
    let engine = engine(&ManualClock::new(), &Arc::default());
    let given = params(json!({"customer": "ada"}));
    let started = engine.start(start("order").params(given)).await.unwrap();
    let events = engine.journal(started.id, &me()).await.unwrap();
    let count = events.len();
    let exported = SessionHistory { id: started.id, events }.to_value();
    assert!(SessionHistory::read(&exported).is_ok());
    let step =
        (0..count).find(|index| exported["entries"][index]["event"]["step_done"].is_object());
    let step = step.unwrap();
    type Edit = (Box<dyn Fn(&mut Value)>, usize, &'static str);
    let edits: [Edit; 9] = [
        (Box::new(|history| history["mcpFlowHistory"] = json!(2)), 0, "newer program"),
        (Box::new(|history| history["mcpFlowHistory"] = Value::Null), 0, "export it again"),
        (Box::new(|history| history["sessionId"] = json!("session_1")), 0, "sessionId"),
        (
            Box::new(|history| {
                history["sessionId"] = json!(SessionId::from_random(7).to_string());
            }),
            1,
            "was edited",
        ),
        (
            Box::new(move |history| {
                history["entries"][step]["event"]["step_done"]["outcome"] = json!({"ok": 99});
            }),
            step + 1,
            "was edited",
        ),
        (
            Box::new(move |history| {
                history["entries"].as_array_mut().unwrap().remove(step);
            }),
            step + 1,
            "was edited",
        ),
        (
            Box::new(move |history| history["entries"][1]["event"] = json!({"unheard_of": {}})),
            2,
            "cannot be read",
        ),
        (
            Box::new(|history| {
                history["entries"].as_array_mut().unwrap().pop();
            }),
            count,
            "cut off",
        ),
        (Box::new(|history| history["entries"] = json!([])), 1, "cut off"),
    ];
    for (edit, position, reason) in edits {
        let mut history = exported.clone();
        edit(&mut history);
        let bad = SessionHistory::read(&history).unwrap_err();
        assert_eq!(bad.position, position, "{bad}");
        assert!(bad.to_string().contains(reason), "{bad}");
    }
    // Digests can be computed again, but the events must still follow from each other.
    let mut events = engine.journal(started.id, &me()).await.unwrap();
    events.remove(1);
    let forged = SessionHistory { id: started.id, events };
    let refused = engine.import(forged, true).await;
    assert!(matches!(refused, Err(EngineError::BadHistory(bad)) if bad.position == 2));
}
