//! One server, and who one is there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Request, StatusCode};
use mcp_flow_client::authorizer::{Authorizer, Credential, Refusal};
use mcp_flow_client::transport::TransportError;
use mcp_flow_http::client::Trust;
use url::Url;

use crate::bounds;
use crate::challenge::{self, Challenge};
use crate::error::{OAuthError, tell};
use crate::grant::{AuthorizationServer, Identity, Wish};
use crate::kept::{Granted, Kept};
use crate::messenger::Messenger;
use crate::revoke::Returned;
use crate::tokens::Tokens;
use crate::visitor::Visitor;

/// How one logs in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// Who asks.
    pub identity: Identity,
    /// Which certificates are trusted.
    pub trust: Trust,
    /// Whether whoever gives out tokens may be in a private network while the server is not.
    pub is_private: bool,
    /// Whoever can ask a person when a request turns out to need it. Without one, the request ends
    /// by saying that a login is needed.
    pub visitor: Option<Arc<dyn Visitor>>,
    /// How long one question to an authorization server may take. 20 seconds.
    pub time_limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            identity: Identity::default(),
            trust: Trust::default(),
            is_private: false,
            visitor: None,
            time_limit: Duration::from_secs(20),
        }
    }
}

impl Settings {
    pub(crate) fn messenger(
        &self,
        server: &Url,
        is_private: bool,
    ) -> Result<Messenger, OAuthError> {
        Messenger::new(server, &self.trust, is_private, self.time_limit)
    }
}

/// One server, and who one is there: gives its credential to transports, renews it, and logs in.
#[derive(Debug)]
pub struct Account {
    server: Url,
    tokens: Tokens,
    settings: Settings,
    now: Mutex<Now>,
    /// Whoever sees to the token does so alone; the others wait and take what there is then.
    turn: tokio::sync::Mutex<()>,
}

/// What is known in this process.
#[derive(Debug, Default)]
struct Now {
    kept: Option<Kept>,
    is_loaded: bool,
    /// How often a token that was given out to this process has been used by it.
    uses: Option<usize>,
}

impl Account {
    /// The account at the server of a URL, whatever transport it is spoken to by.
    pub fn new(server: &str, tokens: Tokens, settings: Settings) -> Result<Self, OAuthError> {
        let server = address(server)?;
        Ok(Self {
            server,
            tokens,
            settings,
            now: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        })
    }

    /// What the server is known as.
    pub fn server(&self) -> &Url {
        &self.server
    }

    /// What has been granted before, as far as it is kept.
    pub fn granted(&self) -> Result<Option<Granted>, OAuthError> {
        Ok(self.tokens.get(self.server.as_str())?.map(|kept| kept.granted()))
    }

