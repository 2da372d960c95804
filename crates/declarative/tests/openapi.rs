//! Import of OpenAPI descriptions.

use mcp_flow_declarative::ToolReading;
use mcp_flow_declarative::openapi::{ImportOptions, import, to_yaml};
use mcp_flow_workflow::Format;
use serde_json::{Value, json};

use crate::support::Tools;
use crate::support::mock::{MockServer, Reply};

fn description(version: &str) -> Value {
    json!({
        "openapi": version,
        "info": {"title": "Trees", "version": "1"},
        "servers": [{"url": "https://{region}.trees.example/v1", "variables": {"region": {"default": "eu"}}},
            {"url": "https://other.example"}],
        "security": [{"token": []}],
        "paths": {
            "/trees/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
                "get": {"operationId": "trees/get", "summary": "Get a tree", "description": "Gets one.\n\nAll of it.",
                    "parameters": [
                        {"$ref": "#/components/parameters/Fields"},
                        {"name": "session", "in": "cookie", "schema": {"type": "string"}},
                        {"name": "X-Trace", "in": "header", "schema": {"type": "string"}},
                        {"name": "filter[kind]", "in": "query", "schema": {"type": "string"}}]},
                "put": {"operationId": "trees/put", "requestBody": {"$ref": "#/components/requestBodies/Tree"}},
                "delete": {"operationId": "trees/delete", "deprecated": true}
            },
            "/trees": {
                "post": {"requestBody": {"required": true, "content": {"multipart/form-data": {"schema": {}}}}},
                "get": {"security": [{"basic": []}], "parameters": [
                    {"name": "sort", "in": "query", "style": "pipeDelimited", "schema": {"type": "array", "items": {}}}]}
            },
            "/broken": {"get": {"parameters": [{"$ref": "#/components/parameters/Nowhere"}]}},
            "/dangling": {"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/nope"}}}}}}
        },
        "components": {
            "parameters": {"Fields": {"name": "fields", "in": "query", "explode": false, "schema": {"type": "array", "items": {"type": "string"}}}},
            "requestBodies": {"Tree": {"required": true, "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}}},
            "schemas": {
                "Tree": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string", "nullable": true, "example": "oak"},
                    "size": {"type": "integer", "minimum": 0, "exclusiveMinimum": version.starts_with("3.0"), "xml": {}},
                    "children": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}},
                    "kind": {"$ref": "#/components/schemas/Kind~1odd name"}}},
                "Kind/odd name": {"enum": ["leaf", "needle"]}
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}, "basic": {"type": "http", "scheme": "basic"}}
        }
    })
}

#[test]
fn operations_become_tools() {
    for version in ["3.0.3", "3.1.0"] {
        let mut spec = description(version);
        if version.starts_with("3.1") {
            spec["components"]["schemas"]["Tree"]["properties"]["size"] =
                json!({"type": "integer", "exclusiveMinimum": 0});
            spec["components"]["schemas"]["Tree"]["properties"]["name"] =
                json!({"type": ["string", "null"]});
        }
        let imported =
            import(&spec, &ImportOptions { prefix: "t.".to_owned(), ..Default::default() })
                .unwrap();
        let tools = imported.file["tools"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["t.trees.get", "t.trees.put", "t.get_trees"]);
        let get = &tools[0];
        assert_eq!(get["http"]["url"], "https://eu.trees.example/v1/trees/{{id}}");
        assert_eq!(
            get["http"]["query"],
            json!({"fields": {"join": "{{fields}}"}, "filter[kind]": "{{filter_kind}}"})
        );
        assert_eq!(get["http"]["auth"], json!({"bearer": {"secret": "env:T_TOKEN"}}));
        assert_eq!(get["annotations"]["readOnly"], true);
        let put = &tools[1]["input"];
        assert_eq!(put["properties"]["body"], json!({"$ref": "#/$defs/Tree"}));
        let tree = &put["$defs"]["Tree"]["properties"];
        assert_eq!(tree["children"]["items"], json!({"$ref": "#/$defs/Tree"}), "recursion stays");
        assert_eq!(tree["name"], json!({"type": ["string", "null"]}));
        assert_eq!(tree["size"], json!({"type": "integer", "exclusiveMinimum": 0}));
        assert_eq!(tree["kind"], json!({"$ref": "#/$defs/Kind_1odd_name"}));
        let left_out = imported.left_out.join("\n");
        for expected in [
            "cookie parameter `session`",
            "DELETE /trees/{id}: it is deprecated",
            "multipart/form-data",
            "pipeDelimited",
            "GET /broken",
            "POST /dangling: the reference #/nope cannot be resolved",
        ] {
            assert!(left_out.contains(expected), "{expected}: {left_out}");
        }
        assert_eq!(imported.secrets, ["T_BASIC_PASSWORD", "T_BASIC_USER", "T_TOKEN"]);
        let yaml = to_yaml(&imported.file);
        let reading = ToolReading::of(&yaml, Format::Yaml, ".".as_ref());
        assert_eq!(reading.problems, [], "{yaml}");
    }
}

