//! The grants that lead to a token: a person consents, a token is refreshed, a program asks for
//! itself.
//!
//! Each begins by discovering the [`AuthorizationServer`] anew, so that a server which has moved to
//! another one is noticed before anything is shown to the wrong one.

use std::fmt;

use url::Url;

use crate::authorization_request::AuthorizationRequest;
use crate::bounds;
use crate::discovery::Discovery;
use crate::error::{OAuthError, tell};
use crate::kept::{Kept, KeptClient};
use crate::messenger::Messenger;
use crate::metadata::ServerMetadata;
use crate::token_endpoint::{RequestError, SecretMethod};
use crate::visitor::Visitor;

/// Client that asks for a token.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Identity {
    /// Name that people are shown where the client registers on the spot.
    pub name: Option<String>,
    /// The id of a client that was registered by hand. Goes before all else.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<String>,
    /// A private key in place of a secret: PKCS #8 in PEM.
    pub client_key: Option<String>,
    /// The authorization server it was registered with; no other is shown its secret.
    pub issuer: Option<String>,
    /// URL (https) of the client ID metadata document, for authorization servers that take one.
    pub metadata_url: Option<String>,
    /// Whether tokens are asked for in the program's own name, without a person.
    pub is_program: bool,
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Identity")
            .field("client_id", &self.client_id)
            .field("metadata_url", &self.metadata_url)
            .field("is_program", &self.is_program)
            .finish_non_exhaustive()
    }
}

/// Purpose of a token that is to be asked for.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Wish {
    /// Set if the server requires a token.
    pub is_asked: bool,
    /// The `WWW-Authenticate` header it said that with.
    pub challenge: Option<String>,
    /// Scopes to ask for; empty leaves that to the server.
    pub scopes: Vec<String>,
}

/// Authorization server of a protected server, discovered and checked.
pub(crate) struct AuthorizationServer {
    pub(crate) metadata: ServerMetadata,
    /// Identifier of the server that tokens are for (RFC 8707).
    pub(crate) resource: String,
    pub(crate) messenger: Messenger,
    /// Scopes that the protected server asks for.
    scopes: Vec<String>,
    server: Url,
}

impl AuthorizationServer {
    /// Finds who gives out tokens for a server.
    pub(crate) async fn discover(
        server: &Url,
        messenger: Messenger,
        wish: &Wish,
    ) -> Result<Self, OAuthError> {
        bounds::check("the server", server.as_str())?;
        let Discovery { metadata, resource, scopes } =
            Discovery::run(server, &messenger, wish).await?;
        Ok(Self { metadata, resource, messenger, scopes, server: server.clone() })
    }

