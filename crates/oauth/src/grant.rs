//! The OAuth grants: authorization code, refresh token, client credentials.
//!
//! Each starts with discovery of the [`AuthorizationServer`], so that a server that has changed its
//! authorization server is detected before a secret is sent to the wrong one.

use std::fmt;

use url::Url;

use crate::address_policy;
use crate::authorization_request::AuthorizationRequest;
use crate::discovery::Discovery;
use crate::error::{OAuthError, redact};
use crate::http_client::HttpClient;
use crate::metadata::ServerMetadata;
use crate::stored_token::{StoredClient, StoredToken};
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
        let Discovery { metadata, resource, scopes } =
            Discovery::run(server, &http, token_request).await?;
        Ok(Self { metadata, resource, http, scopes, server: server.clone() })
    }

    /// Obtains a token by the authorization code grant with PKCE.
    pub(crate) async fn authorize(
        self,
        identity: &ClientIdentity,
        user_agent: &dyn UserAgent,
        token_request: &TokenRequest,
    ) -> Result<StoredToken, OAuthError> {
        self.metadata.check_code_grant()?;
        let scopes = match token_request.scopes.is_empty() {
            true => self.with_offline_access(&self.scopes),
            false => token_request.scopes.clone(),
        };
        let redirect = user_agent.redirect_uri();
        let client = self.identify(identity, &redirect, &scopes).await?;
        let page =
            address_policy::check_url("the page to log in", &self.metadata.authorization_endpoint)?;
        let request = AuthorizationRequest::new(
            page,
            &[
                ("client_id", &client.id),
                ("redirect_uri", &redirect),
                ("scope", &scopes.join(" ")),
                ("resource", &self.resource),
            ],
        )?;
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
        StoredToken::read(client, self.metadata.issuer, scopes, &answer)
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
        Ok(StoredClient { id: id.clone(), secret, key: None, redirect })
    }

    /// Refreshes a token. Returns `LoginRequired` if the refresh token is no longer valid.
    pub(crate) async fn refresh(self, stored: &StoredToken) -> Result<StoredToken, OAuthError> {
        self.check_same(stored)?;
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
        let client = StoredClient { id, secret, key, redirect: None };
        let scopes = match token_request.scopes.is_empty() {
            // A client without a user has no use for offline access.
            true => self.scopes.iter().filter(|scope| *scope != OFFLINE_ACCESS).cloned().collect(),
            false => token_request.scopes.clone(),
        };
        let fields = [("grant_type", "client_credentials"), ("scope", &scopes.join(" "))];
        let answer = self.request_token(&client, SecretMethod::Post, &fields, &[]).await?;
        StoredToken::read(client, self.metadata.issuer, scopes, &answer)
    }

    /// Adds the scope that some authorization servers require for refresh tokens.
    fn with_offline_access(&self, scopes: &[String]) -> Vec<String> {
        let mut scopes = scopes.to_vec();
        let offline = OFFLINE_ACCESS.to_owned();
        let supported = self.metadata.scopes_supported.as_deref().unwrap_or_default();
        if !scopes.is_empty() && supported.contains(&offline) && !scopes.contains(&offline) {
            scopes.push(offline);
        }
        scopes
    }

    /// Checks that the client is registered with this authorization server.
    fn check_issuer(&self, identity: &ClientIdentity) -> Result<(), OAuthError> {
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

    fn login_required(&self) -> OAuthError {
        OAuthError::LoginRequired { server: self.server.to_string(), scopes: Vec::new() }
    }
}

const OFFLINE_ACCESS: &str = "offline_access";
