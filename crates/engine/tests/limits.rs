//! Limits of sessions: timeouts, rates, quotas and retention.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    ManualClock, NoParams, RuntimeClock, answer, builder, ended, fault, me, no_linger, open, start,
    within,
};
use mcp_flow_engine::{
    Clock, Definition, EngineError, Flow, FlowResult, Notice, Rate, SessionLimits,
};
use mcp_flow_session::event::{Ending, FaultName, Limit};
use mcp_flow_session::question::confirm;
use mcp_flow_session::session::Bounds;
use mcp_flow_session::store::{Append, Fence, PageRequest, Phase};
use mcp_flow_session::{JournalEvent, MemoryStore, Owner, Session, State, Store};
use serde_json::json;

/// INT-071, INT-072, INT-022: five minutes without an answer, restarted by each answer.
#[tokio::test]
async fn a_session_expires_without_an_answer() {
    for (timeout, inactivity) in [(None, 300_000), (Some(1_000), 1_000)] {
        let clock = ManualClock::new();
        let engine = builder(Arc::new(MemoryStore::new())).clock(clock.clone()).build();
        let mut wanted = start("register");
        wanted.inactivity = timeout.map(Duration::from_millis);
        let id = engine.start(wanted).await.unwrap().id;
        clock.forward(Duration::from_millis(inactivity - 1));
        let view = answer(&engine, id, json!("Ada")).await;
        assert_eq!(view.inactivity, Some(inactivity));
        clock.forward(Duration::from_millis(inactivity));
        // It counts as expired before maintenance has run.
        let view = engine.view(id, &me()).await.unwrap();
        assert_eq!(ended(&view).ending, Ending::Expired(Limit::Inactivity));
        let session = engine.inspect(id, &me()).await.unwrap();
        assert!(session.history.is_empty());
        // It ended at its deadline, whenever somebody looks.
        clock.forward(Duration::from_millis(500));
        assert_eq!(engine.inspect(id, &me()).await.unwrap().ended, session.ended);
        let late = engine.respond(id, &me(), json!("a@b").into()).await.unwrap_err();
        assert!(matches!(late, EngineError::Expired(Limit::Inactivity)), "{late:?}");
        let again = engine.respond(id, &me(), json!("a@b").into()).await.unwrap_err();
        assert!(matches!(again, EngineError::Expired(Limit::Inactivity)), "{again:?}");
        let cancel = engine.cancel(id, &me(), None).await.unwrap_err();
        assert!(matches!(cancel, EngineError::Expired(_)), "{cancel:?}");
        assert_eq!(engine.view(id, &me()).await.unwrap().state, State::Error);
    }
}

/// INT-074: a damaged journal does not delay other sessions, and is erased at its deadline.
#[tokio::test]
async fn a_damaged_session_does_not_delay_others() {
    let (store, clock) = (Arc::new(MemoryStore::new()), ManualClock::new());
    let engine = builder(store.clone()).clock(clock.clone()).limits(no_linger()).build();
    let damaged = engine.start(start("register")).await.unwrap().id;
    clock.forward(Duration::from_secs(1));
    let sound = engine.start(start("register")).await.unwrap().id;
    let journal = store.read(damaged).await.unwrap();
    let summary = Session::replay(&journal).unwrap().unwrap().summary();
    // A session cannot begin twice.
    let events = vec![JournalEvent::Began { at: engine.now() }];
    let append = Append {
        id: damaged,
        length: journal.len(),
        events,
        summary,
        replace: false,
        fence: Fence::default(),
    };
    store.append(append).await.unwrap();
    clock.forward(Duration::from_secs(300));
    engine.maintain().await.unwrap();
    assert_eq!(engine.view(sound, &me()).await.unwrap().state, State::Error);
    assert!(store.read(damaged).await.unwrap().is_empty());
}

