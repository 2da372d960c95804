//! Grants by an assertion of another system (RFC 7523): workload identity federation, and
//! enterprise-managed authorization (ID-JAG).
//!
//! Neither needs a user at the authorization server. A workload presents the JWT that its platform
//! issued to it. In an enterprise, the identity provider exchanges the user's ID token for a grant at
//! the authorization server of one MCP server (RFC 8693), so that it decides who may use which.

use std::fmt;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::account::LoginSettings;
use crate::discovery;
use crate::error::{OAuthError, redact};
use crate::grant::{AuthorizationServer, ClientIdentity, TokenRequest};
use crate::metadata::ServerMetadata;
use crate::stored_token::{StoredClient, StoredToken};
use crate::token_endpoint::SecretMethod;

/// Assertion with which a client obtains tokens, in place of a user's consent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AssertionGrant {
    /// JWT of this workload, issued by its platform for the authorization server.
    Workload(TokenSource),
    /// Grant of the enterprise's identity provider.
    Enterprise(Box<IdentityProvider>),
}

impl AssertionGrant {
    /// Returns whether the user has to log in for it.
    pub(crate) fn needs_user(&self) -> bool {
        match self {
            Self::Workload(_) => false,
            Self::Enterprise(provider) => matches!(provider.id_token, TokenSource::Login { .. }),
        }
    }
}

/// Identity provider of an enterprise, and the user's login there.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IdentityProvider {
    /// Issuer URL.
    pub issuer: String,
    /// Token endpoint, if it is not that of the provider's metadata.
    pub token_endpoint: Option<String>,
    /// Id of this client at the provider.
    pub client_id: Option<String>,
    /// Secret of this client at the provider.
    pub client_secret: Option<String>,
    /// ID token of the user, issued to this client.
    pub id_token: TokenSource,
}

impl IdentityProvider {
    /// Creates the provider with this issuer URL.
    pub fn new(issuer: &str, id_token: TokenSource) -> Self {
        Self {
            issuer: issuer.to_owned(),
            token_endpoint: None,
            client_id: None,
            client_secret: None,
            id_token,
        }
    }
}

impl fmt::Debug for IdentityProvider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("IdentityProvider")
            .field("issuer", &self.issuer)
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// Source of a token that another program renews: it is read for each use.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TokenSource {
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// The token itself.
    Value(String),
    /// A login of the user in the browser, for an ID token.
    Login {
        /// Refresh token of the last login.
        refresh_token: Option<String>,
    },
}

impl TokenSource {
    fn read(&self) -> Result<String, OAuthError> {
        let failed = |what: String| OAuthError::Assertion(what);
        let text = match self {
            Self::File(path) => std::fs::metadata(path)
                .and_then(|metadata| match metadata.len() > MAX_ASSERTION {
                    true => Err(std::io::Error::other("it is too long for a token")),
                    false => std::fs::read_to_string(path),
                })
                .map_err(|error| failed(format!("{}: {error}", path.display())))?,
            Self::Environment(name) => std::env::var(name)
                .map_err(|_| failed(format!("the environment variable {name} is not set")))?,
            Self::Value(text) => text.clone(),
            Self::Login { .. } => return Err(failed("only a user can log in".to_owned())),
        };
        let text = text.trim();
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        if text.is_empty() || !is_plain || text.len() as u64 > MAX_ASSERTION {
            return Err(failed("it is not a token".to_owned()));
        }
        Ok(text.to_owned())
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => formatter.debug_tuple("File").field(path).finish(),
            Self::Environment(name) => formatter.debug_tuple("Environment").field(name).finish(),
            Self::Value(_) => formatter.write_str("Value(hidden)"),
            Self::Login { .. } => formatter.write_str("Login"),
        }
    }
}

impl AuthorizationServer {
    /// Obtains a token by the JWT bearer grant. A rejection is final: the same assertion would be
    /// rejected again, and no other grant is tried.
    pub(crate) async fn request_by_assertion(
        self,
        identity: &ClientIdentity,
        grant: &AssertionGrant,
        token_request: &TokenRequest,
        settings: &LoginSettings,
    ) -> Result<StoredToken, OAuthError> {
        self.check_issuer(identity)?;
        let scopes = self.unattended_scopes(token_request);
        let mut grant = grant.clone();
        let assertion = match &mut grant {
            AssertionGrant::Workload(source) => {
                let assertion = source.read()?;
                self.check_audience(identity, &assertion)?;
                assertion
            }
            AssertionGrant::Enterprise(provider) => {
                self.exchange_token(provider, &scopes, settings).await?
            }
        };
        let client = StoredClient {
            // A workload may be known by its assertion alone.
            id: identity.client_id.clone().unwrap_or_default(),
            secret: identity.client_secret.clone(),
            key: identity.client_key.clone(),
            redirect: None,
            assertion: Some(grant),
        };
        let fields = [
            ("grant_type", JWT_BEARER),
            ("assertion", assertion.as_str()),
            ("scope", &scopes.join(" ")),
        ];
        let secrets = [assertion.as_str()];
        let answer = self.request_token(&client, SecretMethod::Basic, &fields, &secrets).await?;
        self.read_token(client, scopes, &answer)
    }

