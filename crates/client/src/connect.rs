//! Finding the connection, opening it, and opening it again.

use std::sync::{Arc, PoisonError};

use crate::client::Shared;
use crate::error::Error;
use crate::event::Event;
use crate::handshake::{self, Disagreement};
use crate::link::Link;
use crate::transport::{Connector, Inbox, TransportError};

/// How the connection stands.
#[derive(Debug)]
pub(crate) enum State {
    /// There has been none.
    Never,
    /// One is being opened.
    Connecting,
    /// There is one. It may be lost, and nobody has noticed yet.
    Up(Arc<Link>),
    /// The last one is lost.
    Lost,
    /// The last attempt to open one failed.
    Failed(Error),
    /// There will be none any more.
    Closed,
}

impl Shared {
    /// The connection, if there is one.
    pub(crate) fn current(&self) -> Option<Arc<Link>> {
        match &*self.state.borrow() {
            State::Up(link) if !link.is_closed() => Some(link.clone()),
            _ => None,
        }
    }

    /// The connection, opened if there is none.
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

    /// Opens a connection in the background, unless there is one or one is being opened.
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
            // Its own task, so that it is not dropped with whoever asked first.
            tokio::spawn(open(self.clone(), first));
        }
    }

    /// Takes note that a connection is over.
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

/// Tries until there is a connection, the attempts are used up, or trying makes no sense.
async fn open(shared: Arc<Shared>, first: bool) {
    let backoff = shared.options.backoff;
    let (mut attempt, begun) = (0, tokio::time::Instant::now());
    let outcome = loop {
        let error = match open_once(&shared).await {
            Ok(link) => break Ok(link),
            Err(error) => error,
        };
        attempt += 1;
        // A server that was never there is told of at once; one that is there and busy is not.
        let attempts = match first && !is_busy(&error) {
            true => backoff.first_attempts,
            false => backoff.attempts,
        };
        let connector = shared.connector();
        if attempt >= attempts || !may_help(&error) || !connector.reconnects() {
            break Err(error);
        }
        let delay = match &error {
            // A server that says how long knows best, within reason.
            Error::Connect {
                source: TransportError::Refused { retry_after: Some(asked), .. },
                ..
            } => (*asked).min(backoff.most),
            _ => backoff.delay(attempt - 1, fastrand::f64()),
        };
        // Whoever waits for the first connection waits no longer for all attempts than for one.
        if first && begun.elapsed() + delay > shared.options.connect_limit {
            break Err(error);
        }
        if first {
            // Nobody can listen to events of a client that is not there yet.
            tracing::warn!(%error, ?delay, "trying to connect again");
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

/// Whether another attempt could go better.
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

/// Returns whether the server, or a proxy before it, says that another time may be better (MCP-069).
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

/// Opens a connection by the connector, or by the one it falls back to.
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
                // Some old servers do not survive a request they do not know.
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
                let source = TransportError::Lost("the server ended at once".to_owned());
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

/// Ends a connection nobody wants, without making anybody wait for it.
fn close_in_background(link: Arc<Link>) {
    tokio::spawn(async move {
        if let Some(transport) = link.transport() {
            transport.close().await;
        }
    });
}

/// Asks the server now and then whether it is there, and gives it up if it is not (MCP-070).
fn watch_health(shared: &Arc<Shared>, link: &Arc<Link>) {
    let Some(health) = shared.options.health else { return };
    // It watches the connection, and does not keep it.
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
