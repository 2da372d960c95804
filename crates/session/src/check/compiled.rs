//! Cache of compiled patterns and schemas, with bounds on their cost.

use std::sync::Arc;

use mcp_flow_schema::{Cache, UntrustedSchema};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::limits;

pub(super) fn pattern(source: &str) -> Result<Arc<Regex>, String> {
    static PATTERNS: Cache<String, Regex> = Cache::new(CACHE_SIZE);
    PATTERNS.get_or_try(source, || {
        RegexBuilder::new(source)
            .size_limit(limits::PATTERN)
            .dfa_size_limit(limits::PATTERN)
            .nest_limit(GROUP_DEPTH)
            .build()
            .map_err(|error| error.to_string())
    })
}

/// Compiles a schema whose cost is bounded: neither the author of a flow nor the person who answers
/// can make validation expensive.
pub(super) fn schema(source: &Value) -> Result<Arc<UntrustedSchema>, String> {
    static SCHEMAS: Cache<String, UntrustedSchema> = Cache::new(CACHE_SIZE);
    SCHEMAS.get_or_try(source.to_string().as_str(), || UntrustedSchema::compile(source))
}

const GROUP_DEPTH: u32 = 64;

/// Patterns, and schemas, in the cache.
const CACHE_SIZE: usize = 256;
