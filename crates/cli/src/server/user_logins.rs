//! Logins of users at servers behind this one: with `auth = "user"`, each principal has an account of its
//! own there.
//!
//! The user opens a page of this server, which says who logs in to what, and leads to the
//! authorization server. That redirects back here; over stdio, to a local port. Tokens are in a file
//! next to the store, encrypted with its keys.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use mcp_flow::client::HttpOptions;
use mcp_flow::client::transport::Connector;
use mcp_flow::http::VisitedPages;
use mcp_flow::oauth::{
    Account, LoginSettings, LoopbackListener, OAuthError, TokenStore, UserAgent,
};
use mcp_flow_gateway::{Login, UserAccounts};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use url::Url;

use crate::client::logins::explain;
use crate::client::target::Address;
use crate::configuration::ServeSection;
use crate::server::store::{StoreUrl, keys_of};

/// Accounts of users at all servers, and the pages of logins that run.
#[derive(Debug)]
pub(crate) struct UserLogins {
    store: Option<StoreUrl>,
    tokens: OnceLock<TokenStore>,
    /// The URL that logins return to; unset while that is not known.
    returns: OnceLock<ReturnTo>,
    /// Logins whose page is open, by id.
    pages: Mutex<HashMap<String, LoginPage>>,
    /// Logins that wait for their redirect, by its state.
    redirects: Mutex<HashMap<String, oneshot::Sender<String>>>,
}

/// Target of the redirect that ends a login.
#[derive(Clone, Debug)]
pub(crate) enum ReturnTo {
    /// A local port, for a server without an address.
    LocalPort,
    /// This server, at its URL for browsers.
    Server(String),
}

impl ReturnTo {
    /// The server at this address; `None` if its URL for browsers is not known.
    pub(crate) fn server(
        serve: &ServeSection,
        address: SocketAddr,
        is_encrypted: bool,
    ) -> Option<Self> {
        let scheme = if is_encrypted { "https" } else { "http" };
        match &serve.public_url {
            Some(url) => Some(Self::Server(url.trim_end_matches('/').to_owned())),
            None if address.ip().is_loopback() => {
                Some(Self::Server(format!("{scheme}://{address}")))
            }
            None => None,
        }
    }
}

#[derive(Debug)]
struct LoginPage {
    server: String,
    principal: String,
    url: String,
}

impl UserLogins {
    /// Prepares the logins of a server with this store. Nothing is opened before it is needed.
    pub(crate) fn new(store: Option<&StoreUrl>) -> Arc<Self> {
        Arc::new(Self {
            store: store.cloned(),
            tokens: OnceLock::new(),
            returns: OnceLock::new(),
            pages: Mutex::default(),
            redirects: Mutex::default(),
        })
    }

    /// Sets where logins return to.
    pub(crate) fn return_to(&self, target: ReturnTo) {
        let _ = self.returns.set(target);
    }

    /// Returns whether users log in to any server.
    pub(crate) fn are_used(&self) -> bool {
        self.tokens.get().is_some()
    }

    /// The tokens of all users, which are kept as long as the store is.
    fn tokens(&self) -> anyhow::Result<TokenStore> {
        if let Some(tokens) = self.tokens.get() {
            return Ok(tokens.clone());
        }
        let tokens = match keys_of(self.store.as_ref())? {
            Some((journal, keys)) => {
                TokenStore::sealed_file(journal.with_extension("accounts"), keys)
            }
            None => TokenStore::memory(),
        };
        Ok(self.tokens.get_or_init(|| tokens).clone())
    }

    /// The accounts at one server.
    pub(crate) fn accounts(
        self: &Arc<Self>,
        server: &str,
        address: &Address,
        options: HttpOptions,
        without_account: Arc<dyn Connector>,
    ) -> anyhow::Result<ServerAccounts> {
        let accounts = ServerAccounts {
            logins: self.clone(),
            tokens: self.tokens()?,
            server: server.to_owned(),
            address: address.clone(),
            options,
            without_account,
            accounts: Mutex::default(),
            known: Arc::default(),
            running: Mutex::default(),
        };
        // Problems with the settings are reported at the start.
        accounts.new_account("", None)?;
        Ok(accounts)
    }
}

