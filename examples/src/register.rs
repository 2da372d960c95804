//! `register`: two prompts, one of them with a validation rule.

use mcp_flow::prelude::*;
use mcp_flow::question::text;

/// A registered person.
#[data]
#[derive(Debug, PartialEq, Eq)]
pub struct Registration {
    /// Name
    pub name: String,
    /// Email address
    pub email: String,
}

/// Arguments the caller may give. Missing ones are asked for.
#[data]
#[derive(Debug, Default)]
pub struct Register {
    /// Name
    #[schemars(length(min = 1, max = 100))]
    pub name: Option<String>,
    /// Email address
    #[schemars(regex(pattern = EMAIL))]
    pub email: Option<String>,
}

/// Register a person, asking for name and e-mail address
#[flow(asks_after_start)]
pub async fn register(flow: Flow, _: Register) -> FlowResult<Registration> {
    flow.progress(1.0, 2.0, "Step 1 of 2".to_owned());
    let name = flow.ask("name", text("Enter name").length(1..=100)).await?;
    flow.progress(2.0, 2.0, "Step 2 of 2".to_owned());
    let email = text("Enter email").placeholder("you@example.com");
    let email = email.pattern(EMAIL).pattern_description("an email address");
    let email = flow.ask("email", email).await?;
    flow.summary(format!("{name} is registered"));
    Ok(Registration { name, email })
}

/// Catches typos; only a delivered mail proves an address.
const EMAIL: &str = r"^[^@\s]+@[^@\s]+\.[^@\s]+$";
