//! Logging in to protected servers, and staying logged in (MCP-089, MCP-090).
//!
//! An OAuth 2.1 client as MCP describes it: discovery (RFC 9728, RFC 8414, OpenID Connect), client
//! registration (RFC 7591) and client ID metadata documents, the authorization code grant with PKCE
//! (RFC 7636), client credentials by secret or key (RFC 7523), refreshing and revocation (RFC 7009).
//!
//! - [`Account`]: one server and who one is there. A transport asks it for a credential
//!   ([`Authorizer`](mcp_flow_client::authorizer::Authorizer)); it renews what is over, asks for
//!   more where a token does not reach far enough, and says so when somebody has to log in.
//! - [`Tokens`]: what is kept between two runs, in a file that is nobody else's business.
//! - [`Visitor`]: whoever can open the page on which a person consents; [`Loopback`] waits for them
//!   to be sent back.
//! - bounds: what authorization servers say is hostile like everything else. Nothing is sent in the
//!   clear except on this machine, nobody is followed elsewhere, internal addresses are out of
//!   reach for servers on the outside, answers are short and quick or not read.
//!
//! ```no_run
//! use std::sync::Arc;
//! use mcp_flow_oauth::{Account, Settings, Tokens};
//!
//! # fn example() -> Result<(), mcp_flow_oauth::OAuthError> {
//! let tokens = Tokens::file("/home/me/.local/share/mcp-flow/logins.json");
//! let account = Account::new("https://mcp.example.com/mcp", tokens, Settings::default())?;
//! // As `HttpOptions::authorizer`, it lets a client in wherever somebody has logged in before.
//! let authorizer = Arc::new(account);
//! # Ok(())
//! # }
//! ```

mod account;
mod assertion;
mod authorization_request;
mod bounds;
mod challenge;
mod discovery;
mod error;
mod grant;
mod kept;
mod loopback;
mod messenger;
mod metadata;
mod registration;
mod resource;
mod revoke;
mod token_endpoint;
mod tokens;
mod visitor;

pub use account::{Account, Settings};
pub use error::OAuthError;
pub use grant::{Identity, Wish};
pub use kept::Granted;
pub use loopback::Loopback;
pub use revoke::Returned;
pub use tokens::Tokens;
pub use visitor::Visitor;
