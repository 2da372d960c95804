//! The ways to a token: a person consents, an old token is renewed, a program asks for itself.
//!
//! An [`Office`] is an authorization server that was found and looked over. Each way begins by
//! finding it anew, so that a server which has moved to another one is noticed before anything is
//! shown to the wrong one.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Request;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, AuthorizationMetadata,
    AuthorizationMetadataSource, ClientCredentialsConfig, CredentialStore as _,
    InMemoryCredentialStore, OAuthClientConfig,
};
use serde_json::Value;
use url::Url;
use url::form_urlencoded::Serializer;

use crate::assertion;
use crate::bounds;
use crate::error::{OAuthError, tell};
use crate::kept::{Kept, KeptClient};
use crate::messenger::Messenger;
use crate::visitor::Visitor;

/// Who asks for a token.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Identity {
    /// What people are told who asks, where one registers on the spot.
    pub name: Option<String>,
    /// The id of a client that was registered by hand. Goes before all else.
    pub client_id: Option<String>,
    /// Its secret.
    pub client_secret: Option<String>,
    /// A private key in place of a secret: PKCS #8 in PEM.
    pub client_key: Option<String>,
    /// The authorization server it was registered with; no other is shown its secret.
    pub issuer: Option<String>,
    /// Where a document about this client is (https), for authorization servers that look there.
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

/// What a token is wanted for.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Wish {
    /// Whether the server said that it wants one.
    pub is_asked: bool,
    /// What it said: its `WWW-Authenticate` header.
    pub challenge: Option<String>,
    /// What to ask for; empty leaves that to the server.
    pub scopes: Vec<String>,
}

/// An authorization server, found and looked over.
pub(crate) struct Office {
    manager: AuthorizationManager,
    pub(crate) metadata: AuthorizationMetadata,
    messenger: Arc<Messenger>,
    server: Url,
}

impl Office {
    /// Finds who gives out tokens for a server.
    pub(crate) async fn find(
        server: &Url,
        messenger: Messenger,
        wish: &Wish,
    ) -> Result<Self, OAuthError> {
        bounds::check("the server", server.as_str())?;
        let messenger = Arc::new(messenger);
        let failed = |error| OAuthError::from_sdk(&error, &[]);
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(server.as_str(), messenger.clone())
                .await
                .map_err(failed)?;
        let challenge = wish.challenge.as_deref();
        let found = manager.resolve_metadata_from_challenge(challenge).await.map_err(failed)?;
        if found.source == AuthorizationMetadataSource::LegacyEndpointFallback && !wish.is_asked {
            return Err(OAuthError::NoLogin(server.to_string()));
        }
        let metadata = found.metadata;
        bounds::check_metadata(&metadata)?;
        manager.set_metadata(metadata.clone());
        Ok(Self { manager, metadata, messenger, server: server.clone() })
    }

    /// Has a person consent.
    pub(crate) async fn by_consent(
        mut self,
        identity: &Identity,
        visitor: &dyn Visitor,
        wish: &Wish,
    ) -> Result<Kept, OAuthError> {
        let scopes = match wish.scopes.is_empty() {
            true => self.manager.select_initial_scopes(&[]).await,
            false => wish.scopes.clone(),
        };
        let wanted: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = self.introduce(identity, &visitor.redirect_uri(), &wanted).await?;
        let secrets: Vec<_> = client.secret.iter().map(String::as_str).collect();
        let page = self.manager.get_authorization_url(&wanted).await;
        let page = page.map_err(|error| OAuthError::from_sdk(&error, &secrets))?;
        let page = bounds::check("the page to log in", &page)?;
        let state = parameter(&page, "state").unwrap_or_default();
        let returned = visitor.visit(&page).await.map_err(OAuthError::Failed)?;
        let callback = read_callback(&returned, &state)?;
        let token = self.manager.exchange_code_for_token_with_issuer(
            &callback.code,
            &callback.csrf_token,
            callback.issuer.as_deref(),
        );
        let secrets = [&[callback.code.as_str()], &*secrets].concat();
        let token = token.await.map_err(|error| OAuthError::from_sdk(&error, &secrets))?;
        Kept::from_sdk(client.clone(), self.metadata.issuer, scopes, &token)
    }

    /// Makes sure that the authorization server knows the client, by the way it likes best: the one
    /// it was registered by before, a document about it, registering on the spot.
    ///
    /// The SDK has a function for all three, which does not say which secret it was given; but that
    /// is needed for renewing, when this process is long over.
    async fn introduce(
        &mut self,
        identity: &Identity,
        redirect: &str,
        scopes: &[&str],
    ) -> Result<KeptClient, OAuthError> {
        let takes_documents =
            self.metadata.additional_fields.get("client_id_metadata_document_supported")
                == Some(&Value::Bool(true));
        let document = identity.metadata_url.as_deref().filter(|_| takes_documents);
        let config = match (&identity.client_id, document) {
            (Some(id), _) => {
                self.check_issuer(identity)?;
                let config = OAuthClientConfig::new(id, redirect);
                match &identity.client_secret {
                    Some(secret) => config.with_client_secret(secret),
                    None => config,
                }
            }
            (None, Some(document)) => {
                bounds::check("the document about this client", document)?;
                OAuthClientConfig::new(document, redirect)
            }
            (None, None) => {
                let name = identity.name.as_deref().unwrap_or("MCP Flow");
                let registered = self.manager.register_client(name, redirect, scopes).await;
                registered.map_err(|error| match self.metadata.registration_endpoint {
                    Some(_) => OAuthError::from_sdk(&error, &[]),
                    None => OAuthError::Refused(
                        "it registers nobody by itself; register by hand and give the client id"
                            .to_owned(),
                    ),
                })?
            }
        };
        let client = KeptClient {
            id: config.client_id.clone(),
            secret: config.client_secret.clone(),
            key: None,
            redirect: Some(redirect.to_owned()),
        };
        self.manager.configure_client(config).map_err(|error| OAuthError::from_sdk(&error, &[]))?;
        Ok(client)
    }

