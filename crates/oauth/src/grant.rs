//! The OAuth grants: authorization code, refresh token, client credentials; see `assertion_grant` for
//! the others.
//!
//! Each starts with discovery of the [`AuthorizationServer`], so that a server that has changed its
//! authorization server is detected before a secret is sent to the wrong one.

use std::fmt;

use bytes::Bytes;
use url::Url;

use crate::address_policy;
use crate::assertion_grant::AssertionGrant;
use crate::authorization_request::AuthorizationRequest;
use crate::discovery::Discovery;
use crate::dpop::{DpopKey, DpopPolicy};
use crate::error::{OAuthError, redact};
use crate::http_client::HttpClient;
use crate::metadata::ServerMetadata;
use crate::stored_token::{NOT_BOUND, StoredClient, StoredToken};
use crate::token_endpoint::{RequestError, SecretMethod};
use crate::user_agent::UserAgent;

/// OAuth client that requests a token.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ClientIdentity {
    /// Client name shown to users, for dynamic registration.
    pub name: Option<String>,
    /// Id of a pre-registered client. Takes precedence over the metadata document and registration.
    pub client_id: Option<String>,
    /// Secret of the pre-registered client.
    pub client_secret: Option<String>,
    /// Private key in place of a secret: PKCS #8 in PEM.
    pub client_key: Option<String>,
    /// Authorization server of the pre-registered client; its secret is sent to no other.
    pub issuer: Option<String>,
    /// URL (https) of the client ID metadata document, for authorization servers that support it.
    pub metadata_url: Option<String>,
    /// Uses the client credentials grant, without a user.
    pub uses_client_credentials: bool,
    /// Obtains tokens by an assertion of a workload or an identity provider, without a user.
    pub assertion: Option<AssertionGrant>,
}

impl ClientIdentity {
    /// Returns whether tokens are obtained without a user.
    pub fn is_unattended(&self) -> bool {
        let needs_user = self.assertion.as_ref().map(AssertionGrant::needs_user);
        self.uses_client_credentials || needs_user == Some(false)
    }

    /// Returns whether the user consents at the authorization server itself.
    pub(crate) fn uses_code_grant(&self) -> bool {
        !self.uses_client_credentials && self.assertion.is_none()
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClientIdentity")
            .field("client_id", &self.client_id)
            .field("metadata_url", &self.metadata_url)
            .field("uses_client_credentials", &self.uses_client_credentials)
            .finish_non_exhaustive()
    }
}

/// Requirements for a token, from the server's challenge or the caller.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TokenRequest {
    /// Set if the server requires a token.
    pub is_required: bool,
    /// Its `WWW-Authenticate` header.
    pub challenge: Option<String>,
    /// Scopes to request; empty for those that the server asks for.
    pub scopes: Vec<String>,
}

/// Authorization server of a protected server, discovered and checked.
pub(crate) struct AuthorizationServer {
    pub(crate) metadata: ServerMetadata,
    /// Identifier of the server that tokens are for (RFC 8707).
    pub(crate) resource: String,
    pub(crate) http: HttpClient,
    /// Key that tokens are bound to; none for bearer tokens.
    pub(crate) dpop: Option<DpopKey>,
    /// Set if the protected server accepts bound tokens.
    offers_dpop: bool,
    /// Set if a token that is not bound is rejected.
    requires_dpop: bool,
    /// Scopes that the protected server asks for.
    scopes: Vec<String>,
    server: Url,
}

impl AuthorizationServer {
    /// Discovers the authorization server of a server.
    pub(crate) async fn discover(
        server: &Url,
        http: HttpClient,
        token_request: &TokenRequest,
    ) -> Result<Self, OAuthError> {
        address_policy::check_url("the server", server.as_str())?;
        let Discovery { metadata, resource, scopes, offers_dpop, requires_dpop } =
            Discovery::run(server, &http, token_request).await?;
        let server = Self::with_metadata(metadata, resource, http, server.clone());
        Ok(Self { scopes, offers_dpop, requires_dpop, ..server })
    }

    /// Describes an authorization server by its metadata.
    pub(crate) fn with_metadata(
        metadata: ServerMetadata,
        resource: String,
        http: HttpClient,
        server: Url,
    ) -> Self {
        Self {
            metadata,
            resource,
            http,
            dpop: None,
            offers_dpop: false,
            requires_dpop: false,
            scopes: Vec::new(),
            server,
        }
    }

