//! Connection state, connecting and reconnecting.
//!
//! One background task opens the connection and retries with backoff; requests wait for it. The
//! handshake itself is in `handshake`.

use std::sync::{Arc, PoisonError};

use crate::client::Shared;
use crate::error::Error;
use crate::event::Event;
use crate::handshake::{self, Disagreement};
use crate::link::Link;
use crate::transport::{Connector, Inbox, TransportError};

/// State of the client's connection.
#[derive(Debug)]
pub(crate) enum State {
    /// Never opened.
    Never,
    /// A task is opening it.
    Connecting,
    /// Open, as far as known.
    Up(Arc<Link>),
    /// Lost; the next request opens another.
    Lost,
    /// All attempts to open it failed; the next request tries again.
    Failed(Error),
    /// The client was closed.
    Closed,
}

impl Shared {
    /// The open connection, if there is one.
    pub(crate) fn current(&self) -> Option<Arc<Link>> {
        match &*self.state.borrow() {
            State::Up(link) if !link.is_closed() => Some(link.clone()),
            _ => None,
        }
    }

    /// The open connection, or waits until one is opened.
    pub(crate) async fn link(self: &Arc<Self>) -> Result<Arc<Link>, Error> {
        if let Some(link) = self.current() {
            return Ok(link);
        }
        let mut states = self.state.subscribe();
        self.begin_connecting();
        loop {
            match &*states.borrow_and_update() {
                State::Up(link) => return Ok(link.clone()),
                State::Failed(error) => return Err(error.clone()),
                State::Closed => return Err(Error::Closed),
                State::Never | State::Connecting | State::Lost => {}
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
                State::Up(link) => link.is_closed(),
                State::Connecting | State::Closed => false,
                State::Never => {
                    first = true;
                    true
                }
                State::Lost | State::Failed(_) => true,
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
    pub(crate) fn lost(&self, link: &Link, error: &TransportError) {
        self.state.send_if_modified(|state| match state {
            State::Up(current) if std::ptr::eq(&**current, link) => {
                *state = State::Lost;
                true
            }
            _ => false,
        });
        if link.info().is_some() {
            self.tell(Event::Disconnected { reason: error.to_string() });
        }
    }
}

/// Tries to connect until that succeeds, the attempts are used up, or the error is permanent.
async fn open(shared: Arc<Shared>, first: bool) {
    let backoff = shared.options.backoff;
    let (mut attempt, begun) = (0, tokio::time::Instant::now());
    let outcome = loop {
        let error = match open_once(&shared).await {
            Ok(link) => break Ok(link),
            Err(error) => error,
        };
        attempt += 1;
        // A server that was never reached is reported early; a busy one is retried.
        let attempts = match first && !is_busy(&error) {
            true => backoff.first_attempts,
            false => backoff.attempts,
        };
        let connector = shared.connector();
        if attempt >= attempts || !may_help(&error) || !connector.reconnects() {
            break Err(error);
        }
        let delay = match &error {
            // `Retry-After`, up to the longest delay.
            Error::Connect {
                source: TransportError::Refused { retry_after: Some(asked), .. },
                ..
            } => (*asked).min(backoff.most),
            _ => backoff.delay(attempt - 1, fastrand::f64()),
        };
        // All attempts for the first connection together have one connect timeout.
        if first && begun.elapsed() + delay > shared.options.connect_limit {
            break Err(error);
        }
        if first {
            // The caller has no client yet to receive events from.
            tracing::warn!(%error, ?delay, "connecting failed; retrying");
        }
        shared.tell(Event::Retrying { attempt, delay, reason: error.to_string() });
        tokio::time::sleep(delay).await;
        if matches!(&*shared.state.borrow(), State::Closed) {
            return;
        }
    };
    let opened = outcome.as_ref().ok().cloned();
    shared.state.send_if_modified(|state| {
        if matches!(state, State::Closed) {
            return false;
        }
        *state = match outcome {
            Ok(link) if link.is_closed() => State::Lost,
            Ok(link) => State::Up(link),
            Err(error) => State::Failed(error),
        };
        true
    });
    if let Some(link) = opened {
        shared.tell(Event::Connected { revision: link.revision(), again: !first });
        watch_health(&shared, &link);
    }
}

/// Returns whether another attempt may succeed.
fn may_help(error: &Error) -> bool {
    match error {
        Error::Connect { source, .. } | Error::Lost { source, .. } => match source {
            TransportError::Unreachable { .. } | TransportError::Lost(_) => true,
            TransportError::Refused { status, .. } => *status >= 500 || *status == 429,
            _ => false,
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

async fn open_once(shared: &Arc<Shared>) -> Result<Arc<Link>, Error> {
    let limit = shared.options.connect_limit;
    match tokio::time::timeout(limit, open_by(shared)).await {
        Ok(opened) => opened,
        Err(_) => {
            let what = format!("the connection to {}", shared.target);
            Err(Error::Timeout { what, limit })
        }
    }
}

/// Opens a connection with the connector or its fallback, and performs the handshake.
async fn open_by(shared: &Arc<Shared>) -> Result<Arc<Link>, Error> {
    loop {
        let connector = shared.connector();
        let mut legacy = false;
        let disagreement = loop {
            let link = dial(shared, &*connector).await?;
            match handshake::agree(shared, &link, connector.origin(), legacy).await {
                Ok(()) => {
                    crate::logging::restore(shared, &link).await;
                    return Ok(link);
                }
                // Some old servers exit on an unknown request.
                Err(Disagreement::DiedOfProbe) if connector.reconnects() && !legacy => {
                    legacy = true;
                }
                Err(disagreement) => {
                    close_in_background(link);
                    break disagreement;
                }
            }
        };
        match (disagreement, connector.fallback()) {
            (Disagreement::Unsuitable(_), Some(fallback)) => {
                *shared.connector.lock().unwrap_or_else(PoisonError::into_inner) = fallback;
            }
            (Disagreement::Unsuitable(source), None) => {
                return Err(Error::Connect { target: shared.target.clone(), source });
            }
            (Disagreement::DiedOfProbe, _) => {
                let source = TransportError::Lost("the server exited at once".to_owned());
                return Err(Error::Connect { target: shared.target.clone(), source });
            }
            (Disagreement::Failed(error), _) => return Err(error),
        }
    }
}

async fn dial(shared: &Arc<Shared>, connector: &dyn Connector) -> Result<Arc<Link>, Error> {
    let signed =
        match &shared.options.signing {
            Some(signing) => Some(signing.begin().map_err(|source| Error::Connect {
                target: connector.target().to_owned(),
                source,
            })?),
            None => None,
        };
    let link = Arc::new(Link::new(Arc::downgrade(shared), shared.options.most_questions));
    let inbox = Inbox::new(&link, shared.options.frame_limit, signed.clone());
    let transport = connector.connect(inbox).await;
    let transport = transport
        .map_err(|source| Error::Connect { target: connector.target().to_owned(), source })?;
    link.attach(transport, signed);
    Ok(link)
}

/// Closes a connection without waiting for it.
fn close_in_background(link: Arc<Link>) {
    tokio::spawn(async move {
        if let Some(transport) = link.transport() {
            transport.close().await;
        }
    });
}

/// Pings the server at intervals and closes the connection after too many missed replies (MCP-070).
fn watch_health(shared: &Arc<Shared>, link: &Arc<Link>) {
    let Some(health) = shared.options.health else { return };
    // A weak reference, so that the task does not keep the connection open.
    let (mut over, link) = (link.end(), Arc::downgrade(link));
    tokio::spawn(async move {
        let mut missed = 0;
        loop {
            tokio::select! {
                _ = over.wait_for(|over| *over) => return,
                () = tokio::time::sleep(health.interval) => {}
            }
            let Some(link) = link.upgrade() else { return };
            match handshake::ping(&link, health.interval).await {
                true => missed = 0,
                false => missed += 1,
            }
            if missed >= health.misses.max(1) {
                let what = format!("the server missed {missed} pings");
                link.close(TransportError::Lost(what));
                return;
            }
        }
    });
}

impl Shared {
    pub(crate) fn connector(&self) -> Arc<dyn Connector> {
        self.connector.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
