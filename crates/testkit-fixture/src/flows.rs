//! Flows of the fixture.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_engine::{Flow, FlowResult, SessionLimits};
use mcp_flow_interaction::{Interaction, InteractionBuilder, OfferedFlow, TaskMode};
use mcp_flow_server::ServerBuilder;
use mcp_flow_session::Prompt;
use mcp_flow_session::question::{choice, confirm, custom, date, integer, number, text};
use serde_json::{Map, Value, json};

use super::{Fixture, Gate};

impl Fixture {
    /// The fixture with flows.
    pub fn interactive() -> Self {
        Self::interactive_with(|flows| flows)
    }

    /// The fixture with flows, and a changed interaction.
    pub fn interactive_with(change: impl FnOnce(InteractionBuilder) -> InteractionBuilder) -> Self {
        Self::interactive_as(change, |server| server)
    }

    /// The fixture with flows and other limits.
    pub fn interactive_with_limits(limits: mcp_flow_server::Limits) -> Self {
        Self::interactive_as(|flows| flows, |server| server.limits(limits))
    }

    /// The fixture with flows, and both changed.
    pub fn interactive_as(
        change: impl FnOnce(InteractionBuilder) -> InteractionBuilder,
        add: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let gate = Arc::new(Gate::default());
        let limits =
            SessionLimits { operation: Duration::from_secs(60), ..SessionLimits::default() };
        let builder = Interaction::builder()
            .limits(limits)
            .response_timeouts(Duration::from_millis(20), Duration::from_millis(20))
            .flows(flows(&gate));
        let interaction = change(builder).build();
        let Self { server, .. } = Self::with(|server| add(interaction.add_to(server)));
        Self { server, gate }
    }
}

type Params = Map<String, Value>;

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct NoParams {}

fn flows(gate: &Arc<Gate>) -> Vec<OfferedFlow> {
    let [first, between, job, plodding] = [(); 4].map(|()| gate.clone());
    vec![
        OfferedFlow::new("simple", simple).key("name", json!({"type": "string"})),
        OfferedFlow::new("wizard", wizard)
            .asks_after_start()
            .early_completion()
            .key("name", json!({}))
            .key("email", json!({})),
        OfferedFlow::new("kinds", kinds)
            .key("count", json!({"type": "integer"}))
            .key("day", json!({"type": "string"})),
        OfferedFlow::new("places", places),
        OfferedFlow::new("thinks", move |flow: Flow, _: Params| {
            let gate = first.clone();
            async move {
                flow.step("think", || pass(gate)).await?;
                flow.ask("name", text("Enter name")).await
            }
        }),
        OfferedFlow::new("works", move |flow: Flow, _: Params| {
            let gate = between.clone();
            async move {
                let first = flow.ask("first", text("First?")).await?;
                flow.progress(1.0, 2.0, "half way".to_owned());
                flow.step("work", || pass(gate)).await?;
                let second = flow.ask("second", text("Second?")).await?;
                Ok(json!({"first": first, "second": second}))
            }
        })
        .early_completion(),
        OfferedFlow::new("fails", async |flow: Flow, _: Params| -> FlowResult<()> {
            flow.ask("go", confirm("Go?")).await?;
            Err(mcp_flow_engine::FlowError::new("it did not work"))
        }),
        OfferedFlow::new("panics", async |flow: Flow, _: Params| -> FlowResult<()> {
            flow.ask("go", confirm("Go?")).await?;
            panic!("secret detail")
        }),
        OfferedFlow::tool("job", move |_: NoParams| {
            let gate = job.clone();
            async move {
                gate.pass().await;
                "done"
            }
        })
        .task(TaskMode::Always),
        OfferedFlow::tool("broken_job", async |_: NoParams| -> String { panic!("secret detail") })
            .task(TaskMode::Always),
        OfferedFlow::tool("plodding", move |_: NoParams| {
            let gate = plodding.clone();
            async move {
                gate.pass().await;
                "done"
            }
        })
        .task(TaskMode::Never),
        OfferedFlow::new("private", simple).task(TaskMode::Never),
        OfferedFlow::new("pair", pair).task(TaskMode::Always),
        OfferedFlow::new("needs_tasks", simple).task(TaskMode::Required),
        OfferedFlow::new("declines", async |flow: Flow, _: Params| -> FlowResult<()> {
            flow.ask("go", confirm("Go?")).await?;
            flow.decline("nothing was done")
        }),
    ]
}

async fn pass(gate: Arc<Gate>) -> Result<(), String> {
    gate.pass().await;
    Ok(())
}

/// Asks two questions at once, then a third.
async fn pair(flow: Flow, _: Params) -> FlowResult<Value> {
    let (left, right) = tokio::join!(
        flow.ask("left", text("Left?").length(2..=50)),
        flow.ask("right", integer("Right?").range(1..=9))
    );
    let sum = json!({"left": left?, "right": right?});
    let sure = flow.ask("sure", confirm("Sure?")).await?;
    Ok(json!({"pair": sum, "sure": sure}))
}

async fn simple(flow: Flow, params: Params) -> FlowResult<Value> {
    let place = flow.context().get("place").and_then(Value::as_str).unwrap_or("here").to_owned();
    let name = flow.ask("name", text(format!("Who is {place}?")).length(2..=50)).await?;
    Ok(json!({"name": name, "params": params}))
}

async fn wizard(flow: Flow, _: Params) -> FlowResult<Value> {
    flow.progress(1.0, 2.0, "Step 1 of 2".to_owned());
    let name = flow.ask("name", text("Enter name")).await?;
    flow.progress(2.0, 2.0, "Step 2 of 2".to_owned());
    let email = flow.ask("email", text("Enter email").pattern("^[^@ ]+@[^@ ]+$")).await?;
    flow.summary("registered");
    Ok(json!({"name": name, "email": email}))
}

/// The later choices depend on the first answer (INT-015).
async fn kinds(flow: Flow, _: Params) -> FlowResult<Value> {
    let family = flow.ask("family", choice("Which?", &[("p", "Pet"), ("f", "Fish")])).await?.0;
    let names: &[&str] = if family == "p" { &["dog", "cat"] } else { &["cod", "eel"] };
    let name = flow.ask("animal", choice("Which of them?", names)).await?;
    let count = flow.ask("count", integer("How many?").range(1..=9)).await?;
    let price = flow.ask("price", number("For how much?").range(0.0..=1000.0)).await?;
    let day = flow.ask("day", date("When?")).await?;
    let sure = flow.ask("sure", confirm("Sure?").default(false)).await?;
    Ok(json!([family, name, count, price, day.to_string(), sure]))
}

#[derive(Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Point {
    x: f64,
    y: f64,
}

/// A custom prompt, then a choice of numbers with a default.
async fn places(flow: Flow, _: Params) -> FlowResult<Value> {
    let point: Point = flow.ask("point", custom("Where?")).await?;
    let size = json!({"type": "choice", "message": "How large?", "defaultValue": 1,
        "choices": [{"value": 1, "label": "Small"}, {"value": 2, "label": "Large"}]});
    let size: Prompt = serde_json::from_value(size)
        .map_err(|error| mcp_flow_engine::FlowError::new(error.to_string()))?;
    let size = flow.ask("size", size).await?;
    Ok(json!({"point": point, "size": size}))
}
