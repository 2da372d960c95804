//! The manifest docs/operations/kubernetes.yaml.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use interop::{Served, program};
use mcp_flow_testkit::postgres::PostgresServer;
use serde_json::{Value, json};

use super::{read, root};

/// The manifest follows the schemas of Kubernetes, and leaves time to drain.
#[test]
fn the_manifest_is_valid() {
    let spec: Value =
        serde_json::from_str(&read("interop/specifications/.installed/kubernetes.io.json"))
            .unwrap();
    let schemas = &spec["components"]["schemas"];
    let mut problems = Vec::new();
    for object in manifest() {
        let version = object["apiVersion"].as_str().unwrap().replace('/', ".");
        let kind = object["kind"].as_str().unwrap();
        let suffix = format!(".{version}.{kind}");
        let name = schemas
            .as_object()
            .unwrap()
            .keys()
            .find(|name| name.starts_with("io.k8s.api.") && name.ends_with(&suffix))
            .unwrap_or_else(|| panic!("there is no {version} {kind}"));
        check(&object, &schemas[name], schemas, kind, &mut problems);
    }
    assert!(problems.is_empty(), "{problems:#?}");

    let pod = &find("Deployment")["spec"]["template"]["spec"];
    let drain = configuration()["serve"]["drain_seconds"].as_integer().unwrap();
    assert!(pod["terminationGracePeriodSeconds"].as_i64().unwrap() >= drain + 10);
    let container = &pod["containers"][0];
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
}

/// A node starts with the arguments, variables and configuration of the manifest, is ready, requires
/// the token, and writes no file.
#[tokio::test]
async fn a_node_starts_as_the_manifest_says() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, configuration_text()).unwrap();
    let work = tempfile::tempdir().unwrap();
    let container = &find("Deployment")["spec"]["template"]["spec"]["containers"][0];
    let store = PostgresServer::shared().create_database();
    let values = BTreeMap::from([
        ("POD_IP", "127.0.0.1"),
        ("STORE_URL", &store),
        ("MCP_FLOW_STORE_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"),
        ("AGENT_TOKEN", "a-token-of-the-agent"),
    ]);
    let mut command = tokio::process::Command::new(program());
    for argument in container["args"].as_array().unwrap() {
        let mut argument = argument.as_str().unwrap().to_owned();
        for (name, value) in &values {
            argument = argument.replace(&format!("$({name})"), value);
        }
        command.arg(argument.replace("/etc/mcp-flow/config.toml", config.to_str().unwrap()));
    }
    for variable in container["env"].as_array().unwrap() {
        let name = variable["name"].as_str().unwrap();
        command.env(name, values[name]);
    }
    command.args(["--listen", "127.0.0.1:0", "--json"]).current_dir(work.path());
    let server = Served::run(&mut command).await;

    let ping = |token: &[&str]| {
        let mut command = Command::new(program());
        command.args(["ping", server.url("mcp")]).args(token).env_remove("MCP_FLOW_TOKEN");
        command.output().unwrap()
    };
    let denied: Output = ping(&[]);
    assert_eq!(denied.status.code(), Some(5), "{denied:?}");
    let answered = ping(&["--token", "a-token-of-the-agent"]);
    assert!(answered.status.success(), "{answered:?}");
    assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0);
}

/// Checks a value against a schema of OpenAPI, unknown members included.
fn check(value: &Value, schema: &Value, schemas: &Value, path: &str, problems: &mut Vec<String>) {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    if let Some(reference) = reference {
        let name = reference.rsplit('/').next().unwrap();
        return check(value, &schemas[name], schemas, path, problems);
    }
    let is_valid = match schema["type"].as_str() {
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        Some("string") => {
            value.is_string() || schema["format"] == "int-or-string" && value.is_i64()
        }
        Some("array") => value.is_array(),
        _ => value.is_object() || schema.get("properties").is_none(),
    };
    if !is_valid {
        problems.push(format!("{path}: {value} is no {}", schema["type"]));
    }
    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
        check(item, &schema["items"], schemas, &format!("{path}[{number}]"), problems);
    }
    let Some(members) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten() {
        if !members.contains_key(name.as_str().unwrap()) {
            problems.push(format!("{path}: {name} is missing"));
        }
    }
    for (name, member) in members {
        let known = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
        match known {
            Some(schema) => check(member, schema, schemas, &format!("{path}.{name}"), problems),
            None => problems.push(format!("{path}: {name} is unknown")),
        }
    }
}

fn configuration() -> toml::Table {
    configuration_text().parse().unwrap()
}

fn configuration_text() -> String {
    find("ConfigMap")["data"]["config.toml"].as_str().unwrap().to_owned()
}

fn find(kind: &str) -> Value {
    manifest().into_iter().find(|object| object["kind"] == json!(kind)).unwrap()
}

/// The objects of the manifest, converted to JSON by Python.
fn manifest() -> Vec<Value> {
    let convert =
        "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let converted = Command::new(root().join("interop/python/.venv/bin/python"))
        .args(["-c", convert])
        .arg(root().join("docs/operations/kubernetes.yaml"))
        .output()
        .unwrap();
    assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
    serde_json::from_slice(&converted.stdout).unwrap()
}
