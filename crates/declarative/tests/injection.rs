//! A corpus of values that try to be more than a value, in every position.

use mcp_flow_workflow::Format;
use serde_json::{Value, json};

use crate::support::Tools;
use crate::support::mock::{MockServer, Reply};

/// Values that mean something to shells, option parsers, URLs, headers, JSON, YAML or templates.
fn corpus() -> Vec<String> {
    let touch = "touch /tmp/mcp-flow-injected";
    let mut values: Vec<String> = Vec::new();
    for separator in
        [";", "&", "&&", "|", "||", "\n", "\r\n", "\r", "`", "\0", "\u{2028}", "\u{85}"]
    {
        for (before, after) in [("", ""), ("x", ""), ("x ", " #"), ("\"", "\""), ("'", "'")] {
            values.push(format!("{before}{separator}{touch}{after}"));
        }
    }
    for wrapped in [
        "$(X)",
        "${X}",
        "`X`",
        "<(X)",
        ">(X)",
        "$((1))",
        "{{X}}",
        "{{{{a}}}}",
        "\\{{X}}",
        "%(X)s",
        "#{X}",
        "<%= X %>",
        "${{X}}",
        "@{X}",
        "$[X]",
        "~(X)",
        "!X",
        "!!",
        "^X^y",
    ] {
        values.push(wrapped.replace('X', touch));
    }
    for option in [
        "-",
        "--",
        "-x",
        "-rf",
        "--help",
        "--output=/tmp/mcp-flow-injected",
        "-o/tmp/mcp-flow-injected",
        "--exec=id",
        "--upload-pack=id",
        "-c core.pager=id",
        "--config=/etc/passwd",
        "\u{2010}x",
        "\u{2212}-help",
        "\u{ff0d}\u{ff0d}help",
        " --help",
        "\t-x",
        "+x",
        "@/etc/passwd",
        "@-",
    ] {
        values.push(option.to_owned());
    }
    for path in [
        "..",
        ".",
        "../",
        "../../etc/passwd",
        "..\\..\\windows",
        "/etc/passwd",
        "//etc/passwd",
        "%2e%2e",
        "%2e%2e%2f",
        "%252e%252e%252f",
        "..%2f",
        "..%c0%af",
        "%00",
        "..;/",
        "....//",
        "/./",
        "/../",
        "a/../../b",
        "\u{ff0e}\u{ff0e}/",
        "\u{2024}\u{2024}/",
        "~root",
        "*",
        "?",
        "[a-z]",
        "{a,b}",
        "file:///etc/passwd",
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1/",
        "//169.254.169.254/",
        "\\\\host\\share",
        "javascript:alert(1)",
        "data:text/html,x",
        "#fragment",
        "?a=b",
        "&a=b",
        ";a=b",
        "a=b&c=d",
        "@host",
        ":80",
        "user:pass@host",
        "host\\@other",
        "%0d%0aX-Evil:%201",
        "%23",
        "%3f",
    ] {
        values.push(path.to_owned());
    }
    for broken in [
        "a\r\nX-Evil: 1",
        "a\nX-Evil: 1",
        "a\rX-Evil: 1",
        "\r\n\r\nGET /evil HTTP/1.1\r\n",
        "a\u{0}b",
        "\u{0}",
        "a\u{1}b",
        "\u{7f}",
        "\u{1b}[31m",
        "\u{8}",
        "\u{feff}",
        "\u{202e}txt.exe",
        "\u{200b}",
        "e\u{301}",
        "\u{1f600}",
        "\u{10ffff}",
        "é",
        "ﬀ",
        "ſ",
        "K",
        "İ",
        "\t",
        " ",
        "",
        "  x  ",
    ] {
        values.push(broken.to_owned());
    }
    for data in [
        "\"",
        "'",
        "\\",
        "\\\"",
        "\\'",
        "\\n",
        "\\u0000",
        "\"}",
        "\"],\"x\":[\"",
        "{\"a\":1}",
        "[1]",
        "null",
        "true",
        "0",
        "-1",
        "1e999",
        "0x10",
        "~",
        "*a",
        "&a b",
        "!!python/object",
        "- x",
        "a: b",
        "# x",
        "<xml/>",
        "<!--",
        "]]>",
        "' OR '1'='1",
        "\"; DROP TABLE x; --",
        "1; SELECT 1",
        "${jndi:ldap://x}",
        "%s%n",
        "%x",
        "\\x00",
        "=cmd|'/c calc'!A0",
        "{{constructor}}",
        "__proto__",
        "$ref",
        "#/$defs/x",
    ] {
        values.push(data.to_owned());
    }
    values.push("A".repeat(100_000));
    values.push("../".repeat(1000));
    values
}

