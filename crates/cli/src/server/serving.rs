//! Serving a server of a small command, such as `bridge`: one client over standard input and output,
//! or any number over HTTP.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use mcp_flow::http::{self, Tls};
use mcp_flow::{ConnectionEnd, Principal, Server, stdio};

use crate::command::serve::{announce, bind_http, check_exposure, http_endpoints};
use crate::configuration::{File, origin, socket_address};
use crate::server::access;

/// Options for serving clients; without an address, one client over standard input and output.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ServingOptions {
    /// Serve over HTTP on this address; port 0 selects a free one [default: serve one client over
    /// standard input and output]
    #[arg(long, value_name = "ADDRESS", help_heading = "Network", value_parser = socket_address)]
    pub(crate) listen: Option<SocketAddr>,

    /// With --listen: print all endpoints as one line of JSON when ready
    #[arg(long, requires = "listen", help_heading = "Network")]
    json: bool,

    /// Host name to accept besides those of this machine; may be repeated
    #[arg(long = "allow-host", value_name = "NAME", requires = "listen", help_heading = "Network")]
    hosts: Vec<String>,

    /// Web origin that may access the server from a browser; may be repeated
    #[arg(long = "allow-origin", value_name = "ORIGIN", value_parser = origin, requires = "listen")]
    #[arg(help_heading = "Network")]
    origins: Vec<String>,

    /// Allow a public address without TLS and authentication, for example behind a proxy
    #[arg(long, requires = "listen", help_heading = "Network")]
    insecure: bool,

    /// Require clients to send a bearer token listed in this file, one NAME:TOKEN per line
    #[arg(long, value_name = "FILE", requires = "listen", help_heading = "Network")]
    token_file: Option<PathBuf>,

    /// PEM file with the certificate chain for clients; reloaded when it changes
    #[arg(long, value_name = "FILE", requires = "tls_key", requires = "listen")]
    #[arg(help_heading = "Network")]
    tls_certificate: Option<PathBuf>,

    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_certificate", help_heading = "Network")]
    tls_key: Option<PathBuf>,
}

impl ServingOptions {
    /// Creates the runtime that suits the transport.
    pub(crate) fn runtime(&self) -> std::io::Result<tokio::runtime::Runtime> {
        match self.listen {
            Some(_) => tokio::runtime::Builder::new_multi_thread().enable_all().build(),
            // One client needs one thread.
            None => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        }
    }

    /// Rejects an address that is open to others without protection.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        check_exposure(&self.file())
    }

    fn file(&self) -> File {
        let mut file = File::default();
        if let Some(listen) = self.listen {
            file.serve.listen = listen;
        }
        file.serve.insecure = self.insecure;
        file.serve.tls_certificate.clone_from(&self.tls_certificate);
        file.serve.tls_key.clone_from(&self.tls_key);
        file.identity.token_file.clone_from(&self.token_file);
        file
    }

    /// Serves until the client leaves, or until SIGTERM or ctrl-c.
    pub(crate) async fn serve(&self, server: &Server) -> anyhow::Result<ExitCode> {
        let stop = stdio::stop_signal().context("cannot listen for signals")?;
        let Some(listen) = self.listen else {
            let ended = stdio::serve_as(server, Principal::local(), stop).await.context("stdio")?;
            return Ok(match ended {
                ConnectionEnd::Drained | ConnectionEnd::Exit { after_shutdown: true } => {
                    ExitCode::SUCCESS
                }
                _ => ExitCode::FAILURE,
            });
        };
        let file = self.file();
        let verifier = access::token_verifier(&file)?;
        let mut bound = bind_http(listen).await?.options(http::Options {
            hosts: self.hosts.clone(),
            origins: self.origins.clone(),
            ..http::Options::default()
        });
        if let Some(verifier) = verifier {
            bound = bound.verifier(verifier);
        }
        if let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) {
            bound = bound.tls(Arc::new(Tls::from_pem(certificate, key)?))?;
        }
        let mut endpoints = http_endpoints(bound.address(), self.tls_certificate.is_some());
        if let Some(endpoints) = endpoints.as_object_mut() {
            // There is no console here.
            endpoints.remove("http");
            endpoints.insert("pid".to_owned(), std::process::id().into());
        }
        announce(&endpoints, self.json)?;
        bound.serve(server, stop).await;
        Ok(ExitCode::SUCCESS)
    }
}
