//! Turns: questions, answers, endings, ownership and notices.

use std::sync::Arc;

use crate::support::{
    NoParams, answer, builder, ended, engine, fault, me, no_linger, open, params, result, start,
};
use mcp_flow_engine::{
    AnswerReply, AnswerRequest, Definition, EngineError, Flow, FlowResult, Notice, SeenTurn,
    SessionLimits, SessionStatus,
};
use mcp_flow_session::event::{Ending, FaultName};
use mcp_flow_session::question::{confirm, text};
use mcp_flow_session::session::Bounds;
use mcp_flow_session::{MemoryStore, Owner, SessionId, State, Timestamp};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// INT-075, INT-076, INT-058, INT-060, INT-031: the wizard asks, and its state can be read.
#[tokio::test]
async fn a_wizard_asks_and_completes() {
    let engine = engine();
    let view = engine.start(start("register")).await.unwrap();
    assert_eq!(view.state, State::WaitingUser);
    assert_eq!((open(&view).key.as_str(), open(&view).turn), ("name", 0));
    let progress = open(&view).progress.clone().unwrap();
    assert_eq!((progress.current, progress.message.as_deref()), (1.0, Some("Step 1 of 2")));

    let metadata = params(json!({"source": "cli"}));
    let response = AnswerRequest::from(json!("John")).metadata(metadata.clone());
    let response = response.timestamp(Timestamp::from_millis(1_704_067_200_000));
    let reply = engine.respond(view.id, &me(), response).await.unwrap();
    assert_eq!(open(reply.view()).key, "email");

    let session = engine.inspect(view.id, &me()).await.unwrap();
    assert_eq!(session.data, params(json!({"name": "John"})));
    assert_eq!(session.history.len(), 1);
    assert_eq!(session.history[0].answered.metadata, metadata);
    assert_eq!(session.history[0].answered.timestamp.unwrap().as_millis(), 1_704_067_200_000);

    let done = answer(&engine, view.id, json!("john@example.com")).await;
    assert_eq!(result(&done), json!({"name": "John", "email": "john@example.com"}));
    let Ending::Completed { summary, .. } = &ended(&done).ending else { panic!("completed") };
    assert_eq!(summary.as_deref(), Some("John is registered"));
}

/// INT-040, INT-077, C-07: a question is asked again after an invalid answer, up to the limit.
#[tokio::test]
async fn invalid_answers_are_asked_again_up_to_a_limit() {
    let bounds = Bounds { attempts: 3, ..Bounds::default() };
    for linger in [SessionLimits::default(), no_linger()] {
        let limits = SessionLimits { bounds: bounds.clone(), ..linger };
        let engine = builder(Arc::new(MemoryStore::new())).limits(limits).build();
        let view = engine.start(start("register")).await.unwrap();
        for left in [2, 1] {
            let reply = engine.respond(view.id, &me(), json!("x").into()).await.unwrap();
            let AnswerReply::Rejected { violation, left: said, view } = reply else {
                panic!("taken")
            };
            assert_eq!(
                (violation.error.as_str(), said),
                ("at least 2 characters are needed", left)
            );
            assert_eq!(open(&view).violation.as_ref(), Some(&violation));
            assert_eq!(view.state, State::WaitingUser);
        }
        let reply = engine.respond(view.id, &me(), json!(7).into()).await.unwrap();
        let AnswerReply::Ended(view) = reply else { panic!("three are too many: {reply:?}") };
        assert_eq!(fault(&view).name, FaultName::TooManyAttempts);
        assert_eq!(fault(&view).operation.as_deref(), Some("name"));
        assert_eq!(view.state, State::Error);
    }
}

