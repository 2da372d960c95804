//! Changes by other nodes, announced by `NOTIFY` or found by polling.
//!
//! A payload is `s`, the epoch of the node, a colon, and the sessions it changed in hexadecimal,
//! separated by commas; or `m`, the recipient if there is one, a colon, and the number of a
//! message.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;
use mcp_flow_session::store::{StoreChange, StoreChanges};
use mcp_flow_session::{Epoch, SessionId, StoreError};
use mcp_flow_store_rows::open_message;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::AsyncMessage;
use tokio_postgres::types::Type;

use crate::link::{Link, STATEMENT_TIMEOUT};
use crate::{Core, Param, millis};

/// Announces the sessions that this node has changed, many at once.
pub(crate) async fn run_notifier(
    core: &Arc<Core>,
    mut changed: mpsc::UnboundedReceiver<(u64, SessionId)>,
) {
    let mut gathered = Vec::new();
    while changed.recv_many(&mut gathered, MAX_CHANGES).await > 0 {
        sleep(GATHER).await;
        while let Ok(next) = changed.try_recv() {
            gathered.push(next);
        }
        let mut seen = HashSet::new();
        gathered.retain(|change| seen.insert(*change));
        for some in gathered.chunks(PAYLOAD_IDS) {
            let epoch = some[0].0;
            let mut payload = format!("s{epoch}:");
            for (_, id) in some.iter().filter(|(by, _)| *by == epoch) {
                let _ = write!(payload, "{:032x},", id.bits());
            }
            // Only digits and separators, so it needs no quoting. It need not be durable. One
            // statement, for others of the connection would fail in a transaction left open.
            let notify = format!(
                "SELECT set_config('synchronous_commit', 'off', true), \
                 pg_notify('mcp_flow', '{payload}')"
            );
            if let Err(error) = core.control.execute(STATEMENT_TIMEOUT, &notify).await {
                tracing::debug!(%error, "cannot announce changes");
            }
        }
        gathered.clear();
    }
}

/// Changes by other nodes. A task listens until this is dropped.
pub(crate) struct Changes {
    receiver: mpsc::Receiver<StoreChange>,
    task: JoinHandle<()>,
}

impl Changes {
    pub(crate) fn start(core: &Arc<Core>, handle: &Handle, of: Epoch) -> Self {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        let listener = Listener { core: Arc::clone(core), of, sender, message: 0 };
        Self { receiver, task: handle.spawn(listener.run()) }
    }
}

impl StoreChanges for Changes {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = StoreChange> + Send + '_>> {
        Box::pin(async {
            match self.receiver.recv().await {
                Some(change) => change,
                None => std::future::pending().await,
            }
        })
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Listener {
    core: Arc<Core>,
    of: Epoch,
    sender: mpsc::Sender<StoreChange>,
    /// Last message that was seen while polling.
    message: i64,
}

impl Listener {
    /// Listens, and polls where notifications do not arrive.
    async fn run(mut self) {
        let link = match Link::new(&self.core.url) {
            Ok(link) => link,
            Err(error) => return tracing::error!(%error, "cannot listen to other nodes"),
        };
        loop {
            match self.listen(&link).await {
                Ok(()) => {
                    tracing::info!("notifications do not arrive, as behind a pooler; polling");
                    if self.poll().await.is_none() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, "lost the connection that listens to other nodes");
                    sleep(RETRY).await;
                }
            }
            if self.sender.is_closed() {
                return;
            }
        }
    }

