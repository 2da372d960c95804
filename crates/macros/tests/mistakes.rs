//! Compile errors for wrong uses of the attributes.
//!
//! After a change, review the new messages and accept them with `TRYBUILD=overwrite`.

/// MCP-025: a wrong use is explained at its position.
#[test]
fn wrong_uses_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}