/// INT-020, INT-082: parameters answer questions, and are validated by the same rules.
#[tokio::test]
async fn parameters_answer_questions() {
    let engine = engine();
    let given = params(json!({"name": "Ada"}));
    let view = engine.start(start("register").params(given)).await.unwrap();
    assert_eq!(open(&view).key, "email");
    assert_eq!(engine.inspect(view.id, &me()).await.unwrap().data, params(json!({"name": "Ada"})));

    let all = params(json!({"name": "Ada", "email": "a@b"}));
    let view = engine.start(start("register").params(all)).await.unwrap();
    assert_eq!(result(&view)["email"], "a@b");

    let wrong = params(json!({"name": "A"}));
    match engine.start(start("register").params(wrong)).await {
        Err(EngineError::InvalidParams { key, .. }) => assert_eq!(key, "name"),
        other => panic!("{other:?}"),
    }
    assert_eq!(engine.live(), 2, "a start that was refused leaves nothing behind");

    // An invalid parameter of a later question is asked for (C-07).
    let later = params(json!({"email": "nobody"}));
    let view = engine.start(start("register").params(later)).await.unwrap();
    let view = answer(&engine, view.id, json!("Ada")).await;
    assert_eq!(open(&view).key, "email");
    assert!(open(&view).violation.is_some());
}

/// INT-103, INT-116, C-53: other owners do not learn that a session exists.
#[tokio::test]
async fn sessions_of_other_owners_are_not_found() {
    let engine = engine();
    let id = engine.start(start("register")).await.unwrap().id;
    let (stranger, unknown) = (Owner::new("eve"), SessionId::from_random(1));
    for (id, owner) in [(id, stranger), (unknown, me())] {
        let refused = |error| matches!(error, EngineError::NotFound);
        assert!(refused(engine.view(id, &owner).await.unwrap_err()));
        assert!(refused(engine.inspect(id, &owner).await.unwrap_err()));
        assert!(refused(engine.respond(id, &owner, json!("Eve").into()).await.unwrap_err()));
        assert!(refused(engine.cancel(id, &owner, None).await.unwrap_err()));
        assert!(refused(engine.finish(id, &owner).await.unwrap_err()));
        assert!(refused(engine.subscribe(id, &owner).await.unwrap_err()));
    }
    assert_eq!(open(&engine.view(id, &me()).await.unwrap()).key, "name");
    assert_eq!(engine.denied_accesses(), 6, "those who asked for what never was are none");
}

/// INT-050, INT-067: declining, failing and panicking have different endings.
#[tokio::test]
async fn declining_failing_and_panicking_differ() {
    async fn ends(flow: Flow, _: NoParams) -> FlowResult<()> {
        match flow.ask("how", text("How?")).await?.as_str() {
            "decline" => flow.decline("not today"),
            "error" => Err(std::io::Error::other("no disk"))?,
            "panic" => panic!("on purpose"),
            _ => Ok(()),
        }
    }
    let engine = builder(Arc::new(MemoryStore::new())).flow(Definition::new("ends", ends)).build();
    let bystander = engine.start(start("register")).await.unwrap();
    for (how, state) in [
        ("decline", State::Completed),
        ("error", State::Error),
        ("panic", State::Error),
        ("well", State::Completed),
    ] {
        let view = engine.start(start("ends")).await.unwrap();
        let view = answer(&engine, view.id, json!(how)).await;
        assert_eq!(view.state, state, "{how}");
        match (how, &ended(&view).ending) {
            ("decline", Ending::Completed { success, summary, .. }) => {
                assert_eq!((success, summary.as_deref()), (&false, Some("not today")));
            }
            ("error", Ending::Failed(fault)) => assert_eq!(fault.message, "no disk"),
            ("panic", Ending::Failed(fault)) => assert_eq!(fault.name, FaultName::Panicked),
            ("well", Ending::Completed { success: true, .. }) => {}
            other => panic!("{other:?}"),
        }
        let again = engine.respond(view.id, &me(), json!("more").into()).await.unwrap_err();
        assert!(matches!(again, EngineError::Transition { from, .. } if from == state));
    }
    let view = answer(&engine, bystander.id, json!("Ada")).await;
    assert_eq!(open(&view).key, "email");
}

