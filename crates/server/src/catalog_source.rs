//! Definitions that become known while the server runs, such as those of other servers behind a
//! gateway.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use mcp_flow_proto::RpcError;

use crate::context::Context;
use crate::handler::Reply;
use crate::permissions::PermissionKind;
use crate::server::{Server, ServerBuilder};

/// Adds tools, prompts and resources to a server after it has started.
///
/// A server with a source declares all kinds of definitions from the start, and finds tools and
/// prompts by the part of their name after the first dot if that is unambiguous.
pub trait CatalogSource: Send + Sync + 'static {
    /// Waits for the definitions that a request needs: those of one name, or all for a list. `None`
    /// if there is nothing to wait for.
    fn pending(&self, name: Option<&str>) -> Option<BoxFuture<'static, ()>>;

    /// The error for a request by a name that is not served now, or for a list of this kind; `None` if
    /// the name is unknown, or the list as far as it is known.
    fn refuse(
        &self,
        context: &Context,
        kind: PermissionKind,
        name: Option<&str>,
    ) -> Option<RpcError> {
        let _ = (context, kind, name);
        None
    }

    /// The tools that a list for a caller leaves out, by name, although they can be called; `None` if
    /// there are none.
    fn unlisted(&self, context: &Context) -> Option<Unlisted> {
        let _ = context;
        None
    }
}

/// Decides by name whether a tool is left out of a list.
pub type Unlisted = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl ServerBuilder {
    /// Sets the source of definitions that become known while the server runs.
    pub fn catalog_source(mut self, source: Arc<dyn CatalogSource>) -> Self {
        self.source = Some(source);
        self
    }
}

impl Server {
    /// Waits for the definitions that a request needs; `None` if they are known.
    pub(crate) fn pending_definitions(&self, name: Option<&str>) -> Option<BoxFuture<'static, ()>> {
        self.catalog_source()?.pending(name)
    }
}

/// The error for a request whose definitions are not known, or not served now.
pub(crate) fn refuse(
    context: &Context,
    kind: PermissionKind,
    name: Option<&str>,
) -> Option<RpcError> {
    context.server().catalog_source()?.refuse(context, kind, name)
}

/// Handles a list once its definitions are known, unless they cannot be.
pub(crate) fn list_when_known(
    context: &Context,
    kind: PermissionKind,
    list: impl FnOnce(&Context) -> Reply + Send + 'static,
) -> Reply {
    when_known(context, None, move |context| match refuse(context, kind, None) {
        Some(error) => Reply::Ready(Err(error)),
        None => list(context),
    })
}

/// Handles a request once the definitions it needs are known.
pub(crate) fn when_known(
    context: &Context,
    name: Option<&str>,
    handle: impl FnOnce(&Context) -> Reply + Send + 'static,
) -> Reply {
    match context.server().pending_definitions(name) {
        None => handle(context),
        Some(known) => {
            let context = context.clone();
            Reply::Later(Box::pin(async move {
                known.await;
                handle(&context).outcome().await
            }))
        }
    }
}

/// Finds the only entry whose name, without the part before its first dot, is this one.
pub(crate) fn find_unprefixed<'a, T: 'a>(
    entries: impl Iterator<Item = &'a Arc<T>>,
    full_name: impl Fn(&T) -> &str,
    name: &str,
    is_visible: impl Fn(&T) -> bool,
) -> Option<Arc<T>> {
    let is_it = |entry: &&Arc<T>| {
        let rest = full_name(entry).split_once('.').map(|(_, rest)| rest);
        rest == Some(name) && is_visible(entry)
    };
    let mut found = entries.filter(is_it);
    found.next().filter(|_| found.next().is_none()).cloned()
}
