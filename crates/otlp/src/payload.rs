//! Requests to the collector: records of one signal, with the process they come from.

use std::collections::BTreeMap;

use crate::environment::SERVICE_NAME;
use crate::protobuf::{Encode, length_of_head};

/// The parts that all requests of a process have in common.
#[derive(Debug)]
pub(crate) struct Origin {
    /// `Resource`, as field 1 of the message that holds it.
    resource: Vec<u8>,
    /// `InstrumentationScope`, as field 1 of the message that holds it.
    scope: Vec<u8>,
}

impl Origin {
    /// Describes this process.
    pub(crate) fn new(attributes: &BTreeMap<String, String>) -> Self {
        let mut all = BTreeMap::from([
            (SERVICE_NAME.to_owned(), "mcp-flow".to_owned()),
            ("service.version".to_owned(), VERSION.to_owned()),
            ("service.instance.id".to_owned(), instance()),
            ("process.pid".to_owned(), String::new()),
            ("telemetry.sdk.name".to_owned(), "mcp-flow".to_owned()),
            ("telemetry.sdk.language".to_owned(), "rust".to_owned()),
            ("telemetry.sdk.version".to_owned(), VERSION.to_owned()),
        ]);
        all.extend(attributes.clone());
        let mut resource = Vec::new();
        resource.message(1, |resource| {
            for (name, value) in &all {
                match name.as_str() {
                    "process.pid" if value.is_empty() => {
                        resource.integer_attribute(1, name, std::process::id().into());
                    }
                    _ => resource.attribute(1, name, value),
                }
            }
        });
        let mut scope = Vec::new();
        scope.message(1, |scope| {
            scope.text(1, "mcp-flow");
            scope.text(2, VERSION);
        });
        Self { resource, scope }
    }

    /// Builds the request for encoded records. All three signals have the same layout.
    pub(crate) fn request(&self, records: &[u8]) -> Vec<u8> {
        let mut schema = Vec::new();
        schema.text(3, SCHEMA);
        // All lengths are known, so that the records are copied once.
        let of_scope = self.scope.len() + records.len() + schema.len();
        let of_resource = self.resource.len() + length_of_head(of_scope) + of_scope + schema.len();
        let mut request = Vec::with_capacity(length_of_head(of_resource) + of_resource);
        request.head(1, of_resource);
        request.extend_from_slice(&self.resource);
        request.head(2, of_scope);
        request.extend_from_slice(&self.scope);
        request.extend_from_slice(records);
        request.extend_from_slice(&schema);
        request.extend_from_slice(&schema);
        request
    }
}

/// Draws an id of this process.
fn instance() -> String {
    let mut id = [0; 16];
    // Without randomness the id of the process has to do.
    if getrandom::fill(&mut id).is_err() {
        id[..4].copy_from_slice(&std::process::id().to_le_bytes());
    }
    format!("{:032x}", u128::from_le_bytes(id))
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Version of the semantic conventions that attributes follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.40.0";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Origin, SCHEMA};
    use crate::protobuf::Encode;

    #[test]
    fn lengths_that_are_computed_are_those_of_nested_messages() {
        let origin = Origin::new(&BTreeMap::new());
        for length in [0, 1, 100, 20_000, 3_000_000] {
            let records = vec![7; length];
            let mut nested = Vec::new();
            nested.message(1, |of_resource| {
                of_resource.extend_from_slice(&origin.resource);
                of_resource.message(2, |of_scope| {
                    of_scope.extend_from_slice(&origin.scope);
                    of_scope.extend_from_slice(&records);
                    of_scope.text(3, SCHEMA);
                });
                of_resource.text(3, SCHEMA);
            });
            assert!(origin.request(&records) == nested, "{length}");
        }
    }
}
