//! Cassettes of traffic that was captured elsewhere, such as by the console.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::answers::MessageMasker;
use crate::format::{CassetteHeader, Side, VERSION};
use crate::mask::Masker;

/// Writes captured exchanges as a cassette, masked. An exchange has the members `at` (milliseconds since
/// 1970, when its response was sent), `time`, `client`, `principal`, `transport`, `id`, `method`, `params` and
/// `result` (JSON texts), and `error`. Those whose texts were cut off are left out, and the cassette says
/// how many.
pub fn cassette_of_exchanges(exchanges: &[Value]) -> String {
    let mut masker = MessageMasker::new(Masker::new(&[]));
    let mut lines = Vec::new();
    let mut connections = BTreeMap::new();
    let (mut messages, mut lost) = (0, 0_u64);
    let began = |exchange: &Value| {
        exchange["at"].as_f64().unwrap_or_default() - exchange["time"].as_f64().unwrap_or_default()
    };
    let begun = exchanges.iter().map(began).fold(f64::INFINITY, f64::min);
    for exchange in exchanges {
        let Some((mut request, mut response)) = read(exchange) else {
            lost += 2;
            continue;
        };
        // The capture does not tell connections apart; callers do not share one.
        let caller = ["transport", "principal", "client"].map(|name| exchange[name].to_string());
        let next = connections.len() as u64 + 1;
        let connection = *connections.entry(caller).or_insert(next);
        masker.mask(Side::Client, connection, &mut request);
        masker.mask(Side::Server, connection, &mut response);
        let start = round(began(exchange) - begun);
        let end = round(exchange["at"].as_f64().unwrap_or_default() - begun);
        for (at, from, message) in [(start, "client", request), (end, "server", response)] {
            let line =
                json!({"at": at, "from": from, "connection": connection, "message": message});
            lines.push((at, line));
            messages += 1;
        }
    }
    lines.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let header = CassetteHeader {
        cassette: VERSION,
        recorder: concat!("mcp-flow ", env!("CARGO_PKG_VERSION")).to_owned(),
        recorded: jiff::Timestamp::now().to_string(),
        transport: "http".to_owned(),
        target: "captured traffic".to_owned(),
        masked: Vec::new(),
    };
    let last = lines.last().map_or(0.0, |(at, _)| *at);
    let mut text = json!(header).to_string() + "\n";
    for (_, line) in &lines {
        text += &format!("{line}\n");
    }
    if lost > 0 {
        text += &format!("{}\n", json!({"at": last, "lost": {"messages": lost}}));
    }
    text += &format!("{}\n", json!({"at": last, "end": {"messages": messages}}));
    text
}

/// Reads an exchange as a request and its response; `None` if a part was cut off.
fn read(exchange: &Value) -> Option<(Value, Value)> {
    let text = |name: &str| exchange[name].as_str().filter(|text| !text.is_empty());
    let mut request = json!({"jsonrpc": "2.0", "id": exchange["id"], "method": exchange["method"]});
    if let Some(params) = text("params") {
        request["params"] = serde_json::from_str(params).ok()?;
    }
    let mut response = json!({"jsonrpc": "2.0", "id": exchange["id"]});
    match &exchange["error"] {
        Value::Null => response["result"] = serde_json::from_str(text("result")?).ok()?,
        error => response["error"] = error.clone(),
    }
    Some((request, response))
}

fn round(milliseconds: f64) -> f64 {
    (milliseconds * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::cassette_of_exchanges;
    use crate::format::Cassette;
    use serde_json::json;

    #[test]
    fn captured_exchanges_become_a_cassette() {
        let exchange = |at: u64, params: &str, result: &str| {
            json!({
                "at": at, "time": 1.5, "transport": "http", "principal": "ada", "client": "x",
                "id": at, "method": "tools/call", "params": params, "result": result,
            })
        };
        let text = cassette_of_exchanges(&[
            exchange(
                1000,
                "{\"name\":\"a\",\"arguments\":{\"password\":\"hunter2\"}}",
                "{\"ok\":1}",
            ),
            exchange(1010, "{\"name\":\"b\"}", "{\"cut"),
            json!({"at": 1020, "time": 1, "id": 7, "method": "x", "params": "", "error": {"code": -1}}),
        ]);
        assert!(!text.contains("hunter2"), "{text}");
        let cassette = Cassette::parse(text.as_bytes()).unwrap();
        assert_eq!(cassette.messages(), 4);
        assert_eq!(cassette.remarks.len(), 1, "{:?}", cassette.remarks);
        assert!(cassette.remarks[0].contains("2 messages were left out"));
        assert_eq!(Cassette::parse(cassette_of_exchanges(&[]).as_bytes()).unwrap().messages(), 0);
    }
}
