//! Dynamic client registration (RFC 7591).

use serde::Deserialize;
use serde_json::json;

use crate::error::OAuthError;
use crate::grant::AuthorizationServer;
use crate::stored_token::StoredClient;

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
}

impl AuthorizationServer {
    /// Registers a public client.
    pub(crate) async fn register(
        &self,
        name: &str,
        redirect: &str,
        scopes: &[String],
    ) -> Result<StoredClient, OAuthError> {
        let Some(endpoint) = &self.metadata.registration_endpoint else {
            let what = "it has no registration endpoint; register a client and pass its client id";
            return Err(OAuthError::Refused(what.to_owned()));
        };
        let mut request = json!({
            "client_name": name,
            "application_type": "native",
            "redirect_uris": [redirect],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        });
        if !scopes.is_empty() {
            request["scope"] = scopes.join(" ").into();
        }
        let answer = self.post_json(endpoint, request.to_string()).await;
        // The parser's error could contain the secret.
        let registered: Registered = serde_json::from_slice(&answer?).map_err(|_| {
            OAuthError::Refused("the registration response has no client id".to_owned())
        })?;
        Ok(StoredClient {
            id: registered.client_id,
            // Some servers give public clients an empty secret.
            secret: registered.client_secret.filter(|secret| !secret.is_empty()),
            redirect: Some(redirect.to_owned()),
            ..StoredClient::default()
        })
    }
}
