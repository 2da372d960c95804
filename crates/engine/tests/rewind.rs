//! Sessions that are rewound to an earlier question.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_flow_engine::{
    AnswerRequest, Definition, Engine, EngineError, Flow, FlowResult, SessionLimits,
};
use mcp_flow_session::question::{confirm, text};
use mcp_flow_session::session::RewindError;
use mcp_flow_session::{JournalEvent, MemoryStore, SessionId, Store};
use serde_json::{Value, json};

use super::support::{
    CrashStore, ManualClock, NoParams, answer, builder, me, no_linger, open, params, result, start,
};

/// Asks for a city and days, with a lookup and a pause, and books.
async fn trip(flow: Flow, booked: Arc<AtomicUsize>) -> FlowResult<Value> {
    let city = flow.ask("city", text("Where to?")).await?;
    flow.set("chosen", &city)?;
    let price: u64 = flow.lookup("price", || async { Ok::<_, String>(7) }).await?;
    flow.sleep(Duration::from_secs(60)).await?;
    let days = flow.ask("days", text("How long?")).await?;
    let sure = flow.ask("sure", confirm("Sure?")).await?;
    let book = || async { Ok::<_, String>(booked.fetch_add(1, Ordering::SeqCst)) };
    let _: usize = flow.step("book", book).await?;
    let note = flow.ask("note", text("Anything else?")).await?;
    Ok(json!([city, price, days, sure, note]))
}

fn engine_of(store: Arc<dyn Store>, clock: &Arc<ManualClock>, limits: SessionLimits) -> Engine {
    let booked = Arc::<AtomicUsize>::default();
    builder(store)
        .clock(clock.clone())
        .limits(limits)
        .flow(Definition::new("trip", move |flow, _: NoParams| trip(flow, Arc::clone(&booked))))
        .build()
}

/// Answers up to the question `sure`.
async fn ask_sure(engine: &Engine, clock: &ManualClock, id: SessionId) {
    answer(engine, id, json!("Oslo")).await;
    clock.forward(Duration::from_secs(60));
    engine.maintain().await.unwrap();
    answer(engine, id, json!("3")).await;
}

#[tokio::test]
async fn an_earlier_answer_is_changed() {
    for limits in [SessionLimits::default(), no_linger()] {
        let clock = ManualClock::new();
        let engine = engine_of(Arc::new(MemoryStore::new()), &clock, limits);
        let id = engine.start(start("trip")).await.unwrap().id;
        ask_sure(&engine, &clock, id).await;
        let before = open(&engine.view(id, &me()).await.unwrap()).clone();
        let rewound = engine.rewind(id, &me(), "city").await.unwrap();
        let again = open(&rewound).clone();
        assert_eq!(&*again.key, "city");
        assert!(again.turn > before.turn && again.number > before.number, "{again:?}");
        let session = engine.inspect(id, &me()).await.unwrap();
        assert!(session.history.is_empty() && session.data.is_empty(), "{session:?}");
        assert_eq!(session.wakes(), None);
        // A late answer to what was open, by its turn or its number, changes nothing.
        let late = AnswerRequest::from(json!(true)).for_turn(before.turn);
        assert!(matches!(
            engine.respond(id, &me(), late).await,
            Err(EngineError::Transition { .. })
        ));
        let late = AnswerRequest::from(json!(true)).for_question(before.id());
        let refused = engine.respond(id, &me(), late).await;
        assert!(matches!(refused, Err(EngineError::QuestionClosed(_))));

        answer(&engine, id, json!("Rome")).await;
        clock.forward(Duration::from_secs(60));
        engine.maintain().await.unwrap();
        answer(&engine, id, json!("4")).await;
        // Once more, to a nearer question.
        engine.rewind(id, &me(), "days").await.unwrap();
        answer(&engine, id, json!("5")).await;
        answer(&engine, id, json!(true)).await;
        let end = answer(&engine, id, json!("no")).await;
        assert_eq!(result(&end), json!(["Rome", 7, "5", true, "no"]));
    }
}

#[tokio::test]
async fn rewinding_stops_at_effects_and_at_what_was_not_answered() {
    let clock = ManualClock::new();
    let engine = engine_of(Arc::new(MemoryStore::new()), &clock, no_linger());
    let id = engine.start(start("trip")).await.unwrap().id;
    let refusal = async |key: &str| match engine.rewind(id, &me(), key).await {
        Err(EngineError::NotRewound(error)) => error,
        other => panic!("rewound: {other:?}"),
    };
    assert_eq!(refusal("city").await, RewindError::NotAnswered("city".to_owned()));
    ask_sure(&engine, &clock, id).await;
    assert_eq!(refusal("sure").await, RewindError::NotAnswered("sure".to_owned()));
    assert_eq!(refusal("hotel").await, RewindError::NotAnswered("hotel".to_owned()));
    answer(&engine, id, json!(true)).await;
    assert_eq!(refusal("city").await, RewindError::Effect("book".to_owned()));
    let other = mcp_flow_session::Owner::new("eve");
    assert!(matches!(engine.rewind(id, &other, "city").await, Err(EngineError::NotFound)));
    answer(&engine, id, json!("no")).await;
    let over = engine.rewind(id, &me(), "city").await;
    assert!(matches!(over, Err(EngineError::Transition { .. })));
}

/// A parameter that answered a question does not answer it again.
#[tokio::test]
async fn given_answers_can_be_changed() {
    let clock = ManualClock::new();
    let engine = engine_of(Arc::new(MemoryStore::new()), &clock, no_linger());
    let given = params(json!({"city": "Oslo"}));
    let id = engine.start(start("trip").params(given)).await.unwrap().id;
    let asleep = engine.view(id, &me()).await.unwrap();
    assert!(asleep.is_asleep());
    let rewound = engine.rewind(id, &me(), "city").await.unwrap();
    assert_eq!(&*open(&rewound).key, "city");
    assert_eq!(rewound.wakes, None);
    answer(&engine, id, json!("Rome")).await;
    assert_eq!(engine.inspect(id, &me()).await.unwrap().data["city"], "Rome");
}

/// A rewound session survives a crash at every append, and its history goes on elsewhere.
#[tokio::test]
async fn rewinding_survives_a_crash_at_every_append() {
    for writes in 0..9 {
        let (kept, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
        let crashing = engine_of(CrashStore::stopping_after(&kept, writes), &clock, no_linger());
        let Ok(started) = crashing.start(start("trip")).await else { continue };
        let id = started.id;
        let _ = crashing.respond(id, &me(), json!("Oslo").into()).await;
        clock.forward(Duration::from_secs(60));
        let _ = crashing.maintain().await;
        let rewound = crashing.rewind(id, &me(), "city").await;
        crashing.shutdown().await;

        let next = engine_of(kept.clone(), &clock, no_linger());
        next.start_maintenance();
        next.maintain().await.unwrap();
        let view = next.wait(id, &me(), Duration::from_secs(60)).await.unwrap();
        let journal = kept.read(id).await.unwrap();
        let is_rewound = journal.iter().any(|event| matches!(event, JournalEvent::Rewound { .. }));
        assert!(is_rewound || rewound.is_err(), "after {writes} writes: {journal:?}");
        if is_rewound {
            assert_eq!(&*open(&view).key, "city", "after {writes} writes");
        }
        next.shutdown().await;
    }
}
