//! Handshakes that were not recorded, because the recorded client needed none.

use mcp_flow_proto::Revision;
use serde_json::{Value, json};

use crate::tape::{Step, Tape};

impl Tape {
    /// The result of `initialize` by what a modern client discovered; none if the server has no handshake.
    pub(crate) fn handshake(&self, params: &Value) -> Option<Value> {
        let discovered = self.exchanges.iter().filter(|one| one.method == "server/discover");
        let result = discovered.flat_map(|one| &one.steps).find_map(|(_, step)| match step {
            Step::Response { member: "result", value } => Some(value),
            _ => None,
        })?;
        let supported = result["supportedVersions"].as_array()?;
        let is_supported = |name: &str| supported.iter().any(|version| version == name);
        let common: Vec<_> =
            Revision::handshake().map(Revision::name).filter(|name| is_supported(name)).collect();
        let asked = params["protocolVersion"].as_str().filter(|asked| common.contains(asked));
        let version = asked.or(common.last().copied())?;
        let about = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        let unknown = json!({"name": "recording", "version": "1"});
        let about = if about.is_object() { about } else { &unknown };
        let mut answer = json!({
            "protocolVersion": version, "capabilities": result["capabilities"], "serverInfo": about,
        });
        if let Some(instructions) = result.get("instructions") {
            answer["instructions"] = instructions.clone();
        }
        Some(answer)
    }
}
