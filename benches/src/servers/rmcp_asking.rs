//! A tool that asks for one entry after another, served by the official SDK.
//!
//! Its state is in the memory of one call only.

use rmcp::{
    Peer, RoleServer, ServerHandler, ServiceExt,
    handler::server::{router::tool::ToolRouter, wrapper::Parameters},
    schemars, tool, tool_handler, tool_router, transport,
};

use super::rmcp::{Settings, Transport};

pub(crate) fn serve(settings: Settings) -> anyhow::Result<()> {
    settings.runtime.build()?.block_on(async {
        let clerk = Clerk { tool_router: Clerk::tool_router() };
        let service = match settings.transport {
            Transport::Stdio => clerk.serve(transport::stdio()).await?,
            Transport::StdioPipes => clerk.serve(transport::stdio_pipes()).await?,
        };
        service.waiting().await?;
        Ok(())
    })
}

struct Clerk {
    tool_router: ToolRouter<Self>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Ledger {
    entries: usize,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Entry {
    entry: String,
}

rmcp::elicit_safe!(Entry);

#[tool_router]
impl Clerk {
    #[tool(name = "ledger", description = "Ask for entries one by one")]
    async fn ledger(
        &self,
        Parameters(Ledger { entries }): Parameters<Ledger>,
        peer: Peer<RoleServer>,
    ) -> Result<String, String> {
        let mut entered = Vec::new();
        for number in 1..=entries {
            let question = format!("Entry {number} of {entries}?");
            let answer = peer.elicit::<Entry>(question).await.map_err(|error| error.to_string())?;
            entered.push(answer.ok_or("nothing was entered")?.entry);
        }
        Ok(entered.join(", "))
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Clerk {}
