//! Requests to an authorization server's endpoints, and how a client authenticates at them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName};
use hyper::{Request, Response};
use serde_json::Value;
use url::form_urlencoded::{Serializer, byte_serialize};

use crate::assertion;
use crate::dpop::DpopKey;
use crate::error::{OAuthError, redact};
use crate::grant::AuthorizationServer;
use crate::stored_token::StoredClient;

/// Methods of client authentication by secret.
#[derive(Clone, Copy)]
pub(crate) enum SecretMethod {
    /// In a header, `client_secret_basic`.
    Basic,
    /// In the form, `client_secret_post`.
    Post,
}

impl SecretMethod {
    /// Names of the methods in metadata.
    pub(crate) const NAMES: [&str; 2] = ["client_secret_basic", "client_secret_post"];

    /// Picks the supported method, or the preferred one if both or neither are listed.
    fn pick(supported: Option<&[String]>, preferred: Self) -> Self {
        let supports = |method: &str| {
            supported.is_some_and(|supported| supported.iter().any(|one| one == method))
        };
        match Self::NAMES.map(supports) {
            [true, false] => Self::Basic,
            [false, true] => Self::Post,
            _ => preferred,
        }
    }
}

/// Failure of a request to an endpoint. Contains no secrets.
pub(crate) enum RequestError {
    /// The client cannot authenticate.
    Unsent(OAuthError),
    /// No response arrived. The request may have been processed.
    Unanswered(String),
    /// The authorization server rejected it, with an error code of RFC 6749.
    Rejected { code: String, what: String },
}

impl From<RequestError> for OAuthError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Unsent(error) => error,
            RequestError::Unanswered(what) => Self::Failed(what),
            RequestError::Rejected { what, .. } => Self::Refused(what),
        }
    }
}

/// Form of an authenticated client.
struct Form {
    body: String,
    /// Authorization header.
    authorization: Option<String>,
    /// Secret part of either, to be redacted.
    proof: String,
}

impl AuthorizationServer {
    /// Requests a token for the server from the token endpoint; the fields select the grant.
    pub(crate) async fn request_token(
        &self,
        client: &StoredClient,
        preferred: SecretMethod,
        fields: &[(&str, &str)],
        secrets: &[&str],
    ) -> Result<Bytes, RequestError> {
        let methods = self.metadata.token_endpoint_auth_methods_supported.as_deref();
        let method = SecretMethod::pick(methods, preferred);
        let fields = [fields, &[("resource", &self.resource)]].concat();
        let endpoint = &self.metadata.token_endpoint;
        let key = self.dpop.as_ref();
        match self.post_form(endpoint, client, method, &fields, secrets, key).await {
            // The response has brought the nonce that the proof lacked.
            Err(RequestError::Rejected { code, .. })
                if key.is_some() && code == "use_dpop_nonce" =>
            {
                self.post_form(endpoint, client, method, &fields, secrets, key).await
            }
            outcome => outcome,
        }
    }

    /// Requests the revocation of a token.
    pub(crate) async fn request_revocation(
        &self,
        endpoint: &str,
        client: &StoredClient,
        fields: &[(&str, &str)],
        secrets: &[&str],
    ) -> Result<Bytes, RequestError> {
        let methods = self.metadata.revocation_endpoint_auth_methods_supported.as_deref();
        let methods = methods.or(self.metadata.token_endpoint_auth_methods_supported.as_deref());
        let method = SecretMethod::pick(methods, SecretMethod::Basic);
        self.post_form(endpoint, client, method, fields, secrets, None).await
    }

    /// Posts a form as an authenticated client.
    async fn post_form(
        &self,
        endpoint: &str,
        client: &StoredClient,
        method: SecretMethod,
        fields: &[(&str, &str)],
        secrets: &[&str],
        key: Option<&DpopKey>,
    ) -> Result<Bytes, RequestError> {
        let form = self.authenticate(client, method, fields).map_err(RequestError::Unsent)?;
        let secrets: Vec<_> =
            secrets.iter().copied().chain(client.secrets()).chain([form.proof.as_str()]).collect();
        let proof = key.map(|key| key.sign("POST", endpoint, None)).transpose();
        let proof = proof.map_err(RequestError::Unsent)?;
        let headers = [
            (CONTENT_TYPE, Some("application/x-www-form-urlencoded".to_owned())),
            (AUTHORIZATION, form.authorization.clone()),
            (HeaderName::from_static("dpop"), proof),
        ];
        let response = self.send(endpoint, headers, form.body, &secrets).await?;
        let nonce = response.headers().get("dpop-nonce").and_then(|nonce| nonce.to_str().ok());
        if let (Some(key), Some(nonce)) = (key, nonce) {
            key.set_nonce(endpoint, nonce);
        }
        read_body(response, &secrets)
    }

