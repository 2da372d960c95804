//! Connection state, connecting and reconnecting.
//!
//! One background task opens the connection and retries with backoff; requests wait for it. The
//! handshake itself is in `handshake`.

use std::sync::Arc;

use crate::client::ClientInner;
use crate::connection::Connection;
use crate::connection::handshake::{self, HandshakeError};
use crate::error::Error;
use crate::event::ClientEvent;
use crate::transport::{Connector, Inbox, TransportError};

/// State of the client's connection.
#[derive(Debug)]
pub(crate) enum State {
    /// Never opened.
    Never,
    /// A task is opening it.
    Connecting,
    /// Open, as far as known.
    Up(Arc<Connection>),
    /// Lost for this reason; the next request opens another.
    Lost(TransportError),
    /// All attempts to open it failed; the next request tries again.
    Failed(Error),
    /// The client was closed.
    Closed,
}

impl ClientInner {
    /// The open connection, if there is one.
    pub(crate) fn current(&self) -> Option<Arc<Connection>> {
        match &*self.state.borrow() {
            State::Up(connection) if !connection.is_closed() => Some(connection.clone()),
            _ => None,
        }
    }

    /// The open connection, or waits until one is opened.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, Error> {
        if let Some(connection) = self.current() {
            return Ok(connection);
        }
        let mut states = self.state.subscribe();
        self.begin_connecting();
        loop {
            match &*states.borrow_and_update() {
                State::Up(connection) => return Ok(connection.clone()),
                State::Failed(error) => return Err(error.clone()),
                State::Closed => return Err(Error::Closed),
                // It was opened and lost meanwhile, and nobody opens another.
                State::Lost(source) => return Err(self.cannot_connect(source.clone())),
                State::Never | State::Connecting => {}
            }
            if states.changed().await.is_err() {
                return Err(Error::Closed);
            }
        }
    }

    /// Opens a connection in the background, unless one is open or being opened.
    pub(crate) fn begin_connecting(self: &Arc<Self>) {
        let mut first = false;
        let begin = self.state.send_if_modified(|state| {
            let begin = match state {
                State::Up(connection) => connection.is_closed(),
                State::Connecting | State::Closed => false,
                State::Never => {
                    first = true;
                    true
                }
                State::Lost(_) | State::Failed(_) => true,
            };
            if begin {
                *state = State::Connecting;
            }
            begin
        });
        if begin {
            // A task of its own, so that dropping the first request does not abort it.
            tokio::spawn(open(self.clone(), first));
        }
    }

    /// Records that a connection has ended.
    pub(crate) fn lost(&self, connection: &Connection, error: &TransportError) {
        self.state.send_if_modified(|state| match state {
            State::Up(current) if std::ptr::eq(&**current, connection) => {
                *state = State::Lost(error.clone());
                true
            }
            _ => false,
        });
        if connection.info().is_some() {
            self.emit(ClientEvent::Disconnected { reason: error.to_string() });
        }
    }
}

/// Tries to connect until that succeeds, the attempts are used up, or the error is permanent.
async fn open(inner: Arc<ClientInner>, first: bool) {
    let backoff = inner.options.backoff;
    let (mut attempt, begun) = (0, tokio::time::Instant::now());
    let outcome = loop {
        let error = match open_once(&inner).await {
            Ok(connection) => break Ok(connection),
            Err(error) => error,
        };
        attempt += 1;
        // A server that was never reached is reported early; a busy one is retried.
        let attempts = match first && !is_busy(&error) {
            true => backoff.initial_attempts,
            false => backoff.attempts,
        };
        let connector = inner.connector();
        if attempt >= attempts || !may_help(&error) || !connector.reconnects() {
            break Err(error);
        }
        let delay = match &error {
            // `Retry-After`, up to the longest delay.
            Error::Connect {
                source: TransportError::Refused { retry_after: Some(asked), .. },
                ..
            } => (*asked).min(backoff.max),
            _ => backoff.delay(attempt - 1, fastrand::f64()),
        };
        // All attempts for the first connection together have one connect timeout.
        if first && begun.elapsed() + delay > inner.options.connect_timeout {
            break Err(error);
        }
        if first {
            // The caller has no client yet to receive events from.
            tracing::warn!(%error, ?delay, "connecting failed; retrying");
        }
        inner.emit(ClientEvent::Retrying { attempt, delay, reason: error.to_string() });
        tokio::time::sleep(delay).await;
        if matches!(&*inner.state.borrow(), State::Closed) {
            return;
        }
    };
    let opened = outcome.as_ref().ok().cloned();
    inner.state.send_if_modified(|state| {
        if matches!(state, State::Closed) {
            return false;
        }
        *state = match outcome {
            Ok(connection) => match connection.why_closed() {
                Some(source) => State::Lost(source),
                None => State::Up(connection),
            },
            Err(error) => State::Failed(error),
        };
        true
    });
    if let Some(connection) = opened.filter(|connection| !connection.is_closed()) {
        inner.emit(ClientEvent::Connected { revision: connection.revision(), again: !first });
        watch_health(&inner, &connection);
    }
}

/// Returns whether another attempt may succeed.
fn may_help(error: &Error) -> bool {
    match error {
        Error::Connect { source, .. } | Error::Lost { source, .. } => match source {
            TransportError::Unreachable { .. } => true,
            TransportError::Refused { status, .. } => *status >= 500 || *status == 429,
            lost => lost.is_lost(),
        },
        Error::Timeout { .. } => true,
        _ => false,
    }
}

