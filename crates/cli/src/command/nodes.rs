//! `mcp-flow nodes`: the processes that share a store.

use std::process::ExitCode;

use anyhow::Context as _;
use mcp_flow::session::store::Node;
use serde_json::json;

use crate::server::store::{StoreUrl, open_url};
use crate::terminal::output::{Format, print, print_json, sanitize, table};

/// Show the servers that share a store
#[derive(Debug, clap::Args)]
pub(crate) struct Nodes {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the live nodes, oldest first
    List {
        /// Store that they share: sqlite:PATH or postgres://USER@HOST/DB
        #[arg(long, value_name = "URL", default_value_t)]
        store: StoreUrl,

        /// Output format
        #[arg(long, value_enum, default_value_t)]
        format: Format,
    },
}

impl Nodes {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Action::List { store, format } = self.action;
        if let Some(path) = store.path().filter(|path| !path.exists()) {
            anyhow::bail!("no store found at {}", path.display());
        }
        let opened = open_url(&store).with_context(|| format!("cannot open the store {store}"))?;
        let opened = opened.and_then(|opened| opened.store);
        let alone = || format!("{store} is used by one process at a time; it has no nodes");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let nodes = runtime.block_on(async {
            let shared = opened.as_deref().and_then(|store| store.shared()).with_context(alone)?;
            Ok::<_, anyhow::Error>(shared.nodes().await?)
        })?;
        match format {
            Format::Json => {
                let nodes: Vec<_> = nodes.iter().map(entry).collect();
                print_json(&json!({"nodes": nodes}))?;
            }
            format => print(&text(&nodes, format))?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn entry(node: &Node) -> serde_json::Value {
    json!({
        "epoch": node.epoch.number(), "name": node.info.name, "url": node.info.url,
        "version": node.info.version,
    })
}

fn text(nodes: &[Node], format: Format) -> String {
    if nodes.is_empty() && format == Format::Table {
        return "(no live nodes)".to_owned();
    }
    let row = |node: &Node| {
        let info = &node.info;
        let url = sanitize(info.url.as_deref().unwrap_or_default());
        vec![node.epoch.to_string(), sanitize(&info.name), url, sanitize(&info.version)]
    };
    let rows: Vec<_> = nodes.iter().map(row).collect();
    table::write(&["epoch", "node", "url", "version"], &rows, format)
}