    /// What the server itself says it wants, asked as somebody it does not know.
    pub async fn wish(&self) -> Result<Wish, OAuthError> {
        bounds::check("the server", self.server.as_str())?;
        let messenger = self.settings.messenger(&self.server, self.settings.is_private)?;
        let failed = |what: String| OAuthError::Failed(tell(&what, &[]));
        let request = Request::post(self.server.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#))
            .map_err(|error| failed(error.to_string()))?;
        let answer = messenger
            .send(request)
            .await
            .map_err(|error| failed(format!("{} cannot be asked: {error}", self.server)))?;
        Ok(Wish {
            is_asked: answer.status() == StatusCode::UNAUTHORIZED,
            challenge: challenge::bearer_of(answer.headers()),
            scopes: Vec::new(),
        })
    }

    /// Gets a token, and keeps it: has a person consent by the visitor of the settings, or asks as a
    /// program if the identity is one.
    pub async fn login(&self, wish: &Wish) -> Result<Granted, OAuthError> {
        let _turn = self.turn.lock().await;
        Ok(self.log_in(self.settings.visitor.as_deref(), wish).await?.granted())
    }

    /// Forgets the token, and has whoever made it take it back. None if there was no token.
    ///
    /// It is forgotten first: whatever becomes of the question, it is not used here any more.
    pub async fn logout(&self) -> Result<Option<Returned>, OAuthError> {
        let _turn = self.turn.lock().await;
        *self.now() = Now { is_loaded: true, ..Now::default() };
        if self.tokens.get(self.server.as_str())?.is_none() {
            return Ok(None);
        }
        // Another process that renews it at the moment would put it back.
        let _alone = self.tokens.renewing().await?;
        let kept = self.tokens.get(self.server.as_str())?;
        self.tokens.remove(self.server.as_str())?;
        let Some(kept) = kept else { return Ok(None) };
        let is_private = kept.is_private || self.settings.is_private;
        let revoked = match self.discover(&Wish::default(), is_private).await {
            Ok(issuer) => issuer.revoke(&kept).await,
            Err(error) => Err(error),
        };
        Ok(Some(match revoked {
            Ok(()) => Returned::Revoked,
            Err(error) => Returned::Forgotten(error.to_string()),
        }))
    }

    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load(&self) -> Result<Option<Kept>, OAuthError> {
        let kept = self.tokens.get(self.server.as_str())?;
        let mut now = self.now();
        if now.kept != kept {
            *now = Now { kept: kept.clone(), is_loaded: true, uses: None };
        }
        now.is_loaded = true;
        Ok(kept)
    }

    fn keep(&self, mut kept: Kept, is_private: bool) -> Result<Kept, OAuthError> {
        kept.is_private = is_private;
        self.tokens.put(self.server.as_str(), kept.clone())?;
        *self.now() = Now { kept: Some(kept.clone()), is_loaded: true, uses: Some(0) };
        Ok(kept)
    }

    async fn discover(
        &self,
        wish: &Wish,
        is_private: bool,
    ) -> Result<AuthorizationServer, OAuthError> {
        let messenger = self.settings.messenger(&self.server, is_private)?;
        AuthorizationServer::discover(&self.server, messenger, wish).await
    }

    async fn log_in(&self, visitor: Option<&dyn Visitor>, wish: &Wish) -> Result<Kept, OAuthError> {
        let Settings { identity, is_private, .. } = &self.settings;
        let Some(visitor) = visitor.filter(|_| !identity.is_program) else {
            if identity.is_program {
                let issuer = self.discover(wish, *is_private).await?;
                return self.keep(issuer.by_client(identity, wish).await?, *is_private);
            }
            let (server, scopes) = (self.server.to_string(), wish.scopes.clone());
            return Err(OAuthError::LoginNeeded { server, scopes });
        };
        let issuer = self.discover(wish, *is_private).await?;
        self.keep(issuer.by_consent(identity, visitor, wish).await?, *is_private)
    }

    /// Gets another token in the place of one that is over, without a person.
    async fn renew(&self, old: &Kept, wish: &Wish) -> Result<Kept, OAuthError> {
        let _alone = self.tokens.renewing().await?;
        // Another process may have been quicker, and the old token cannot be used twice.
        let kept = match self.load()? {
            Some(kept) if kept.credential() != old.credential() => return Ok(kept),
            Some(kept) => kept,
            None => return Err(self.login_needed()),
        };
        if !kept.can_renew() {
            return Err(self.login_needed());
        }
        let is_private = kept.is_private || self.settings.is_private;
        let issuer = self.discover(wish, is_private).await?;
        if !kept.is_of_client() {
            return self.keep(issuer.by_refresh(&kept).await?, is_private);
        }
        let identity = Identity {
            client_id: Some(kept.client.id.clone()),
            client_secret: kept.client.secret.clone(),
            client_key: kept.client.key.clone(),
            issuer: kept.issuer.clone(),
            ..Identity::default()
        };
        let scopes = match wish.scopes.is_empty() {
            true => kept.requested.clone(),
            false => wish.scopes.clone(),
        };
        let wish = Wish { scopes, ..wish.clone() };
        self.keep(issuer.by_client(&identity, &wish).await?, is_private)
    }

    fn login_needed(&self) -> OAuthError {
        OAuthError::LoginNeeded { server: self.server.to_string(), scopes: Vec::new() }
    }

    async fn current(&self) -> Result<Option<Kept>, OAuthError> {
        {
            let now = self.now();
            if now.is_loaded && !now.kept.as_ref().is_some_and(Kept::is_over) {
                return Ok(now.kept.clone());
            }
        }
        let _turn = self.turn.lock().await;
        let kept = match self.load()? {
            Some(kept) if kept.is_over() => kept,
            kept => return Ok(kept),
        };
        match (self.renew(&kept, &Wish::default()).await, self.settings.visitor.as_deref()) {
            (Err(OAuthError::LoginNeeded { .. }), Some(visitor)) => {
                let wish = self.wish().await?;
                self.log_in(Some(visitor), &wish).await.map(Some)
            }
            (renewed, _) => renewed.map(Some),
        }
    }

    async fn after_refusal(&self, refusal: Refusal) -> Result<bool, OAuthError> {
        let _turn = self.turn.lock().await;
        let kept = self.load()?;
        if kept.as_ref().map(Kept::credential) != refusal.shown {
            return Ok(true);
        }
        let challenge = challenge::bearer(&refusal.challenges);
        let said = challenge.and_then(Challenge::parse).unwrap_or_default();
        let mut wish =
            Wish { is_asked: true, challenge: challenge.map(str::to_owned), scopes: Vec::new() };
        let visitor = self.settings.visitor.as_deref();
        match (refusal.status, kept) {
            (401, Some(kept)) => {
                // What is refused as soon as it is given out is not asked for again and again.
                if self.now().uses.is_some_and(|uses| uses <= 1) {
                    return Ok(false);
                }
                match self.renew(&kept, &wish).await {
                    Err(OAuthError::LoginNeeded { .. }) => {
                        self.log_in(visitor, &wish).await.map(|_| true)
                    }
                    renewed => renewed.map(|_| true),
                }
            }
            // Whoever never logged in learns best from the server itself what it wants.
            (401, None) if visitor.is_none() && !self.settings.identity.is_program => Ok(false),
            (401, None) => self.log_in(visitor, &wish).await.map(|_| true),
            (403, Some(kept)) if said.is_insufficient_scope() => {
                let mut more = said.scopes();
                more.retain(|scope| !kept.requested.contains(scope));
                // What was asked for and not granted is not granted for asking once more.
                if more.is_empty() {
                    return Ok(false);
                }
                wish.scopes = [&*kept.requested, &*more].concat();
                match kept.is_of_client() {
                    true => self.renew(&kept, &wish).await.map(|_| true),
                    false => self.log_in(visitor, &wish).await.map(|_| true),
                }
            }
            _ => Ok(false),
        }
    }
}

impl Authorizer for Account {
    fn is_for(&self, address: &str) -> bool {
        self::address(address).is_ok_and(|address| address.origin() == self.server.origin())
    }

    fn credential(&self) -> BoxFuture<'_, Result<Option<Credential>, TransportError>> {
        Box::pin(async move {
            let kept = self.current().await?;
            if let Some(uses) = &mut self.now().uses {
                *uses += 1;
            }
            Ok(kept.map(|kept| kept.credential()))
        })
    }

    fn refused(&self, refusal: Refusal) -> BoxFuture<'_, Result<bool, TransportError>> {
        Box::pin(async move { Ok(self.after_refusal(refusal).await?) })
    }
}

/// The address a server's tokens are kept under: one, whatever transport it is spoken to by.
fn address(server: &str) -> Result<Url, OAuthError> {
    let bad = |why: &str| OAuthError::BadServer(format!("{server:?}: {why}"));
    let url = Url::parse(server).map_err(|error| bad(&error.to_string()))?;
    let scheme = match url.scheme() {
        "ws" => "http",
        "wss" => "https",
        scheme @ ("http" | "https") => scheme,
        _ => return Err(bad("one logs in to http, https, ws and wss addresses")),
    };
    let mut url = url.clone();
    let _ = url.set_scheme(scheme);
    url.set_fragment(None);
    Ok(url)
}