    /// Decides whether new tokens are bound to a key: the known one, or a new one.
    pub(crate) fn bind_tokens(
        mut self,
        policy: DpopPolicy,
        known: Option<&DpopKey>,
    ) -> Result<Self, OAuthError> {
        let algorithms = self.metadata.dpop_signing_alg_values_supported.as_ref();
        let is_supported = algorithms.map(|all| all.iter().any(|one| one == "ES256"));
        let is_wanted = match policy {
            DpopPolicy::Off => false,
            DpopPolicy::Required => true,
            // Without metadata the authorization server may support it all the same.
            DpopPolicy::Auto if self.requires_dpop => true,
            DpopPolicy::Auto => self.offers_dpop && is_supported == Some(true),
        };
        if is_wanted && is_supported == Some(false) {
            let what = "it cannot bind tokens to a key for ES256 (DPoP), although that is required";
            return Err(OAuthError::Refused(what.to_owned()));
        }
        self.requires_dpop = policy == DpopPolicy::Required || (is_wanted && self.requires_dpop);
        self.dpop = match known {
            _ if !is_wanted => None,
            Some(known) => Some(known.clone()),
            None => Some(DpopKey::generate()?),
        };
        Ok(self)
    }

    /// Reads the response of the token endpoint.
    pub(crate) fn read_token(
        self,
        client: StoredClient,
        scopes: Vec<String>,
        response: &[u8],
    ) -> Result<StoredToken, OAuthError> {
        let (issuer, key) = (self.metadata.issuer, self.dpop.as_ref());
        let stored = StoredToken::read(client, issuer, scopes, key, response)?;
        match self.requires_dpop && stored.dpop.is_none() {
            true => Err(OAuthError::Refused(NOT_BOUND.to_owned())),
            false => Ok(stored),
        }
    }

    /// Obtains a token by the authorization code grant with PKCE.
    pub(crate) async fn authorize(
        self,
        identity: &ClientIdentity,
        user_agent: &dyn UserAgent,
        token_request: &TokenRequest,
    ) -> Result<StoredToken, OAuthError> {
        let scopes = match token_request.scopes.is_empty() {
            true => self.with_offline_access(&self.scopes),
            false => token_request.scopes.clone(),
        };
        let (client, answer) = self.request_by_code(identity, user_agent, &scopes, &[]).await?;
        self.read_token(client, scopes, &answer)
    }