/// INT-110: a flow that asks for ever is stopped, also if parameters answer.
#[tokio::test]
async fn a_flow_that_asks_for_ever_is_stopped() {
    async fn asks(flow: Flow, _: NoParams) -> FlowResult<()> {
        loop {
            flow.ask("more", confirm("More?")).await?;
        }
    }
    async fn tells(flow: Flow, _: NoParams) -> FlowResult<()> {
        loop {
            flow.set("n", "again")?;
            flow.step("s", || async { Ok::<_, String>(1) }).await?;
        }
    }
    let bounds = Bounds { prompts: 5, events: 100, ..Bounds::default() };
    let engine = builder(Arc::new(MemoryStore::new()))
        .limits(SessionLimits { bounds, ..SessionLimits::default() })
        .flow(Definition::new("asks", asks))
        .flow(Definition::new("tells", tells))
        .build();
    let mut view = engine.start(start("asks")).await.unwrap();
    for _ in 0..5 {
        view = answer(&engine, view.id, json!(true)).await;
    }
    assert_eq!(fault(&view).name, FaultName::TooManyPrompts);
    let view = engine.start(start("tells")).await.unwrap();
    assert_eq!(fault(&view).name, FaultName::TooMuchData);
}

/// INT-013, C-14: an invalid prompt is a fault of the flow, and is not sent.
#[tokio::test]
async fn invalid_prompts_are_not_asked() {
    async fn asks(flow: Flow, _: NoParams) -> FlowResult<String> {
        flow.ask("x", text("?").pattern("(?<=a)b")).await
    }
    async fn keys(flow: Flow, _: NoParams) -> FlowResult<String> {
        flow.ask("~now", text("?")).await
    }
    let engine = builder(Arc::new(MemoryStore::new()))
        .flow(Definition::new("asks", asks))
        .flow(Definition::new("keys", keys))
        .build();
    for flow in ["asks", "keys"] {
        let view = engine.start(start(flow)).await.unwrap();
        assert_eq!(fault(&view).name, FaultName::BadPrompt);
    }
}

