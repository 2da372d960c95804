//! The servers that MCP Flow is measured beside.

pub(crate) mod bare;
pub(crate) mod rmcp;
