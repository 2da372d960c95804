//! The flow `paid_order`: asks who orders, makes a link to pay, and waits for the signal that it was paid.

use std::time::Duration;

use mcp_flow::IntoFlows;
use mcp_flow::prelude::*;
use mcp_flow::question::text;

/// Result of the flow `paid_order`.
#[data]
#[derive(Debug)]
struct Shipped {
    /// Name of the customer
    customer: String,
    /// Amount that was paid
    paid: u64,
}

/// Creates the flow.
pub(crate) fn paid_order() -> impl IntoFlows {
    flows![take_order]
}

/// Take an order, and ship it when the signal `paid` arrives with the amount
#[flow(name = "paid_order")]
async fn take_order(flow: Flow) -> FlowResult<Shipped> {
    let customer = flow.ask("customer", text("Who orders?").length(1..=100)).await?;
    flow.label("customer", &customer)?;
    // Without HTTP there is no link, and the signal has to be sent by the owner.
    if let Ok(url) = flow.link("paid") {
        flow.set("pay", url)?;
    }
    let Ok(paid) = flow.timeout(TIME_TO_PAY, flow.wait_for("paid")).await else {
        return flow.decline("It was not paid in a week");
    };
    let paid = paid?;
    flow.step("ship", || async { Ok::<_, String>(()) }).await?;
    flow.summary(format!("Shipped to {customer}"));
    Ok(Shipped { customer, paid })
}

const TIME_TO_PAY: Duration = Duration::from_secs(7 * 24 * 60 * 60);
