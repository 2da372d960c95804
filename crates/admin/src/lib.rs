//! Looking after a server by MCP itself: which sessions there are, what goes by, how it is doing.
//!
//! `admin/server` tells what the server is, `admin/sessions` lists sessions, and `admin/watch` has
//! changes pushed as notifications: sessions (`watch`), exchanges and figures (`recorder`). Who may
//! see what is decided here and nowhere else: one's own sessions are for everyone, all the rest for
//! those the server was told of. `docs/admin.md` has the wire format.
//!
//! As long as nobody watches, a request costs one look at a flag.
//!
//! ```
//! use mcp_flow_admin::Admin;
//! use mcp_flow_server::Server;
//!
//! let admin = Admin::new(|principal| principal.name() == "ada");
//! let server = admin.add_to(Server::builder("watched", "1.0.0")).build().unwrap();
//! # let _ = server;
//! ```

mod admin;
mod figures;
mod methods;
mod recorder;
mod watch;

pub use admin::Admin;
