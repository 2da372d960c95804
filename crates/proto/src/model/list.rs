//! Paginated lists.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::Meta;

/// The params of a list method.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ListParams {
    /// Cursor from the previous page.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// One page of a list.
#[derive(Debug)]
pub struct ListResult<T> {
    /// Name of the member with the entries, such as `tools`.
    pub name: &'static str,
    /// The entries of this page.
    pub entries: Vec<T>,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<String>,
    /// Cache and server information, under stateless revisions.
    pub stateless: Option<StatelessMembers>,
}

/// Members of a result under stateless revisions: its cacheability and `_meta`.
#[derive(Clone, Debug)]
pub struct StatelessMembers {
    /// Cache lifetime in milliseconds.
    pub ttl_ms: u64,
    /// Cache scope: `public` or `private`.
    pub cache_scope: &'static str,
    /// `_meta` of the result, which identifies the server.
    pub meta: Meta,
}

impl StatelessMembers {
    /// Number of members added to a result.
    pub(super) const MEMBERS: usize = 4;

    pub(super) fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("resultType", "complete")?;
        map.serialize_entry("ttlMs", &self.ttl_ms)?;
        map.serialize_entry("cacheScope", self.cache_scope)?;
        map.serialize_entry("_meta", &self.meta)
    }
}

impl<T: Serialize> Serialize for ListResult<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let more = usize::from(self.next_cursor.is_some());
        let stateless = self.stateless.as_ref().map_or(0, |_| StatelessMembers::MEMBERS);
        let mut map = serializer.serialize_map(Some(1 + more + stateless))?;
        map.serialize_entry(self.name, &self.entries)?;
        if let Some(cursor) = &self.next_cursor {
            map.serialize_entry("nextCursor", cursor)?;
        }
        if let Some(stateless) = &self.stateless {
            stateless.write(&mut map)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::{ListResult, StatelessMembers};
    use crate::model::Meta;
    use serde_json::json;

    #[test]
    fn a_page_has_the_members_of_its_revision() {
        let page = |next_cursor: Option<&str>, stateless| {
            let next_cursor = next_cursor.map(str::to_owned);
            let page = ListResult { name: "tools", entries: vec![1], next_cursor, stateless };
            serde_json::to_value(page).unwrap()
        };
        assert_eq!(page(None, None), json!({"tools": [1]}));
        assert_eq!(page(Some("x"), None), json!({"tools": [1], "nextCursor": "x"}));
        let stateless = StatelessMembers { ttl_ms: 5, cache_scope: "public", meta: Meta::new() };
        assert_eq!(
            page(None, Some(stateless)),
            json!({"tools": [1], "resultType": "complete", "ttlMs": 5, "cacheScope": "public",
                "_meta": {}})
        );
    }
}
