//! Links of flows, without a transport.

use std::sync::Arc;

use futures_util::future::join;
use mcp_flow_engine::{
    Definition, Engine, EngineError, Flow, FlowResult, LinkReply, SessionLimits, SessionStatus,
};
use mcp_flow_session::question::{confirm, text};
use mcp_flow_session::{JournalEvent, LinkState, MemoryStore, Owner, SessionId, Store};
use mcp_flow_testkit_store::SharedMemory;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::support::{
    CrashStore, NoParams, answer, builder, fault, me, no_linger, open, result, start, within,
};

/// Makes a link, waits for its signal, and asks by another link.
async fn order(flow: Flow, _: NoParams) -> FlowResult<Value> {
    flow.set("paid", flow.link("paid")?)?;
    let paid: u64 = flow.wait_for("paid").await?;
    let ask = flow.ask("approve", confirm("Approve?")).by_link()?;
    flow.set("answer", ask.url())?;
    let approved = ask.await?;
    let note = flow.ask("note", text("Note?")).await?;
    Ok(json!([paid, approved, note]))
}

fn engine_of(store: Arc<dyn Store>, limits: SessionLimits, base: Option<&str>) -> Engine {
    let engine = builder(store).limits(limits).flow(Definition::new("order", order)).build();
    if let Some(base) = base {
        engine.set_link_base(base);
    }
    engine
}

/// Returns the end of a URL in the data of a session.
async fn token(engine: &Engine, id: SessionId, key: &str) -> String {
    let data = engine.inspect(id, &me()).await.unwrap().data;
    let url = data[key].as_str().unwrap();
    url.strip_prefix("https://h/link/").unwrap().to_owned()
}

/// A link stays the same in every replay and every process, also in one without a URL of its own.
#[tokio::test]
async fn links_are_recorded() {
    let store = Arc::new(MemoryStore::new());
    let engine = engine_of(store.clone(), no_linger(), Some("https://h"));
    // The first URL counts.
    engine.set_link_base("https://other");
    let id = engine.start(start("order")).await.unwrap().id;
    let paid = token(&engine, id, "paid").await;
    assert_eq!(paid.len(), 64);
    let link = engine.find_link(&paid).await.unwrap();
    assert_eq!((&*link.flow, &*link.name, link.state), ("order", "paid", LinkState::Open));
    engine.shutdown().await;

    let engine = engine_of(store.clone(), no_linger(), None);
    let used = engine.use_link(&paid, json!(7), None).await.unwrap();
    assert_eq!(used, LinkReply::Accepted);
    // A new link cannot be made here.
    let message = fault(&engine.view(id, &me()).await.unwrap()).message.clone();
    assert!(message.contains("set `public_url`"), "{message}");
    assert_eq!(engine.find_link(&paid).await.unwrap_err().to_string(), "session not found");
}

/// The answer by a link is recorded as such; that of a client uses the link up.
#[tokio::test]
async fn questions_are_answered_once() {
    for by_link in [true, false] {
        let engine = engine_of(Arc::new(MemoryStore::new()), no_linger(), Some("https://h"));
        let id = engine.start(start("order")).await.unwrap().id;
        engine.signal(id, &me(), "paid", json!(1)).await.unwrap();
        let approve = token(&engine, id, "answer").await;
        let wrong = engine.use_link(&approve, json!("perhaps"), None).await.unwrap();
        assert!(matches!(wrong, LinkReply::Rejected(_)), "{wrong:?}");
        if by_link {
            engine.use_link(&approve, json!(true), Some("ada")).await.unwrap();
            let turn = engine.inspect(id, &me()).await.unwrap().history[0].clone();
            let metadata = Value::Object(turn.answered.metadata);
            assert_eq!(metadata, json!({"by": "link", "principal": "ada"}));
        } else {
            answer(&engine, id, json!(true)).await;
        }
        let again = engine.use_link(&approve, json!(true), None).await;
        assert!(matches!(again, Err(EngineError::LinkUsed)), "{again:?}");
        assert_eq!(result(&answer(&engine, id, json!("x")).await), json!([1, true, "x"]));
    }
}

/// A link of a question that comes up again under its key answers only the one it was made for.
#[tokio::test]
async fn a_link_answers_its_own_question_only() {
    async fn twice(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let mut answers = Vec::new();
        for _ in 0..2 {
            let ask = flow.ask("name", text("Name?")).by_link()?;
            flow.set("url", ask.url())?;
            answers.push(ask.await?);
        }
        Ok(json!(answers))
    }
    let engine = builder(Arc::new(MemoryStore::new()));
    let engine = engine.limits(no_linger()).flow(Definition::new("twice", twice)).build();
    engine.set_link_base("https://h");
    let id = engine.start(start("twice")).await.unwrap().id;
    let first = token(&engine, id, "url").await;
    answer(&engine, id, json!("Ada")).await;
    let late = engine.use_link(&first, json!("Eve"), None).await;
    assert!(matches!(late, Err(EngineError::LinkUsed)), "{late:?}");
    let second = token(&engine, id, "url").await;
    assert_ne!(first, second);
    engine.use_link(&second, json!("Bob"), None).await.unwrap();
    let ended = engine.view(id, &me()).await.unwrap();
    assert_eq!(result(&ended), json!(["Ada", "Bob"]));
}

/// A session has a bounded number of links, and those of another session are not its own.
#[tokio::test]
async fn links_are_bounded() {
    async fn many(flow: Flow, _: NoParams) -> FlowResult<()> {
        for number in 0..100 {
            let url = flow.link(&format!("link {number}"))?;
            flow.revoke_link(&url)?;
            assert!(flow.revoke_link(&url.replace("/link/", "/link/0")).is_err());
        }
        flow.link("one more").map(drop)
    }
    let engine = builder(Arc::new(MemoryStore::new())).flow(Definition::new("many", many)).build();
    engine.set_link_base("https://h");
    let view = engine.start(start("many")).await.unwrap();
    assert_eq!(fault(&view).message, "a session may have at most 100 links");
}

