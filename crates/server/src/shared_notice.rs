//! Notices for the clients of all nodes, where several servers share their sessions.

use mcp_flow_proto::model::Topics;
use serde::{Deserialize, Serialize};

use crate::connections::Change;
use crate::permissions::PermissionKind;
use crate::server::Server;

/// A notice that each node passes on to its own clients.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SharedNotice {
    /// A list has changed.
    ListChanged {
        /// Kind of its entries.
        kind: ListKind,
        /// Set if the entries are flows, which are listed as tools.
        #[serde(default)]
        of_flows: bool,
        /// Names of the entries concerned; none mean any.
        names: Vec<String>,
    },
    /// The contents of a resource have changed.
    ResourceUpdated {
        /// URI of the resource.
        uri: String,
    },
}

/// Kind of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListKind {
    /// Tools.
    Tools,
    /// Resources and templates.
    Resources,
    /// Prompts.
    Prompts,
}

impl Server {
    /// Sets how the clients of other nodes learn of changes. Set once; later calls are ignored.
    pub fn share_notices(&self, share: impl Fn(&SharedNotice) + Send + Sync + 'static) {
        let _ = self.sharing().set(Box::new(share));
    }

    /// Notifies the clients of this server of a change on another node.
    pub fn receive_notice(&self, notice: &SharedNotice) {
        match notice {
            SharedNotice::ResourceUpdated { uri } => self.catalog().subscribers().notify(uri),
            SharedNotice::ListChanged { kind, of_flows, names } => {
                let (topics, permission) = kind.topics(*of_flows);
                let names = names.iter().map(String::as_str).collect();
                self.announce_here(&Change { topics, names: Some((permission, names)) });
            }
        }
    }

    pub(crate) fn share(&self, notice: impl FnOnce() -> Option<SharedNotice>) {
        if let Some(share) = self.sharing().get()
            && let Some(notice) = notice()
        {
            share(&notice);
        }
    }
}

impl ListKind {
    fn topics(self, of_flows: bool) -> (Topics, PermissionKind) {
        let none = Topics::default();
        match self {
            Self::Tools if of_flows => {
                (Topics { tools_list_changed: true, ..none }, PermissionKind::Flow)
            }
            Self::Tools => (Topics { tools_list_changed: true, ..none }, PermissionKind::Tool),
            Self::Resources => {
                (Topics { resources_list_changed: true, ..none }, PermissionKind::Resource)
            }
            Self::Prompts => {
                (Topics { prompts_list_changed: true, ..none }, PermissionKind::Prompt)
            }
        }
    }
}

impl SharedNotice {
    /// Describes a change for other nodes. None if it concerns this one only.
    pub(crate) fn of(change: &Change<'_>) -> Option<Self> {
        let (permission, names) = change.names.as_ref()?;
        let kind = match permission {
            PermissionKind::Tool | PermissionKind::Flow => ListKind::Tools,
            PermissionKind::Resource => ListKind::Resources,
            PermissionKind::Prompt => ListKind::Prompts,
        };
        let names = names.iter().take(MAX_NAMES).map(|name| (*name).to_owned()).collect();
        Some(Self::ListChanged { kind, of_flows: *permission == PermissionKind::Flow, names })
    }
}

/// Callback of [`Server::share_notices`].
pub(crate) type Share = dyn Fn(&SharedNotice) + Send + Sync;

/// Most names in a notice.
const MAX_NAMES: usize = 100;

#[cfg(test)]
mod tests {
    use super::SharedNotice;
    use crate::{ConnectionInfo, Context, Resource, Server, Tool};
    use serde_json::Value;
    use std::sync::Arc;
    use std::sync::Mutex;

    /// Clients of one node hear of a change on another, which is not announced back.
    #[tokio::test(start_paused = true)]
    async fn changes_reach_the_clients_of_other_nodes() {
        let resource = || Resource::builder("news:/today").text("nothing");
        let here = Server::builder("here", "1").resources(resource()).build().unwrap();
        let there = Server::builder("there", "1").resources(resource()).build().unwrap();
        let shared = Arc::new(Mutex::new(Vec::new()));
        for server in [&here, &there] {
            let shared = Arc::clone(&shared);
            server.share_notices(move |notice| shared.lock().unwrap().push(notice.clone()));
        }
        let client = there.connect(ConnectionInfo::new("test")).unwrap();
        for message in [
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
                "protocolVersion":"2025-11-25","capabilities":{}}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"news:/today"}}"#,
        ] {
            client.receive(message.as_bytes());
        }
        here.add_tools(Tool::builder("late").quick(|_: &Context, _: Value| "here")).unwrap();
        here.resource_changed("news:/today");
        let notices = std::mem::take(&mut *shared.lock().unwrap());
        for notice in &notices {
            let text = serde_json::to_string(notice).unwrap();
            there.receive_notice(&serde_json::from_str::<SharedNotice>(&text).unwrap());
        }
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert!(shared.lock().unwrap().is_empty(), "announced back");
        let mut seen = String::new();
        while !seen.contains("list_changed") || !seen.contains("resources/updated") {
            let segment = client.output().await.unwrap();
            seen += &String::from_utf8_lossy(segment.lines());
        }
        assert!(seen.contains("notifications/tools/list_changed"), "{seen}");
    }
}
