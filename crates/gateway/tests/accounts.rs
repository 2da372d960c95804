//! Upstreams that each principal uses with its own account.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use mcp_flow_client::host::{ElicitAnswer, Elicitation, ServerIdentity};
use mcp_flow_client::model::{ClientCapabilities, ElicitationCapability};
use mcp_flow_client::transport::{Connector, Inbox, Transport, TransportError};
use mcp_flow_client::{Client, Host, Revision};
use mcp_flow_gateway::{Login, UserAccounts};
use mcp_flow_server::Server;
use mcp_flow_testkit::wait::within;
use mcp_flow_testkit_fixture::Fixture;
use parking_lot::Mutex;
use serde_json::{Map, json};
use tokio::sync::watch;

use crate::support::{Setup, connect_as, pairs, upstream};

/// Accounts of a server that knows who is logged in.
#[derive(Clone)]
struct Accounts {
    server: Server,
    /// Principals that have logged in, and those whose accounts the server still accepts.
    known: Arc<Mutex<HashSet<String>>>,
    valid: Arc<watch::Sender<HashSet<String>>>,
}

impl Accounts {
    fn of(server: &Server) -> Self {
        Self { server: server.clone(), known: Arc::default(), valid: Arc::default() }
    }

    fn log_in(&self, principal: &str) {
        self.known.lock().insert(principal.to_owned());
        self.valid.send_modify(|valid| {
            valid.insert(principal.to_owned());
        });
    }

    fn revoke(&self, principal: &str) {
        self.valid.send_modify(|valid| {
            valid.remove(principal);
        });
    }
}

impl UserAccounts for Accounts {
    fn connector(&self, principal: &str) -> Arc<dyn Connector> {
        Arc::new(Account { accounts: self.clone(), principal: principal.to_owned() })
    }

    fn begin_login<'a>(
        &'a self,
        principal: &'a str,
        was_rejected: bool,
    ) -> BoxFuture<'a, Result<Option<Login>, String>> {
        Box::pin(async move {
            if self.known.lock().contains(principal) && !was_rejected {
                return Ok(None);
            }
            let (mut changes, name) = (self.valid.subscribe(), principal.to_owned());
            let ended = Box::pin(async move {
                let ended = changes.wait_for(|valid| valid.contains(&name)).await;
                ended.map(drop).map_err(|error| error.to_string())
            });
            Ok(Some(Login { id: "1".to_owned(), url: format!("https://h/{principal}"), ended }))
        })
    }
}

/// Connects with the account of one principal.
struct Account {
    accounts: Accounts,
    principal: String,
}

impl Connector for Account {
    fn target(&self) -> &str {
        "the server with accounts"
    }

    fn connect(&self, inbox: Inbox) -> BoxFuture<'_, Result<Arc<dyn Transport>, TransportError>> {
        Box::pin(async move {
            if !self.accounts.valid.borrow().contains(&self.principal) {
                let what = "no such account".to_owned();
                return Err(TransportError::Unauthorized { what, challenge: None });
            }
            connect_as(&self.accounts.server, &self.principal).connect(inbox).await
        })
    }
}

/// A person who opens the page of a login, and logs in there unless it is declined.
struct Person {
    accounts: Accounts,
    name: String,
    declines: bool,
    opened: Arc<Mutex<Vec<String>>>,
}

impl Host for Person {
    fn capabilities(&self) -> ClientCapabilities {
        let elicitation = Some(ElicitationCapability { form: true, url: true });
        ClientCapabilities { elicitation, ..ClientCapabilities::default() }
    }

    fn elicit<'a>(
        &'a self,
        _: &'a ServerIdentity,
        question: Elicitation,
    ) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            let Elicitation::Url { url, .. } = question else { return ElicitAnswer::Cancel };
            self.opened.lock().push(url.clone());
            if self.declines {
                return ElicitAnswer::Decline;
            }
            self.accounts.log_in(&self.name);
            ElicitAnswer::Accept(Map::new())
        })
    }
}

/// A gateway before a server with accounts, and its clients.
struct World {
    accounts: Accounts,
    setup: Setup,
    opened: Arc<Mutex<Vec<String>>>,
}

impl World {
    fn new(revision: Revision) -> Self {
        let fixture = Fixture::new();
        let accounts = Accounts::of(&fixture.server);
        let mut settings = upstream("up", &fixture.server, revision);
        settings.accounts = Some(Arc::new(accounts.clone()));
        settings.idle_timeout = Duration::from_millis(10);
        Self { accounts, setup: Setup::new(vec![settings]), opened: Arc::default() }
    }

    async fn client(&self, name: &str, revision: Revision, declines: bool) -> Client {
        let (accounts, opened) = (self.accounts.clone(), self.opened.clone());
        let person = Person { accounts, name: name.to_owned(), declines, opened };
        self.setup.client_as(name, revision, person).await
    }

    fn opened(&self) -> Vec<String> {
        std::mem::take(&mut *self.opened.lock())
    }
}

async fn who(client: &Client) -> String {
    let who = within("the call", client.call_tool("up.who", json!({})).into_future()).await;
    who.unwrap().structured.unwrap()["principal"].as_str().unwrap().to_owned()
}

/// Nobody uses the account of somebody else, and one that is rejected concerns its user only.
#[tokio::test]
async fn every_principal_logs_in_once_and_uses_its_own_account() {
    for (client, server) in pairs() {
        let world = World::new(server);
        let (ada, bob) =
            (world.client("ada", client, false).await, world.client("bob", client, false).await);
        // Nothing can be listed yet.
        let listed = ada.tools().all().await.unwrap();
        assert_eq!(listed.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["up.login"]);
        let done = ada.call_tool("up.login", json!({})).await.unwrap().text();
        assert!(done.contains("Logged in"), "{done}");
        within("the tools", async {
            while ada.tools().all().await.unwrap().len() == 1 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(world.opened(), ["https://h/ada"]);
        for _ in 0..2 {
            assert_eq!(who(&ada).await, "ada", "{client} {server}");
            assert_eq!(who(&bob).await, "bob", "{client} {server}");
        }
        assert_eq!(world.opened(), ["https://h/bob"]);
        within("the idle stop", async {
            while world.setup.gateway.status()[0].connections > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        world.accounts.revoke("ada");
        assert_eq!(who(&ada).await, "ada", "{client} {server}");
        assert_eq!(who(&bob).await, "bob", "{client} {server}");
        assert_eq!(world.opened(), ["https://h/ada"]);
        let status = world.setup.gateway.status();
        assert_eq!(status[0].failures, 0, "{status:?}");
    }
}

/// Without a login nothing is sent, and a client that cannot open a page learns which one it is.
#[tokio::test]
async fn callers_that_do_not_log_in_are_refused() {
    for (client, server) in pairs() {
        let world = World::new(server);
        let declining = world.client("eve", client, true).await;
        let refused = declining.call_tool("up.login", json!({})).await.unwrap_err();
        let refused = refused.server().unwrap();
        assert_eq!(refused.name(), Some("NOT_ANSWERED"), "{refused}");
        assert_eq!(refused.data["server"], "up");
        let unasked = world.setup.client(client).await;
        let refused = unasked.call_tool("up.login", json!({})).await.unwrap_err();
        let refused = refused.server().unwrap();
        assert_eq!(refused.code, -32042, "{refused}");
        assert_eq!(refused.data["elicitations"][0]["url"], "https://h/local", "{refused}");
        assert_eq!(world.setup.gateway.status()[0].connections, 0);
    }
}
