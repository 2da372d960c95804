//! Authorization requests with PKCE and their responses (RFC 6749, 4.1; RFC 7636; RFC 9207).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use url::Url;

use crate::error::{OAuthError, redact};
use crate::metadata::ServerMetadata;

/// Authorization request: the page to open, and the secrets that bind the response to it.
pub(crate) struct AuthorizationRequest {
    pub(crate) page: Url,
    state: String,
    /// PKCE code verifier.
    pub(crate) verifier: String,
}

impl AuthorizationRequest {
    /// Creates a request for a code with these parameters and those of PKCE.
    pub(crate) fn new(mut page: Url, parameters: &[(&str, &str)]) -> Result<Self, OAuthError> {
        let (state, verifier) = (random_text()?, random_text()?);
        let parameters = parameters.iter().filter(|(_, value)| !value.is_empty());
        page.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("state", &state)
            .append_pair("code_challenge", &challenge(&verifier))
            .append_pair("code_challenge_method", "S256")
            .extend_pairs(parameters);
        Ok(Self { page, state, verifier })
    }

    /// Reads the code from the redirect URL, after checking its state and issuer.
    pub(crate) fn read_code(
        &self,
        returned: &str,
        metadata: &ServerMetadata,
    ) -> Result<String, OAuthError> {
        let url = Url::parse(returned.trim())
            .map_err(|_| OAuthError::Failed("the redirect URL is not a valid URL".to_owned()))?;
        if parameter(&url, "state").as_deref() != Some(&self.state) {
            return Err(OAuthError::StateMismatch);
        }
        if let Some(error) = parameter(&url, "error") {
            let more = parameter(&url, "error_description").unwrap_or_default();
            return Err(OAuthError::Refused(redact(format!("{error} {more}").trim(), &[])));
        }
        let code = parameter(&url, "code");
        let code =
            code.ok_or_else(|| OAuthError::Refused("the redirect has no code".to_owned()))?;
        check_issuer(metadata, parameter(&url, "iss").as_deref())?;
        Ok(code)
    }
}

/// Checks the `iss` parameter, against mix-up attacks.
fn check_issuer(metadata: &ServerMetadata, received: Option<&str>) -> Result<(), OAuthError> {
    let is_required = metadata.authorization_response_iss_parameter_supported == Some(true);
    let expected = metadata.issuer.as_deref();
    if received == expected || (received.is_none() && !is_required) {
        return Ok(());
    }
    let name = |issuer: Option<&str>| issuer.unwrap_or("none").to_owned();
    let (expected, received) = (name(expected), name(received));
    let what = format!("the login response is from issuer {received}, expected {expected}");
    Err(OAuthError::Untrusted(redact(&what, &[])))
}

/// Computes the `S256` code challenge of a verifier.
fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()))
}

/// Creates a URL-safe secret of 256 random bits.
pub(crate) fn random_text() -> Result<String, OAuthError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| OAuthError::Failed(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn parameter(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::{AuthorizationRequest, challenge, parameter};
    use crate::metadata::ServerMetadata;

    /// The example of RFC 7636, appendix B.
    #[test]
    fn a_challenge_is_the_hash_of_its_verifier() {
        assert_eq!(
            challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    /// MCP-090: each request has its own secrets and keeps the query of the page's URL.
    #[test]
    fn requests_have_unique_secrets() {
        let page = Url::parse("https://as.example/authorize?tenant=a").unwrap();
        let make = || {
            AuthorizationRequest::new(page.clone(), &[("client_id", "me"), ("scope", "")]).unwrap()
        };
        let (one, two) = (make(), make());
        assert_ne!(one.state, two.state);
        assert_ne!(one.verifier, two.verifier);
        for (name, expected) in [
            ("tenant", Some("a")),
            ("response_type", Some("code")),
            ("client_id", Some("me")),
            ("scope", None),
            ("state", Some(&*one.state)),
            ("code_challenge", Some(&*challenge(&one.verifier))),
            ("code_challenge_method", Some("S256")),
        ] {
            assert_eq!(parameter(&one.page, name).as_deref(), expected, "{name}");
        }
        assert!(!one.page.as_str().contains(&one.verifier));
    }

    /// MCP-090: a response must come from the expected issuer.
    #[test]
    fn responses_of_another_issuer_are_rejected() {
        const ISSUER: Option<&str> = Some("https://as.example");
        for (expected, is_required, received, is_good) in [
            (ISSUER, false, None, true),
            (ISSUER, false, ISSUER, true),
            (ISSUER, true, ISSUER, true),
            (ISSUER, true, None, false),
            (ISSUER, false, Some("https://as.example/"), false),
            (ISSUER, false, Some("https://evil.example"), false),
            (None, false, None, true),
            (None, false, ISSUER, false),
            (None, true, ISSUER, false),
        ] {
            let request =
                AuthorizationRequest::new(Url::parse("https://as.example/").unwrap(), &[]).unwrap();
            let mut metadata = ServerMetadata::default();
            metadata.issuer = expected.map(str::to_owned);
            metadata.authorization_response_iss_parameter_supported = Some(is_required);
            let mut returned = format!("http://127.0.0.1/?code=c0de&state={}", request.state);
            if let Some(received) = received {
                returned += &format!("&iss={received}");
            }
            let read = request.read_code(&returned, &metadata);
            assert_eq!(read.is_ok_and(|code| code == "c0de"), is_good, "{expected:?} {received:?}");
        }
    }
}
