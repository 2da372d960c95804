//! Login in a browser on behalf of a program without a terminal, such as a bridge that a host started.
//!
//! The login runs beside the connection that needs it, so that the connection's timeout does not end
//! it: attempts to connect wait for the same login. Only one process at a time asks the user for one
//! server; the others use the token that the user granted to the first.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use mcp_flow::client::Trust;
use mcp_flow::client::authorizer::{Authorizer, Credential, CredentialRefusal};
use mcp_flow::client::transport::TransportError;
use mcp_flow::oauth::{Account, LoginSettings, TokenStore};
use parking_lot::Mutex;

use crate::command::login::terminal::Terminal;

/// Logins that run now or failed recently, and what follows a success.
#[derive(Default)]
pub(crate) struct BrowserLogin {
    is_pending: AtomicBool,
    on_success: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

impl BrowserLogin {
    /// Returns whether the user is being asked to log in.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Relaxed)
    }

    /// Sets a function that is called after each login.
    pub(crate) fn on_success(&self, then: impl Fn() + Send + Sync + 'static) {
        *self.on_success.lock() = Some(Box::new(then));
    }
}

impl std::fmt::Debug for BrowserLogin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BrowserLogin").finish_non_exhaustive()
    }
}

/// Account that logs in by the user's browser when the server requires it.
#[derive(Debug)]
pub(crate) struct InteractiveAccount {
    account: Arc<Account>,
    server: String,
    tokens: TokenStore,
    /// File of the tokens, beside which processes lock.
    file: PathBuf,
    trust: Trust,
    login: Arc<BrowserLogin>,
    /// The last login, and when it began.
    last: Mutex<Option<(Login, Instant)>>,
}

/// A login that several requests wait for.
type Login = Shared<BoxFuture<'static, Result<(), String>>>;

impl InteractiveAccount {
    pub(crate) fn new(
        account: Account,
        server: &str,
        file: PathBuf,
        trust: Trust,
        login: Arc<BrowserLogin>,
    ) -> Self {
        Self {
            account: Arc::new(account),
            server: server.to_owned(),
            tokens: TokenStore::file(file.clone()),
            file,
            trust,
            login,
            last: Mutex::default(),
        }
    }

    /// Joins the login that runs, or begins one. After one that ended recently there is no other, so
    /// that retries do not open page after page.
    fn join_login(&self, shown: Option<Credential>) -> Login {
        let mut last = self.last.lock();
        if let Some((login, begun)) = &*last
            && (login.peek().is_none() || begun.elapsed() < LOGIN_TIME)
        {
            return login.clone();
        }
        let (server, tokens, trust) =
            (self.server.clone(), self.tokens.clone(), self.trust.clone());
        let (account, file, login) = (self.account.clone(), self.file.clone(), self.login.clone());
        login.is_pending.store(true, Ordering::Relaxed);
        let task = tokio::spawn(async move {
            let granted = log_in(&server, tokens, &file, trust, &account, shown).await;
            login.is_pending.store(false, Ordering::Relaxed);
            match &granted {
                Ok(()) => {
                    if let Some(then) = &*login.on_success.lock() {
                        then();
                    }
                }
                Err(problem) => eprintln!("mcp-flow: the login failed: {problem}"),
            }
            granted
        });
        let joined = async move {
            match task.await {
                Ok(granted) => granted,
                Err(_) => Err("the login was interrupted".to_owned()),
            }
        };
        let joined = joined.boxed().shared();
        *last = Some((joined.clone(), Instant::now()));
        joined
    }
}

impl Authorizer for InteractiveAccount {
    fn is_for(&self, address: &str) -> bool {
        self.account.is_for(address)
    }

    fn credential(&self) -> BoxFuture<'_, Result<Option<Credential>, TransportError>> {
        self.account.credential()
    }

    fn refused(&self, refusal: CredentialRefusal) -> BoxFuture<'_, Result<bool, TransportError>> {
        Box::pin(async move {
            let (shown, status) = (refusal.shown.clone(), refusal.status);
            match self.account.refused(refusal).await {
                Ok(true) => return Ok(true),
                Ok(false) if status != 401 => return Ok(false),
                // Without a login, or with one that cannot be refreshed.
                Ok(false) | Err(_) => {}
            }
            let is_over = self.last.lock().as_ref().is_some_and(|(last, _)| last.peek().is_some());
            self.join_login(shown).await.map_err(TransportError::Lost)?;
            // A token that is refused right after a login is not asked for again.
            Ok(!is_over)
        })
    }
}

/// Logs in, unless another process did meanwhile.
async fn log_in(
    server: &str,
    tokens: TokenStore,
    file: &Path,
    trust: Trust,
    account: &Account,
    shown: Option<Credential>,
) -> Result<(), String> {
    let lock = file.with_extension("login.lock");
    let _lock = tokio::task::spawn_blocking(move || wait_for_lock(&lock))
        .await
        .map_err(|error| error.to_string())?
        .map_err(|error| format!("cannot lock {}: {error}", file.display()))?;
    // The store is read again if the token in memory was refused.
    let refusal = CredentialRefusal { shown: shown.clone(), status: 403, challenges: Vec::new() };
    let _ = account.refused(refusal).await;
    if let Ok(Some(stored)) = account.credential().await
        && Some(&stored) != shown.as_ref()
    {
        return Ok(());
    }
    let terminal = Terminal::for_background(LOGIN_TIME).await;
    let terminal = terminal.map_err(|error| format!("cannot open a local port: {error}"))?;
    let mut settings = LoginSettings::default();
    settings.trust = trust;
    settings.user_agent = Some(Arc::new(terminal));
    let interactive = Account::new(server, tokens, settings).map_err(|error| error.to_string())?;
    let request = interactive.token_request().await.map_err(|error| error.to_string())?;
    interactive.login(&request).await.map_err(|error| error.to_string())?;
    Ok(())
}

/// Waits until no other process logs in. The lock ends with the file.
fn wait_for_lock(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    file.lock()?;
    Ok(file)
}

/// Time that the user has for a login.
const LOGIN_TIME: Duration = Duration::from_secs(600);
