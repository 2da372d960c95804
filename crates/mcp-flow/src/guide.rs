//! One page for each feature. Every example here is compiled and run by the tests.