#[test]
fn patterns_select_operations() {
    let spec = description("3.0.3");
    let names = |only: &[&str]| -> Vec<String> {
        let only = only.iter().map(|&only| only.to_owned()).collect();
        let imported = import(&spec, &ImportOptions { only, ..Default::default() });
        let Ok(imported) = imported else { return Vec::new() };
        let tools = imported.file["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&["trees/delete"]), ["trees.delete"]);
    assert_eq!(names(&["PUT *", "trees/get"]), ["trees.get", "trees.put"]);
    assert_eq!(names(&["/trees/*"]), ["trees.get", "trees.put", "trees.delete"]);
    assert_eq!(names(&["nothing"]), [""; 0]);
    for (spec, expected) in [
        (json!({"swagger": "2.0"}), "Swagger 2.0"),
        (json!({"openapi": "4.0.0"}), "4.0.0"),
        (json!({}), "not an OpenAPI"),
        (json!({"openapi": "3.1.0"}), "paths"),
    ] {
        let error = import(&spec, &ImportOptions::default()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn imported_tools_call_the_api() {
    let server = MockServer::start(None, |request| {
        Reply::json(
            json!({"method": request.method, "target": request.target, "body": request.body}),
        )
    })
    .await;
    let mut spec = description("3.0.3");
    spec["security"] = json!([]);
    let base = format!("http://{}/v1", server.address);
    let options = ImportOptions {
        only: vec!["trees/*".to_owned()],
        server: Some(base),
        ..Default::default()
    };
    let imported = import(&spec, &options).unwrap();
    assert_eq!(imported.private, ["127.0.0.1"]);
    let tools = Tools::of(&to_yaml(&imported.file));
    let (result, _) = tools
        .call("trees.get", json!({"id": "a/b", "fields": ["x", "y"], "filter_kind": "k"}))
        .await;
    assert_eq!(
        result["structuredContent"]["target"], "/v1/trees/a%2Fb?fields=x,y&filter%5Bkind%5D=k",
        "{result}"
    );
    let tree = json!({"name": "oak", "children": [{"name": "acorn", "children": []}]});
    let (result, _) = tools.call("trees.put", json!({"id": "1", "body": tree})).await;
    assert_eq!(result["structuredContent"]["body"], tree.to_string(), "{result}");
    let (result, _) = tools.call("trees.put", json!({"id": "1", "body": {"children": [{}]}})).await;
    assert_eq!(result["isError"], true, "{result}");
    assert!(result.to_string().contains("name is required"), "{result}");
}

/// Lists and objects get their form from style, explode and encoding, or are left out with a reason.
#[tokio::test]
async fn parameters_are_sent_in_the_style_that_is_described() {
    let server = MockServer::start(None, |_| Reply::json("{}")).await;
    let list = json!({"type": "array", "items": {"type": "string"}});
    let object = json!({"type": "object"});
    let parameter = |name: &str, place: &str, schema: &Value, more: Value| {
        let mut parameter =
            json!({"name": name, "in": place, "required": place == "path", "schema": schema});
        parameter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parameter
    };
    let form = |encoding: Value| {
        json!({"required": true, "content": {"application/x-www-form-urlencoded": {"encoding": encoding, "schema":
            {"type": "object", "properties": {"l": list, "o": object}}}}})
    };
    let spec = json!({
        "openapi": "3.1.0", "info": {"title": "T", "version": "1"},
        "servers": [{"url": format!("http://localhost:{}", server.address.port())}],
        "paths": {
            "/a/{ids}": {"get": {"operationId": "get", "parameters": [
                parameter("ids", "path", &list, json!({})),
                parameter("X-L", "header", &list, json!({})),
                parameter("repeated", "query", &list, json!({})),
                parameter("joined", "query", &list, json!({"explode": false})),
                parameter("spread", "query", &object, json!({})),
                parameter("deep", "query", &object, json!({"style": "deepObject", "explode": true})),
                parameter("flat", "query", &object, json!({"explode": false})),
                parameter("X-O", "header", &object, json!({}))]}},
            "/o/{o}": {"get": {"operationId": "skipped", "parameters": [parameter("o", "path", &object, json!({}))]}},
            "/plain": {"post": {"operationId": "plain", "requestBody": form(json!({}))}},
            "/deep": {"post": {"operationId": "deep", "requestBody":
                form(json!({"l": {"style": "deepObject", "explode": true}, "o": {"style": "deepObject"}}))}},
            "/odd": {"post": {"operationId": "odd", "requestBody": form(json!({"l": {"style": "pipeDelimited"}}))}}
        }
    });
    let imported = import(&spec, &ImportOptions::default()).unwrap();
    let left_out = imported.left_out.join("\n");
    for expected in [
        "GET /a/{ids}: the query parameter `flat`: it is an object in one parameter",
        "GET /a/{ids}: the header parameter `X-O`: it is an object",
        "GET /o/{o}: the path parameter `o`: it is an object",
        "POST /odd: the encoding of `l` in the form: its style is pipeDelimited",
    ] {
        assert!(left_out.contains(expected), "{expected}: {left_out}");
    }
    assert_eq!((imported.left_out.len(), &*imported.private), (4, &["localhost".to_owned()][..]));
    let tools = Tools::of(&to_yaml(&imported.file));
    let problems = &tools.library.files()[0].problems;
    assert_eq!(*problems, [], "{}", to_yaml(&imported.file));
    let arguments = json!({"ids": ["1", "2/3"], "X-L": ["a", "b"], "repeated": ["a", "b"], "joined": ["a", "b"],
        "spread": {"x": 1}, "deep": {"y": 2}});
    tools.call("get", arguments).await;
    let body = json!({"body": {"l": ["a", "b"], "o": {"x": [1]}}});
    tools.call("plain", body.clone()).await;
    tools.call("deep", body).await;
    let received = server.take();
    assert_eq!(received[0].target, "/a/1,2%2F3?repeated=a&repeated=b&joined=a,b&x=1&deep%5By%5D=2");
    assert_eq!(received[0].header("x-l"), Some("a,b"));
    assert_eq!(received[1].body, "l=a&l=b&o%5Bx%5D%5B0%5D=1");
    assert_eq!(received[2].body, "l%5B0%5D=a&l%5B1%5D=b&o%5Bx%5D%5B0%5D=1");
}

/// Rules of a description that tool files cannot express are kept or reported.
#[test]
fn siblings_of_references_patterns_and_responses_are_kept_or_reported() {
    for version in ["3.0.3", "3.1.0"] {
        let mut spec = description(version);
        let look_ahead = "^(?=.*[0-9]).{8,}$";
        spec["components"]["schemas"]["Tree"]["properties"] = json!({
            "kind": {"$ref": "#/components/schemas/Kind~1odd name", "description": "d", "default": "leaf", "deprecated": true},
            "key": {"type": "string", "pattern": look_ahead, "minLength": 8},
            "map": {"type": "object", "patternProperties": {look_ahead: {}, "^x-": {"type": "string"}}},
        });
        spec["paths"]["/trees/{id}"]["put"]["responses"] = json!({"200": {"description": "d",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}}}});
        let options = ImportOptions { only: vec!["trees/put".to_owned()], ..Default::default() };
        let imported = import(&spec, &options).unwrap();
        let tree = &imported.file["tools"][0]["input"]["$defs"]["Tree"]["properties"];
        let kind = json!({"$ref": "#/$defs/Kind_1odd_name", "description": "d"});
        let mut kept = kind.clone();
        (kept["default"], kept["deprecated"]) = ("leaf".into(), true.into());
        // 3.0 says that they are ignored.
        assert_eq!(tree["kind"], if version.starts_with("3.0") { kind } else { kept });
        assert_eq!(tree["key"], json!({"type": "string", "minLength": 8}));
        assert_eq!(tree["map"]["patternProperties"], json!({"^x-": {"type": "string"}}));
        let left_out = imported.left_out.join("\n");
        assert_eq!(left_out.matches(look_ahead).count(), 1, "{left_out}");
        assert!(left_out.contains("PUT /trees/{id}: the pattern"), "{left_out}");
        assert!(left_out.contains("the schemas of 1 responses"), "{left_out}");
    }
}
