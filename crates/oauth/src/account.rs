//! The login at one server: provides its credential, refreshes it, logs in and out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Request, Response, StatusCode};
use mcp_flow_client::authorizer::{Authorizer, Credential, CredentialRefusal};
use mcp_flow_client::transport::TransportError;
use mcp_flow_http_client::Trust;
use parking_lot::Mutex;
use url::Url;

use crate::address_policy;
use crate::challenge::{self, Challenge};
use crate::dpop::{DpopKey, DpopPolicy};
use crate::error::{OAuthError, redact};
use crate::grant::{AuthorizationServer, ClientIdentity, TokenRequest};
use crate::http_client::HttpClient;
use crate::revocation::Revocation;
use crate::stored_token::{Grant, StoredToken};
use crate::token_store::TokenStore;
use crate::user_agent::UserAgent;

/// Settings of a login.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoginSettings {
    /// Client that logs in.
    pub identity: ClientIdentity,
    /// Trusted server certificates.
    pub trust: Trust,
    /// Allows an authorization server in a private network for a public server.
    pub is_private: bool,
    /// Opens the authorization page when a request needs a login. Without one, the request fails with
    /// [`OAuthError::LoginRequired`].
    pub user_agent: Option<Arc<dyn UserAgent>>,
    /// Scopes to request where a token request names none; empty for those that the server asks for.
    pub scopes: Vec<String>,
    /// Use of tokens that are bound to a key of this client.
    pub dpop: DpopPolicy,
    /// Time limit of one request to an authorization server. 20 seconds.
    pub time_limit: Duration,
}

impl Default for LoginSettings {
    fn default() -> Self {
        Self {
            identity: ClientIdentity::default(),
            trust: Trust::default(),
            is_private: false,
            user_agent: None,
            scopes: Vec::new(),
            dpop: DpopPolicy::default(),
            time_limit: Duration::from_secs(20),
        }
    }
}

impl LoginSettings {
    pub(crate) fn http(&self, server: &Url, is_private: bool) -> Result<HttpClient, OAuthError> {
        HttpClient::new(server, &self.trust, is_private, self.time_limit)
    }
}

/// Login at one server: gives its credential to transports, refreshes it, and logs in.
#[derive(Debug)]
pub struct Account {
    server: Url,
    tokens: TokenStore,
    settings: LoginSettings,
    cached: Mutex<CachedToken>,
    /// Serializes refreshes and logins; requests that wait use the new token.
    login_lock: tokio::sync::Mutex<()>,
}

/// Token of this process, as loaded from the store.
#[derive(Debug, Default)]
struct CachedToken {
    stored: Option<StoredToken>,
    is_loaded: bool,
    /// Number of uses of a token that this process obtained itself.
    uses: Option<usize>,
}