/// A process that is killed at any append loses no link that was used, and none is used twice.
#[tokio::test]
async fn links_survive_a_crash_at_every_append() {
    let mut crashes = 0;
    for writes in 1..8 {
        let kept = Arc::new(MemoryStore::new());
        let crashing =
            engine_of(CrashStore::stopping_after(&kept, writes), no_linger(), Some("https://h"));
        let id = crashing.start(start("order")).await.unwrap().id;
        let paid = token(&crashing, id, "paid").await;
        let accepted = crashing.use_link(&paid, json!(1), None).await.is_ok();
        let approved = match accepted {
            true => {
                let approve = token(&crashing, id, "answer").await;
                crashing.use_link(&approve, json!(true), None).await.is_ok()
            }
            false => false,
        };
        crashing.shutdown().await;

        let next = engine_of(kept.clone(), no_linger(), Some("https://h"));
        next.start_maintenance();
        next.maintain().await.unwrap();
        let journal = kept.read(id).await.unwrap();
        let signals =
            journal.iter().filter(|event| matches!(event, JournalEvent::Signalled { .. }));
        assert_eq!(signals.count(), usize::from(accepted), "after {writes} writes: {journal:?}");
        for number in 1..=journal.len() {
            next.check_history(&journal[..number]).unwrap();
        }
        crashes += usize::from(!accepted || !approved);
        // Whoever got no reply tries again.
        let again = next.use_link(&paid, json!(1), None).await;
        assert_eq!(again.is_ok(), !accepted, "after {writes} writes: {again:?}");
        let approve = token(&next, id, "answer").await;
        let again = next.use_link(&approve, json!(true), None).await;
        assert_eq!(again.is_ok(), !approved, "after {writes} writes: {again:?}");
        assert_eq!(result(&answer(&next, id, json!("x")).await), json!([1, true, "x"]));
        next.shutdown().await;
    }
    assert!(crashes >= 2, "{crashes}");
}

/// Links are used and revoked at any node, also while another one works on the session.
#[tokio::test(start_paused = true)]
async fn any_node_takes_and_revokes_links() {
    async fn beside(flow: Flow, _: NoParams) -> FlowResult<u64> {
        flow.set("paid", flow.link("paid")?)?;
        flow.set("other", flow.link("other")?)?;
        let told = Notify::new();
        let work = flow.step("work", || async {
            told.notified().await;
            Ok::<_, String>(())
        });
        let wait = async {
            let paid: FlowResult<u64> = flow.wait_for("paid").await;
            told.notify_one();
            paid
        };
        let (worked, paid) = join(work, wait).await;
        worked?;
        paid
    }
    let store = SharedMemory::create();
    let node = || {
        let engine = builder(store.connect() as Arc<dyn Store>);
        let engine = engine.flow(Definition::new("beside", beside)).start();
        engine.set_link_base("https://h");
        engine
    };
    let (one, two) = (node(), node());
    let id = one.start(start("beside")).await.unwrap().id;
    let (paid, other) = (token(&two, id, "paid").await, token(&two, id, "other").await);
    assert_eq!(two.revoke_links(id, &me(), Some("other")).await.unwrap(), 1);
    let revoked = two.use_link(&other, json!(1), None).await;
    assert!(matches!(revoked, Err(EngineError::LinkRevoked)), "{revoked:?}");
    let foreign = two.revoke_links(id, &Owner::new("eve"), None).await;
    assert!(matches!(foreign, Err(EngineError::NotFound)), "{foreign:?}");
    two.use_link(&paid, json!(7), None).await.unwrap();
    let end = within("the end", async {
        loop {
            let view = two.view(id, &me()).await.unwrap();
            if matches!(view.status, SessionStatus::Ended(_)) {
                return view;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    assert_eq!(result(&end.await), json!(7));
    join(one.shutdown(), two.shutdown()).await;
}

/// A link of a question that is not asked, or not any more, cannot be used yet.
#[tokio::test]
async fn links_of_withdrawn_questions_cannot_be_used() {
    async fn hurries(flow: Flow, _: NoParams) -> FlowResult<Value> {
        let ask = flow.ask("a", text("A?")).by_link()?;
        flow.set("url", ask.url())?;
        flow.ask("first", text("First?")).await?;
        let raced = flow.race([
            Box::pin(ask) as futures_util::future::BoxFuture<'_, FlowResult<String>>,
            Box::pin(flow.wait_for("stop")),
        ]);
        let raced = raced.await?;
        flow.ask("last", text("Last?")).await?;
        Ok(json!(raced))
    }
    let engine = builder(Arc::new(MemoryStore::new()));
    let engine = engine.limits(no_linger()).flow(Definition::new("hurries", hurries)).build();
    engine.set_link_base("https://h");
    let id = engine.start(start("hurries")).await.unwrap().id;
    let a = token(&engine, id, "url").await;
    for value in ["early", "late"] {
        let refused = engine.use_link(&a, json!(value), None).await;
        assert!(matches!(refused, Err(EngineError::LinkNotAsked)), "{refused:?}");
        if value == "early" {
            assert_eq!(&*open(&answer(&engine, id, json!("x")).await).key, "a");
            engine.signal(id, &me(), "stop", json!("stopped")).await.unwrap();
        }
    }
    assert_eq!(result(&answer(&engine, id, json!("x")).await), json!("stopped"));
}
