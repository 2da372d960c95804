//! Patterns and schemas, compiled once and within bounds.

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::cost::is_affordable;
use super::limits;
use crate::cache::Cache;

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

/// References never leave the schema and its patterns run in linear time, so neither the author of
/// a flow nor who answers it can make a check expensive.
pub(super) fn schema(source: &Value) -> Result<Arc<Validator>, String> {
    static SCHEMAS: Cache<String, Validator> = Cache::new(MOST_KEPT);
    SCHEMAS.get_or_try(source.to_string().as_str(), || {
        if !is_affordable(source) {
            return Err("it asks for too many checks, or refers to what is not in it".to_owned());
        }
        jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(
                PatternOptions::regex().size_limit(limits::PATTERN).dfa_size_limit(limits::PATTERN),
            )
            .build(source)
            .map_err(|error| error.to_string())
    })
}

const NESTED_GROUPS: u32 = 64;

/// How many patterns and how many schemas are kept.
const MOST_KEPT: usize = 256;
