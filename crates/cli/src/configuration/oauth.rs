//! `[servers.NAME.oauth]`: the OAuth client of a server.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mcp_flow::oauth::{AssertionGrant, DpopPolicy, IdentityProvider, LoginSettings, TokenSource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resolve_path;
use crate::exit::{Exit, Failure};

/// OAuth client of a server. Without any key, `mcp-flow login` registers a client and opens
/// a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OAuthSection {
    /// Id of a registered client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_id: Option<String>,
    /// File with the client secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret_file: Option<PathBuf>,
    /// Environment variable with the client secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_secret_env: Option<String>,
    /// PEM file with the client's private key (PKCS #8), instead of a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_key_file: Option<PathBuf>,
    /// HTTPS URL of a client ID metadata document, as the client id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_metadata_url: Option<String>,
    /// Authorization server to trust with the credentials of this section; they are sent to no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) authorization_server: Option<String>,
    /// Scopes to request, instead of those the server names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) scopes: Vec<String>,
    /// True for the client credentials grant, without a user.
    pub(crate) client_credentials: bool,
    /// File with the JWT that the platform issues to this workload; it is read for each token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workload_token_file: Option<PathBuf>,
    /// Environment variable with the JWT of this workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workload_token_env: Option<String>,
    /// Issuer URL of the enterprise's identity provider, which grants access to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idp: Option<String>,
    /// Token endpoint of the identity provider. Default: that of its metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idp_token_endpoint: Option<String>,
    /// Id of this client at the identity provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idp_client_id: Option<String>,
    /// File with the secret of this client at the identity provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idp_client_secret_file: Option<PathBuf>,
    /// Environment variable with the secret of this client at the identity provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) idp_client_secret_env: Option<String>,
    /// File with the user's ID token of the identity provider; it is read for each token. Without
    /// one, the user logs in there in the browser, which needs `idp_client_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id_token_file: Option<PathBuf>,
    /// Environment variable with the user's ID token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id_token_env: Option<String>,
    /// Binding of tokens to a key of this client (DPoP). Default: `auto`, if the server and its
    /// authorization server support it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dpop: Option<DpopStyle>,
}

/// Binding of tokens to a key: if the server and its authorization server support it, always, or
/// never.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DpopStyle {
    Auto,
    Required,
    Off,
}

impl OAuthSection {
    /// Adds to the settings of a login. Reads secrets, but not tokens, which change.
    pub(crate) fn apply(&self, settings: &mut LoginSettings) -> anyhow::Result<()> {
        let assertion = self.assertion()?;
        let identity = &mut settings.identity;
        identity.client_id.clone_from(&self.client_id);
        identity.client_secret = secret(&self.client_secret_file, self.client_secret_env.as_ref())?;
        identity.client_key = secret(&self.client_key_file, None)?;
        identity.metadata_url.clone_from(&self.client_metadata_url);
        identity.issuer.clone_from(&self.authorization_server);
        identity.uses_client_credentials = self.client_credentials;
        identity.assertion = assertion;
        if identity.client_key.is_some()
            && !identity.is_unattended()
            && identity.assertion.is_none()
        {
            return Err(usage("a client key needs client credentials or an identity provider"));
        }
        if self.client_credentials && identity.assertion.is_some() {
            return Err(usage(
                "client credentials, a workload token and an identity provider exclude each other",
            ));
        }
        settings.scopes.clone_from(&self.scopes);
        settings.dpop = match self.dpop {
            None | Some(DpopStyle::Auto) => DpopPolicy::Auto,
            Some(DpopStyle::Required) => DpopPolicy::Required,
            Some(DpopStyle::Off) => DpopPolicy::Off,
        };
        Ok(())
    }

    fn assertion(&self) -> anyhow::Result<Option<AssertionGrant>> {
        let workload = source(&self.workload_token_file, self.workload_token_env.as_ref());
        let id_token = source(&self.id_token_file, self.id_token_env.as_ref());
        let provider = match (&self.idp, id_token) {
            (None, None) => None,
            (Some(_), None) if self.idp_client_id.is_none() => {
                return Err(usage(
                    "an identity provider needs the id of this client there (idp_client_id), to log \
                     you in, or your ID token",
                ));
            }
            (Some(issuer), id_token) => {
                let login = TokenSource::Login { refresh_token: None };
                let id_token = id_token.unwrap_or(login);
                let mut provider = IdentityProvider::new(issuer, id_token);
                provider.token_endpoint.clone_from(&self.idp_token_endpoint);
                provider.client_id.clone_from(&self.idp_client_id);
                let (file, env) = (&self.idp_client_secret_file, &self.idp_client_secret_env);
                provider.client_secret = secret(file, env.as_ref())?;
                Some(provider)
            }
            (None, Some(_)) => return Err(usage("an ID token needs the identity provider (idp)")),
        };
        match (workload, provider) {
            (Some(_), Some(_)) => {
                Err(usage("a workload token and an identity provider exclude each other"))
            }
            (Some(workload), None) => Ok(Some(AssertionGrant::Workload(workload))),
            (None, provider) => Ok(provider.map(Box::new).map(AssertionGrant::Enterprise)),
        }
    }

    /// Makes paths relative to the folder of their file absolute.
    pub(super) fn resolve(&mut self, folder: &Path) {
        let files = [
            &mut self.client_secret_file,
            &mut self.client_key_file,
            &mut self.workload_token_file,
            &mut self.idp_client_secret_file,
            &mut self.id_token_file,
        ];
        files.into_iter().flatten().for_each(|path| resolve_path(path, folder));
    }
}

fn source(file: &Option<PathBuf>, variable: Option<&String>) -> Option<TokenSource> {
    let file = file.clone().map(TokenSource::File);
    file.or_else(|| variable.cloned().map(TokenSource::Environment))
}

/// Reads a secret from a file, without the line end that editors add, or from a variable.
fn secret(file: &Option<PathBuf>, variable: Option<&String>) -> anyhow::Result<Option<String>> {
    match (file, variable) {
        (Some(file), _) => {
            let text = std::fs::read_to_string(file);
            let text = text.with_context(|| format!("cannot read {}", file.display()))?;
            Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
        }
        (None, Some(name)) => {
            let missing = |_| usage(&format!("the environment variable {name} is not set"));
            std::env::var(name).map(Some).map_err(missing)
        }
        (None, None) => Ok(None),
    }
}

fn usage(problem: &str) -> anyhow::Error {
    Failure::new(Exit::Usage, problem.to_owned()).into()
}
