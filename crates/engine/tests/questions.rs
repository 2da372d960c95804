//! Several questions at once: order of answers, rejections, races, limits.

use std::sync::Arc;

use crate::support::{
    NoParams, answer, builder, ended, fault, me, no_linger, open, params, result, start, within,
};
use futures_util::future::{Either, join, join_all, join3, select};
use mcp_flow_engine::{
    AnswerReply, AnswerRequest, ClientHeldSessions, Definition, Engine, EngineError, Flow,
    FlowResult, Notice, QuestionId, SessionLimits, View,
};
use mcp_flow_seal::{Key, KeyRing};
use mcp_flow_session::event::{
    FaultName, JournalEvent, QuestionAnswered, QuestionAsked, SessionStarted,
};
use mcp_flow_session::question::{Question, integer, text};
use mcp_flow_session::session::{Bounds, MAX_QUEUED};
use mcp_flow_session::store::Append;
use mcp_flow_session::{MemoryStore, Session, SessionId, State, Store, StoreError, Timestamp};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

/// Questions are answered in any order; the flow gets the answers in the order it asked.
#[tokio::test]
async fn questions_are_answered_in_any_order() {
    const ORDERS: [[&str; 4]; 6] = [
        ["a", "b", "c", "d"],
        ["a", "c", "b", "d"],
        ["b", "a", "c", "d"],
        ["b", "c", "a", "d"],
        ["c", "a", "b", "d"],
        ["c", "b", "a", "d"],
    ];
    for limits in [SessionLimits::default(), no_linger()] {
        for order in ORDERS {
            let engine = three(limits.clone());
            let mut view = engine.start(start("three")).await.unwrap();
            assert_eq!(asked(&view), ["a#0.0 turn 0", "b#1.0 turn 1", "c#2.0 turn 2"]);
            for key in order {
                view = engine.view(view.id, &me()).await.unwrap();
                let reply = engine.respond(view.id, &me(), answer_to(&view, key)).await.unwrap();
                assert!(matches!(reply, AnswerReply::Accepted(_)), "{reply:?}");
                view = reply.view().clone();
                assert!(view.questions().all(|question| question.key != key), "{view:?}");
            }
            assert_eq!(result(&view), json!(["a!", "b!", "c!", "d!"]), "{order:?}");
            assert_eq!(ended(&view).turns, 4);
        }
    }
}

/// INT-058: clients that know one open question see each in turn, also if it was asked early.
#[tokio::test]
async fn one_question_is_open_at_a_time() {
    for limits in [SessionLimits::default(), no_linger()] {
        let engine = three(limits);
        let mut view = engine.start(start("three")).await.unwrap();
        for (turn, key) in (0..).zip(["a", "b", "c", "d"]) {
            assert_eq!((view.state, open(&view).turn), (State::WaitingUser, turn));
            assert_eq!(open(&view).key, key);
            let session = engine.inspect(view.id, &me()).await.unwrap();
            assert_eq!(session.history.len(), usize::try_from(turn).unwrap());
            let response = AnswerRequest::from(json!(format!("{key}!"))).for_turn(turn);
            view = engine.respond(view.id, &me(), response.clone()).await.unwrap().view().clone();
            let again = engine.respond(view.id, &me(), response).await.unwrap();
            assert!(matches!(again, AnswerReply::Repeated(_)), "{again:?}");
        }
        assert_eq!(result(&view), json!(["a!", "b!", "c!", "d!"]));
    }
}

/// C-43: a client-held session has its queued questions in the token.
#[tokio::test]
async fn tokens_contain_queued_questions() {
    let engine = three(SessionLimits::default());
    let sessions = ClientHeldSessions::new(&engine, KeyRing::new(Key::from_bytes([1; 32])));
    let (mut view, mut token) = sessions.start(start("three")).await.unwrap();
    for key in ["c", "a", "b", "d"] {
        let reply = sessions.respond(&token, &me(), answer_to(&view, key)).await.unwrap();
        token = reply.1;
        view = sessions.view(&token, &me()).await.unwrap();
        assert_eq!(asked(&view), asked(reply.0.view()));
    }
    assert_eq!(result(&view), json!(["a!", "b!", "c!", "d!"]));
}

