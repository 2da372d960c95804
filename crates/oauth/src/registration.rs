//! Dynamic client registration (RFC 7591).

use serde::Deserialize;
use serde_json::json;

use crate::error::OAuthError;
use crate::grant::AuthorizationServer;
use crate::kept::KeptClient;

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
}

impl AuthorizationServer {
    /// Registers a public client on the spot.
    pub(crate) async fn register(
        &self,
        name: &str,
        redirect: &str,
        scopes: &[String],
    ) -> Result<KeptClient, OAuthError> {
        let Some(endpoint) = &self.metadata.registration_endpoint else {
            let what = "it registers nobody by itself; register by hand and give the client id";
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
        let answer = self.post(endpoint, "application/json", request.to_string(), None, &[]).await;
        // What the parser says of a secret could be the secret.
        let registered: Registered = serde_json::from_slice(&answer?).map_err(|_| {
            OAuthError::Refused("the answer to the registration holds no client id".to_owned())
        })?;
        Ok(KeptClient {
            id: registered.client_id,
            // Some give public clients a secret too, an empty one.
            secret: registered.client_secret.filter(|secret| !secret.is_empty()),
            key: None,
            redirect: Some(redirect.to_owned()),
        })
    }
}
