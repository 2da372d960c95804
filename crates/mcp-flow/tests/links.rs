//! Links of flows, used over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use mcp_flow::engine::Engine;
use mcp_flow::http::{Options, bind};
use mcp_flow::prelude::*;
use mcp_flow::question::{choice, confirm, integer, text};
use mcp_flow::session::{JournalEvent, MemoryStore, Owner, SessionId, Store};
use mcp_flow::{Interaction, OfferedFlow, Principal, StaticTokens, TokenHash};
use mcp_flow_testkit::http::{Request, Response};
use serde_json::{Map, Value, json};

/// A server with links.
struct Linked {
    engine: Engine,
    address: SocketAddr,
    store: Arc<MemoryStore>,
}

/// Waits to be paid by a link.
async fn order(flow: Flow, _: Map<String, Value>) -> FlowResult<Value> {
    let url = flow.link("paid")?;
    flow.set("url", &url)?;
    let paid: Value = flow.wait_for("paid").await?;
    flow.ask("sure", confirm("Sure?")).await?;
    Ok(paid)
}

/// Waits for a number.
async fn count(flow: Flow, _: Map<String, Value>) -> FlowResult<u64> {
    flow.set("url", flow.link("count")?)?;
    flow.wait_for("count").await
}

/// Asks questions by links, one after the other.
async fn survey(flow: Flow, _: Map<String, Value>) -> FlowResult<Value> {
    let name = flow.ask("name", text("<Your> name?").length(2..=20)).by_link()?;
    let fun = flow.ask("fun", confirm("Fun?")).by_link()?;
    let color = flow.ask("color", choice("Color?", &["red", "blue"])).by_link()?;
    let age = flow.ask("age", integer("Age?").range(0..=150)).by_link_after_login()?;
    flow.set("urls", [name.url(), fun.url(), color.url(), age.url()])?;
    Ok(json!([name.await?, fun.await?, color.await?.to_string(), age.await?]))
}

impl Linked {
    async fn start(set_up: impl FnOnce(mcp_flow::http::Bound) -> mcp_flow::http::Bound) -> Self {
        let store = Arc::new(MemoryStore::new());
        let flows = vec![
            OfferedFlow::new("order", order),
            OfferedFlow::new("count", count),
            OfferedFlow::new("survey", survey),
        ];
        let interaction =
            Interaction::builder().flows(flows).store(Arc::clone(&store) as Arc<dyn Store>).build();
        let server = interaction.add_to(Server::builder("links", "1.0.0")).build().unwrap();
        let bound = set_up(bind("127.0.0.1:0".parse().unwrap()).await.unwrap());
        let address = bound.address();
        tokio::spawn(async move { bound.serve(&server, std::future::pending()).await });
        let engine = interaction.engine().clone();
        // Until the transport has told its URL.
        while Request::new("GET", "/healthz").send(address).await.status != 200 {}
        Self { engine, address, store }
    }

    /// Starts a session. Returns its data once the flow waits.
    async fn session(&self, flow: &str) -> (SessionId, Value) {
        let start = mcp_flow::engine::StartRequest::new(flow, Owner::local());
        let id = self.engine.start(start).await.unwrap().id;
        let data = self.engine.inspect(id, &Owner::local()).await.unwrap().data;
        (id, Value::Object(data))
    }

    /// Starts a session with one link. Returns the path of that.
    async fn link(&self, flow: &str) -> (SessionId, String) {
        let (id, data) = self.session(flow).await;
        (id, self.path(&data["url"]))
    }

    fn path(&self, url: &Value) -> String {
        let base = format!("http://{}", self.address);
        url.as_str().unwrap().strip_prefix(&base).unwrap().to_owned()
    }

    async fn send(&self, request: Request) -> Response {
        request.send(self.address).await
    }

    async fn get(&self, path: &str) -> Response {
        self.send(Request::new("GET", path).header("accept", "text/html")).await
    }

    async fn journal(&self, id: SessionId) -> Vec<JournalEvent> {
        self.store.read(id).await.unwrap()
    }