/// INT-040, C-07: an invalid answer to a queued question is an attempt at that question only, and
/// too many of them end the session.
#[tokio::test]
async fn queued_questions_have_their_own_attempts() {
    async fn both(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let asks = (flow.ask("a", text("A?")), flow.ask("b", integer("B?").range(1..=9)));
        let (a, b) = join(asks.0, asks.1).await;
        Ok(json!([a?, b?]))
    }
    for limits in [SessionLimits::default(), no_linger()] {
        let bounds = Bounds { attempts: 3, ..Bounds::default() };
        let engine = builder(Arc::new(MemoryStore::new()))
            .limits(SessionLimits { bounds, ..limits })
            .flow(Definition::new("both", both))
            .build();
        let view = engine.start(start("both")).await.unwrap();
        let id = view.id;
        let to = |attempt, value: Value| {
            AnswerRequest::from(value).for_question(QuestionId { number: 1, attempt })
        };
        let reply = engine.respond(id, &me(), to(0, json!(10))).await.unwrap();
        let AnswerReply::Rejected { left: 2, violation, view } = reply else { panic!("{reply:?}") };
        assert_eq!(asked(&view), ["a#0.0 turn 0", "b#1.1 turn 1"]);
        assert_eq!(view.queued[0].violation.as_ref(), Some(&violation));
        assert_eq!(open(&view).violation, None);
        // The answer to the attempt before arrives again.
        let again = engine.respond(id, &me(), to(0, json!(10))).await.unwrap_err();
        assert!(matches!(again, EngineError::QuestionClosed(_)), "{again:?}");
        // Its attempts stay with the question when it is opened.
        let view = answer(&engine, id, json!("a")).await;
        assert_eq!((open(&view).key.as_str(), open(&view).attempt), ("b", 1));
        let reply = engine.respond(id, &me(), json!(0).into()).await.unwrap();
        assert!(matches!(reply, AnswerReply::Rejected { left: 1, .. }), "{reply:?}");
        let done = engine.respond(id, &me(), to(2, json!(9))).await.unwrap();
        assert_eq!(result(done.view()), json!(["a", 9]));

        let id = engine.start(start("both")).await.unwrap().id;
        for attempt in 0..2 {
            engine.respond(id, &me(), to(attempt, json!("x"))).await.unwrap();
        }
        let reply = engine.respond(id, &me(), to(2, json!("x"))).await.unwrap();
        let AnswerReply::Ended(view) = reply else { panic!("{reply:?}") };
        assert_eq!(fault(&view).name, FaultName::TooManyAttempts);
        assert_eq!(fault(&view).operation.as_deref(), Some("b"));
    }
}

/// Answers to questions that are answered, unknown or of an ended session change nothing.
#[tokio::test]
async fn answers_to_closed_questions_are_reported() {
    let engine = three(no_linger());
    let view = engine.start(start("three")).await.unwrap();
    let id = view.id;
    let closed = async |number, attempt| {
        let question = QuestionId { number, attempt };
        let request = AnswerRequest::from(json!("again")).for_question(question);
        let before = engine.inspect(id, &me()).await.unwrap();
        let error = engine.respond(id, &me(), request).await.unwrap_err();
        assert!(matches!(error, EngineError::QuestionClosed(closed) if closed == question));
        assert_eq!(engine.inspect(id, &me()).await.unwrap(), before);
    };
    for (number, attempt) in [(0, 1), (1, 1), (3, 0), (u32::MAX, 0)] {
        closed(number, attempt).await;
    }
    let view = engine.respond(id, &me(), answer_to(&view, "b")).await.unwrap().view().clone();
    closed(1, 0).await;
    engine.respond(id, &me(), answer_to(&view, "a")).await.unwrap();
    closed(0, 0).await;
    closed(1, 0).await;
    engine.cancel(id, &me(), None).await.unwrap();
    for number in 0..4 {
        closed(number, 0).await;
    }
}

