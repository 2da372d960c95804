//! Paginated lists as streams.

use std::collections::HashSet;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, TryStreamExt};
use mcp_flow_proto::Raw;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::calls::request::Request;
use crate::client::Client;
use crate::error::Error;
use crate::event::ClientEvent;

impl Client {
    /// Lists the raw entries of any paginated method: `member` of its results.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_flow_client::Error> {
    /// # let server = mcp_flow_testkit_fixture::Fixture::new().server;
    /// # let connector = mcp_flow_stdio::client::in_process(&server);
    /// # let client = mcp_flow_client::Client::builder().connect(connector).await?;
    /// let tools = client.entries("tools/list", "tools").all().await?;
    /// assert!(tools.iter().any(|tool| tool["name"] == "math.add"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn entries(&self, method: &'static str, member: &'static str) -> PagedList<Value> {
        PagedList::new(self, method, member)
    }
}

/// Stream of a list's entries. The next page is requested when the previous one is consumed.
///
/// Endless lists and repeated cursors end in an error.
#[must_use = "a list is not asked for until the stream is polled"]
pub struct PagedList<T> {
    entries: BoxStream<'static, Result<T, Error>>,
}

impl<T: DeserializeOwned + Send + 'static> PagedList<T> {
    pub(crate) fn new(client: &Client, method: &'static str, member: &'static str) -> Self {
        let state = Pager {
            client: client.clone(),
            method,
            member,
            cursor: None,
            seen: HashSet::new(),
            pages: 0,
            entries: 0,
            is_over: false,
        };
        let pages = stream::try_unfold(state, |mut walk| async move {
            Ok::<_, Error>(walk.next::<T>().await?.map(|page| (stream::iter(page), walk)))
        });
        Self { entries: Box::pin(pages.try_flatten()) }
    }
}

impl<T> PagedList<T> {
    /// Filters the entries.
    pub(crate) fn retain(self, keep: impl Fn(&T) -> bool + Send + 'static) -> Self
    where
        T: Send + 'static,
    {
        let kept = self.entries.try_filter(move |entry| std::future::ready(keep(entry)));
        Self { entries: Box::pin(kept) }
    }

    /// Collects all entries, or returns the first error.
    pub async fn all(self) -> Result<Vec<T>, Error> {
        self.try_collect().await
    }
}

struct Pager {
    client: Client,
    method: &'static str,
    member: &'static str,
    cursor: Option<String>,
    seen: HashSet<String>,
    pages: usize,
    entries: usize,
    is_over: bool,
}

impl Pager {
    async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<Vec<Result<T, Error>>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let options = &self.client.inner.options;
        self.pages += 1;
        if self.pages > options.max_pages {
            return Err(self.endless(&format!("more than {} pages", options.max_pages)));
        }
        let subject = self.cursor.clone().unwrap_or_default();
        let params = match self.cursor.take() {
            Some(cursor) => json!({"cursor": cursor}),
            None => json!({}),
        };
        let page = Request::new(&self.client, self.method.into(), params, read_page);
        let page = match page.repeatable().cached(&subject).await {
            Ok(page) => page,
            Err(error) => {
                // Pages that were cached before may belong to another list.
                self.client.inner.cache.forget(self.method);
                return Err(error);
            }
        };
        let Some(Value::Array(list)) = page.get(self.member) else {
            let what = format!("the result of {} has no array `{}`", self.method, self.member);
            return Err(Error::Protocol(what));
        };
        self.entries += list.len();
        if self.entries > options.max_entries {
            return Err(self.endless(&format!("more than {} entries", options.max_entries)));
        }
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(cursor) if !self.seen.insert(cursor.to_owned()) => {
                return Err(self.endless("the same cursor twice"));
            }
            Some(cursor) => self.cursor = Some(cursor.to_owned()),
            None => self.is_over = true,
        }
        let mut entries = Vec::with_capacity(list.len());
        for value in list {
            match T::deserialize(value) {
                Ok(entry) => entries.push(Ok(entry)),
                // An invalid entry is skipped.
                Err(error) => self.client.inner.emit(ClientEvent::Warning(format!(
                    "skipping an invalid entry of {}: {error}",
                    self.method
                ))),
            }
        }
        Ok(Some(entries))
    }

    fn endless(&self, what: &str) -> Error {
        Error::Protocol(format!("{} returned {what}", self.method))
    }
}

fn read_page(raw: Raw<'_>) -> Result<Map<String, Value>, Error> {
    Ok(raw.decode()?)
}

impl<T> Stream for PagedList<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.entries.as_mut().poll_next(task)
    }
}

impl<T> std::fmt::Debug for PagedList<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PagedList").finish_non_exhaustive()
    }
}
