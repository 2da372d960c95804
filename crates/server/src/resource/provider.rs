//! Providers: resources found on request rather than registered one by one.

use std::any::Any;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_flow_proto::Raw;
use mcp_flow_proto::model::{ResourceDefinition, TemplateDefinition};

use super::ReadError;
use crate::bulk::Bulk;
use crate::context::Context;
use crate::handler::Reply;
use crate::server::Server;

/// Provides resources found on request, such as the files of a directory.
///
/// Every function but [`claims`](Self::claims) may block; the server calls them on blocking
/// threads. The server checks access.
pub trait ResourceProvider: Send + Sync + 'static {
    /// Returns whether a URI may name one of these resources, without looking. Of several
    /// providers, the first that claims a URI serves it.
    fn claims(&self, uri: &str) -> bool;

    /// Returns the URIs that a resource with several spellings is listed under. A caller who may
    /// not read one of them may not read the resource.
    fn listed_uris(&self, uri: &str) -> Vec<String>;

    /// Lists up to `most` visible resources after a position; the first page has an empty one. From
    /// then on the provider announces changes of the list by [`Server::resources_changed`].
    fn list(
        &self,
        server: &Server,
        position: &[u8],
        most: usize,
        is_visible: &dyn Fn(&str) -> bool,
    ) -> ResourcePage;

    /// Opens a resource.
    fn open(&self, uri: &str) -> Result<Bulk, ReadError>;

    /// Watches a resource for a caller until the returned guard is dropped. From then on the provider
    /// announces changes by [`Server::resource_changed`].
    fn watch(&self, context: &Context, uri: &Arc<str>) -> Result<WatchGuard, ReadError>;

    /// Templates of resources that this provider reads. Defaults to none.
    fn templates(&self) -> Vec<TemplateDefinition> {
        Vec::new()
    }

    /// Forwards the whole read to another server instead of opening the resource here. Defaults to
    /// `None`: [`open`](Self::open) is called.
    fn forward_read(&self, context: &Context, uri: &str) -> Option<Reply> {
        let _ = (context, uri);
        None
    }

    /// Completes a variable of one of the templates. Defaults to `None`: it is not one of these.
    fn complete(
        &self,
        context: &Context,
        template: &str,
        argument: &str,
        value: &str,
        others: Raw<'_>,
    ) -> Option<Reply> {
        let _ = (context, template, argument, value, others);
        None
    }
}

/// Stops watching a resource when dropped.
pub type WatchGuard = Box<dyn Any + Send + Sync>;

/// One page of the resources of a provider.
#[derive(Debug, Default)]
pub struct ResourcePage {
    /// The definitions listed.
    pub definitions: Vec<ResourceDefinition>,
    /// The position of the next page, if there may be more. Opaque to the server.
    pub next: Option<Vec<u8>>,
}

/// A position in the listing of all providers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Position {
    pub(super) provider: u16,
    pub(super) within: Vec<u8>,
}

impl Position {
    /// Encodes the position as a cursor. Its first byte cannot begin a URI.
    pub(crate) fn to_cursor(&self) -> String {
        let mut bytes = vec![0];
        bytes.extend(self.checksum().to_be_bytes());
        bytes.extend(self.provider.to_be_bytes());
        bytes.extend(&self.within);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes a cursor of a position; `None` if it was altered (PAT-016).
    pub(crate) fn from_cursor(cursor: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (checksum, rest) = bytes.strip_prefix(&[0])?.split_first_chunk()?;
        let (provider, within) = rest.split_first_chunk()?;
        let position = Self { provider: u16::from_be_bytes(*provider), within: within.to_vec() };
        (position.checksum() == u64::from_be_bytes(*checksum)).then_some(position)
    }

    /// Against mistakes, not attacks: a made-up position gains nothing.
    fn checksum(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::Position;

    /// PAT-016: an altered cursor is rejected.
    #[test]
    fn altered_cursors_are_rejected() {
        let position = Position { provider: 1, within: b"a/b".to_vec() };
        let cursor = position.to_cursor();
        assert_eq!(Position::from_cursor(&cursor), Some(position));
        for index in 0..cursor.len() {
            let mut altered = cursor.clone().into_bytes();
            altered[index] = if altered[index] == b'A' { b'B' } else { b'A' };
            let altered = String::from_utf8(altered).unwrap();
            let position = Position::from_cursor(&altered);
            assert!(position.is_none() || altered == cursor, "{altered}");
        }
        assert!(Position::from_cursor("").is_none() && Position::from_cursor("AA").is_none());
    }
}