/// INT-023: a timeout beyond the server's limit is capped, and the client sees the result.
#[tokio::test]
async fn long_timeouts_are_capped() {
    let engine = crate::support::engine();
    let wanted = start("register").inactivity(Duration::from_secs(1 << 40));
    let view = engine.start(wanted).await.unwrap();
    assert_eq!(view.inactivity, Some(24 * 60 * 60 * 1000));
}

/// INT-109, C-41: a session ends at its maximum duration, and its ending names the limit.
#[tokio::test]
async fn a_session_has_a_maximum_duration() {
    async fn talk(flow: Flow, _: NoParams) -> FlowResult<()> {
        while flow.ask("more", confirm("More?")).await? {}
        Ok(())
    }
    let clock = ManualClock::new();
    let engine = builder(Arc::new(MemoryStore::new()))
        .clock(clock.clone())
        .limits(SessionLimits { duration: Some(Duration::from_secs(600)), ..no_linger() })
        .flow(Definition::new("talk", talk))
        .build();
    let id = engine.start(start("talk")).await.unwrap().id;
    for _ in 0..4 {
        clock.forward(Duration::from_secs(140));
        answer(&engine, id, json!(true)).await;
    }
    clock.forward(Duration::from_secs(140));
    let late = engine.respond(id, &me(), json!(true).into()).await.unwrap_err();
    assert!(matches!(late, EngineError::Expired(Limit::Duration)), "{late:?}");
}

/// INT-022, INT-071, INT-109, C-57: the inactivity timeout is that of the client, else of the flow,
/// else of the start, else of the engine; the maximum duration does not cap the timeout of a flow.
#[tokio::test]
async fn the_most_specific_timeout_applies() {
    async fn approve(flow: Flow, _: NoParams) -> FlowResult<bool> {
        flow.ask("sure", confirm("Sure?")).await
    }
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let clock = ManualClock::new();
    let engine = builder(Arc::new(MemoryStore::new()))
        .clock(clock.clone())
        .flow(Definition::new("approve", approve).waits(30 * DAY))
        .build();
    let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap();
    let by_default = |flow: &str| start(flow).default_inactivity(2 * DAY);
    for (wanted, wait) in [
        (start("register"), Duration::from_secs(300)),
        (by_default("register"), 2 * DAY),
        (by_default("register").inactivity(Duration::from_secs(1)), Duration::from_secs(1)),
        (start("approve"), 30 * DAY),
        (by_default("approve"), 30 * DAY),
        (start("approve").inactivity(60 * DAY), 30 * DAY),
    ] {
        let view = engine.start(wanted).await.unwrap();
        assert_eq!(view.inactivity, Some(millis(wait)));
    }
    let id = engine.start(start("approve")).await.unwrap().id;
    clock.forward(29 * DAY);
    answer(&engine, id, json!(true)).await;
    let id = engine.start(start("approve")).await.unwrap().id;
    clock.forward(30 * DAY);
    let late = engine.respond(id, &me(), json!(true).into()).await.unwrap_err();
    assert!(matches!(late, EngineError::Expired(Limit::Inactivity)), "{late:?}");
}

/// INT-074, INT-114, C-11: maintenance expires overdue sessions, and erases their tombstones later.
#[tokio::test]
async fn maintenance_expires_and_then_erases() {
    let store = Arc::new(MemoryStore::new());
    let clock = ManualClock::new();
    let engine = builder(store.clone()).clock(clock.clone()).limits(no_linger()).build();
    let mut ids = Vec::new();
    for _ in 0..600 {
        ids.push(engine.start(start("register")).await.unwrap().id);
    }
    answer(&engine, ids[0], json!("Ada")).await;
    answer(&engine, ids[0], json!("secret@example.com")).await;
    clock.forward(Duration::from_secs(299));
    engine.maintain().await.unwrap();
    let live = PageRequest { after: None, most: 1_000 };
    assert_eq!(engine.list(&me(), Phase::Live, live).await.unwrap().len(), 599);
    // The tombstone of the first is erased a moment before the others expire.
    clock.forward(Duration::from_secs(1));
    engine.maintain().await.unwrap();
    assert!(engine.list(&me(), Phase::Live, live).await.unwrap().is_empty());
    assert_eq!(store.len(), 599);
    let view = engine.view(ids[1], &me()).await.unwrap();
    assert!(matches!(ended(&view).ending, Ending::Expired(Limit::Inactivity)));
    assert!(matches!(engine.view(ids[0], &me()).await, Err(EngineError::NotFound)));
    clock.forward(Duration::from_secs(300));
    engine.maintain().await.unwrap();
    assert!(store.is_empty());
}