/// Parameters answer a question at once, whatever else is open (INT-020).
#[tokio::test]
async fn parameters_answer_while_a_question_is_open() {
    async fn both(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let second = async {
            let b = flow.ask("b", text("B?")).await?;
            flow.ask("c", text(format!("C after {b}?"))).await
        };
        let (a, c) = join(flow.ask("a", text("A?")), second).await;
        Ok(json!([a?, c?]))
    }
    for limits in [SessionLimits::default(), no_linger()] {
        let engine = builder(Arc::new(MemoryStore::new()))
            .limits(limits)
            .flow(Definition::new("both", both))
            .build();
        let given = params(json!({"b": "given"}));
        let view = engine.start(start("both").params(given)).await.unwrap();
        assert_eq!(asked(&view), ["a#0.0 turn 0", "c#2.0 turn 1"]);
        answer(&engine, view.id, json!("one")).await;
        let view = answer(&engine, view.id, json!("three")).await;
        assert_eq!(result(&view), json!(["one", "three"]));
    }
}

/// The loser of a race is withdrawn. It has the same winner when the flow is replayed, and the
/// numbers of its questions are not used again.
#[tokio::test]
async fn a_race_is_replayed_with_the_same_winner() {
    async fn races(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let mut won = Vec::new();
        while won.len() < 3 {
            let (left, right) =
                (flow.ask("left", text("Left?")), flow.ask("right", text("Right?")));
            won.push(match select(Box::pin(left), Box::pin(right)).await {
                Either::Left((left, _)) => format!("left {}", left?),
                Either::Right((right, _)) => format!("right {}", right?),
            });
        }
        // Asked again after the race that it lost.
        won.push(flow.ask("right", text("Right?")).await?);
        Ok(json!(won))
    }
    for limits in [SessionLimits::default(), no_linger()] {
        let engine = builder(Arc::new(MemoryStore::new()))
            .limits(limits)
            .flow(Definition::new("races", races))
            .build();
        let mut view = engine.start(start("races")).await.unwrap();
        let id = view.id;
        // In the second race the loser is answered first. That is a turn, though it comes too late.
        for (race, turn) in (0..3).zip([0, 1, 3]) {
            let (left, right) = (race * 2, race * 2 + 1);
            let left = format!("left#{left}.0 turn {turn}");
            let right = format!("right#{right}.0 turn {}", turn + 1);
            assert_eq!(asked(&view), [left, right]);
            if race == 1 {
                engine.respond(id, &me(), answer_to(&view, "right")).await.unwrap();
            }
            view = answer(&engine, id, json!(race.to_string())).await;
        }
        assert_eq!(asked(&view), ["right#6.0 turn 4"]);
        let view = answer(&engine, id, json!("last")).await;
        assert_eq!(result(&view), json!(["left 0", "left 1", "left 2", "last"]));
    }
}

/// A queued question that a step makes obsolete is withdrawn. When the flow is replayed, the step
/// has its result before the question is asked.
#[tokio::test]
async fn a_question_made_obsolete_by_a_step_is_withdrawn() {
    async fn obsolete(flow: Flow, found: Arc<Notify>) -> FlowResult<Value> {
        let search = flow.step("search", || async {
            found.notified().await;
            Ok::<_, String>("found".to_owned())
        });
        let either = async {
            match select(Box::pin(search), Box::pin(flow.ask("hint", text("Any hint?")))).await {
                Either::Left((found, _)) => found,
                Either::Right((hint, _)) => hint,
            }
        };
        let (name, found) = join(flow.ask("name", text("Name?")), either).await;
        Ok(json!([name?, found?, flow.ask("last", text("Last?")).await?]))
    }
    for limits in [SessionLimits::default(), no_linger()] {
        let found = Arc::new(Notify::new());
        let flow = {
            let found = Arc::clone(&found);
            move |flow: Flow, _: NoParams| obsolete(flow, Arc::clone(&found))
        };
        let engine = builder(Arc::new(MemoryStore::new()))
            .limits(limits)
            .flow(Definition::new("obsolete", flow))
            .build();
        let view = engine.start(start("obsolete")).await.unwrap();
        let id = view.id;
        assert_eq!(asked(&view), ["name#0.0 turn 0", "hint#1.0 turn 1"]);
        let mut notices = engine.subscribe(id, &me()).await.unwrap();
        found.notify_one();
        let notice = within("the question to be withdrawn", notices.next()).await;
        assert_eq!(notice, Some(Notice::QueueChanged));
        let view = engine.view(id, &me()).await.unwrap();
        assert_eq!(asked(&view), ["name#0.0 turn 0"]);
        let view = answer(&engine, id, json!("Ada")).await;
        assert_eq!(asked(&view), ["last#2.0 turn 1"]);
        let view = answer(&engine, id, json!("x")).await;
        assert_eq!(result(&view), json!(["Ada", "found", "x"]));
        engine.shutdown().await;
    }
}