/// INT-053, INT-054, INT-055, C-42: a session can be cancelled once, in every state but final ones.
#[tokio::test]
async fn cancelling_stops_the_work() {
    struct Dropped(Arc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let stopped = Arc::new(Notify::new());
    let works = {
        let stopped = Arc::clone(&stopped);
        move |flow: Flow, _: NoParams| {
            let stopped = Arc::clone(&stopped);
            async move {
                flow.ask("go", confirm("Go?")).await?;
                flow.step("tick", || async move {
                    let _dropped = Dropped(stopped);
                    std::future::pending::<Result<(), String>>().await
                })
                .await
            }
        }
    };
    let engine =
        builder(Arc::new(MemoryStore::new())).flow(Definition::new("works", works)).build();
    let waiting = engine.start(start("works")).await.unwrap();
    let view = engine.cancel(waiting.id, &me(), Some("enough".into())).await.unwrap();
    assert_eq!(view.state, State::Cancelled);
    assert!(
        matches!(&ended(&view).ending, Ending::Cancelled { reason } if reason.as_deref() == Some("enough"))
    );

    let working = engine.start(start("works")).await.unwrap();
    let view = answer(&engine, working.id, json!(true)).await;
    assert_eq!((view.state, &view.status), (State::Processing, &SessionStatus::Working(None)));
    let refused = engine.respond(working.id, &me(), json!(true).into()).await.unwrap_err();
    assert!(matches!(refused, EngineError::Transition { from: State::Processing, .. }));
    engine.cancel(working.id, &me(), None).await.unwrap();
    crate::support::within("the flow to be stopped", stopped.notified()).await;
    for id in [waiting.id, working.id] {
        let again = engine.cancel(id, &me(), None).await.unwrap_err();
        assert!(matches!(again, EngineError::AlreadyCancelled));
        let again = engine.respond(id, &me(), json!(true).into()).await.unwrap_err();
        assert!(matches!(again, EngineError::AlreadyCancelled));
    }
    engine.shutdown().await;
}

/// C-08: early completion ends a flow that allows it, with the data gathered so far.
#[tokio::test]
async fn a_flow_can_be_completed_early_if_it_allows_it() {
    let store = Arc::new(MemoryStore::new());
    let early = Definition::new("early", crate::support::register).early_completion();
    let engine = builder(store).flow(early).build();
    let view = engine.start(start("early")).await.unwrap();
    answer(&engine, view.id, json!("Ada")).await;
    let view = engine.finish(view.id, &me()).await.unwrap();
    assert_eq!(result(&view), json!({"name": "Ada"}));
    let view = engine.start(start("register")).await.unwrap();
    assert!(matches!(engine.finish(view.id, &me()).await, Err(EngineError::NotEarly)));
}

/// C-11: an answer that is repeated because its reply was lost counts once.
#[tokio::test]
async fn repeated_answers_count_once() {
    for limits in [SessionLimits::default(), no_linger()] {
        let engine = builder(Arc::new(MemoryStore::new())).limits(limits).build();
        let id = engine.start(start("register")).await.unwrap().id;
        let name = AnswerRequest::from(json!("Ada")).for_turn(0);
        let first = engine.respond(id, &me(), name.clone()).await.unwrap();
        let AnswerReply::Repeated(again) = engine.respond(id, &me(), name).await.unwrap() else {
            panic!("it was sent before")
        };
        assert_eq!(&again, first.view());
        for turn in [0, 2, u32::MAX] {
            let other = AnswerRequest::from(json!("a@c")).for_turn(turn);
            let refused = engine.respond(id, &me(), other).await.unwrap_err();
            assert!(matches!(refused, EngineError::Transition { .. }), "turn {turn}");
        }
        let email = AnswerRequest::from(json!("a@b")).for_turn(1);
        let done = engine.respond(id, &me(), email.clone()).await.unwrap();
        for again in [email, json!("a@b").into()] {
            let AnswerReply::Repeated(view) = engine.respond(id, &me(), again).await.unwrap()
            else {
                panic!("it was sent before")
            };
            assert_eq!(result(&view), result(done.view()));
        }
        let other = engine.respond(id, &me(), json!("x@y").into()).await.unwrap_err();
        assert!(matches!(other, EngineError::Transition { from: State::Completed, .. }));
    }
}

/// INT-041: an answer without a turn does not answer a question its sender cannot know.
#[tokio::test]
async fn an_unseen_question_is_not_answered() {
    let engine = engine();
    let id = engine.start(start("register")).await.unwrap().id;
    let seen = |turn, is_reliable| Some(SeenTurn { turn: Some(turn), is_reliable });
    let name = AnswerRequest::from(json!("Ada")).seen(seen(0, true));
    engine.respond(id, &me(), name).await.unwrap();
    let email = AnswerRequest::from(json!("a@b"));
    let early = engine.respond(id, &me(), email.clone().seen(seen(0, true))).await.unwrap_err();
    let (from, to) = (State::WaitingUser, State::Processing);
    assert!(matches!(early, EngineError::Transition { from: f, to: t } if (f, t) == (from, to)));
    let done = engine.respond(id, &me(), email.clone().seen(seen(1, true))).await.unwrap();
    let second = engine.respond(id, &me(), email.clone().seen(seen(1, true))).await.unwrap_err();
    assert!(matches!(second, EngineError::Transition { from: State::Completed, .. }));
    // A sender that has seen the end, or may have lost the reply, repeats its answer.
    for seen in [seen(2, true), seen(1, false), None] {
        let again = engine.respond(id, &me(), email.clone().seen(seen)).await.unwrap();
        assert_eq!(result(again.view()), result(done.view()));
    }
}

/// C-56: a confirmation is not given by a sender that cannot know it, even if it guesses the turn.
/// One that was asked by another process was known before.
#[tokio::test]
async fn an_unseen_confirmation_is_not_given() {
    let deploy = |flow: Flow, _: NoParams| async move {
        let name = flow.ask("name", text("Which?")).await?;
        let sure = flow.ask("sure", confirm("Sure?")).await?;
        Ok(json!({"name": name, "sure": sure}))
    };
    let store = Arc::new(MemoryStore::new());
    let node = || builder(store.clone()).flow(Definition::new("deploy", deploy)).build();
    let engine = node();
    let id = engine.start(start("deploy")).await.unwrap().id;
    let yes = |turn: Option<u32>, seen| {
        let seen = SeenTurn { turn: seen, is_reliable: true };
        AnswerRequest { turn, ..AnswerRequest::from(json!(true)).seen(Some(seen)) }
    };
    answer(&engine, id, json!("Ada")).await;
    for turn in [None, Some(1)] {
        for seen in [None, Some(0)] {
            let early = engine.respond(id, &me(), yes(turn, seen)).await.unwrap_err();
            assert!(matches!(early, EngineError::Transition { .. }), "{turn:?} {seen:?}");
        }
    }
    let again = node();
    let done = again.respond(id, &me(), yes(Some(1), None)).await.unwrap();
    assert_eq!(result(done.view())["sure"], true);
}

/// INT-034, INT-078: subscribers get all notices, in order, after they are durable.
#[tokio::test]
async fn subscribers_get_all_notices() {
    let engine = engine();
    let id = engine.start(start("register")).await.unwrap().id;
    let mut subscription = engine.subscribe(id, &me()).await.unwrap();
    engine.respond(id, &me(), json!("x").into()).await.unwrap();
    answer(&engine, id, json!("Ada")).await;
    answer(&engine, id, json!("a@b")).await;
    let mut heard = Vec::new();
    while let Some(notice) = crate::support::within("the last notice", subscription.next()).await {
        heard.push(match notice {
            Notice::Asked(open) => open.key,
            Notice::Accepted => "accepted".into(),
            Notice::Rejected(_) => "rejected".into(),
            Notice::QueueChanged => "queue changed".into(),
            Notice::Sleeping(_) => "sleeping".into(),
            Notice::Stuck(_) => "stuck".into(),
            Notice::Progress(_) => "progress".into(),
            Notice::Expiring { .. } => "expiring".into(),
            Notice::Ended(_) => "ended".into(),
        });
    }
    assert_eq!(heard, ["rejected", "progress", "accepted", "email", "ended"]);
}

/// INT-106: requests that are too large are rejected before anything else happens.
#[tokio::test]
async fn large_requests_are_rejected() {
    let engine = engine();
    let large = params(json!({"x": "x".repeat(1 << 20)}));
    let refused = engine.start(start("register").params(large.clone())).await.unwrap_err();
    assert!(matches!(refused, EngineError::TooLarge { .. }));
    let id = engine.start(start("register")).await.unwrap().id;
    let response = AnswerRequest::from(json!("Ada")).metadata(large);
    let refused = engine.respond(id, &me(), response).await.unwrap_err();
    assert!(matches!(refused, EngineError::TooLarge { .. }));
    for value in [json!("x".repeat(1 << 20)), json!({"a": [1, 2]}), json!("a\u{0}b"), Value::Null] {
        let reply = engine.respond(id, &me(), value.into()).await;
        assert!(matches!(reply, Ok(AnswerReply::Rejected { .. })), "{reply:?}");
    }
}

/// INT-027, INT-062, INT-076: a start may return before the flow begins, which then asks.
#[tokio::test]
async fn a_flow_can_begin_in_the_background() {
    for limits in [SessionLimits::default(), no_linger()] {
        let engine = builder(Arc::new(MemoryStore::new())).limits(limits).build();
        let view = engine.start(start("register").in_background()).await.unwrap();
        assert_eq!((view.state, view.status), (State::Idle, SessionStatus::Working(None)));
        let view = engine.wait(view.id, &me(), std::time::Duration::from_secs(60)).await.unwrap();
        assert_eq!(open(&view).key, "name");
        answer(&engine, view.id, json!("Ada")).await;
        engine.shutdown().await;
    }
}