    /// Passes notifications on until the connection is lost. Returns if none arrive at all.
    async fn listen(&mut self, link: &Link) -> Result<(), StoreError> {
        let lost = |error: &dyn std::fmt::Display| StoreError::Unavailable(error.to_string());
        let connected = timeout(STATEMENT_TIMEOUT, link.connect()).await;
        let (client, mut connection) =
            connected.map_err(|error| lost(&error))?.map_err(|error| lost(&error))?;
        let (messages, mut received) = mpsc::unbounded_channel();
        let pump = async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(AsyncMessage::Notification(note)) => {
                        if messages.send(note.payload().to_owned()).is_err() {
                            return;
                        }
                    }
                    Ok(_) => {}
                    Err(error) => return tracing::debug!(%error, "a connection was lost"),
                }
            }
        };
        let pump = tokio::spawn(pump);
        let _pump = AbortOnDrop(pump);
        let listen = client.batch_execute("LISTEN mcp_flow");
        let listening = timeout(STATEMENT_TIMEOUT, listen).await;
        listening.map_err(|error| lost(&error))?.map_err(|error| lost(&error))?;
        // From another connection, as the others send them.
        let hello = format!("SELECT pg_notify('mcp_flow', 'h{}')", self.of);
        self.core.control.execute(STATEMENT_TIMEOUT, &hello).await?;
        let expected = format!("h{}", self.of);
        let heard = async {
            let mut early = VecDeque::new();
            while let Some(payload) = received.recv().await {
                if payload == expected {
                    return Some(early);
                }
                early.push_back(payload);
            }
            None
        };
        let Ok(early) = timeout(HELLO_TIMEOUT, heard).await else { return Ok(()) };
        let early = early.ok_or_else(|| lost(&"the connection was closed"))?;
        self.send(StoreChange::Missed).await;
        for payload in early {
            self.receive(&payload).await?;
        }
        loop {
            // A connection that was cut in silence is found by asking.
            match timeout(CHECK, received.recv()).await {
                Ok(Some(payload)) => self.receive(&payload).await?,
                Ok(None) => return Err(lost(&"the connection was closed")),
                Err(_) => {
                    let check = timeout(HELLO_TIMEOUT, client.batch_execute("SELECT 1")).await;
                    check.map_err(|error| lost(&error))?.map_err(|error| lost(&error))?;
                }
            }
        }
    }

    async fn receive(&mut self, payload: &str) -> Result<(), StoreError> {
        let own = self.of.number().to_string();
        let Some((kind, rest)) = payload.split_at_checked(1) else { return Ok(()) };
        match (kind, rest.split_once(':')) {
            ("s", Some((by, ids))) if by != own => {
                for id in ids.split(',').filter_map(|id| u128::from_str_radix(id, 16).ok()) {
                    self.send(StoreChange::Session(SessionId::from_random(id))).await;
                }
            }
            ("m", Some((to, number))) if to.is_empty() || to == own => {
                let number: i64 = number.parse().unwrap_or(0);
                self.fetch("number = $1", number).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Passes messages on that meet a condition, and remembers the last.
    async fn fetch(&mut self, condition: &str, number: i64) -> Result<(), StoreError> {
        let fetch = format!(
            "SELECT value, number FROM mcp_flow_message \
             WHERE {condition} AND (recipient IS NULL OR recipient = $2) ORDER BY number"
        );
        let of = millis(self.of.number());
        let params: [Param<'_>; 2] = [(&number, Type::INT8), (&of, Type::INT8)];
        for row in self.core.control(&fetch, &params).await? {
            self.message = self.message.max(row.get(1));
            if let Some(message) = open_message(&self.core.keys, row.get(0)) {
                self.send(StoreChange::Posted(message)).await;
            }
        }
        Ok(())
    }

    /// Polls for a while, after which listening is tried again. None if nobody wants changes.
    async fn poll(&mut self) -> Option<()> {
        for _ in 0..POLLS {
            if self.sender.is_closed() {
                return None;
            }
            if let Err(error) = self.fetch("number > $1", self.message).await {
                tracing::debug!(%error, "cannot poll for messages");
            }
            self.send(StoreChange::Missed).await;
            sleep(POLL).await;
        }
        Some(())
    }

    async fn send(&self, change: StoreChange) {
        // Fails only if nobody wants changes any more.
        let _ = self.sender.send(change).await;
    }
}

/// Ends a task when dropped.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Time in which changes are gathered before they are announced.
const GATHER: Duration = Duration::from_millis(5);

/// Most changes gathered, and those of one payload, which may have 8,000 bytes.
const MAX_CHANGES: usize = 4096;
const PAYLOAD_IDS: usize = 200;

/// Time to wait for a notification to oneself.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// Time without notifications after which a connection is checked.
const CHECK: Duration = Duration::from_secs(2);

/// Pause before a lost connection is opened again.
const RETRY: Duration = Duration::from_millis(250);

/// Pause between two polls, and the number of polls before listening is tried again.
const POLL: Duration = Duration::from_millis(250);
const POLLS: usize = 240;

/// Changes that wait for the engine.
const CAPACITY: usize = 1024;
