//! Patterns and schemas, compiled once and within bounds.

use std::sync::Arc;

use mcp_flow_schema::{Cache, UntrustedSchema};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::limits;

pub(super) fn pattern(source: &str) -> Result<Arc<Regex>, String> {
    static PATTERNS: Cache<String, Regex> = Cache::new(MOST_KEPT);
    PATTERNS.get_or_try(source, || {
        RegexBuilder::new(source)
            .size_limit(limits::PATTERN)
            .dfa_size_limit(limits::PATTERN)
            .nest_limit(NESTED_GROUPS)
            .build()
            .map_err(|error| error.to_string())
    })
}

/// Neither the author of a flow nor who answers it can make a check expensive.
pub(super) fn schema(source: &Value) -> Result<Arc<UntrustedSchema>, String> {
    static SCHEMAS: Cache<String, UntrustedSchema> = Cache::new(MOST_KEPT);
    SCHEMAS.get_or_try(source.to_string().as_str(), || UntrustedSchema::compile(source))
}

const NESTED_GROUPS: u32 = 64;

/// How many patterns and how many schemas are kept.
const MOST_KEPT: usize = 256;