    /// Sends the user to the authorization page, with these parameters as well, and requests a token
    /// by the code that it returns.
    pub(crate) async fn request_by_code(
        &self,
        identity: &ClientIdentity,
        user_agent: &dyn UserAgent,
        scopes: &[String],
        parameters: &[(&str, &str)],
    ) -> Result<(StoredClient, Bytes), OAuthError> {
        self.metadata.check_code_grant()?;
        let redirect = user_agent.redirect_uri();
        let client = self.identify(identity, &redirect, scopes).await?;
        let page =
            address_policy::check_url("the page to log in", &self.metadata.authorization_endpoint)?;
        let (scope, key) = (scopes.join(" "), self.dpop.as_ref().map(DpopKey::thumbprint));
        let usual: [(&str, &str); 5] = [
            ("client_id", &client.id),
            ("redirect_uri", &redirect),
            ("scope", &scope),
            ("resource", &self.resource),
            ("dpop_jkt", key.as_deref().unwrap_or_default()),
        ];
        let request = AuthorizationRequest::new(page, &[&usual[..], parameters].concat())?;
        let returned = user_agent.visit(&request.page).await.map_err(OAuthError::Failed)?;
        let code = request.read_code(&returned, &self.metadata)?;
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &redirect),
            ("code_verifier", &request.verifier),
        ];
        let secrets = [code.as_str(), &request.verifier];
        let answer = self.request_token(&client, SecretMethod::Basic, &fields, &secrets).await;
        let answer = answer.map_err(|error| match error {
            // The code may be used up: retrying would need the user again.
            RequestError::Unanswered(what) => OAuthError::Refused(what),
            error => error.into(),
        })?;
        Ok((client, answer))
    }

    /// Identifies the client to the authorization server: pre-registered, by its metadata document,
    /// or by dynamic registration.
    async fn identify(
        &self,
        identity: &ClientIdentity,
        redirect: &str,
        scopes: &[String],
    ) -> Result<StoredClient, OAuthError> {
        let takes_documents = self.metadata.client_id_metadata_document_supported == Some(true);
        let document = identity.metadata_url.as_ref().filter(|_| takes_documents);
        let (id, secret) = match (&identity.client_id, document) {
            (Some(id), _) => {
                self.check_issuer(identity)?;
                (id, identity.client_secret.clone())
            }
            (None, Some(document)) => {
                address_policy::check_url("the document about this client", document)?;
                (document, None)
            }
            (None, None) => {
                let name = identity.name.as_deref().unwrap_or("MCP Flow");
                return self.register(name, redirect, scopes).await;
            }
        };
        let redirect = Some(redirect.to_owned());
        Ok(StoredClient { id: id.clone(), secret, redirect, ..StoredClient::default() })
    }

    /// Refreshes a token. Returns `LoginRequired` if the refresh token is no longer valid.
    pub(crate) async fn refresh(mut self, stored: &StoredToken) -> Result<StoredToken, OAuthError> {
        self.check_same(stored)?;
        self.dpop.clone_from(&stored.dpop);
        let token = stored.refresh_token().ok_or_else(|| self.login_required())?;
        let scope = self.with_offline_access(stored.scopes()).join(" ");
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token), ("scope", &scope)];
        let secrets = stored.secrets();
        let answer =
            self.request_token(&stored.client, SecretMethod::Basic, &fields, &secrets).await;
        let answer = answer.map_err(|error| match error {
            RequestError::Rejected { code, .. } if code == "invalid_grant" => self.login_required(),
            // Other errors do not invalidate the refresh token; it may work later.
            RequestError::Rejected { what, .. } => OAuthError::Failed(what),
            error => error.into(),
        })?;
        stored.refreshed(&answer)
    }

    /// Obtains a token by the client credentials grant.
    pub(crate) async fn request_client_credentials(
        self,
        identity: &ClientIdentity,
        token_request: &TokenRequest,
    ) -> Result<StoredToken, OAuthError> {
        self.check_issuer(identity)?;
        let refused = |what: &str| OAuthError::Refused(what.to_owned());
        let id = identity.client_id.clone().ok_or_else(|| refused("a client id is required"))?;
        let (secret, key) = (identity.client_secret.clone(), identity.client_key.clone());
        let methods = self.metadata.token_endpoint_auth_methods_supported.as_ref();
        let is_secret = |method: &String| SecretMethod::NAMES.contains(&method.as_str());
        let takes_secrets = methods.is_none_or(|methods| methods.iter().any(is_secret));
        match (&secret, &key) {
            (None, None) => return Err(refused("a client secret or key is required")),
            (Some(_), None) if !takes_secrets => {
                return Err(refused("it accepts no client secrets; use a key"));
            }
            _ => {}
        }
        let client = StoredClient { id, secret, key, ..StoredClient::default() };
        let scopes = self.unattended_scopes(token_request);
        let fields = [("grant_type", "client_credentials"), ("scope", &scopes.join(" "))];
        let answer = self.request_token(&client, SecretMethod::Post, &fields, &[]).await?;
        self.read_token(client, scopes, &answer)
    }

    /// Returns the scopes to request for a client without a user, which has no use for offline
    /// access.
    pub(crate) fn unattended_scopes(&self, token_request: &TokenRequest) -> Vec<String> {
        match token_request.scopes.is_empty() {
            true => self.scopes.iter().filter(|scope| *scope != OFFLINE_ACCESS).cloned().collect(),
            false => token_request.scopes.clone(),
        }
    }

    /// Adds the scope that some authorization servers require for refresh tokens.
    pub(crate) fn with_offline_access(&self, scopes: &[String]) -> Vec<String> {
        let mut scopes = scopes.to_vec();
        let offline = OFFLINE_ACCESS.to_owned();
        let supported = self.metadata.scopes_supported.as_deref().unwrap_or_default();
        if !scopes.is_empty() && supported.contains(&offline) && !scopes.contains(&offline) {
            scopes.push(offline);
        }
        scopes
    }

    /// Checks that the client is registered with this authorization server.
    pub(crate) fn check_issuer(&self, identity: &ClientIdentity) -> Result<(), OAuthError> {
        match (&identity.issuer, &self.metadata.issuer) {
            (Some(expected), found) if found.as_ref() != Some(expected) => {
                let found = redact(found.as_deref().unwrap_or("none"), &[]);
                Err(OAuthError::Untrusted(format!(
                    "the client is registered with {expected}, and the server names {found}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a token was issued by this authorization server.
    pub(crate) fn check_same(&self, stored: &StoredToken) -> Result<(), OAuthError> {
        match stored.issuer == self.metadata.issuer {
            true => Ok(()),
            false => Err(self.login_required()),
        }
    }

    pub(crate) fn login_required(&self) -> OAuthError {
        OAuthError::LoginRequired { server: self.server.to_string(), scopes: Vec::new() }
    }
}

const OFFLINE_ACCESS: &str = "offline_access";
