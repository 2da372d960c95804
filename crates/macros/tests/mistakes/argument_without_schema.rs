use mcp_flow::prelude::*;

struct Address {
    city: String,
}

#[tool]
fn city(address: Address) -> String {
    address.city
}

fn main() {}