/// INT-114: only the ending of a session is retained.
#[tokio::test]
async fn tombstones_have_no_content() {
    let engine = crate::support::engine();
    let id = engine.start(start("book_trip")).await.unwrap().id;
    for value in [json!("Secretville"), json!("2099-01-01"), json!("Tent"), json!(1), json!(false)]
    {
        answer(&engine, id, value).await;
    }
    let session = engine.inspect(id, &me()).await.unwrap();
    assert!(session.history.is_empty() && session.data.is_empty());
    assert!(!format!("{session:?}").contains("Secretville"));
}

/// INT-073: subscribers are warned once per question, before the deadline.
#[tokio::test]
async fn subscribers_are_warned_before_expiry() {
    let clock = ManualClock::new();
    let engine = builder(Arc::new(MemoryStore::new())).clock(clock.clone()).build();
    let id = engine.start(start("register")).await.unwrap().id;
    let mut subscription = engine.subscribe(id, &me()).await.unwrap();
    clock.forward(Duration::from_secs(239));
    engine.maintain().await.unwrap();
    clock.forward(Duration::from_secs(11));
    engine.maintain().await.unwrap();
    engine.maintain().await.unwrap();
    let warned = crate::support::within("a warning", subscription.next()).await;
    let Some(Notice::Expiring { remaining, .. }) = warned else { panic!("not warned") };
    assert_eq!(remaining, 50_000);
    answer(&engine, id, json!("Ada")).await;
    engine.maintain().await.unwrap();
    clock.forward(Duration::from_secs(300));
    engine.maintain().await.unwrap();
    let mut heard = Vec::new();
    while let Some(notice) = crate::support::within("the last notice", subscription.next()).await {
        heard.push(notice);
    }
    assert!(!heard.iter().any(|notice| matches!(notice, Notice::Expiring { .. })), "{heard:?}");
    assert!(matches!(heard.last(), Some(Notice::Ended(_))));
}

/// INT-073, C-55: a watched session is warned of and ends on time, not when maintenance happens to
/// look.
#[tokio::test(start_paused = true)]
async fn warnings_and_ends_are_on_time() {
    let clock = RuntimeClock::new();
    let engine = builder(Arc::new(MemoryStore::new())).clock(clock.clone()).build();
    engine.start_maintenance();
    for millis in [1_000, 3_000, 3_333, 7_001] {
        // Between two passes of maintenance.
        tokio::time::sleep(Duration::from_millis(123)).await;
        let timeout = Duration::from_millis(millis);
        let began = clock.now().as_millis();
        let id = engine.start(start("register").inactivity(timeout)).await.unwrap().id;
        let mut notices = engine.subscribe(id, &me()).await.unwrap();
        let warned = within("a warning", notices.next()).await;
        let Some(Notice::Expiring { at, remaining }) = warned else { panic!("{warned:?}") };
        assert_eq!((at.as_millis(), remaining), (began + millis, millis / 4));
        let ended = within("the end", notices.next()).await;
        assert_eq!(clock.now().as_millis(), began + millis);
        let Some(Notice::Ended(ended)) = ended else { panic!("{ended:?}") };
        assert_eq!(ended.at.as_millis(), began + millis);
    }
    engine.shutdown().await;
}