    /// Builds a form with client authentication. Fields without a value are left out.
    fn authenticate(
        &self,
        client: &StoredClient,
        method: SecretMethod,
        fields: &[(&str, &str)],
    ) -> Result<Form, OAuthError> {
        let mut form = Serializer::new(String::new());
        form.extend_pairs(fields.iter().filter(|(_, value)| !value.is_empty()));
        let mut proof = String::new();
        let mut authorization = None;
        match (&client.key, &client.secret, method) {
            (None, Some(secret), SecretMethod::Basic) => {
                // RFC 6749, 2.3.1: both are form-encoded before base64.
                let escaped = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                proof = STANDARD.encode(format!("{}:{}", escaped(&client.id), escaped(secret)));
                authorization = Some(format!("Basic {proof}"));
            }
            (key, secret, _) => {
                if !client.id.is_empty() {
                    form.append_pair("client_id", &client.id);
                }
                if let Some(key) = key {
                    proof = assertion::sign(&client.id, self.audience(), key)?;
                    form.append_pair("client_assertion_type", ASSERTION);
                    form.append_pair("client_assertion", &proof);
                } else if let Some(secret) = secret {
                    form.append_pair("client_secret", secret);
                }
            }
        }
        Ok(Form { body: form.finish(), authorization, proof })
    }

    /// Posts JSON to an endpoint, and returns the body of a successful response.
    pub(crate) async fn post_json(
        &self,
        endpoint: &str,
        body: String,
    ) -> Result<Bytes, RequestError> {
        let headers = [(CONTENT_TYPE, Some("application/json".to_owned()))];
        read_body(self.send(endpoint, headers, body, &[]).await?, &[])
    }

    /// Posts to an endpoint. Headers without a value are left out.
    async fn send(
        &self,
        endpoint: &str,
        headers: impl IntoIterator<Item = (HeaderName, Option<String>)>,
        body: String,
        secrets: &[&str],
    ) -> Result<Response<Bytes>, RequestError> {
        let unanswered = |what: String| RequestError::Unanswered(redact(&what, secrets));
        let mut request = Request::post(endpoint).header(ACCEPT, "application/json");
        for (name, value) in headers {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let request =
            request.body(Bytes::from(body)).map_err(|error| unanswered(error.to_string()))?;
        self.http.send(request).await.map_err(|error| unanswered(error.to_string()))
    }

    /// Returns the audience of signatures: the issuer, if it has a name.
    fn audience(&self) -> &str {
        self.metadata.issuer.as_deref().unwrap_or(&self.metadata.token_endpoint)
    }
}

/// Returns the body of a successful response, or the error in it.
fn read_body(response: Response<Bytes>, secrets: &[&str]) -> Result<Bytes, RequestError> {
    if response.status().is_success() {
        return Ok(response.into_body());
    }
    let said: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    let member = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or_default();
    let code = member("error").to_owned();
    let what = format!("{} {code} {}", response.status(), member("error_description"));
    Err(RequestError::Rejected { code, what: redact(what.trim(), secrets) })
}

const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

#[cfg(test)]
mod tests {
    use super::SecretMethod;

    /// MCP-089: the client authenticates by a method that the authorization server supports.
    #[test]
    fn the_supported_method_is_picked() {
        let (basic, post) = ("client_secret_basic", "client_secret_post");
        for (supported, with_basic, with_post) in [
            (None, 'b', 'p'),
            (Some(&[basic][..]), 'b', 'b'),
            (Some(&[post, "none"]), 'p', 'p'),
            (Some(&[post, basic]), 'b', 'p'),
            (Some(&["none"]), 'b', 'p'),
        ] {
            let supported: Option<Vec<String>> =
                supported.map(|names| names.iter().map(|&name| name.to_owned()).collect());
            let pick = |preferred| match SecretMethod::pick(supported.as_deref(), preferred) {
                SecretMethod::Basic => 'b',
                SecretMethod::Post => 'p',
            };
            let picked = (pick(SecretMethod::Basic), pick(SecretMethod::Post));
            assert_eq!(picked, (with_basic, with_post), "{supported:?}");
        }
    }
}
