//! Fingerprints that tell whether a request or question is the same as before.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_flow_proto::model::InputRequest;
use mcp_flow_proto::{Params, Raw};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A 16-byte digest of a canonical form, independent of the order of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// The fingerprint of a request, without what changes between rounds.
    pub(super) fn of_request(method: &str, params: Params<'_>) -> Self {
        let salient = params.members(["name", "uri", "arguments"]).unwrap_or_default();
        let parts = salient.map(|part| part.map(canonical).unwrap_or_default());
        let [name, uri, arguments] = &parts;
        Self::of(&[b"request", method.as_bytes(), name, uri, arguments])
    }

    /// The fingerprint of a question.
    pub(super) fn of_question(request: &InputRequest) -> Self {
        let mut params = Vec::new();
        write_sorted(&mut params, &request.params);
        Self::of(&[b"question", request.method.as_bytes(), &params])
    }

    fn of(parts: &[&[u8]]) -> Self {
        let digest = mcp_flow_seal::digest(parts);
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        Self(short)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = String::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(D::Error::custom)?;
        bytes.try_into().map(Self).map_err(|_| D::Error::custom("not 16 bytes"))
    }
}

/// The canonical form of a value. A value too large to decode is taken byte by byte.
fn canonical(raw: Raw<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let value = if raw.count() <= MAX_VALUES { raw.decode::<Value>().ok() } else { None };
    match value {
        Some(value) => write_sorted(&mut out, &value),
        None => out.extend_from_slice(raw.bytes()),
    }
    out
}

fn write_sorted(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| name.as_str());
            out.push(b'{');
            for (name, value) in members {
                write_plain(out, name);
                out.push(b':');
                write_sorted(out, value);
                out.push(b',');
            }
            out.push(b'}');
        }
        Value::Array(elements) => {
            out.push(b'[');
            for element in elements {
                write_sorted(out, element);
                out.push(b',');
            }
            out.push(b']');
        }
        simple => write_plain(out, simple),
    }
}

fn write_plain(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("memory can be written to");
}

/// Most values that are brought into canonical form.
const MAX_VALUES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::Fingerprint;
    use mcp_flow_proto::{Encoding, Params, Raw};
    use serde_json::{Value, json};

    /// C-06: a fingerprint does not depend on member order or on state sent along.
    #[test]
    fn equivalent_requests_have_one_fingerprint() {
        let first = of(r#"{"name":"a","arguments":{"x":1,"y":{"p":[1,2],"q":null}}}"#);
        for same in [
            r#"{"arguments":{"y":{"q":null,"p":[1, 2]},"x":1},"name":"a"}"#,
            r#"{"name":"\u0061","arguments":{"x":1,"y":{"p":[1,2],"q":null}},"requestState":"s",
                "inputResponses":{"k":{}},"_meta":{"a":1}}"#,
        ] {
            assert_eq!(of(same), first, "{same}");
            let value: Value = serde_json::from_str(same).unwrap();
            let cbor = Encoding::Cbor.encode(&value).unwrap();
            let params = Params::new(Some(Raw::Cbor(&cbor)));
            assert_eq!(Fingerprint::of_request("tools/call", params), first);
        }
        for other in [
            r#"{"name":"b","arguments":{"x":1,"y":{"p":[1,2],"q":null}}}"#,
            r#"{"uri":"a","arguments":{"x":1,"y":{"p":[1,2],"q":null}}}"#,
            r#"{"name":"a","arguments":{"x":1,"y":{"p":[2,1],"q":null}}}"#,
            r#"{"name":"a","arguments":{"x":"1","y":{"p":[1,2],"q":null}}}"#,
            r#"{"name":"a"}"#,
        ] {
            assert_ne!(of(other), first, "{other}");
        }
        let prompt = Params::new(Some(Raw::Json(r#"{"name":"a"}"#)));
        let [tool, prompt] =
            ["tools/call", "prompts/get"].map(|method| Fingerprint::of_request(method, prompt));
        assert_ne!(tool, prompt);
    }

    #[test]
    fn fingerprints_survive_serialization() {
        let print = of("{}");
        let written = serde_json::to_value(print).unwrap();
        assert_eq!(serde_json::from_value::<Fingerprint>(written).unwrap(), print);
        for bad in [json!(""), json!("AAAA"), json!("!"), json!(7)] {
            assert!(serde_json::from_value::<Fingerprint>(bad).is_err());
        }
    }

    fn of(params: &str) -> Fingerprint {
        Fingerprint::of_request("tools/call", Params::new(Some(Raw::Json(params))))
    }
}