impl Account {
    /// Creates the account for the server at a URL of any transport.
    pub fn new(
        server: &str,
        tokens: TokenStore,
        settings: LoginSettings,
    ) -> Result<Self, OAuthError> {
        let server = normalize(server)?;
        Ok(Self {
            server,
            tokens,
            settings,
            cached: Mutex::default(),
            login_lock: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the URL under which tokens of the server are stored.
    pub fn server(&self) -> &Url {
        &self.server
    }

    /// Returns the stored grant, if there is one.
    pub fn grant(&self) -> Result<Option<Grant>, OAuthError> {
        Ok(self.tokens.get(self.server.as_str())?.map(|stored| stored.grant()))
    }

    /// Sends an unauthenticated request to the server, and returns the token request that its
    /// challenge asks for.
    pub async fn token_request(&self) -> Result<TokenRequest, OAuthError> {
        let response = self.probe().await?;
        Ok(TokenRequest {
            is_required: response.status() == StatusCode::UNAUTHORIZED,
            challenge: challenge::join_of(response.headers()),
            scopes: Vec::new(),
        })
    }

    /// Sends a request without a credential.
    async fn probe(&self) -> Result<Response<Bytes>, OAuthError> {
        address_policy::check_url("the server", self.server.as_str())?;
        let http = self.settings.http(&self.server, self.settings.is_private)?;
        let failed = |what: String| OAuthError::Failed(redact(&what, &[]));
        let request = Request::post(self.server.as_str())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#))
            .map_err(|error| failed(error.to_string()))?;
        let response = http.send(request).await;
        response.map_err(|error| failed(format!("cannot reach {}: {error}", self.server)))
    }

    /// Obtains a token and stores it: through the user agent of the settings, or without a user if the
    /// identity needs none.
    pub async fn login(&self, token_request: &TokenRequest) -> Result<Grant, OAuthError> {
        let _lock = self.login_lock.lock().await;
        Ok(self.log_in(self.settings.user_agent.as_deref(), token_request).await?.grant())
    }

    /// Removes the stored token and revokes it at the authorization server. Returns `None` if there
    /// was no token.
    ///
    /// It is removed first, so that it is not used again even if revocation fails.
    pub async fn logout(&self) -> Result<Option<Revocation>, OAuthError> {
        let _lock = self.login_lock.lock().await;
        *self.cached.lock() = CachedToken { is_loaded: true, ..CachedToken::default() };
        if self.tokens.get(self.server.as_str())?.is_none() {
            return Ok(None);
        }
        // A concurrent refresh in another process would store it again.
        let _lock = self.tokens.lock_refresh().await?;
        let stored = self.tokens.get(self.server.as_str())?;
        self.tokens.remove(self.server.as_str())?;
        let Some(stored) = stored else { return Ok(None) };
        let is_private = stored.is_private || self.settings.is_private;
        let revoked = match self.discover(&TokenRequest::default(), is_private).await {
            Ok(issuer) => issuer.revoke(&stored).await,
            Err(error) => Err(error),
        };
        Ok(Some(match revoked {
            Ok(()) => Revocation::Revoked,
            Err(error) => Revocation::Failed(error.to_string()),
        }))
    }

    /// Loads the token from the store, which another process may have changed.
    fn load(&self) -> Result<Option<StoredToken>, OAuthError> {
        let stored = self.tokens.get(self.server.as_str())?;
        let mut cached = self.cached.lock();
        if cached.stored != stored {
            *cached = CachedToken { stored: stored.clone(), is_loaded: true, uses: None };
        }
        cached.is_loaded = true;
        // The cached one has the nonces of its key.
        Ok(cached.stored.clone())
    }

    /// Stores a new token.
    fn store(&self, mut stored: StoredToken, is_private: bool) -> Result<StoredToken, OAuthError> {
        stored.is_private = is_private;
        self.tokens.put(self.server.as_str(), stored.clone())?;
        *self.cached.lock() =
            CachedToken { stored: Some(stored.clone()), is_loaded: true, uses: Some(0) };
        Ok(stored)
    }

    async fn discover(
        &self,
        token_request: &TokenRequest,
        is_private: bool,
    ) -> Result<AuthorizationServer, OAuthError> {
        let http = self.settings.http(&self.server, is_private)?;
        AuthorizationServer::discover(&self.server, http, token_request).await
    }

    async fn log_in(
        &self,
        user_agent: Option<&dyn UserAgent>,
        token_request: &TokenRequest,
    ) -> Result<StoredToken, OAuthError> {
        let LoginSettings { identity, is_private, dpop, .. } = &self.settings;
        if user_agent.is_none() && !identity.is_unattended() {
            let (server, scopes) = (self.server.to_string(), token_request.scopes.clone());
            return Err(OAuthError::LoginRequired { server, scopes });
        }
        let mut token_request = token_request.clone();
        if token_request.scopes.is_empty() {
            token_request.scopes.clone_from(&self.settings.scopes);
        }
        let token_request = &token_request;
        // A client keeps its key from login to login.
        let known = self.tokens.get(self.server.as_str())?.and_then(|stored| stored.dpop);
        let issuer = self.discover(token_request, *is_private).await?;
        let issuer = issuer.bind_tokens(*dpop, known.as_ref())?;
        let stored = match user_agent.filter(|_| identity.uses_code_grant()) {
            Some(user_agent) => issuer.authorize(identity, user_agent, token_request).await?,
            None => self.request_unattended(issuer, identity, token_request).await?,
        };
        self.store(stored, *is_private)
    }

    /// Obtains a token without a user.
    async fn request_unattended(
        &self,
        issuer: AuthorizationServer,
        identity: &ClientIdentity,
        token_request: &TokenRequest,
    ) -> Result<StoredToken, OAuthError> {
        let Some(grant) = &identity.assertion else {
            return issuer.request_client_credentials(identity, token_request).await;
        };
        issuer.request_by_assertion(identity, grant, token_request, &self.settings).await
    }

    /// Replaces an expired or rejected token without user interaction.
    async fn refresh(
        &self,
        old: &StoredToken,
        token_request: &TokenRequest,
    ) -> Result<StoredToken, OAuthError> {
        let _lock = self.tokens.lock_refresh().await?;
        // Another process may have refreshed it already; refresh tokens can be used once.
        let stored = match self.load()? {
            Some(stored) if stored.credential() != old.credential() => return Ok(stored),
            Some(stored) => stored,
            None => return Err(self.login_required()),
        };
        if !stored.can_refresh() {
            return Err(self.login_required());
        }
        let is_private = stored.is_private || self.settings.is_private;
        let issuer = self.discover(token_request, is_private).await?;
        if !stored.is_unattended() {
            return self.store(issuer.refresh(&stored).await?, is_private);
        }
        let identity = ClientIdentity {
            client_id: Some(stored.client.id.clone()),
            client_secret: stored.client.secret.clone(),
            client_key: stored.client.key.clone(),
            issuer: stored.issuer.clone(),
            assertion: stored.client.assertion.clone(),
            ..ClientIdentity::default()
        };
        let scopes = match token_request.scopes.is_empty() {
            true => stored.requested.clone(),
            false => token_request.scopes.clone(),
        };
        let token_request = TokenRequest { scopes, ..token_request.clone() };
        let policy = match stored.dpop {
            Some(_) => DpopPolicy::Required,
            None => self.settings.dpop,
        };
        let issuer = issuer.bind_tokens(policy, stored.dpop.as_ref())?;
        let refreshed = self.request_unattended(issuer, &identity, &token_request).await?;
        self.store(refreshed, is_private)
    }

    fn login_required(&self) -> OAuthError {
        OAuthError::LoginRequired { server: self.server.to_string(), scopes: Vec::new() }
    }

    /// Returns the token for the next request, refreshed if it has expired.
    async fn current(&self) -> Result<Option<StoredToken>, OAuthError> {
        {
            let cached = self.cached.lock();
            if cached.is_loaded && !cached.stored.as_ref().is_some_and(StoredToken::is_expired) {
                return Ok(cached.stored.clone());
            }
        }
        let _lock = self.login_lock.lock().await;
        let stored = match self.load()? {
            Some(stored) if stored.is_expired() => stored,
            stored => return Ok(stored),
        };
        match (
            self.refresh(&stored, &TokenRequest::default()).await,
            self.settings.user_agent.as_deref(),
        ) {
            (Err(OAuthError::LoginRequired { .. }), Some(user_agent)) => {
                let token_request = self.token_request().await?;
                self.log_in(Some(user_agent), &token_request).await.map(Some)
            }
            (refreshed, _) => refreshed.map(Some),
        }
    }

    /// Obtains another token after a rejection. Returns whether the request should be repeated.
    async fn after_rejection(&self, refusal: CredentialRefusal) -> Result<bool, OAuthError> {
        let _lock = self.login_lock.lock().await;
        let stored = self.load()?;
        if stored.as_ref().map(StoredToken::credential) != refusal.shown {
            return Ok(true);
        }
        let challenge = challenge::join(&refusal.challenges);
        let parsed = challenge.as_deref().and_then(Challenge::parse).unwrap_or_default();
        if let Some(key) = stored.as_ref().and_then(|stored| stored.dpop.as_ref()) {
            // The transport has passed the nonce on; where it sees no headers, it is asked for.
            if parsed.wants_nonce() {
                return Ok(true);
            }
            if refusal.challenges.is_empty() && self.fetch_nonce(key).await {
                return Ok(true);
            }
            if parsed.is_invalid_proof() {
                return Ok(false);
            }
        }
        let mut token_request = TokenRequest { is_required: true, challenge, scopes: Vec::new() };
        let user_agent = self.settings.user_agent.as_deref();
        match (refusal.status, stored) {
            (401, Some(stored)) => {
                // A fresh token that is rejected is not refreshed again, or this would loop.
                if self.cached.lock().uses.is_some_and(|uses| uses <= 1) {
                    return Ok(false);
                }
                match self.refresh(&stored, &token_request).await {
                    Err(OAuthError::LoginRequired { .. }) => {
                        self.log_in(user_agent, &token_request).await.map(|_| true)
                    }
                    refreshed => refreshed.map(|_| true),
                }
            }
            // Without any login, the server's own response explains best what it requires.
            (401, None) if user_agent.is_none() && !self.settings.identity.is_unattended() => {
                Ok(false)
            }
            (401, None) => self.log_in(user_agent, &token_request).await.map(|_| true),
            (403, Some(stored)) if parsed.is_insufficient_scope() => {
                let mut more = parsed.scopes();
                more.retain(|scope| !stored.requested.contains(scope));
                // Scopes that were requested before and not granted are not requested again.
                if more.is_empty() {
                    return Ok(false);
                }
                token_request.scopes = [&*stored.requested, &*more].concat();
                match stored.is_unattended() {
                    true => self.refresh(&stored, &token_request).await.map(|_| true),
                    false => self.log_in(user_agent, &token_request).await.map(|_| true),
                }
            }
            _ => Ok(false),
        }
    }

    /// Fetches the nonce for proofs from the server. Returns whether it is a new one.
    async fn fetch_nonce(&self, key: &DpopKey) -> bool {
        let Ok(response) = self.probe().await else { return false };
        let nonce = response.headers().get("dpop-nonce").and_then(|nonce| nonce.to_str().ok());
        nonce.is_some_and(|nonce| key.set_nonce(self.server.as_str(), nonce))
    }
}

impl Authorizer for Account {
    fn is_for(&self, address: &str) -> bool {
        normalize(address).is_ok_and(|url| url.origin() == self.server.origin())
    }

    fn credential(&self) -> BoxFuture<'_, Result<Option<Credential>, TransportError>> {
        Box::pin(async move {
            let stored = self.current().await?;
            if let Some(uses) = &mut self.cached.lock().uses {
                *uses += 1;
            }
            Ok(stored.map(|stored| stored.credential()))
        })
    }

    fn refused(&self, refusal: CredentialRefusal) -> BoxFuture<'_, Result<bool, TransportError>> {
        Box::pin(async move { Ok(self.after_rejection(refusal).await?) })
    }
}

/// Normalizes a server URL: http(s) for every transport, without a fragment.
fn normalize(server: &str) -> Result<Url, OAuthError> {
    let bad = |why: &str| OAuthError::InvalidServer(format!("{server:?}: {why}"));
    let url = Url::parse(server).map_err(|error| bad(&error.to_string()))?;
    let scheme = match url.scheme() {
        "ws" => "http",
        "wss" => "https",
        scheme @ ("http" | "https") => scheme,
        _ => return Err(bad("use http, https, ws or wss")),
    };
    let mut url = url.clone();
    let _ = url.set_scheme(scheme);
    url.set_fragment(None);
    Ok(url)
}
