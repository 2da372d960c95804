//! `register`: two questions, one of them with a rule.

use mcp_flow::prelude::*;
use mcp_flow::question::text;

/// Someone who has registered.
#[data]
#[derive(Debug, PartialEq, Eq)]
pub struct Registration {
    /// Their name
    pub name: String,
    /// Where to write to them
    pub email: String,
}

/// What the caller may know already. What it does not say is asked for.
#[data]
#[derive(Debug, Default)]
pub struct Register {
    /// Their name
    #[schemars(length(min = 1, max = 100))]
    pub name: Option<String>,
    /// Where to write to them
    #[schemars(regex(pattern = EMAIL))]
    pub email: Option<String>,
}

/// Register a person, asking for name and e-mail address
#[flow(asks_after_start)]
pub async fn register(flow: Flow, _: Register) -> FlowResult<Registration> {
    flow.progress(1.0, 2.0, "Step 1 of 2".to_owned());
    let name = flow.ask("name", text("Enter name").length(1..=100)).await?;
    flow.progress(2.0, 2.0, "Step 2 of 2".to_owned());
    let email = flow
        .ask("email", text("Enter email").pattern(EMAIL).placeholder("you@example.com"))
        .await?;
    flow.summary(format!("{name} is registered"));
    Ok(Registration { name, email })
}

/// Good enough to catch slips; whether mail arrives is for mail to show.
const EMAIL: &str = r"^[^@\s]+@[^@\s]+\.[^@\s]+$";
