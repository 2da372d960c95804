//! Subscriptions to changes.

use futures_util::StreamExt;
use mcp_flow_client::{ChangeFilter, Revision, ServerChange};
use mcp_flow_files::{Roots, ServeFiles};
use mcp_flow_server::{Context, Tool};
use serde_json::Value;

use super::{Reach, client};
use mcp_flow_testkit_fixture::Fixture;

/// PAT-057: a subscriber to tools is notified of changes, in either era.
pub(crate) async fn list_changes_are_announced_to_subscribers(reach: &Reach) {
    for revision in [Revision::V2024_11_05, Revision::V2025_11_25, Revision::V2026_07_28] {
        let fixture = Fixture::new();
        let client = client(reach, &fixture.server, revision).await;
        let mut changes = client.listen(ChangeFilter::new().tools()).await.unwrap();
        // Over HTTP server messages have a stream of their own, which may still be opening.
        for number in 0.. {
            let late =
                Tool::builder(format!("late.{number}")).quick(|_: &Context, _: Value| "here");
            fixture.server.add_tools(late.unwrap()).unwrap();
            let soon = std::time::Duration::from_secs(1);
            if let Ok(change) = tokio::time::timeout(soon, changes.next()).await {
                assert_eq!(change.unwrap().unwrap(), ServerChange::Tools, "{revision}");
                break;
            }
            assert!(number < 20, "nothing was reported under {revision}");
        }
        assert!(client.tool("late.0").await.unwrap().is_some());
    }
}

/// PAT-060: after a change the resource is read again and has the new content.
pub(crate) async fn a_resource_is_read_again_after_a_change(reach: &Reach) {
    for revision in [Revision::V2025_06_18, Revision::V2026_07_28] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        std::fs::write(path.join("a.txt"), "old").unwrap();
        let roots = Roots::directory(&path).unwrap();
        let fixture = Fixture::with(|builder| builder.resource_roots(roots));
        let client = client(reach, &fixture.server, revision).await;
        let uri = format!("file://{}/a.txt", path.display());
        assert_eq!(client.read_text(&uri).await.unwrap(), "old");
        let mut changes = client.listen(ChangeFilter::new().resource(&uri)).await.unwrap();
        for number in 0.. {
            std::fs::write(path.join("a.txt"), format!("new {number}")).unwrap();
            let soon = std::time::Duration::from_secs(1);
            if let Ok(change) = tokio::time::timeout(soon, changes.next()).await {
                assert_eq!(change.unwrap().unwrap(), ServerChange::Resource(uri.clone()));
                break;
            }
            assert!(number < 20, "nothing was reported under {revision}");
        }
        assert!(client.read_text(&uri).await.unwrap().starts_with("new"));
        let missing = client.listen(ChangeFilter::new().resource("x:/missing")).await;
        assert!(missing.is_err() || revision.is_stateless());
    }
}
