//! Discovery of the authorization server from the URL of a protected server.
//!
//! The server names its authorization servers in its protected resource metadata, which it points at
//! in its challenge or publishes at a well-known URL. Without such a document it is assumed to be its
//! own authorization server, as in MCP 2025-03-26.

use hyper::StatusCode;
use url::Url;

use crate::challenge::{self, Challenge};
use crate::error::{OAuthError, redact};
use crate::grant::TokenRequest;
use crate::http_client::HttpClient;
use crate::metadata::{self, ServerMetadata};
use crate::resource::{self, ResourceMetadata};

/// Result of discovery: the authorization server and the parameters of a token request.
pub(crate) struct Discovery {
    pub(crate) metadata: ServerMetadata,
    /// Identifier of the server that tokens are for (RFC 8707).
    pub(crate) resource: String,
    /// Scopes that the server asks for; empty if it names none.
    pub(crate) scopes: Vec<String>,
    /// Set if the server accepts tokens bound to a key.
    pub(crate) offers_dpop: bool,
    /// Set if the server accepts no other tokens.
    pub(crate) requires_dpop: bool,
}

impl Discovery {
    /// Finds the authorization server of a server, and checks its endpoints.
    pub(crate) async fn run(
        server: &Url,
        http: &HttpClient,
        token_request: &TokenRequest,
    ) -> Result<Self, OAuthError> {
        let search = Search { server, http };
        let mut challenge = token_request.challenge.as_deref().and_then(Challenge::parse);
        let mut document = search.follow(challenge.as_ref()).await?;
        if document.is_none() {
            let probed = search.probe().await?;
            document = search.follow(probed.as_ref()).await?;
            challenge = challenge.or(probed);
        }
        if document.is_none() {
            document = search.guess().await?;
        }
        let named = match &document {
            Some((url, document)) => search.find_named(url, document).await?,
            None => None,
        };
        let found = match named {
            None => search.find_server(server, None).await?,
            named => named,
        };
        // Default endpoints are assumed only for a server that requires a token.
        let metadata = match found {
            Some(metadata) => metadata,
            None if token_request.is_required => ServerMetadata::assumed(server),
            None => return Err(OAuthError::NoAuthorizationServer(server.to_string())),
        };
        metadata.check_endpoints()?;
        let document = document.map(|(_, document)| document);
        let challenge = challenge.unwrap_or_default();
        let requires_dpop = challenge.requires_dpop
            || document.as_ref().is_some_and(ResourceMetadata::requires_bound_tokens);
        let offers_dpop = challenge.offers_dpop
            || document.as_ref().is_some_and(ResourceMetadata::accepts_bound_tokens);
        let mut scopes = challenge.scopes();
        if scopes.is_empty() {
            scopes =
                document.as_ref().map(|document| document.scopes().to_vec()).unwrap_or_default();
        }
        let resource = document.and_then(|document| document.resource);
        let resource = resource.unwrap_or_else(|| server.to_string());
        Ok(Self { metadata, resource, scopes, offers_dpop, requires_dpop })
    }
}

/// Fetches the metadata of an authorization server that the user named.
pub(crate) async fn find_issuer(
    issuer: &Url,
    http: &HttpClient,
) -> Result<ServerMetadata, OAuthError> {
    let found = Search { server: issuer, http }.find_server(issuer, Some(issuer)).await?;
    found.ok_or_else(|| {
        OAuthError::Failed(redact(&format!("{issuer} publishes no OAuth metadata"), &[]))
    })
}

struct Search<'a> {
    server: &'a Url,
    http: &'a HttpClient,
}

type Document = Option<(Url, ResourceMetadata)>;

impl Search<'_> {
    /// Sends an unauthenticated request to the server, and returns its challenge.
    async fn probe(&self) -> Result<Option<Challenge>, OAuthError> {
        let response = self.http.get(self.server).await?;
        let header = challenge::join_of(response.headers());
        let header = header.filter(|_| response.status() == StatusCode::UNAUTHORIZED);
        Ok(header.as_deref().and_then(Challenge::parse))
    }

    /// Fetches the protected resource metadata that a challenge points at.
    async fn follow(&self, challenge: Option<&Challenge>) -> Result<Document, OAuthError> {
        let named = challenge.and_then(|challenge| challenge.resource_metadata.as_deref());
        let url = named.and_then(|named| self.server.join(named.trim()).ok());
        // Servers behind a proxy often name an internal URL, which is skipped in favour of the
        // well-known URLs.
        let url = url
            .filter(|url| url.scheme() == "https" || self.server.scheme() == "http")
            .filter(|url| self.http.check("the metadata", url.as_str()).is_ok());
        let Some(url) = url else { return Ok(None) };
        let Some(document) = self.fetch_resource(&url).await? else { return Ok(None) };
        // The server itself named this document, so an invalid one is an error.
        document.check(self.server).map_err(|what| {
            let what = format!("the protected resource metadata at {url} is not usable: {what}");
            OAuthError::Failed(redact(&what, &[]))
        })?;
        Ok(Some((url, document)))
    }

    /// Fetches the protected resource metadata from a well-known URL.
    async fn guess(&self) -> Result<Document, OAuthError> {
        for url in resource::well_known_urls(self.server) {
            let document = self.fetch_resource(&url).await?;
            let document = document.filter(|document| document.check(self.server).is_ok());
            if let Some(document) = document {
                return Ok(Some((url, document)));
            }
        }
        Ok(None)
    }

    async fn fetch_resource(&self, url: &Url) -> Result<Option<ResourceMetadata>, OAuthError> {
        let response = self.http.get(url).await?;
        let is_found = response.status() == StatusCode::OK;
        Ok(serde_json::from_slice(response.body()).ok().filter(|_| is_found))
    }

    /// Finds the first authorization server that a document names and that publishes metadata. None
    /// if it names none.
    async fn find_named(
        &self,
        url: &Url,
        document: &ResourceMetadata,
    ) -> Result<Option<ServerMetadata>, OAuthError> {
        let named = document.authorization_servers();
        let mut why = String::new();
        for name in &named {
            let address = url.join(name).map_or_else(|_| (*name).to_owned(), String::from);
            let issuer = match self.http.check("one", &address) {
                Ok(issuer) => issuer,
                Err(error) => {
                    why = format!(": {error}");
                    continue;
                }
            };
            let expected = (!metadata::is_document(&issuer)).then_some(&issuer);
            if let Some(metadata) = self.find_server(&issuer, expected).await? {
                return Ok(Some(metadata));
            }
        }
        match named.is_empty() {
            true => Ok(None),
            // An authorization server found elsewhere would not be one that the server names.
            false => Err(OAuthError::Failed(redact(
                &format!("of the authorization servers of {url}, none published metadata{why}"),
                &[],
            ))),
        }
    }

    /// Fetches the metadata of an authorization server from its well-known URLs. Without an expected
    /// issuer, the issuer must match the URL of the document.
    async fn find_server(
        &self,
        address: &Url,
        expected: Option<&Url>,
    ) -> Result<Option<ServerMetadata>, OAuthError> {
        for url in metadata::well_known_urls(address) {
            let Some(issuer) = expected.cloned().or_else(|| metadata::issuer_of(&url)) else {
                continue;
            };
            let response = self.http.get(&url).await?;
            if response.status() != StatusCode::OK {
                continue;
            }
            if let Ok(metadata) = serde_json::from_slice::<ServerMetadata>(response.body()) {
                metadata.check_issuer(&issuer)?;
                return Ok(Some(metadata));
            }
        }
        Ok(None)
    }
}