/// C-55: a session has ended at its deadline, whenever that was noticed. What is kept of it is kept
/// from then on.
#[tokio::test]
async fn a_session_ends_at_its_deadline() {
    let clock = ManualClock::new();
    let engine = builder(Arc::new(MemoryStore::new())).clock(clock.clone()).build();
    let started = engine.start(start("register")).await.unwrap();
    clock.forward(Duration::from_secs(1_000));
    engine.maintain().await.unwrap();
    let session = engine.inspect(started.id, &me()).await.unwrap();
    let ended = session.ended.unwrap();
    assert_eq!(Some(ended.at), started.deadline);
    let kept = Bounds::default().retention;
    assert_eq!(ended.until, clock.now().after(kept));
}

/// A clock that goes back neither expires a session nor reorders its events.
#[tokio::test]
async fn clocks_may_go_back() {
    let clock = ManualClock::new();
    let engine =
        builder(Arc::new(MemoryStore::new())).clock(clock.clone()).limits(no_linger()).build();
    let id = engine.start(start("register")).await.unwrap().id;
    clock.back(Duration::from_secs(3_600));
    answer(&engine, id, json!("Ada")).await;
    let session = engine.inspect(id, &me()).await.unwrap();
    assert!(session.touched >= session.started.at);
    let view = answer(&engine, id, json!("a@b")).await;
    assert!(ended(&view).at >= ended(&view).created);
}

/// INT-108: a start beyond the quota is rejected, until a session ends.
#[tokio::test]
async fn owners_have_a_session_quota() {
    let store = Arc::new(MemoryStore::new());
    let limits = || SessionLimits { sessions_per_owner: 3, ..SessionLimits::default() };
    let engine = builder(store.clone()).limits(limits()).build();
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(engine.start(start("register")).await.unwrap().id);
    }
    // A later engine counts the sessions in the store.
    for engine in [&engine, &builder(store).limits(limits()).build()] {
        let refused = engine.start(start("register")).await.unwrap_err();
        assert!(matches!(refused, EngineError::TooManySessions { most: 3 }), "{refused:?}");
    }
    let other = mcp_flow_engine::StartRequest::new("register", Owner::new("bob"));
    engine.start(other).await.unwrap();
    engine.cancel(ids[0], &me(), None).await.unwrap();
    engine.start(start("register")).await.unwrap();
    assert!(engine.start(start("register")).await.is_err());
}

/// A failed start does not count towards the quota.
#[tokio::test]
async fn failed_starts_do_not_count_towards_the_quota() {
    let limits = SessionLimits { sessions_per_owner: 1, ..SessionLimits::default() };
    let engine = builder(Arc::new(MemoryStore::new())).limits(limits).build();
    for _ in 0..5 {
        let wrong = crate::support::params(json!({"name": "x"}));
        assert!(engine.start(start("register").params(wrong)).await.is_err());
        let all = crate::support::params(json!({"name": "Ada", "email": "a@b"}));
        engine.start(start("register").params(all)).await.unwrap();
    }
    engine.start(start("register")).await.unwrap();
}

/// INT-107: a burst above the rate is rejected with the time to wait; other sessions are not
/// affected, and eviction does not reset the rate.
#[tokio::test(start_paused = true)]
async fn answers_are_rate_limited() {
    are_rate_limited(SessionLimits::default()).await;
    are_rate_limited(no_linger()).await;
}

async fn are_rate_limited(limits: SessionLimits) {
    let rate = Some(Rate { burst: 3, per_second: 2.0 });
    let engine =
        builder(Arc::new(MemoryStore::new())).limits(SessionLimits { rate, ..limits }).build();
    let (one, two) = (
        engine.start(start("register")).await.unwrap().id,
        engine.start(start("register")).await.unwrap().id,
    );
    for _ in 0..3 {
        engine.respond(one, &me(), json!("x").into()).await.unwrap();
        engine.maintain().await.unwrap();
    }
    let refused = engine.respond(one, &me(), json!("Ada").into()).await.unwrap_err();
    let EngineError::RateLimited { retry_after } = refused else { panic!("{refused:?}") };
    assert!(retry_after <= Duration::from_millis(500), "{retry_after:?}");
    answer(&engine, two, json!("Bob")).await;
    tokio::time::advance(retry_after).await;
    answer(&engine, one, json!("Ada")).await;
}

