//! Attempts to send a request: the cache, timeouts, and retries where they are safe.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use mcp_flow_proto::{OwnedRaw, method};

use super::{Request, RequestParams};
use crate::calls::input_required::Input;
use crate::calls::trace;
use crate::connection::handshake::own_meta;
use crate::connection::pending::{ProgressSink, RequestFailure};
use crate::connection::{Connection, Exchange, RequestError, RequestExtras};
use crate::error::Error;
use crate::transport::TransportError;

impl<P, R> Request<P, R>
where
    P: RequestParams,
    R: Send + 'static,
{
    /// Sends the request and waits for its response, retrying if that is safe.
    pub(super) async fn exchange(
        &self,
        input: &Input,
    ) -> Result<(Arc<Connection>, OwnedRaw), Error> {
        let mut attempt = 0;
        // Answers, a host of its own and members of `_meta` may change the result.
        let is_plain = input.is_empty() && self.meta.is_empty() && self.host.is_none();
        let cache_key = self.cache_key.as_ref().filter(|_| is_plain);
        let cache = &self.client.inner.cache;
        loop {
            let connection = self.client.inner.connection().await?;
            let generation = cache.generation();
            if let Some(raw) = cache_key.and_then(|key| cache.find(key)) {
                return Ok((connection, raw));
            }
            let mut span = trace::start(&self.method, self.name.as_deref(), &connection);
            let meta = trace::members(&self.meta, &span);
            let (error, is_sent) = match self.once(&connection, input, &meta).await {
                Ok(raw) => {
                    if let Some(key) = cache_key {
                        cache.store(key, &raw, generation, self.client.inner.options.cache_bytes);
                    }
                    return Ok((connection, raw));
                }
                Err(AttemptError::Final(error)) => return Err(trace::fail(&mut span, error)),
                Err(AttemptError::Transport { error, is_sent }) => (error, is_sent),
            };
            span.fail("connection", || error.to_string());
            drop(span);
            attempt += 1;
            let may_repeat = !is_sent || (self.repeatable && is_passing(&error));
            let attempts = self.client.inner.options.backoff.attempts;
            if !may_repeat || attempt > attempts || !self.client.inner.connector().reconnects() {
                return Err(self.explain(error, is_sent));
            }
            if !connection.is_closed() {
                let backoff = self.client.inner.options.backoff;
                tokio::time::sleep(backoff.delay(attempt - 1, fastrand::f64())).await;
            }
        }
    }

    async fn once(
        &self,
        connection: &Arc<Connection>,
        input: &Input,
        meta: &str,
    ) -> Result<OwnedRaw, AttemptError> {
        let stateless = connection.revision().is_stateless();
        let method = match &*self.method {
            // 2026-07-28 has no ping.
            method::PING if stateless => Cow::Borrowed(method::SERVER_DISCOVER),
            _ => self.method.clone(),
        };
        let level = self.client.inner.log_level_member(stateless);
        let meta = match (meta, level) {
            (meta, None) => Cow::Borrowed(meta),
            ("", Some(level)) => Cow::Owned(level),
            (meta, Some(level)) => Cow::Owned(format!("{meta},{level}")),
        };
        // Progress is requested only if the caller wants it.
        let sink =
            (self.progress.is_some()).then(|| Arc::new(ProgressSink::new(self.progress.clone())));
        // The connection's own members declare tasks; those of a relay are its caller's.
        let inner = &self.client.inner;
        let capabilities = match (&self.host, self.relays()) {
            (Some(host), true) => Some(host.capabilities()),
            (Some(host), false) => Some(inner.with_tasks(host.capabilities())),
            (None, true) => Some(inner.capabilities()),
            (None, false) => None,
        };
        let own_meta = capabilities
            .filter(|_| stateless)
            .map(|capabilities| own_meta(inner, &capabilities, connection.revision()));
        let extras = RequestExtras {
            own_meta: own_meta.as_deref(),
            meta: &meta,
            input,
            name: self.name.as_deref(),
            headers: &self.headers,
            progress: sink.clone(),
            host: self.host.clone(),
        };
        let exchange = match connection.request(method, &self.params, &extras) {
            Ok(exchange) => exchange,
            Err(RequestError::Usage(what)) => return Err(AttemptError::Final(Error::Usage(what))),
            Err(RequestError::Unsent(error)) => {
                return Err(AttemptError::Transport { error, is_sent: false });
            }
        };
        match self.wait(connection, exchange, sink).await? {
            Ok(raw) => Ok(raw),
            Err(RequestFailure::Server(error)) => Err(AttemptError::Final(error.into())),
            Err(RequestFailure::Transport(error)) => {
                let is_sent = !matches!(error, TransportError::Unreachable { .. });
                Err(AttemptError::Transport { error, is_sent })
            }
        }
    }

    /// Waits for the response until its timeout.
    async fn wait(
        &self,
        connection: &Connection,
        mut exchange: Exchange,
        sink: Option<Arc<ProgressSink>>,
    ) -> Result<Result<OwnedRaw, RequestFailure>, AttemptError> {
        let options = &self.client.inner.options;
        let limit = self.timeout.unwrap_or(options.request_timeout);
        let begun = Instant::now();
        let mut seen = 0;
        loop {
            if let Ok(reply) = tokio::time::timeout(limit, exchange.reply()).await {
                return Ok(reply);
            }
            let reports = sink.as_ref().map_or(0, |sink| sink.count());
            // While the host answers a request of the server, the host's own timeout applies.
            let is_asking = connection.server_requests().are_open();
            if (reports == seen && !is_asking) || begun.elapsed() >= options.total_timeout {
                break;
            }
            seen = reports;
        }
        Err(AttemptError::Final(match connection.last_invalid_message() {
            Some(garbage) => Error::Protocol(format!(
                "no response to {} within {}, only invalid messages such as {garbage:?}",
                self.method,
                crate::error::Seconds(limit),
            )),
            None => Error::Timeout { what: self.method.to_string(), limit },
        }))
    }

    fn explain(&self, source: TransportError, is_sent: bool) -> Error {
        let method = self.method.to_string();
        match source {
            TransportError::InvalidMessage(what) => Error::Protocol(what),
            source if is_sent && is_passing(&source) => Error::Lost { method, source },
            // The server may have processed it, though its response is not trusted.
            source @ TransportError::InvalidSignature(_) if is_sent => {
                Error::Lost { method, source }
            }
            source => Error::Connect { target: self.client.inner.target.clone(), source },
        }
    }
}

/// Failure of one attempt.
enum AttemptError {
    Final(Error),
    Transport { error: TransportError, is_sent: bool },
}

/// Returns whether an error is transient.
fn is_passing(error: &TransportError) -> bool {
    match error {
        TransportError::Unreachable { .. } => true,
        TransportError::Refused { status, .. } => *status >= 500 || *status == 429,
        lost => lost.is_lost(),
    }
}