/// Returns whether the server, or a proxy before it, is temporarily unavailable (MCP-069).
fn is_busy(error: &Error) -> bool {
    let Error::Connect { source: TransportError::Refused { status, .. }, .. } = error else {
        return false;
    };
    matches!(status, 429 | 502..=504)
}

async fn open_once(inner: &Arc<ClientInner>) -> Result<Arc<Connection>, Error> {
    let limit = inner.options.connect_timeout;
    match tokio::time::timeout(limit, open_by(inner)).await {
        Ok(opened) => opened,
        Err(_) => {
            let what = format!("the connection to {}", inner.target);
            Err(Error::Timeout { what, limit })
        }
    }
}

/// Opens a connection with the connector or its fallbacks, and performs the handshake. The connector
/// that succeeds opens the next connection too.
async fn open_by(inner: &Arc<ClientInner>) -> Result<Arc<Connection>, Error> {
    let mut connector = inner.connector();
    loop {
        let source = match open_with(inner, &*connector).await {
            Ok(connection) => {
                *inner.connector.lock() = connector;
                return Ok(connection);
            }
            Err(HandshakeError::Failed(Error::Connect { source, .. }))
                if has_no_endpoint(&source) =>
            {
                source
            }
            Err(HandshakeError::Failed(error)) => return Err(error),
            Err(HandshakeError::Unsuitable(source)) => source,
            Err(HandshakeError::LostOnProbe(source)) => return Err(inner.cannot_connect(source)),
        };
        connector = match connector.fallback() {
            Some(fallback) => fallback,
            None => return Err(inner.cannot_connect(source)),
        };
    }
}

/// Returns whether a server rejected a connection because it has no such endpoint.
fn has_no_endpoint(error: &TransportError) -> bool {
    matches!(
        error,
        TransportError::Unsuitable(_)
            | TransportError::Refused { status: 400 | 404 | 405 | 406 | 410 | 415 | 501, .. }
    )
}

/// Opens a connection with one connector.
async fn open_with(
    inner: &Arc<ClientInner>,
    connector: &dyn Connector,
) -> Result<Arc<Connection>, HandshakeError> {
    let mut legacy = false;
    loop {
        let connection = dial(inner, connector).await.map_err(HandshakeError::Failed)?;
        match handshake::negotiate(inner, &connection, connector.origin(), legacy).await {
            Ok(()) => {
                let is_level_set = crate::calls::logging::restore(inner, &connection).await;
                match connection.why_closed() {
                    None => return Ok(connection),
                    // Some servers exit on a log level. It is not worth the connection.
                    Some(_) if is_level_set && connector.reconnects() => {
                        *inner.log_level.lock() = None;
                    }
                    Some(source) => {
                        return Err(HandshakeError::Failed(inner.cannot_connect(source)));
                    }
                }
            }
            // Some old servers exit on an unknown request.
            Err(HandshakeError::LostOnProbe(_)) if connector.reconnects() && !legacy => {
                legacy = true;
            }
            Err(failure) => {
                close_in_background(connection);
                return Err(failure);
            }
        }
    }
}

async fn dial(
    inner: &Arc<ClientInner>,
    connector: &dyn Connector,
) -> Result<Arc<Connection>, Error> {
    let signed =
        match &inner.options.signing {
            Some(signing) => Some(signing.begin().map_err(|source| Error::Connect {
                target: connector.target().to_owned(),
                source,
            })?),
            None => None,
        };
    let connection =
        Arc::new(Connection::new(Arc::downgrade(inner), inner.options.max_server_requests));
    let inbox = Inbox::new(&connection, &inner.options, signed.clone());
    let transport = connector.connect(inbox).await;
    let transport = transport
        .map_err(|source| Error::Connect { target: connector.target().to_owned(), source })?;
    connection.attach(transport, signed);
    Ok(connection)
}

/// Closes a connection without waiting for it.
fn close_in_background(connection: Arc<Connection>) {
    tokio::spawn(async move {
        if let Some(transport) = connection.transport() {
            transport.close().await;
        }
    });
}

/// Pings the server at intervals and closes the connection after too many missed replies (MCP-070).
fn watch_health(inner: &Arc<ClientInner>, connection: &Arc<Connection>) {
    let Some(health) = inner.options.health else { return };
    // A weak reference, so that the task does not keep the connection open.
    let (mut over, connection) = (connection.closed_signal(), Arc::downgrade(connection));
    tokio::spawn(async move {
        let mut missed = 0;
        loop {
            tokio::select! {
                _ = over.wait_for(|over| *over) => return,
                () = tokio::time::sleep(health.interval) => {}
            }
            let Some(connection) = connection.upgrade() else { return };
            match handshake::ping(&connection, health.interval).await {
                true => missed = 0,
                false => missed += 1,
            }
            if missed >= health.misses.max(1) {
                let what = format!("the server missed {missed} pings");
                connection.close(TransportError::Lost(what));
                return;
            }
        }
    });
}

impl ClientInner {
    fn cannot_connect(&self, source: TransportError) -> Error {
        Error::Connect { target: self.target.clone(), source }
    }

    pub(crate) fn connector(&self) -> Arc<dyn Connector> {
        self.connector.lock().clone()
    }
}