impl VisitedPages for UserLogins {
    fn visit(&self, path: &str, query: &str) -> Option<Result<String, String>> {
        let page = path.strip_prefix(PATH)?;
        if page == CALLBACK {
            let state = url::form_urlencoded::parse(query.as_bytes());
            let state = state.into_owned().find(|(name, _)| name == "state");
            let waiting = state.and_then(|(_, state)| self.redirects.lock().remove(&state));
            // Only the query is read.
            let returned = format!("http://localhost{path}?{query}");
            let was_awaited = waiting.is_some_and(|waiting| waiting.send(returned).is_ok());
            return Some(match was_awaited {
                true => Ok(html("You can close this page and return to your program.")),
                false => Err(html("This login is over. Start again in your program.")),
            });
        }
        let pages = self.pages.lock();
        Some(match pages.get(page) {
            Some(LoginPage { server, principal, url }) => Ok(html(&format!(
                "Log in to <b>{}</b> for the user <b>{}</b> of this server. Programs of that user can \
                 then use your account there. Continue only if that is you, and you began this login \
                 yourself.<p><a href=\"{}\">Continue</a>",
                escape(server),
                escape(principal),
                escape(url)
            ))),
            None => Err(html("This login is over. Start again in your program.")),
        })
    }
}

fn html(text: &str) -> String {
    format!(
        "<!doctype html><meta charset=utf-8><title>MCP Flow</title><h1>MCP Flow</h1><p>{text}\n"
    )
}

fn escape(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace('"', "&quot;")
}

/// Accounts of users at one server.
pub(crate) struct ServerAccounts {
    logins: Arc<UserLogins>,
    tokens: TokenStore,
    server: String,
    address: Address,
    options: HttpOptions,
    /// Connects without any account.
    without_account: Arc<dyn Connector>,
    /// Accounts in use, by principal.
    accounts: Mutex<HashMap<String, Arc<Account>>>,
    /// Principals that are logged in, with the time of their login in this process.
    known: Arc<Mutex<HashMap<String, Option<Instant>>>>,
    /// The last login of each principal.
    running: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Option<RunningLogin>>>>>,
}

/// A login that runs, or has ended.
struct RunningLogin {
    id: String,
    url: String,
    ended: Shared<BoxFuture<'static, Result<(), String>>>,
}

impl ServerAccounts {
    fn new_account(
        &self,
        principal: &str,
        user_agent: Option<Arc<dyn UserAgent>>,
    ) -> anyhow::Result<Account> {
        let mut settings = LoginSettings::default();
        if let Some(oauth) = &self.address.oauth {
            oauth.apply(&mut settings)?;
        }
        settings.user_agent = user_agent;
        let tokens = self.tokens.of_user(principal);
        Account::new(&self.address.url, tokens, settings).map_err(explain)
    }

    /// The account that the connections of a principal share, so that it is refreshed once.
    fn account(&self, principal: &str) -> anyhow::Result<Arc<Account>> {
        let mut accounts = self.accounts.lock();
        if let Some(account) = accounts.get(principal) {
            return Ok(account.clone());
        }
        let account = Arc::new(self.new_account(principal, None)?);
        accounts.insert(principal.to_owned(), account.clone());
        Ok(account)
    }

    fn is_known(&self, principal: &str) -> anyhow::Result<bool> {
        if self.known.lock().contains_key(principal) {
            return Ok(true);
        }
        let is_known = self.account(principal)?.grant().map_err(explain)?.is_some();
        if is_known {
            self.known.lock().insert(principal.to_owned(), None);
        }
        Ok(is_known)
    }

    async fn begin(&self, principal: &str, was_rejected: bool) -> anyhow::Result<Option<Login>> {
        if !was_rejected && self.is_known(principal)? {
            return Ok(None);
        }
        let running = self.running.lock().entry(principal.to_owned()).or_default().clone();
        let mut running = running.lock().await;
        if let Some(login) = running.as_ref().filter(|login| login.ended.peek().is_none()) {
            return Ok(Some(login.join()));
        }
        // Another request of this user may just have logged in.
        let last = self.known.lock().remove(principal).flatten();
        if let Some(last) = last.filter(|last| last.elapsed() < JUST) {
            self.known.lock().insert(principal.to_owned(), Some(last));
            return Ok(None);
        }
        *running = self.start(principal).await?;
        Ok(running.as_ref().map(RunningLogin::join))
    }