    /// Returns the result of a session that waits for the question `sure`.
    async fn result(&self, id: SessionId) -> Value {
        let reply = self.engine.respond(id, &Owner::local(), json!(true).into()).await.unwrap();
        match &reply.view().status {
            mcp_flow::engine::SessionStatus::Ended(ended) => match &ended.ending {
                mcp_flow::session::Ending::Completed { data, .. } => data.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
}

fn post(path: &str) -> Request {
    Request::new("POST", path)
}

/// A link works once, with any kind of body; crawlers that only read change nothing.
#[tokio::test]
async fn a_link_works_once_and_reading_it_changes_nothing() {
    let linked = Linked::start(|bound| bound).await;
    for (kind, body, value) in [
        (Some("application/json"), r#"{"amount": 7}"#, json!({"amount": 7})),
        (Some("application/json; charset=utf-8"), "7", json!(7)),
        (
            Some("application/x-www-form-urlencoded"),
            "a=1&b=%C3%A4+x",
            json!({"a": "1", "b": "ä x"}),
        ),
        (Some("text/plain"), "paid", json!("paid")),
        (None, "", json!(null)),
    ] {
        let (id, path) = linked.link("order").await;
        let before = linked.journal(id).await;
        for _ in 0..20 {
            for method in ["GET", "HEAD"] {
                let response = linked.send(Request::new(method, &path)).await;
                assert_eq!(response.status, 200);
                assert_eq!(response.header("cache-control"), Some("no-store"));
                assert_eq!(response.header("x-robots-tag"), Some("noindex, nofollow"));
                assert_eq!(response.header("referrer-policy"), Some("same-origin"));
            }
        }
        for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
            let response = linked.send(Request::new(method, &path)).await;
            assert_eq!((response.status, response.header("allow")), (405, Some("GET, HEAD, POST")));
        }
        assert_eq!(linked.journal(id).await, before);

        let used = kind.iter().fold(post(&path), |used, kind| used.header("content-type", kind));
        let mut accepted = linked.send(used.clone().body(body)).await;
        assert_eq!((accepted.status, accepted.json().await), (200, json!({"accepted": true})));
        let mut again = linked.send(used.body(body)).await;
        assert_eq!(again.status, 410);
        assert_eq!(again.json().await["error"], "This link was used before.");
        assert_eq!(linked.get(&path).await.status, 410);
        assert_eq!(linked.result(id).await, value);
        // The end of the session is the end of its links.
        assert_eq!(linked.send(post(&path)).await.status, 404);
    }
}

/// Of requests at once, one is accepted.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_is_used_twice_at_once_is_used_once() {
    let linked = Arc::new(Linked::start(|bound| bound).await);
    let (id, path) = linked.link("order").await;
    let sent = (0..8).map(|_| {
        let (linked, path) = (Arc::clone(&linked), path.clone());
        tokio::spawn(async move { linked.send(post(&path)).await.status })
    });
    let mut codes = Vec::new();
    for sent in sent.collect::<Vec<_>>() {
        codes.push(sent.await.unwrap());
    }
    codes.sort_unstable();
    assert_eq!(codes, [200, 410, 410, 410, 410, 410, 410, 410]);
    let signals = linked.journal(id).await;
    let signals = signals.iter().filter(|event| matches!(event, JournalEvent::Signalled { .. }));
    assert_eq!(signals.count(), 1);
}

/// Guessed, malformed and others' links are not found, whatever the reason.
#[tokio::test]
async fn links_cannot_be_guessed() {
    let linked = Linked::start(|bound| bound).await;
    let (id, path) = linked.link("order").await;
    let (_, other) = linked.link("order").await;
    let (start, token) = path.split_at(path.len() - 32);
    let crossed = format!("{start}{}", &other[other.len() - 32..]);
    let wrong = format!("{start}{}", token.chars().rev().collect::<String>());
    let unknown = format!("/link/{}{token}", "7".repeat(32));
    let mut bodies = Vec::new();
    for guessed in [
        &*crossed,
        &wrong,
        &unknown,
        "/link/",
        "/link/abc",
        &path.to_uppercase().replace("/LINK/", "/link/"),
        &path[..path.len() - 1],
        &format!("{path}0"),
        &format!("{path}/"),
        "/link/../mcp",
    ] {
        for request in [post(guessed), Request::new("GET", guessed)] {
            let mut response = linked.send(request).await;
            assert_eq!(response.status, 404, "{guessed}");
            bodies.push(response.text().await);
        }
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert!(linked.engine.inspect(id, &Owner::local()).await.unwrap().signals.is_empty());
    assert_eq!(linked.send(post(&path)).await.status, 200);
}

/// A link ends with its session, when it is revoked, and not by a rewind.
#[tokio::test]
async fn links_end() {
    let linked = Linked::start(|bound| bound).await;
    let me = Owner::local();
    let (id, path) = linked.link("order").await;
    linked.engine.cancel(id, &me, None).await.unwrap();
    assert_eq!(linked.send(post(&path)).await.status, 404);

    let (id, path) = linked.link("order").await;
    let other = linked.engine.revoke_links(id, &Owner::new("eve"), None).await;
    assert!(other.is_err(), "{other:?}");
    assert_eq!(linked.engine.revoke_links(id, &me, Some("other")).await.unwrap(), 0);
    assert_eq!(linked.engine.revoke_links(id, &me, Some("paid")).await.unwrap(), 1);
    assert_eq!(linked.engine.revoke_links(id, &me, None).await.unwrap(), 0);
    let mut revoked = linked.send(post(&path)).await;
    assert_eq!(revoked.status, 410);
    assert_eq!(revoked.json().await["error"], "This link was revoked.");
    assert_eq!(linked.get(&path).await.status, 410);

    let (id, data) = linked.session("survey").await;
    let name = linked.path(&data["urls"][0]);
    let answer = post(&name).header("content-type", "application/json").body("\"Ada\"");
    assert_eq!(linked.send(answer.clone()).await.status, 200);
    assert_eq!(linked.send(answer.clone()).await.status, 410);
    linked.engine.rewind(id, &me, "name").await.unwrap();
    // The question is open again, and so is its link.
    assert_eq!(linked.send(answer).await.status, 200);
    let again = linked.engine.inspect(id, &me).await.unwrap().links.len();
    assert_eq!(again, 4, "the flow has the links it had");
}

/// Bodies that are too large, of the wrong type or of no known kind are refused; the link stays.
#[tokio::test]
async fn bad_bodies_do_not_use_up_a_link() {
    let linked = Linked::start(|bound| bound).await;
    let (id, path) = linked.link("count").await;
    let json = |body: &str| post(&path).header("content-type", "application/json").body(body);
    for (request, status) in [
        (json(&format!("\"{}\"", "x".repeat(10 * 1024 * 1024))), 413),
        (json(&format!("\"{}\"", "x".repeat(300 * 1024))), 413),
        (json("\"many\""), 422),
        (json("{"), 400),
        (post(&path), 422),
        (post(&path).header("content-type", "text/plain").body(vec![0xff]), 400),
        (post(&path).header("content-type", "image/png").body("x"), 415),
        (json("7").header("origin", "https://evil.example"), 403),
    ] {
        let mut response = linked.send(request).await;
        let text = response.text().await;
        assert_eq!(response.status, status, "{text}");
    }
    assert_eq!(linked.journal(id).await.len(), 5, "nothing was recorded");
    assert_eq!(linked.send(json("7")).await.status, 200);
}

/// A person answers questions on pages, without scripts; wrong answers are explained on the page.
#[tokio::test]
async fn questions_are_answered_on_pages() {
    let tokens = StaticTokens::default().with(TokenHash::of("secret"), Principal::named("ada"));
    let linked = Linked::start(|bound| bound.verifier(Arc::new(tokens))).await;
    let (id, data) = linked.session("survey").await;
    let paths: Vec<_> = (0..4).map(|index| linked.path(&data["urls"][index])).collect();
    // A question that is not asked yet cannot be answered.
    assert_eq!(linked.get(&paths[1]).await.status, 409);
    let mut page = linked.get(&paths[0]).await;
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'self'; form-action 'self'"),
        "{policy}"
    );
    let text = page.text().await;
    assert!(text.contains("&lt;Your&gt; name?") && text.contains("<form method=post>"), "{text}");
    let form = |path: &str, answer: &str| {
        post(path)
            .header("accept", "text/html")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("answer={answer}"))
    };
    let mut wrong = linked.send(form(&paths[0], "A")).await;
    assert_eq!(wrong.status, 422);
    assert!(wrong.text().await.contains("at least 2 characters are needed"));
    for (path, answer) in [(&paths[0], "Ada"), (&paths[1], "true"), (&paths[2], "%22blue%22")] {
        let mut done = linked.send(form(path, answer)).await;
        let text = done.text().await;
        assert_eq!(done.status, 200, "{text}");
        assert_eq!(linked.send(form(path, answer)).await.status, 410);
    }
    // The last one needs a login.
    for request in [form(&paths[3], "36"), Request::new("GET", &paths[3])] {
        let response = linked.send(request).await;
        assert_eq!(response.status, 401);
        assert!(response.headers_of("www-authenticate").iter().any(|one| one.starts_with("Basic")));
    }
    let bad = linked.send(form(&paths[3], "36").header("authorization", "Bearer wrong")).await;
    assert_eq!(bad.status, 401);
    // `ada:secret`, as a browser sends it.
    let login = form(&paths[3], "36").header("authorization", "Basic YWRhOnNlY3JldA==");
    assert_eq!(linked.send(login).await.status, 200);
    let ended = linked.engine.view(id, &Owner::local()).await.unwrap();
    let mcp_flow::engine::SessionStatus::Ended(ended) = ended.status else { panic!("{ended:?}") };
    let mcp_flow::session::Ending::Completed { data, .. } = ended.ending else {
        panic!("{ended:?}")
    };
    assert_eq!(data, json!(["Ada", true, "blue", 36]));
}

/// The public URL is what links begin with.
#[tokio::test]
async fn links_begin_with_the_public_url() {
    let options =
        Options { public_url: Some("https://flows.example/".into()), ..Options::default() };
    let linked = Linked::start(|bound| bound.options(options)).await;
    let (_, data) = linked.session("order").await;
    assert!(data["url"].as_str().unwrap().starts_with("https://flows.example/link/"), "{data}");
}