#[tokio::test]
async fn commands_get_every_value_as_one_argument_or_none() {
    let tools = Tools::of(
        r#"
tools:
- name: show
  description: Shows arguments, environment and input
  input: {properties: {v: {type: string}, list: {type: array}}}
  run:
    program: sh
    args:
    - -c
    - 'for one in "$@"; do printf "%s\0" "$one"; done; printf "%s\0" "$V"; cat'
    - sh
    - "--prefix={{v}}"
    - [--pair, "x{{v}}"]
    - --
    - "{{v}}"
    - each: list
    env: {V: "{{v}}", PATH: {inherit: true}}
    stdin: "{{v}}"
  output: {limit: 4M}
- name: bare
  description: Without a separator
  input: {properties: {v: {type: string}}}
  run: {program: printf, args: ['%s', "{{v}}"]}
"#,
    );
    let values = corpus();
    assert!(values.len() >= 200, "{} values", values.len());
    let plain: Vec<&String> = values.iter().filter(|value| !value.contains('\0')).collect();
    let short: Vec<&String> = plain.iter().copied().filter(|one| one.len() < 1000).collect();
    for (index, value) in plain.iter().enumerate() {
        // The whole list once, as many arguments of one program.
        let list: &[&String] = if index == 0 { &short } else { &[] };
        let shown = tools.text("show", json!({"v": value, "list": list})).await;
        let mut expected = vec![format!("--prefix={value}"), "--pair".to_owned()];
        expected.extend([format!("x{value}"), "--".to_owned(), (*value).clone()]);
        expected.extend(list.iter().map(|one| (*one).clone()));
        // The environment, and the input, of which a last line break is not shown.
        expected.extend([(*value).clone(), value.strip_suffix('\n').unwrap_or(value).to_owned()]);
        assert_eq!(shown.split('\0').collect::<Vec<_>>(), expected, "{value:?}");
    }
    for value in &values {
        let arguments = json!({"v": value});
        if value.contains('\0') {
            assert!(tools.failure("bare", arguments.clone()).await.contains("NUL"), "{value:?}");
            assert!(tools.failure("show", arguments).await.contains("NUL"), "{value:?}");
        } else if value.starts_with('-') {
            assert!(tools.failure("bare", arguments).await.contains("hyphen"), "{value:?}");
        } else if value.len() < 1000 {
            let text = tools.text("bare", arguments).await;
            assert_eq!(text, value.strip_suffix('\n').unwrap_or(value), "{value:?}");
        }
    }
    assert!(!std::path::Path::new("/tmp/mcp-flow-injected").exists());
}