    /// Has a person consent, and exchanges the code they come back with.
    pub(crate) async fn by_consent(
        self,
        identity: &Identity,
        visitor: &dyn Visitor,
        wish: &Wish,
    ) -> Result<Kept, OAuthError> {
        self.metadata.check_code_grant()?;
        let scopes = match wish.scopes.is_empty() {
            true => self.with_offline_access(&self.scopes),
            false => wish.scopes.clone(),
        };
        let redirect = visitor.redirect_uri();
        let client = self.identify(identity, &redirect, &scopes).await?;
        let page = bounds::check("the page to log in", &self.metadata.authorization_endpoint)?;
        let request = AuthorizationRequest::new(
            page,
            &[
                ("client_id", &client.id),
                ("redirect_uri", &redirect),
                ("scope", &scopes.join(" ")),
                ("resource", &self.resource),
            ],
        )?;
        let returned = visitor.visit(&request.page).await.map_err(OAuthError::Failed)?;
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
            // The code may be spent: to ask again is to ask the person again.
            RequestError::Unanswered(what) => OAuthError::Refused(what),
            error => error.into(),
        })?;
        Kept::read(client, self.metadata.issuer, scopes, &answer)
    }

    /// Makes sure that the authorization server knows the client: by its registration, by the
    /// document about it, or by registering it on the spot.
    async fn identify(
        &self,
        identity: &Identity,
        redirect: &str,
        scopes: &[String],
    ) -> Result<KeptClient, OAuthError> {
        let takes_documents = self.metadata.client_id_metadata_document_supported == Some(true);
        let document = identity.metadata_url.as_ref().filter(|_| takes_documents);
        let (id, secret) = match (&identity.client_id, document) {
            (Some(id), _) => {
                self.check_issuer(identity)?;
                (id, identity.client_secret.clone())
            }
            (None, Some(document)) => {
                bounds::check("the document about this client", document)?;
                (document, None)
            }
            (None, None) => {
                let name = identity.name.as_deref().unwrap_or("MCP Flow");
                return self.register(name, redirect, scopes).await;
            }
        };
        let redirect = Some(redirect.to_owned());
        Ok(KeptClient { id: id.clone(), secret, key: None, redirect })
    }

    /// Refreshes a token without anybody noticing. `LoginNeeded` if that is over, too.
    pub(crate) async fn by_refresh(self, kept: &Kept) -> Result<Kept, OAuthError> {
        self.check_same(kept)?;
        let token = kept.refresh_token().ok_or_else(|| self.login_needed())?;
        let scope = self.with_offline_access(kept.scopes()).join(" ");
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token), ("scope", &scope)];
        let secrets = kept.secrets();
        let answer = self.request_token(&kept.client, SecretMethod::Basic, &fields, &secrets).await;
        let answer = answer.map_err(|error| match error {
            RequestError::Rejected { code, .. } if code == "invalid_grant" => self.login_needed(),
            // Anything else says nothing of the refresh token, which may be good in a moment.
            RequestError::Rejected { what, .. } => OAuthError::Failed(what),
            error => error.into(),
        })?;
        kept.renewed(&answer)
    }

    /// Asks for a token in the program's own name.
    pub(crate) async fn by_client(
        self,
        identity: &Identity,
        wish: &Wish,
    ) -> Result<Kept, OAuthError> {
        self.check_issuer(identity)?;
        let refused = |what: &str| OAuthError::Refused(what.to_owned());
        let id = identity.client_id.clone().ok_or_else(|| refused("a client id is needed"))?;
        let (secret, key) = (identity.client_secret.clone(), identity.client_key.clone());
        let methods = self.metadata.token_endpoint_auth_methods_supported.as_ref();
        let is_secret = |method: &String| SecretMethod::NAMES.contains(&method.as_str());
        let takes_secrets = methods.is_none_or(|methods| methods.iter().any(is_secret));
        match (&secret, &key) {
            (None, None) => return Err(refused("a secret or a key is needed")),
            (Some(_), None) if !takes_secrets => {
                return Err(refused("it takes no client secrets; a key is needed"));
            }
            _ => {}
        }
        let client = KeptClient { id, secret, key, redirect: None };
        let scopes = match wish.scopes.is_empty() {
            // Nobody is away whose place a program would have to keep.
            true => self.scopes.iter().filter(|scope| *scope != OFFLINE_ACCESS).cloned().collect(),
            false => wish.scopes.clone(),
        };
        let fields = [("grant_type", "client_credentials"), ("scope", &scopes.join(" "))];
        let answer = self.request_token(&client, SecretMethod::Post, &fields, &[]).await?;
        Kept::read(client, self.metadata.issuer, scopes, &answer)
    }

    /// Adds the scope that some authorization servers want before they give out refresh tokens.
    fn with_offline_access(&self, scopes: &[String]) -> Vec<String> {
        let mut scopes = scopes.to_vec();
        let offline = OFFLINE_ACCESS.to_owned();
        let supported = self.metadata.scopes_supported.as_deref().unwrap_or_default();
        if !scopes.is_empty() && supported.contains(&offline) && !scopes.contains(&offline) {
            scopes.push(offline);
        }
        scopes
    }

    /// What was registered with one authorization server is not shown to another.
    fn check_issuer(&self, identity: &Identity) -> Result<(), OAuthError> {
        match (&identity.issuer, &self.metadata.issuer) {
            (Some(expected), found) if found.as_ref() != Some(expected) => {
                let found = tell(found.as_deref().unwrap_or("nobody"), &[]);
                Err(OAuthError::OutOfBounds(format!(
                    "the client is registered with {expected}, and the server names {found}"
                )))
            }
            _ => Ok(()),
        }
    }

    /// What was given out by one authorization server is not shown to another.
    pub(crate) fn check_same(&self, kept: &Kept) -> Result<(), OAuthError> {
        match kept.issuer == self.metadata.issuer {
            true => Ok(()),
            false => Err(self.login_needed()),
        }
    }

    fn login_needed(&self) -> OAuthError {
        OAuthError::LoginNeeded { server: self.server.to_string(), scopes: Vec::new() }
    }
}

const OFFLINE_ACCESS: &str = "offline_access";