/// A flow may drop the open question. An answer to it is rejected then, and does not answer the next.
#[tokio::test]
async fn the_open_question_can_be_dropped() {
    async fn drops(flow: Flow, done: Arc<Notify>, goes_on: bool) -> FlowResult<Value> {
        let work = flow.step("work", || async {
            done.notified().await;
            Ok::<_, String>(())
        });
        let _ = select(Box::pin(flow.ask("a", text("A?"))), Box::pin(work)).await;
        if goes_on {
            flow.ask("b", text("B?")).await?;
        }
        Ok(json!("done"))
    }
    for limits in [SessionLimits::default(), no_linger()] {
        for goes_on in [true, false] {
            let done = Arc::new(Notify::new());
            let flow = {
                let done = Arc::clone(&done);
                move |flow: Flow, _: NoParams| drops(flow, Arc::clone(&done), goes_on)
            };
            let engine = builder(Arc::new(MemoryStore::new()))
                .limits(limits.clone())
                .flow(Definition::new("drops", flow))
                .build();
            let view = engine.start(start("drops")).await.unwrap();
            let id = view.id;
            done.notify_one();
            let number = open(&view).number;
            assert!(
                within("the end of `a`", engine.wait_withdrawn(id, &me(), number)).await == goes_on
            );
            let late = AnswerRequest::from(json!("late")).for_turn(open(&view).turn);
            assert!(engine.respond(id, &me(), late).await.is_err());
            let mut view = engine.view(id, &me()).await.unwrap();
            if goes_on {
                assert_eq!((open(&view).key.as_str(), open(&view).turn), ("b", 1));
                view = answer(&engine, id, json!("now")).await;
            }
            assert_eq!(result(&view), json!("done"));
            engine.shutdown().await;
        }
    }
}

/// A flow that asks more at once than may be queued waits with the rest.
#[tokio::test]
async fn the_number_of_queued_questions_is_limited() {
    const QUESTIONS: usize = MAX_QUEUED + 9;
    async fn many(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let ask = async |number: usize| flow.ask(&format!("q{number}"), integer("?")).await;
        let answers = join_all((0..QUESTIONS).map(ask)).await;
        Ok(json!(answers.into_iter().collect::<FlowResult<Vec<_>>>()?))
    }
    for limits in [SessionLimits::default(), no_linger()] {
        let engine = builder(Arc::new(MemoryStore::new()))
            .limits(limits)
            .flow(Definition::new("many", many))
            .build();
        let mut view = engine.start(start("many")).await.unwrap();
        // From the last to the first: the flow gets none of the answers before the last.
        while let Some(last) = view.questions().last() {
            assert!(view.queued.len() <= MAX_QUEUED);
            let number: usize = last.key[1..].parse().unwrap();
            let response = AnswerRequest::from(json!(number)).for_question(last.id());
            view = engine.respond(view.id, &me(), response).await.unwrap().view().clone();
        }
        assert_eq!(result(&view), json!((0..QUESTIONS).collect::<Vec<_>>()));
    }
}