/// INT-083, C-41: an operation that times out ends only its own session, and names the step.
#[tokio::test(start_paused = true)]
async fn operations_that_time_out_end_their_session() {
    async fn hangs(flow: Flow, _: NoParams) -> FlowResult<()> {
        flow.step("fetch", std::future::pending::<Result<(), String>>).await
    }
    async fn outside(_: Flow, _: NoParams) -> FlowResult<()> {
        std::future::pending().await
    }
    let engine = builder(Arc::new(MemoryStore::new()))
        .flow(Definition::new("hangs", hangs).operation_limit(Duration::from_secs(30)))
        .flow(Definition::new("outside", outside))
        .build();
    let bystander = engine.start(start("register")).await.unwrap().id;
    for (flow, operation) in [("hangs", "fetch"), ("outside", "flow")] {
        let view = engine.start(start(flow)).await.unwrap();
        assert_eq!(view.state, State::Active);
        let view = engine.wait(view.id, &me(), Duration::from_secs(1)).await.unwrap();
        assert_eq!(view.state, State::Active, "inactivity is not the limit");
        let view = engine.wait(view.id, &me(), Duration::from_secs(3_600)).await.unwrap();
        assert_eq!(fault(&view).name, FaultName::Timeout);
        assert_eq!(fault(&view).operation.as_deref(), Some(operation));
    }
    assert_eq!(open(&engine.view(bystander, &me()).await.unwrap()).key, "name");
    engine.shutdown().await;
}

/// A blocking step runs on a thread of its own.
#[tokio::test]
async fn blocking_steps_do_not_block() {
    async fn blocks(flow: Flow, _: NoParams) -> FlowResult<bool> {
        let here = std::thread::current().id();
        flow.blocking_step("work", move || Ok::<_, String>(std::thread::current().id() != here))
            .await
    }
    let engine =
        builder(Arc::new(MemoryStore::new())).flow(Definition::new("blocks", blocks)).build();
    let id = engine.start(start("blocks")).await.unwrap().id;
    let view = engine.wait(id, &me(), Duration::from_secs(60)).await.unwrap();
    assert_eq!(crate::support::result(&view), json!(true));
    engine.shutdown().await;
}

/// C-11: the number of tombstones is limited.
#[tokio::test]
async fn tombstones_are_limited_in_number() {
    let store = Arc::new(MemoryStore::new());
    let engine =
        builder(store.clone()).limits(SessionLimits { tombstones: 5, ..no_linger() }).build();
    for _ in 0..20 {
        let all = crate::support::params(json!({"name": "Ada", "email": "a@b"}));
        engine.start(start("register").params(all)).await.unwrap();
    }
    assert_eq!(store.len(), 5);
}

/// C-11: a flow without timeout waits for weeks, and is retained as long.
#[tokio::test]
async fn flows_without_timeout_wait_for_weeks() {
    let clock = ManualClock::new();
    let month = Duration::from_secs(30 * 24 * 60 * 60);
    let patient =
        Definition::new("patient", crate::support::register).no_timeout().retention(month);
    let engine = builder(Arc::new(MemoryStore::new())).clock(clock.clone()).flow(patient).build();
    let view = engine.start(start("patient")).await.unwrap();
    assert_eq!(view.deadline, None);
    clock.forward(month);
    engine.maintain().await.unwrap();
    answer(&engine, view.id, json!("Ada")).await;
    let view = answer(&engine, view.id, json!("a@b")).await;
    clock.forward(month - Duration::from_secs(1));
    engine.maintain().await.unwrap();
    assert_eq!(crate::support::result(&engine.view(view.id, &me()).await.unwrap())["name"], "Ada");
    clock.forward(Duration::from_secs(1));
    engine.maintain().await.unwrap();
    assert!(matches!(engine.view(view.id, &me()).await, Err(EngineError::NotFound)));
}
