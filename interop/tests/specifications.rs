//! Large public API descriptions, imported as tools and called against a server that plays the API.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;

use mcp_flow::{ConnectionInfo, Interaction, Server};
use mcp_flow_declarative::document::Format;
use mcp_flow_declarative::openapi::{ImportOptions, import, to_yaml};
use mcp_flow_declarative::{ToolLibrary, ToolReading, Trust};
use serde_json::{Map, Value, json};

/// Every reference of every tool resolves, and twenty operations of each API work.
#[tokio::test]
async fn large_descriptions_become_working_tools() {
    for (name, least) in [
        ("stripe.com.json", 400),
        ("kubernetes.io.json", 400),
        ("github.com/api.github.com.json", 700),
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("specifications/.installed");
        let text = std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| {
            panic!("run interop/install first: {name}: {error}");
        });
        let spec: Arc<Value> = Arc::new(serde_json::from_str(&text).unwrap());
        let api = play(spec.clone());
        let options =
            ImportOptions { server: Some(format!("http://{api}")), ..ImportOptions::default() };
        let imported = import(&spec, &options).unwrap();
        assert!(imported.tools >= least, "{name}: {} tools", imported.tools);
        let mut file = imported.file;
        for tool in file["tools"].as_array_mut().unwrap() {
            check_references(name, tool);
            // Credentials are not what is tried here.
            let http = tool["http"].as_object_mut().unwrap();
            http.remove("auth");
            for place in ["headers", "query"] {
                if let Some(values) = http.get_mut(place).and_then(Value::as_object_mut) {
                    values.retain(|_, value| value.get("secret").is_none());
                }
            }
        }
        let yaml = to_yaml(&file);
        let reading = ToolReading::of(&yaml, Format::Yaml, &folder);
        let problems: Vec<_> = reading.problems.iter().map(ToString::to_string).collect();
        assert!(reading.file.is_some(), "{name}: {problems:?}");
        call_some(name, &file).await;
    }
}

/// Checks that the references of a tool lead to its definitions, and that each of those is used.
fn check_references(name: &str, tool: &Value) {
    let input = &tool["input"];
    let mut waiting = vec![input];
    let mut used = BTreeSet::new();
    while let Some(value) = waiting.pop() {
        match value {
            Value::Object(members) => {
                if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                    let target = reference.strip_prefix('#').and_then(|at| input.pointer(at));
                    assert!(target.is_some(), "{name} {}: {reference}", tool["name"]);
                    used.insert(reference.to_owned());
                }
                waiting.extend(members.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    let defined = input.get("$defs").and_then(Value::as_object).map_or(0, Map::len);
    assert_eq!(defined, used.len(), "{name} {}: unused definitions", tool["name"]);
}

/// Calls twenty operations of an API, spread over all of them.
async fn call_some(name: &str, file: &Value) {
    let all = file["tools"].as_array().unwrap();
    let chosen: Vec<Value> = all.iter().step_by(all.len() / 20).take(20).cloned().collect();
    assert_eq!(chosen.len(), 20);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.yaml"), to_yaml(&json!({"tools": chosen}))).unwrap();
    let library = ToolLibrary::open([folder.path().to_owned()], None, Trust::System).unwrap();
    let flows = Interaction::builder().build();
    let server = flows.add_to(Server::builder("api", "1.0.0")).build().unwrap();
    library.attach(&server, &flows);
    assert_eq!(library.len(), 20, "{name}: {:?}", library.files());
    for tool in &chosen {
        let arguments = sample(&tool["input"], &tool["input"], 0);
        let result = call(&server, tool["name"].as_str().unwrap(), &arguments).await;
        assert_ne!(result["isError"], true, "{name} {} {arguments}: {result}", tool["name"]);
        assert!(result.get("content").is_some(), "{name} {}: {result}", tool["name"]);
    }
}

async fn call(server: &Server, name: &str, arguments: &Value) -> Value {
    let connection = server.connect(ConnectionInfo::new("test")).unwrap();
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": name, "arguments": arguments,
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    connection.receive(request.to_string().as_bytes());
    let segment = connection.output().await.expect("the server answers");
    let message: Value = serde_json::from_slice(segment.lines()).unwrap();
    message.get("result").or(message.get("error")).cloned().unwrap_or_default()
}

/// Makes up a value that a schema allows: the required members only.
fn sample(root: &Value, schema: &Value, depth: usize) -> Value {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = reference.strip_prefix('#').and_then(|at| root.pointer(at));
        return sample(root, target.unwrap_or(&Value::Null), depth + 1);
    }
    if depth > 12 {
        return Value::Null;
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        return options.first().cloned().unwrap_or_default();
    }
    for keyword in ["oneOf", "anyOf"] {
        if let Some(first) = schema.get(keyword).and_then(|list| list.get(0))
            && schema.get("properties").is_none()
        {
            return sample(root, first, depth + 1);
        }
    }
    if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        let mut whole = Map::new();
        for part in parts {
            match sample(root, part, depth + 1) {
                Value::Object(members) => whole.extend(members),
                other => return other,
            }
        }
        return whole.into();
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or("string"),
        Some(Value::String(kind)) => kind,
        _ if schema.get("properties").is_some() => "object",
        _ => "string",
    };
    match kind {
        "object" => {
            let mut object = Map::new();
            for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
                let name = name.as_str().unwrap_or_default();
                let property = schema.get("properties").and_then(|all| all.get(name));
                let value = property.map_or(json!("x"), |one| sample(root, one, depth + 1));
                object.insert(name.to_owned(), value);
            }
            object.into()
        }
        "array" => {
            let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
            let items = schema.get("items").cloned().unwrap_or_default();
            (0..least).map(|_| sample(root, &items, depth + 1)).collect()
        }
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(true),
        "null" => Value::Null,
        _ => {
            let least = schema.get("minLength").and_then(Value::as_u64).unwrap_or(1);
            let format = schema.get("format").and_then(Value::as_str);
            match format {
                Some("date-time") => json!("2026-01-02T03:04:05Z"),
                Some("date") => json!("2026-01-02"),
                _ => "x".repeat(usize::try_from(least.max(1)).unwrap_or(1)).into(),
            }
        }
    }
}