/// Subscribers hear of questions that are queued, answered ahead and opened.
#[tokio::test]
async fn subscribers_hear_of_queued_questions() {
    let engine = three(SessionLimits::default());
    let view = engine.start(start("three")).await.unwrap();
    let mut notices = engine.subscribe(view.id, &me()).await.unwrap();
    for key in ["b", "a", "c", "d"] {
        let view = engine.view(view.id, &me()).await.unwrap();
        engine.respond(view.id, &me(), answer_to(&view, key)).await.unwrap();
    }
    let mut heard = Vec::new();
    while let Some(notice) = within("the last notice", notices.next()).await {
        heard.push(match notice {
            Notice::Asked(open) => open.key,
            Notice::Accepted => "accepted".into(),
            Notice::QueueChanged => "queue".into(),
            Notice::Ended(_) => "ended".into(),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(heard, ["queue", "accepted", "c", "accepted", "d", "ended"]);
}

/// Journals from before questions could be queued have one question after the other.
#[tokio::test]
async fn journals_without_queued_questions_are_replayed() {
    let at = Timestamp::from_millis(1);
    let ask = |key: &str| {
        let prompt = text(format!("{key}?")).prompt().clone().into();
        JournalEvent::Asked(QuestionAsked {
            key: key.to_owned(),
            prompt,
            progress: None,
            link: None,
            violation: None,
            at,
        })
    };
    let answered = |key: &str| {
        JournalEvent::Answered(QuestionAnswered {
            value: json!(format!("{key}!")),
            timestamp: None,
            metadata: Map::new(),
            at,
        })
    };
    let journal = [
        JournalEvent::Started(SessionStarted {
            flow: "three".into(),
            owner: me(),
            params: Map::new(),
            context: Map::new(),
            inactivity: None,
            inactivity_is_default: false,
            ends: None,
            retention: None,
            trace: None,
            scopes: Vec::new(),
            depth: 0,
            at,
        }),
        JournalEvent::Began { at },
        ask("a"),
        answered("a"),
        ask("b"),
        answered("b"),
        ask("c"),
    ];
    for length in 3..=journal.len() {
        let (store, id) = (Arc::new(MemoryStore::new()), SessionId::from_random(5));
        let events = journal[..length].to_vec();
        let summary = Session::replay(&events).unwrap().unwrap().summary();
        let append = Append {
            id,
            length: 0,
            events,
            summary,
            replace: false,
            fence: mcp_flow_session::store::Fence::default(),
        };
        Store::append(store.as_ref(), append).await.unwrap();
        let engine =
            builder(store).limits(no_linger()).flow(Definition::new("three", trio)).start();
        let mut view = within("the flow", async {
            engine.wait(id, &me(), std::time::Duration::from_secs(60)).await.unwrap()
        })
        .await;
        while view.state == State::WaitingUser {
            let value = json!(format!("{}!", open(&view).key));
            view = answer(&engine, id, value).await;
        }
        assert_eq!(result(&view), json!(["a!", "b!", "c!", "d!"]), "after {length} events");
        engine.shutdown().await;
    }
}

/// Two writers answer different questions: the second reads again, and no answer is lost.
#[tokio::test]
async fn two_engines_answer_one_session() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = || builder(Arc::clone(&store)).flow(Definition::new("three", trio)).build();
    let (one, two) = (engine(), engine());
    let view = one.start(start("three")).await.unwrap();
    two.respond(view.id, &me(), answer_to(&view, "c")).await.unwrap();
    one.respond(view.id, &me(), answer_to(&view, "b")).await.unwrap();
    let again = two.respond(view.id, &me(), answer_to(&view, "b")).await;
    assert!(!matches!(again, Err(EngineError::Store(StoreError::Conflict(_)))), "{again:?}");
    assert!(matches!(again, Err(EngineError::QuestionClosed(_))), "{again:?}");
    let view = two.respond(view.id, &me(), answer_to(&view, "a")).await.unwrap().view().clone();
    assert_eq!(asked(&view), ["d#3.0 turn 3"]);
    let view = answer(&one, view.id, json!("d!")).await;
    assert_eq!(result(&view), json!(["a!", "b!", "c!", "d!"]));
}

/// Asks three questions at once, then a fourth.
async fn trio(flow: Flow, _: NoParams) -> FlowResult<Value> {
    let ask = async |key: &str| flow.ask(key, text(format!("{key}?"))).await;
    let (a, b, c) = join3(ask("a"), ask("b"), ask("c")).await;
    Ok(json!([a?, b?, c?, ask("d").await?]))
}

fn three(limits: SessionLimits) -> Engine {
    builder(Arc::new(MemoryStore::new()))
        .limits(limits)
        .flow(Definition::new("three", trio))
        .build()
}

/// The answer `KEY!` to a question of a session.
#[track_caller]
fn answer_to(view: &View, key: &str) -> AnswerRequest {
    let question = view.questions().find(|question| question.key == key);
    let question = question.unwrap_or_else(|| panic!("`{key}` is not asked: {view:?}"));
    AnswerRequest::from(json!(format!("{key}!"))).for_question(question.id())
}

/// The questions that wait, as `KEY#NUMBER.ATTEMPT turn TURN`.
fn asked(view: &View) -> Vec<String> {
    let show = |question: &mcp_flow_engine::OpenQuestion| {
        format!("{}#{} turn {}", question.key, question.id(), question.turn)
    };
    view.questions().map(show).collect()
}
