//! What the compiler says to those who hold the attributes wrong.
//!
//! After a change, look at what is said and accept it with `TRYBUILD=overwrite`.

/// MCP-025: a wrong use is explained where it is written.
#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}
