//! OAuth client for protected servers: logs in, stores tokens and refreshes them (MCP-089, MCP-090).
//!
//! An OAuth 2.1 client as MCP describes it: discovery (RFC 9728, RFC 8414, OpenID Connect), client
//! registration (RFC 7591) and client ID metadata documents, the authorization code grant with PKCE
//! (RFC 7636), client credentials by secret or key, assertions of workloads and of an enterprise's
//! identity provider (RFC 7523, RFC 8693), tokens bound to a key (DPoP, RFC 9449), refreshing and
//! revocation (RFC 7009).
//!
//! - [`Account`]: the login at one server. It gives transports a credential
//!   ([`Authorizer`](mcp_flow_client::authorizer::Authorizer)), refreshes expired tokens, requests
//!   more scopes where a token is insufficient, and reports when a user must log in.
//! - [`TokenStore`]: keeps tokens between runs, in a file that only its owner can read.
//! - [`UserAgent`]: opens the authorization page; [`LoopbackListener`] receives the redirect.
//! - `address_policy`: documents of servers are untrusted. Requests use https except to the local
//!   machine, redirects are not followed to other origins, public servers cannot make the client
//!   connect to internal addresses, and responses are bounded in size and time.
//!
//! ```no_run
//! use std::sync::Arc;
//! use mcp_flow_oauth::{Account, LoginSettings, TokenStore};
//!
//! # fn example() -> Result<(), mcp_flow_oauth::OAuthError> {
//! let tokens = TokenStore::file("/home/me/.local/share/mcp-flow/logins.json");
//! let account = Account::new("https://mcp.example.com/mcp", tokens, LoginSettings::default())?;
//! // Pass it to `HttpOptions::authorizer`: requests then carry the token of an earlier login.
//! let authorizer = Arc::new(account);
//! # Ok(())
//! # }
//! ```

mod account;
mod address_policy;
mod assertion;
mod assertion_grant;
mod authorization_request;
mod challenge;
mod discovery;
mod dpop;
mod error;
mod grant;
mod http_client;
mod identity_login;
mod loopback;
mod metadata;
mod registration;
mod resource;
mod revocation;
mod stored_token;
mod token_endpoint;
mod token_store;
mod user_agent;

pub use account::{Account, LoginSettings};
pub use assertion_grant::{AssertionGrant, IdentityProvider, TokenSource};
pub use dpop::DpopPolicy;
pub use error::OAuthError;
pub use grant::{ClientIdentity, TokenRequest};
pub use loopback::LoopbackListener;
pub use revocation::Revocation;
pub use stored_token::Grant;
pub use token_store::TokenStore;
pub use user_agent::UserAgent;