    /// Exchanges the user's ID token at the identity provider for a grant at this authorization
    /// server. If the user logs in for that, the provider keeps the refresh token.
    async fn exchange_token(
        &self,
        provider: &mut IdentityProvider,
        scopes: &[String],
        settings: &LoginSettings,
    ) -> Result<String, OAuthError> {
        let issuer = Url::parse(&provider.issuer)
            .map_err(|_| OAuthError::InvalidServer(format!("{:?}: not a URL", provider.issuer)))?;
        // The user named the provider; the server and its documents have no say in this.
        let http = settings.http(&issuer, settings.is_private)?;
        let metadata = match &provider.token_endpoint {
            Some(endpoint) => ServerMetadata::of_token_endpoint(&provider.issuer, endpoint),
            None => discovery::find_issuer(&issuer, &http).await?,
        };
        metadata.check_endpoints()?;
        let audience = self.metadata.issuer.clone().ok_or_else(|| {
            let what = "the authorization server has no issuer name to request a grant for";
            OAuthError::Untrusted(what.to_owned())
        })?;
        let mut identity_provider = Self::with_metadata(metadata, String::new(), http, issuer);
        let id_token = match &provider.id_token {
            TokenSource::Login { refresh_token } => {
                let refresh_token = refresh_token.as_deref();
                let login = identity_provider.log_in_user(provider, refresh_token, settings);
                let login = login.await?.ok_or_else(|| self.login_required())?;
                provider.id_token = TokenSource::Login { refresh_token: login.refresh_token };
                login.id_token
            }
            source => source.read()?,
        };
        identity_provider.resource.clone_from(&self.resource);
        let client = StoredClient {
            id: provider.client_id.clone().unwrap_or_default(),
            secret: provider.client_secret.clone(),
            ..StoredClient::default()
        };
        let fields = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
            ("requested_token_type", ID_JAG),
            ("audience", &audience),
            ("scope", &scopes.join(" ")),
            ("subject_token", &id_token),
            ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ];
        let secrets = [id_token.as_str()];
        let answer =
            identity_provider.request_token(&client, SecretMethod::Basic, &fields, &secrets).await;
        let answer = answer.map_err(|error| match OAuthError::from(error) {
            OAuthError::Refused(what) => OAuthError::Assertion(format!(
                "the identity provider {} refused: {what}",
                redact(&provider.issuer, &[])
            )),
            error => error,
        })?;
        read_grant(&answer)
    }

    /// Checks that an assertion was made for this authorization server: whoever gets it could use it
    /// at the one it was made for.
    fn check_audience(&self, identity: &ClientIdentity, jwt: &str) -> Result<(), OAuthError> {
        // The user named the authorization server, and it was compared.
        if identity.issuer.is_some() {
            return Ok(());
        }
        let claims = claims_of(jwt);
        let audiences = audiences_of(&claims);
        let issuer = self.metadata.issuer.as_deref().unwrap_or_default();
        let is_this = |audience: &&str| {
            let is_issuer = audience.trim_end_matches('/') == issuer.trim_end_matches('/');
            (is_issuer && !issuer.is_empty()) || *audience == self.metadata.token_endpoint
        };
        if audiences.iter().any(is_this) {
            return Ok(());
        }
        let (audiences, issuer) = (redact(&audiences.join(" "), &[]), redact(issuer, &[]));
        Err(OAuthError::Untrusted(format!(
            "the workload token is for {audiences:?}, and the server names the authorization \
             server {issuer}; have the token issued for that audience, or name the authorization \
             server to trust (--authorization-server)"
        )))
    }
}

/// Returns the claims of a JWT, whose signature others verify.
pub(crate) fn claims_of(jwt: &str) -> Value {
    let claims = jwt.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    claims.and_then(|claims| serde_json::from_slice(&claims).ok()).unwrap_or_default()
}

/// Returns the audiences that claims name.
pub(crate) fn audiences_of(claims: &Value) -> Vec<&str> {
    match claims.get("aud") {
        Some(Value::String(audience)) => vec![audience],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Reads the response of a token exchange.
fn read_grant(response: &[u8]) -> Result<String, OAuthError> {
    // The parser's error could contain the grant.
    let response: Value = serde_json::from_slice(response).unwrap_or_default();
    let member = |name: &str| response.get(name).and_then(Value::as_str).unwrap_or_default();
    let grant = member("access_token");
    if member("issued_token_type") != ID_JAG || grant.is_empty() {
        let what = "the identity provider issued no grant (id-jag); enable cross-application \
                    access for this client there";
        return Err(OAuthError::Assertion(what.to_owned()));
    }
    Ok(grant.to_owned())
}

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// Limit on the length of an assertion, in bytes.
const MAX_ASSERTION: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::{TokenSource, read_grant};

    /// A token is read without the line end of its file; what is no token is rejected unseen.
    #[test]
    fn tokens_are_read_from_their_source() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            TokenSource::File(path)
        };
        assert_eq!(file("good", "a.b.c\n").read().unwrap(), "a.b.c");
        assert_eq!(TokenSource::Value("a.b.c".into()).read().unwrap(), "a.b.c");
        for bad in [
            file("empty", "\n"),
            file("two", "s3cret more"),
            file("long", &"s3cret".repeat(20_000)),
            TokenSource::File(folder.path().join("none")),
            TokenSource::Environment("MCP_FLOW_NO_SUCH_VARIABLE".into()),
            TokenSource::Value("s3cret\r\nX: y".into()),
        ] {
            let shown = format!("{} {bad:?}", bad.read().unwrap_err());
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }

    /// Only a grant counts: an access token of the identity provider is never sent on.
    #[test]
    fn other_tokens_are_not_taken_for_grants() {
        let kind = "urn:ietf:params:oauth:token-type:id-jag";
        let good = format!(r#"{{"access_token":"g","issued_token_type":"{kind}"}}"#);
        assert_eq!(read_grant(good.as_bytes()).unwrap(), "g");
        for bad in [
            String::new(),
            "{}".to_owned(),
            r#"{"access_token":"s3cret"}"#.to_owned(),
            good.replace("id-jag", "access_token"),
            good.replace(r#""g""#, "7"),
        ] {
            let shown = read_grant(bad.as_bytes()).unwrap_err().to_string();
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }
}
