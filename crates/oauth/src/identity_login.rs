//! Login of a user at an identity provider (OpenID Connect), for enterprise-managed authorization.
//!
//! The ID token comes from the token endpoint itself, over TLS, so its claims are checked and its
//! signature is not (OpenID Connect Core, 3.1.3.7). Nobody but the provider gets it.

use serde::Deserialize;

use crate::account::LoginSettings;
use crate::assertion_grant::{IdentityProvider, audiences_of, claims_of};
use crate::authorization_request::random_text;
use crate::error::OAuthError;
use crate::grant::{AuthorizationServer, ClientIdentity};
use crate::stored_token::StoredClient;
use crate::token_endpoint::{RequestError, SecretMethod};

/// Login of a user.
pub(crate) struct UserLogin {
    pub(crate) id_token: String,
    /// Token for the next login, without the user.
    pub(crate) refresh_token: Option<String>,
}

/// Response of the provider's token endpoint.
#[derive(Deserialize)]
struct LoginResponse {
    id_token: Option<String>,
    refresh_token: Option<String>,
}

impl AuthorizationServer {
    /// Logs the user in at this identity provider: by the refresh token of the last login, or in the
    /// browser. Returns `None` if that would need a browser, and there is none.
    pub(crate) async fn log_in_user(
        &self,
        provider: &IdentityProvider,
        refresh_token: Option<&str>,
        settings: &LoginSettings,
    ) -> Result<Option<UserLogin>, OAuthError> {
        let Some(client_id) = &provider.client_id else {
            let what = "the id of this client at the identity provider is missing";
            return Err(OAuthError::Assertion(what.to_owned()));
        };
        if let Some(token) = refresh_token
            && let Some(login) = self.refresh_login(provider, client_id, token).await?
        {
            return Ok(Some(login));
        }
        let Some(user_agent) = settings.user_agent.as_deref() else { return Ok(None) };
        let identity = ClientIdentity {
            client_id: Some(client_id.clone()),
            client_secret: provider.client_secret.clone(),
            ..ClientIdentity::default()
        };
        let scopes = self.with_offline_access(&[OPENID.to_owned()]);
        let nonce = random_text()?;
        let (_, answer) =
            self.request_by_code(&identity, user_agent, &scopes, &[("nonce", &nonce)]).await?;
        self.read_login(client_id, Some(&nonce), &answer).map(Some)
    }

    /// Obtains another ID token by a refresh token; `None` if the user has to log in again.
    async fn refresh_login(
        &self,
        provider: &IdentityProvider,
        client_id: &str,
        token: &str,
    ) -> Result<Option<UserLogin>, OAuthError> {
        let client = StoredClient {
            id: client_id.to_owned(),
            secret: provider.client_secret.clone(),
            ..StoredClient::default()
        };
        let fields = [("grant_type", "refresh_token"), ("refresh_token", token)];
        match self.request_token(&client, SecretMethod::Basic, &fields, &[token]).await {
            Ok(answer) => {
                // A provider may refresh without another ID token, which is of no use here.
                let login = self.read_login(client_id, None, &answer).ok();
                Ok(login.map(|login| UserLogin {
                    refresh_token: login.refresh_token.or_else(|| Some(token.to_owned())),
                    ..login
                }))
            }
            Err(RequestError::Rejected { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the response of the token endpoint, and checks for whom the ID token is.
    fn read_login(
        &self,
        client_id: &str,
        nonce: Option<&str>,
        answer: &[u8],
    ) -> Result<UserLogin, OAuthError> {
        let refused = |what: &str| {
            OAuthError::Assertion(format!("the login at the identity provider failed: {what}"))
        };
        // The parser's error could contain the token.
        let response: LoginResponse = serde_json::from_slice(answer)
            .map_err(|_| refused("the response is not a token response"))?;
        let id_token = response.id_token.ok_or_else(|| refused("it returned no ID token"))?;
        let claims = claims_of(&id_token);
        if claims["iss"].as_str() != self.metadata.issuer.as_deref() {
            return Err(refused("the ID token is of another issuer"));
        }
        if !audiences_of(&claims).contains(&client_id) {
            return Err(refused("the ID token is for another client"));
        }
        if nonce.is_some() && claims["nonce"].as_str() != nonce {
            return Err(refused("the ID token belongs to another login"));
        }
        Ok(UserLogin { id_token, refresh_token: response.refresh_token })
    }
}

const OPENID: &str = "openid";
