//! Admin extension: server information, sessions, traffic and metrics over MCP.
//!
//! `admin/server` describes the server, `admin/sessions` lists sessions, and `admin/watch` pushes
//! changes as notifications: sessions (`watch`), exchanges and metrics (`recorder`). Everyone may
//! see their own sessions; everything else needs the admin permission, which is checked here only.
//! `docs/admin.md` has the wire format.
//!
//! Without watches, the cost per request is one atomic load.
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
mod methods;
mod metrics;
mod recorder;
mod watch;

pub use admin::Admin;
