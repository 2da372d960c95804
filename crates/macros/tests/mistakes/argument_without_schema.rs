use mcp_flow::prelude::*;

struct Address {
    city: String,
}

/// Tell the city of an address
#[tool]
fn city(address: Address) -> String {
    address.city
}

fn main() {}