#[tokio::test]
async fn requests_have_every_value_in_its_place_or_are_not_sent() {
    let server = MockServer::start(None, |_| Reply::json("{}")).await;
    let address = server.address;
    let tools = Tools::of(&format!(
        r#"
tools:
- name: path
  description: d
  input: {{properties: {{v: {{type: string}}}}}}
  http: {{url: "http://{address}/p/{{{{v}}}}/end", allow_private: [127.0.0.1]}}
- name: rest
  description: d
  input: {{properties: {{v: {{type: string}}}}}}
  http:
    method: POST
    url: "http://{address}/q?u={{{{v}}}}"
    query: {{v: "{{{{v}}}}", fixed: end}}
    body: {{v: "{{{{v}}}}", text: "<{{{{v}}}}>"}}
    allow_private: [127.0.0.1]
- name: header
  description: d
  input: {{properties: {{v: {{type: string}}}}}}
  http: {{url: "http://{address}/h", headers: {{X-V: "<{{{{v}}}}>"}}, allow_private: [127.0.0.1]}}
- name: list
  description: d
  input: {{properties: {{v: {{type: string}}}}}}
  http:
    url: "http://{address}/l"
    query: {{joined: {{join: [a, "{{{{v}}}}"]}}, spread: {{spread: {{"s": "{{{{v}}}}"}}}}, fixed: end}}
    allow_private: [127.0.0.1]
"#
    ));
    for value in corpus().iter().filter(|value| value.len() < 5_000) {
        for name in ["path", "rest", "header", "list"] {
            let (result, _) = tools.call(name, json!({"v": value})).await;
            let received = server.take();
            let Some(request) = received.first() else {
                assert_eq!(result["isError"], true, "{name} {value:?}: {result}");
                let can_be_refused =
                    matches!(name, "path" | "header") || (name == "list" && value.contains(','));
                assert!(can_be_refused, "{name} {value:?}: {result}");
                continue;
            };
            assert_eq!(received.len(), 1, "{value:?}");
            assert_eq!(request.header("host"), Some(address.to_string().as_str()), "{value:?}");
            assert!(
                request.header("x-evil").is_none() && request.header("authorization").is_none()
            );
            match name {
                "path" => {
                    let segments: Vec<_> = request.target.split('/').collect();
                    assert_eq!(
                        (segments.len(), segments[1], segments[3]),
                        (4, "p", "end"),
                        "{value:?}"
                    );
                    assert_eq!(decode(segments[2]), *value);
                    assert!(!request.target.contains(['?', '#']), "{value:?}");
                }
                "rest" => {
                    assert_eq!(
                        pairs_of(request.target.split_once('?').unwrap().1),
                        [pair("u", value), pair("v", value), pair("fixed", "end")],
                        "{value:?}"
                    );
                    let body: Value = serde_json::from_str(&request.body).unwrap();
                    assert_eq!(body, json!({"v": value, "text": format!("<{value}>")}));
                }
                "list" => {
                    let query = request.target.split_once('?').unwrap().1;
                    let joined = query.split('&').next().unwrap().strip_prefix("joined=").unwrap();
                    let items: Vec<_> = joined.split(',').map(decode_form).collect();
                    assert_eq!(items, ["a", value], "{query}");
                    let rest = query.split_once('&').unwrap().1;
                    assert_eq!(pairs_of(rest), [pair("s", value), pair("fixed", "end")], "{query}");
                }
                _ => assert_eq!(
                    request.header("x-v"),
                    Some(format!("<{value}>").trim()),
                    "{value:?}"
                ),
            }
        }
    }
}