    /// Renews a token without anybody noticing. `LoginNeeded` if that is over, too.
    pub(crate) async fn by_refresh(mut self, kept: &Kept) -> Result<Kept, OAuthError> {
        self.check_same(kept)?;
        let redirect = kept.client.redirect.as_deref().unwrap_or(self.server.as_str());
        let mut config = OAuthClientConfig::new(&kept.client.id, redirect);
        if let Some(secret) = &kept.client.secret {
            config = config.with_client_secret(secret);
        }
        let failed = |error: AuthError| OAuthError::from_sdk(&error, &kept.secrets());
        self.manager.configure_client(config).map_err(failed)?;
        let store = InMemoryCredentialStore::new();
        store.save(kept.to_sdk()).await.map_err(failed)?;
        self.manager.set_credential_store(store);
        let token = match self.manager.refresh_token().await {
            Ok(token) => token,
            Err(AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired) => {
                return Err(self.login_needed());
            }
            Err(error) => return Err(failed(error)),
        };
        Kept::from_sdk(kept.client.clone(), self.metadata.issuer, kept.requested.clone(), &token)
    }

    /// Asks for a token in the program's own name.
    pub(crate) async fn by_client(
        mut self,
        identity: &Identity,
        wish: &Wish,
    ) -> Result<Kept, OAuthError> {
        self.check_issuer(identity)?;
        let id = identity.client_id.clone();
        let id = id.ok_or_else(|| OAuthError::Refused("a client id is needed".to_owned()))?;
        let scopes = match wish.scopes.is_empty() {
            // Nobody is away whose place a program would have to keep.
            true => {
                let scopes = self.manager.select_initial_scopes(&[]).await;
                scopes.into_iter().filter(|scope| scope != "offline_access").collect()
            }
            false => wish.scopes.clone(),
        };
        let client = KeptClient {
            id: id.clone(),
            secret: identity.client_secret.clone(),
            key: identity.client_key.clone(),
            redirect: None,
        };
        if let Some(key) = &identity.client_key {
            return self.by_signature(client.clone(), key, scopes).await;
        }
        let secret = identity.client_secret.clone();
        let secret =
            secret.ok_or_else(|| OAuthError::Refused("a secret or a key is needed".to_owned()))?;
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: id,
            client_secret: secret.clone(),
            scopes: scopes.clone(),
            resource: Some(self.server.to_string()),
        };
        let failed = |error: AuthError| OAuthError::from_sdk(&error, &[&secret]);
        self.manager.validate_client_credentials_metadata(&config).map_err(failed)?;
        self.manager.configure_client_credentials(&config).map_err(failed)?;
        let token = self.manager.exchange_client_credentials(&config).await.map_err(failed)?;
        Kept::from_sdk(client, self.metadata.issuer, scopes, &token)
    }

    /// The same with a signature in place of a secret.
    async fn by_signature(
        self,
        client: KeptClient,
        key: &str,
        scopes: Vec<String>,
    ) -> Result<Kept, OAuthError> {
        let assertion = assertion::sign(&client.id, self.audience(), key)?;
        let scope = scopes.join(" ");
        let form = form([
            ("grant_type", "client_credentials"),
            ("client_assertion_type", ASSERTION),
            ("client_assertion", &assertion),
            ("resource", self.server.as_str()),
            ("scope", &scope),
        ]);
        let answer = self.post(&self.metadata.token_endpoint, form, None, &[&assertion]).await?;
        Kept::read(client, self.metadata.issuer, scopes, &answer)
    }

    /// Whom a signature is meant for.
    pub(crate) fn audience(&self) -> &str {
        self.metadata.issuer.as_deref().unwrap_or(&self.metadata.token_endpoint)
    }

    /// Sends a form that the SDK has no function for. Nothing secret is in what is told of it.
    pub(crate) async fn post(
        &self,
        endpoint: &str,
        form: String,
        authorization: Option<String>,
        secrets: &[&str],
    ) -> Result<Bytes, OAuthError> {
        let mut request = Request::post(endpoint)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json");
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request
            .body(Bytes::from(form))
            .map_err(|error| OAuthError::Failed(error.to_string()))?;
        let answer = self.messenger.send(request).await;
        let answer =
            answer.map_err(|error| OAuthError::Failed(tell(&error.to_string(), secrets)))?;
        if !answer.status().is_success() {
            let said: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
            let part = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or_default();
            let what =
                format!("{} {} {}", answer.status(), part("error"), part("error_description"));
            return Err(OAuthError::Refused(tell(what.trim(), secrets)));
        }
        Ok(answer.into_body())
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

/// What somebody was sent back with: a code, if they were sent for this login.
fn read_callback(returned: &str, state: &str) -> Result<AuthorizationCallback, OAuthError> {
    let url = Url::parse(returned.trim())
        .map_err(|_| OAuthError::Failed("that is no address to be sent back to".to_owned()))?;
    if parameter(&url, "state").as_deref() != Some(state) {
        return Err(OAuthError::WrongState);
    }
    if let Some(error) = parameter(&url, "error") {
        let more = parameter(&url, "error_description").unwrap_or_default();
        return Err(OAuthError::Refused(tell(format!("{error} {more}").trim(), &[])));
    }
    AuthorizationCallback::from_redirect_url(url.as_str())
        .map_err(|error| OAuthError::from_sdk(&error, &[]))
}

/// A form with what there is to say.
pub(crate) fn form<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
    Serializer::new(String::new()).extend_pairs(fields).finish()
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

pub(crate) const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
