use mcp_flow::prelude::*;

#[prompt]
fn review(#[param(complete = languages)] language: String) -> String {
    language
}

fn languages(partial: &str) -> Vec<String> {
    vec![partial.to_owned()]
}

fn main() {}