/// Plays the API of a description: it answers operations that exist, with what they require.
fn play(spec: Arc<Value>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let spec = spec.clone();
            std::thread::spawn(move || {
                let mut output = stream.try_clone().unwrap();
                let mut reader = BufReader::new(stream);
                while let Some((line, body)) = read_request(&mut reader) {
                    let (status, text) = match answer(&spec, &line, &body) {
                        Ok(response) => (200, response.to_string()),
                        Err(problem) => {
                            (400, json!({"problem": problem, "line": line}).to_string())
                        }
                    };
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
                        text.len()
                    );
                    if output.write_all(head.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn read_request(reader: &mut impl BufRead) -> Option<(String, String)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((line.trim().to_owned(), String::from_utf8_lossy(&body).into_owned()))
}

/// Finds the operation of a request and checks what it requires.
fn answer(spec: &Value, line: &str, body: &str) -> Result<Value, String> {
    let mut words = line.split(' ');
    let method = words.next().unwrap_or_default().to_lowercase();
    let target = words.next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let is_path = |template: &str| {
        let (one, other): (Vec<_>, Vec<_>) =
            (template.split('/').collect(), path.split('/').collect());
        one.len() == other.len()
            && one.iter().zip(&other).all(|(part, segment)| match part.split_once('{') {
                Some((start, _)) => segment.starts_with(start) && segment.len() > start.len(),
                None => part == segment,
            })
    };
    let paths = spec["paths"].as_object().into_iter().flatten();
    let mut found =
        paths.filter(|(template, item)| is_path(template) && item.get(&method).is_some());
    let (_, item) = found.next().ok_or("no such operation")?;
    let operation = &item[&method];
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let parameter = resolved(spec, parameter);
        let name = parameter["name"].as_str().unwrap_or_default();
        if parameter["in"] == "query" && parameter["required"] == true && !query.contains(name) {
            return Err(format!("the query parameter {name} is missing"));
        }
    }
    let expected = resolved(spec, &operation["requestBody"]);
    if expected["required"] == true
        && body.is_empty()
        && expected["content"].get("application/json").is_some()
    {
        return Err("the body is missing".to_owned());
    }
    if expected["content"].get("application/json").is_some() && !body.is_empty() {
        serde_json::from_str::<Value>(body).map_err(|error| error.to_string())?;
    }
    Ok(json!({"operation": operation["operationId"]}))
}

fn resolved<'a>(spec: &'a Value, value: &'a Value) -> &'a Value {
    match value.get("$ref").and_then(Value::as_str) {
        Some(reference) => spec.pointer(&reference[1..]).unwrap_or(value),
        None => value,
    }
}