#[tokio::test]
async fn bodies_have_every_value_in_its_place() {
    let server = MockServer::start(None, |_| Reply::json("{}")).await;
    let address = server.address;
    let tools = Tools::of(&format!(
        r#"
tools:
- name: form
  description: d
  input: {{properties: {{v: {{type: string}}}}}}
  http:
    method: POST
    url: "http://{address}/f"
    headers: {{Content-Type: application/x-www-form-urlencoded}}
    body: {{v: "{{{{v}}}}", list: ["{{{{v}}}}", x], fixed: end}}
    allow_private: [127.0.0.1]
- name: pairs
  description: d
  input: {{properties: {{v: {{type: string}}}}}}
  http:
    method: POST
    url: "http://{address}/f"
    headers: {{Content-Type: application/x-www-form-urlencoded}}
    body: "v={{{{v}}}}&list=<{{{{v}}}}>&fixed=end"
    allow_private: [127.0.0.1]
- name: json
  description: d
  input: {{properties: {{v: {{type: string}}}}}}
  http:
    method: POST
    url: "http://{address}/j"
    body: '{{"v": "{{{{v}}}}", "text": "<{{{{v}}}}>"}}'
    allow_private: [127.0.0.1]
- name: text
  description: d
  input: {{properties: {{v: {{type: string}}}}}}
  http: {{method: POST, url: "http://{address}/t", body: "<{{{{v}}}}>", allow_private: [127.0.0.1]}}
- name: markup
  description: d
  input: {{properties: {{v: {{type: string}}}}}}
  http:
    method: POST
    url: "http://{address}/m"
    headers: {{Content-Type: text/xml}}
    body: '<a b="{{{{v}}}}">{{{{v}}}}</a>'
    allow_private: [127.0.0.1]
"#
    ));
    for value in corpus().iter().filter(|value| value.len() < 5_000) {
        for name in ["form", "pairs", "json", "text", "markup"] {
            let (result, _) = tools.call(name, json!({"v": value})).await;
            let received = server.take();
            let [request] = received.as_slice() else { panic!("{name} {value:?}: {result}") };
            match name {
                "form" => assert_eq!(
                    pairs_of(&request.body),
                    [
                        pair("v", value),
                        pair("list", value),
                        pair("list", "x"),
                        pair("fixed", "end")
                    ],
                    "{value:?}"
                ),
                "pairs" => assert_eq!(
                    pairs_of(&request.body),
                    [pair("v", value), pair("list", &format!("<{value}>")), pair("fixed", "end")],
                    "{value:?}"
                ),
                "json" => {
                    let body: Value = serde_json::from_str(&request.body).unwrap();
                    assert_eq!(body, json!({"v": value, "text": format!("<{value}>")}));
                }
                "text" => assert_eq!(request.body, format!("<{value}>")),
                _ => {
                    let inner = request.body.strip_prefix("<a b=\"").unwrap();
                    let (one, rest) = inner.split_once("\">").unwrap();
                    let other = rest.strip_suffix("</a>").unwrap();
                    for text in [one, other] {
                        assert!(!text.contains(['<', '>', '"', '\'']), "{value:?}: {text}");
                        assert_eq!(unescape(text), *value);
                    }
                }
            }
        }
    }
}

/// Values stay values in the messages and variables of flows.
#[tokio::test]
async fn flows_keep_every_value_as_it_is() {
    let tools = Tools::of(
        r#"
tools:
- name: echo
  description: d
  input: {properties: {v: {type: string}}}
  flow:
  - set: {a: "{{v}}", b: "<{{v}}>", c: {d: ["{{v}}"]}}
  - if: {var: a, equals: never}
    then: [{return: wrong}]
  - return: {a: "{{a}}", b: "{{b}}", c: "{{c}}"}
"#,
    );
    for value in corpus().iter().filter(|value| !value.is_empty()) {
        let (result, _) = tools.call("echo", json!({"v": value})).await;
        let expected = json!({"a": value, "b": format!("<{value}>"), "c": {"d": [value]}});
        assert_eq!(result["structuredContent"], expected, "{value:?}: {result}");
    }
}

/// A file is data as well: nothing in it is evaluated when it is read.
#[test]
fn files_with_hostile_texts_are_read_without_effect() {
    for value in corpus() {
        let file = json!({"tools": [{"name": value, "description": value, "run": {"program": value, "args": [value]},
            "output": {"pick": value}}]});
        let _ =
            mcp_flow_declarative::ToolReading::of(&file.to_string(), Format::Json, ".".as_ref());
        let _ = mcp_flow_declarative::ToolReading::of(&value, Format::Yaml, ".".as_ref());
    }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Parameters of a query or a form.
fn pairs_of(text: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

fn decode_form(text: &str) -> String {
    decode(&text.replace('+', " "))
}

fn unescape(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&apos;", "'").replace("&amp;", "&")
}

fn decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned()
}