    /// Starts a login; `None` if the server requires none.
    async fn start(&self, principal: &str) -> anyhow::Result<Option<RunningLogin>> {
        let logins = self.logins.clone();
        let is_full = logins.pages.lock().len() >= MAX_LOGINS;
        anyhow::ensure!(!is_full, "too many users are logging in");
        let (opened, page) = oneshot::channel();
        let browser = Browser::new(logins.clone(), opened).await?;
        let account = self.new_account(principal, Some(Arc::new(browser)))?;
        let task = tokio::spawn(async move {
            let request = account.token_request().await?;
            if request.is_required {
                account.login(&request).await?;
            }
            Ok::<_, OAuthError>(())
        });
        let abort = AbortOnDrop(task.abort_handle());
        let (known, name) = (self.known.clone(), principal.to_owned());
        let id = random_text()?;
        let own = id.clone();
        let ended = async move {
            let _abort = abort;
            let ended = tokio::time::timeout(LOGIN_TIME, task).await;
            logins.pages.lock().remove(&own);
            match ended {
                Ok(Ok(Ok(()))) => {
                    known.lock().insert(name, Some(Instant::now()));
                    Ok(())
                }
                Ok(Ok(Err(problem))) => Err(format!("The login failed: {problem}")),
                Ok(Err(_)) => Err("The login was interrupted".to_owned()),
                Err(_) => Err("The login did not end in time".to_owned()),
            }
        };
        let ended = ended.boxed().shared();
        let Ok(url) = page.await else {
            // It has ended without a page.
            return ended.await.map(|()| None).map_err(anyhow::Error::msg);
        };
        // It goes on without whoever began it.
        tokio::spawn(ended.clone());
        let page = LoginPage {
            server: self.server.clone(),
            principal: principal.to_owned(),
            url: url.clone(),
        };
        let url = match self.logins.returns.get() {
            Some(ReturnTo::Server(base)) => {
                self.logins.pages.lock().insert(id.clone(), page);
                format!("{base}{PATH}{id}")
            }
            _ => url,
        };
        Ok(Some(RunningLogin { id, url, ended }))
    }
}

impl UserAccounts for ServerAccounts {
    fn connector(&self, principal: &str) -> Arc<dyn Connector> {
        let connector = self.account(principal).and_then(|account| {
            let options = self.options.clone().authorizer(account);
            Ok(mcp_flow::client::connector(&self.address.url, &options)?)
        });
        // It is rejected then.
        connector.unwrap_or_else(|_| self.without_account.clone())
    }

    fn begin_login<'a>(
        &'a self,
        principal: &'a str,
        was_rejected: bool,
    ) -> BoxFuture<'a, Result<Option<Login>, String>> {
        Box::pin(async move {
            let begun = self.begin(principal, was_rejected).await;
            begun.map_err(|problem| format!("the login cannot begin: {problem:#}"))
        })
    }
}

impl RunningLogin {
    fn join(&self) -> Login {
        Login { id: self.id.clone(), url: self.url.clone(), ended: self.ended.clone().boxed() }
    }
}

/// The browser of a user elsewhere: the page is given to the user's program, and the redirect comes back
/// by another way.
#[derive(Debug)]
struct Browser {
    logins: Arc<UserLogins>,
    opened: Mutex<Option<oneshot::Sender<String>>>,
    local: Option<LoopbackListener>,
    redirect: String,
}

impl Browser {
    async fn new(logins: Arc<UserLogins>, opened: oneshot::Sender<String>) -> anyhow::Result<Self> {
        let (local, redirect) = match logins.returns.get() {
            Some(ReturnTo::Server(base)) => (None, format!("{base}{PATH}{CALLBACK}")),
            Some(ReturnTo::LocalPort) => {
                let local = LoopbackListener::open(0).await;
                let local = local.context("cannot open a local port")?;
                let redirect = local.redirect_uri();
                (Some(local), redirect)
            }
            None => anyhow::bail!(
                "this server does not know its own URL for browsers; an operator sets it with \
                 --public-url"
            ),
        };
        Ok(Self { logins, opened: Mutex::new(Some(opened)), local, redirect })
    }
}

impl UserAgent for Browser {
    fn redirect_uri(&self) -> String {
        self.redirect.clone()
    }

    fn visit<'a>(&'a self, page: &'a Url) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            let state = page.query_pairs().find(|(name, _)| name == "state");
            let state = state.map(|(_, state)| state.into_owned()).unwrap_or_default();
            let (returned, returns) = oneshot::channel();
            self.logins.redirects.lock().insert(state.clone(), returned);
            let _waits = AwaitedRedirect { logins: &self.logins, state: &state };
            if let Some(opened) = self.opened.lock().take() {
                // If nobody is left who would open it, the login ends by its time limit.
                let _ = opened.send(page.as_str().to_owned());
            }
            match &self.local {
                Some(local) => Ok(local.wait(&state).await),
                None => returns.await.map_err(|_| "the login was interrupted".to_owned()),
            }
        })
    }
}

/// Removes a redirect from those that are awaited.
struct AwaitedRedirect<'a> {
    logins: &'a UserLogins,
    state: &'a str,
}

impl Drop for AwaitedRedirect<'_> {
    fn drop(&mut self) {
        self.logins.redirects.lock().remove(self.state);
    }
}

/// Ends a task with its owner.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn random_text() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|_| anyhow::anyhow!("the system has no source of randomness"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Path of the pages of logins.
const PATH: &str = "/gateway/login/";

/// Page that a login returns to.
const CALLBACK: &str = "callback";

/// Time that a user has for a login.
const LOGIN_TIME: Duration = Duration::from_secs(600);

/// Time after a login in which a request that failed before it is sent again without another one.
const JUST: Duration = Duration::from_secs(10);

/// Limit on logins at the same time.
const MAX_LOGINS: usize = 1000;
