//! One connection, opened when it is needed and again after it was lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_flow_session::StoreError;
use mcp_flow_store_rows::StoreOpenError;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::{Client, Config, Row};

use crate::Param;
use crate::error::{is_unsupported_option, open_error, store_error};
use crate::tls::MakeTls;
use crate::url::PostgresUrl;

/// A connection that is opened again after it was lost.
pub(crate) struct Link {
    config: Config,
    tls: MakeTls,
    client: Mutex<Option<Arc<Client>>>,
    /// Set if the server does not take options: a connection pooler.
    is_pooled: AtomicBool,
}

impl Link {
    pub(crate) fn new(url: &PostgresUrl) -> Result<Self, StoreOpenError> {
        let mut config = url.config.clone();
        config
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(STATEMENT_TIMEOUT)
            .keepalives_idle(Duration::from_secs(5));
        if config.get_application_name().is_none() {
            config.application_name("mcp-flow");
        }
        let tls = url.trust.client_config(rustls::DEFAULT_VERSIONS, &[]).map_err(|error| {
            StoreOpenError::Unusable(format!("the certificates to trust cannot be used: {error}"))
        })?;
        let (tls, client) = (MakeTls { config: Arc::new(tls) }, Mutex::new(None));
        Ok(Self { config, tls, client, is_pooled: AtomicBool::new(false) })
    }

    /// Opens a connection apart from that of the link.
    pub(crate) async fn connect(
        &self,
    ) -> Result<
        (
            Client,
            tokio_postgres::Connection<
                tokio_postgres::Socket,
                crate::tls::TlsStream<tokio_postgres::Socket>,
            >,
        ),
        tokio_postgres::Error,
    > {
        let mut config = self.config.clone();
        if !self.is_pooled.load(Ordering::Relaxed) {
            // A statement of a node that is gone must not hold locks for long.
            let options = config.get_options().unwrap_or_default().to_owned();
            let millis = STATEMENT_TIMEOUT.as_millis();
            config.options(format!(
                "{options} -c statement_timeout={millis} -c lock_timeout={millis} \
                 -c idle_in_transaction_session_timeout={millis}"
            ));
        }
        match config.connect(self.tls.clone()).await {
            Err(error) if is_unsupported_option(&error) => {
                self.is_pooled.store(true, Ordering::Relaxed);
                self.config.connect(self.tls.clone()).await
            }
            connected => connected,
        }
    }

    /// Returns the connection, after opening it if there is none.
    async fn client(&self) -> Result<Arc<Client>, tokio_postgres::Error> {
        let mut open = self.client.lock().await;
        if let Some(client) = open.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        let (client, connection) = self.connect().await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the store was lost");
            }
        });
        Ok(Arc::clone(open.insert(Arc::new(client))))
    }

    /// Connects, and reports why that fails in terms of opening a store.
    pub(crate) async fn open(&self) -> Result<Arc<Client>, StoreOpenError> {
        match timeout(OPEN_TIMEOUT, self.client()).await {
            Ok(client) => client.map_err(|error| open_error(&error)),
            Err(_) => Err(StoreOpenError::Unreachable("the server does not respond".to_owned())),
        }
    }

    /// Runs a statement within a time limit. A connection that does not respond is given up.
    pub(crate) async fn query(
        &self,
        limit: Duration,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let query = async {
            let client = self.client().await?;
            client.query_typed(statement, params).await
        };
        match timeout(limit, query).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(store_error(error)),
            Err(_) => {
                self.close().await;
                Err(StoreError::Unavailable("the database server does not respond".to_owned()))
            }
        }
    }

    /// Runs statements without parameters in one transaction.
    pub(crate) async fn execute(
        &self,
        limit: Duration,
        statements: &str,
    ) -> Result<(), StoreError> {
        let execute = async {
            let client = self.client().await?;
            client.batch_execute(statements).await
        };
        match timeout(limit, execute).await {
            Ok(done) => done.map_err(store_error),
            Err(_) => {
                self.close().await;
                Err(StoreError::Unavailable("the database server does not respond".to_owned()))
            }
        }
    }

    /// Gives the connection up, so that the next statement opens another.
    async fn close(&self) {
        *self.client.lock().await = None;
    }
}

/// Longest time to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time to connect, and then to prepare the tables, when the store is opened.
pub(crate) const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for a statement that reads or writes journals.
pub(crate) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);
