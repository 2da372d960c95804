//! `read_file`: a bulk result of any size, delivered inline or by a side channel.

use std::io;

use mcp_flow::files::Roots;
use mcp_flow::prelude::*;
use mcp_flow::{BadTool, Bulk, IntoTools};

/// Reads files of given directories only.
#[derive(Debug)]
pub struct Files {
    roots: Roots,
}

impl Files {
    /// Creates the tool's directories.
    pub fn new(roots: Roots) -> Self {
        Self { roots }
    }

    /// Builds the tool.
    pub fn tools(self) -> Result<Vec<Tool>, BadTool> {
        self.into_tools()
    }
}

#[tool]
impl Files {
    /// Read a file of the served directories
    #[tool(category = "files", read_only, open_world = false)]
    fn read_file(
        &self,
        /// Path within the directory; a leading slash means the directory itself
        path: String,
    ) -> Result<Bulk, Failure> {
        self.roots.open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::new(
                "FILE_NOT_FOUND",
                format!("There is no file {path:?} here; resources/list shows those there are."),
            ),
            io::ErrorKind::PermissionDenied => {
                Failure::new("ACCESS_DENIED", format!("The server may not read {path:?}."))
            }
            _ => error.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Files;
    use mcp_flow::files::Roots;
    use mcp_flow::{Revision, Server};
    use mcp_flow_testkit_fixture::memory;
    use serde_json::json;

    /// MCP-079, PAT-021: text as text, bytes as bytes, and nothing outside.
    #[tokio::test]
    async fn files_are_read_within_their_directory() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "hello").unwrap();
        std::fs::write(folder.path().join("b.png"), b"\x89PNG\xff").unwrap();
        let roots = Roots::directory(folder.path()).unwrap();
        let server = Server::builder("test", "1").tools(Files::new(roots)).build().unwrap();
        let mut peer = memory::connect(&server);
        peer.initialize(Revision::V2025_11_25).await;
        for path in ["a.txt", "/a.txt"] {
            let read = peer.call_tool("read_file", json!({"path": path})).await["result"].clone();
            assert_eq!(read["content"], json!([{"type": "text", "text": "hello"}]));
        }
        let read = peer.call_tool("read_file", json!({"path": "b.png"})).await["result"].clone();
        let resource = &read["content"][0]["resource"];
        assert_eq!(
            (&resource["blob"], &resource["mimeType"]),
            (&json!("iVBOR/8="), &json!("image/png"))
        );
        for path in ["../a.txt", "missing", "/etc/passwd", ""] {
            let refused =
                peer.call_tool("read_file", json!({"path": path})).await["result"].clone();
            assert_eq!(refused["isError"], true);
            assert_eq!(refused["_meta"]["error"]["data"]["name"], "FILE_NOT_FOUND", "{path}");
        }
    }
}
