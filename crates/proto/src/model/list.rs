//! Lists that come page by page.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::Meta;

/// The params of a list method.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ListParams {
    /// Where to go on, from the page before.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// One page of a list.
#[derive(Debug)]
pub struct ListResult<T> {
    /// The member that holds the entries, such as `tools`.
    pub name: &'static str,
    /// The entries of this page.
    pub entries: Vec<T>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<String>,
    /// What makes it stand alone, under revisions that have results stand alone.
    pub standing: Option<Standing>,
}

/// What a result says of itself where there is no handshake to have said it before.
#[derive(Clone, Debug)]
pub struct Standing {
    /// How long it may be kept, in milliseconds.
    pub ttl_ms: u64,
    /// Who may share it: `public` or `private`.
    pub cache_scope: &'static str,
    /// Who answered, and anything else.
    pub meta: Meta,
}

impl Standing {
    /// How many members it adds to a result.
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
        let standing = self.standing.as_ref().map_or(0, |_| Standing::MEMBERS);
        let mut map = serializer.serialize_map(Some(1 + more + standing))?;
        map.serialize_entry(self.name, &self.entries)?;
        if let Some(cursor) = &self.next_cursor {
            map.serialize_entry("nextCursor", cursor)?;
        }
        if let Some(standing) = &self.standing {
            standing.write(&mut map)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::{ListResult, Standing};
    use crate::model::Meta;
    use serde_json::json;

    #[test]
    fn a_page_holds_what_its_revision_has() {
        let page = |next_cursor: Option<&str>, standing| {
            let next_cursor = next_cursor.map(str::to_owned);
            let page = ListResult { name: "tools", entries: vec![1], next_cursor, standing };
            serde_json::to_value(page).unwrap()
        };
        assert_eq!(page(None, None), json!({"tools": [1]}));
        assert_eq!(page(Some("x"), None), json!({"tools": [1], "nextCursor": "x"}));
        let standing = Standing { ttl_ms: 5, cache_scope: "public", meta: Meta::new() };
        assert_eq!(
            page(None, Some(standing)),
            json!({"tools": [1], "resultType": "complete", "ttlMs": 5, "cacheScope": "public",
                "_meta": {}})
        );
    }
}
