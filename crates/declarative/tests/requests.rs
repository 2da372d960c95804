//! HTTP requests: encoding, credentials, redirects, private addresses, retries, TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mcp_flow_declarative::Trust;
use mcp_flow_tls::Tls;
use serde_json::json;

use crate::support::Tools;
use crate::support::mock::{MockServer, Reply};

#[tokio::test]
async fn values_are_encoded_for_their_place_over_tls() {
    let tls = Arc::new(Tls::self_signed(&[]).unwrap());
    let server = MockServer::start(Some(&tls), |_| Reply::json(json!({"items": [1, 2]}))).await;
    let yaml = format!(
        r#"
tools:
- name: get
  description: d
  input: {{properties: {{id: {{}}, q: {{}}, tags: {{}}, h: {{}}, ids: {{}}}}}}
  http:
    url: https://{0}/a/{{{{id}}}}/b?fixed=1&q={{{{q}}}}
    query: {{tag: "{{{{tags}}}}", ids: {{join: "{{{{ids}}}}"}}, none: "{{{{h}}}}"}}
    headers: {{X-H: "h {{{{h}}}}", X-Key: {{secret: "env:CARGO_PKG_NAME", prefix: "Key "}}}}
    allow_private: [127.0.0.1]
  output: {{pick: /items/1}}
- name: post
  description: d
  input: {{properties: {{a: {{}}, b: {{}}}}}}
  http:
    method: POST
    url: https://{0}/
    body: {{a: "{{{{a}}}}", text: "b is {{{{b}}}}", list: ["{{{{b}}}}"], fixed: true}}
    allow_private: [127.0.0.1]
- name: form
  description: d
  input: {{properties: {{a: {{}}}}}}
  http:
    method: POST
    url: https://{0}/form
    headers: {{Content-Type: application/x-www-form-urlencoded}}
    body: {{a: "{{{{a}}}}", o: {{p: ["x y", 2]}}}}
    allow_private: [127.0.0.1]
"#,
        server.address
    );
    let trust = Trust::fingerprint(&tls.fingerprint()).unwrap();
    let tools = Tools::with(&[("t.yaml", &yaml)], trust);
    let arguments = json!({"id": "x/y?z#%2e", "q": "a&b=c d", "tags": ["1", "&"], "ids": [1, 2]});
    let (result, _) = tools.call("get", arguments).await;
    assert_eq!(result["structuredContent"], 2, "{result}");
    let (result, _) = tools.call("get", json!({"id": "1", "h": "v"})).await;
    assert_ne!(result["isError"], true, "{result}");
    let received = server.take();
    assert_eq!(
        received[0].target,
        "/a/x%2Fy%3Fz%23%252e/b?fixed=1&q=a%26b%3Dc+d&tag=1&tag=%26&ids=1,2"
    );
    assert_eq!(received[0].header("x-key"), Some("Key mcp-flow-declarative"));
    assert_eq!((received[0].header("x-h"), received[1].header("x-h")), (None, Some("h v")));
    assert_eq!(received[1].target, "/a/1/b?fixed=1&none=v");
    tools.call("post", json!({"a": {"n": 1}, "b": 5})).await;
    tools.call("form", json!({"a": "&"})).await;
    let received = server.take();
    assert_eq!(received[0].body, r#"{"a":{"n":1},"text":"b is 5","list":[5],"fixed":true}"#);
    assert_eq!(received[0].header("content-type"), Some("application/json"));
    assert_eq!(received[1].body, "a=%26&o%5Bp%5D%5B0%5D=x+y&o%5Bp%5D%5B1%5D=2");
    // Another certificate is not trusted.
    let other = Tls::self_signed(&[]).unwrap();
    let trust = Trust::fingerprint(&other.fingerprint()).unwrap();
    let tools = Tools::with(&[("t.yaml", &yaml)], trust);
    assert!(tools.failure("post", json!({})).await.contains("failed"));
    assert!(server.take().is_empty());
}

#[tokio::test]
async fn paths_and_headers_cannot_be_broken_out_of() {
    let server = MockServer::start(None, |_| Reply::json("{}")).await;
    let tools = Tools::of(&format!(
        r#"
tools:
- name: get
  description: d
  input: {{properties: {{id: {{}}, h: {{}}}}}}
  http:
    url: http://{}/a/{{{{id}}}}
    headers: {{X-H: "{{{{h}}}}"}}
    allow_private: ["127.0.0.1"]
"#,
        server.address
    ));
    for id in ["..", ".", "", "a/../b", "..\\x", "/..", " .. /x", "\u{0}"] {
        tools.failure("get", json!({"id": id})).await;
    }
    for h in ["a\r\nX-Evil: 1", "a\nb", "\u{0}", "\u{7f}", "\r"] {
        assert!(tools.failure("get", json!({"id": "1", "h": h})).await.contains("header"));
    }
    assert!(server.take().is_empty());
    tools.call("get", json!({"id": "%2e%2e%2fadmin"})).await;
    assert_eq!(server.take()[0].target, "/a/%252e%252e%252fadmin");
}

/// Keys as services make them do not get into failures, however the URL or the server encodes them.
#[tokio::test]
async fn keys_in_queries_stay_secret_in_failures() {
    let server = MockServer::start(None, |request| Reply {
        body: request.target.clone().into_bytes(),
        ..Reply::status(404)
    })
    .await;
    let yaml = format!(
        "tools: [{{name: get, description: d, http: {{url: 'http://{}/x?a=1', query: {{key: {{secret: 'file:key'}}}}, \
         allow_private: [127.0.0.1]}}}}]",
        server.address
    );
    let files = [("t.yaml", yaml.as_str()), ("key", "AbC-1_2/x+y==\n")];
    let tools = Tools::with(&files, Trust::System);
    let failure = tools.failure("get", json!({})).await;
    assert_eq!(server.take()[0].target, "/x?a=1&key=AbC-1_2%2Fx%2By%3D%3D");
    let expected =
        format!("GET http://{}/x answered 404 Not Found: /x?a=1&key=***", server.address);
    assert_eq!(failure, expected);
}

/// The type of a body decides how values get into it: none becomes more than a value.
#[tokio::test]
async fn bodies_are_encoded_by_their_type() {
    let server = MockServer::start(None, |_| Reply::json("{}")).await;
    let form = "application/x-www-form-urlencoded";
    let tricky = "a\",\"x\":\"b&c=d<e>";
    for (content_type, body, sent) in [
        (form, json!("v={{v}}&w=1"), "v=a%22%2C%22x%22%3A%22b%26c%3Dd%3Ce%3E&w=1"),
        (
            form,
            json!({"v": "{{v}}", "l": [1, 2], "j": {"join": ["a", 2]}}),
            "v=a%22%2C%22x%22%3A%22b%26c%3Dd%3Ce%3E&l=1&l=2&j=a,2",
        ),
        (
            form,
            json!({"o": {"l": [1]}, "l": [{"a": 1}], "k": {"secret": "env:CARGO_PKG_NAME"}}),
            "o%5Bl%5D%5B0%5D=1&l%5B0%5D%5Ba%5D=1&k=mcp-flow-declarative",
        ),
        (form, json!("{{o}}"), "a=1&b=2&b=3"),
        ("application/json", json!("{\"v\": \"{{v}}\"}"), r#"{"v":"a\",\"x\":\"b&c=d<e>"}"#),
        ("", json!("[\"{{v}}\", 1]"), r#"["a\",\"x\":\"b&c=d<e>",1]"#),
        (
            "",
            json!({"k": {"secret": "env:CARGO_PKG_NAME"}, "s": {"secret": "x"}}),
            r#"{"k":"mcp-flow-declarative","s":{"secret":"x"}}"#,
        ),
        ("", json!("<{{v}}>"), "<a\",\"x\":\"b&c=d<e>>"),
        (
            "application/soap+xml",
            json!("<a b=\"{{v}}\">{{o}}</a>"),
            "<a b=\"a&quot;,&quot;x&quot;:&quot;b&amp;c=d&lt;e&gt;\">{&quot;a&quot;:1,&quot;b&quot;:[2,3]}</a>",
        ),
    ] {
        let mut http = json!({"method": "POST", "url": format!("http://{}/", server.address),
            "body": body, "allow_private": ["127.0.0.1"]});
        if !content_type.is_empty() {
            http["headers"] = json!({"Content-Type": content_type});
        }
        let input = json!({"properties": {"v": {}, "o": {}}});
        let tool = json!({"name": "post", "description": "d", "input": input, "http": http});
        let tools = Tools::of(&json!({"tools": [tool]}).to_string());
        let (result, _) =
            tools.call("post", json!({"v": tricky, "o": {"a": 1, "b": [2, 3]}})).await;
        let received = server.take();
        assert_eq!(received.len(), 1, "{body}: {result}");
        assert_eq!(received[0].body, sent, "{content_type} {body}");
        let kind = received[0].header("content-type").unwrap_or_default();
        assert!(kind.contains(content_type), "{kind}");
        if content_type == form && body == "{{o}}" {
            let failure = tools.failure("post", json!({"o": "a=1"})).await;
            assert!(failure.contains("must be an object"), "{failure}");
        }
    }
}

/// Lists and objects in the forms that APIs describe.
#[tokio::test]
async fn lists_and_objects_have_the_form_that_the_file_says() {
    let server = MockServer::start(None, |_| Reply::json("{}")).await;
    let address = server.address;
    let tools = Tools::of(&format!(
        r#"
tools:
- name: plain
  description: d
  input: {{properties: {{ids: {{}}, o: {{}}, h: {{}}}}}}
  http:
    url: "http://{address}/a/{{{{ids}}}}"
    query: {{fixed: 1, spread: {{spread: "{{{{o}}}}"}}, deep: "{{{{o}}}}"}}
    headers: {{X-H: "{{{{h}}}}"}}
    allow_private: [127.0.0.1]
- name: indexed
  description: d
  input: {{properties: {{ids: {{}}}}}}
  http: {{url: "http://{address}/", query: {{ids: "{{{{ids}}}}"}}, lists: indexed, allow_private: [127.0.0.1]}}
"#
    ));
    let arguments = json!({"ids": ["a,b", 2], "o": {"x": 1, "y": [2, 3]}, "h": ["1", 2]});
    tools.call("plain", arguments).await;
    tools.call("indexed", json!({"ids": [1, 2]})).await;
    let received = server.take();
    assert_eq!(
        received[0].target,
        "/a/a%2Cb,2?fixed=1&x=1&y=2&y=3&deep%5Bx%5D=1&deep%5By%5D%5B0%5D=2&deep%5By%5D%5B1%5D=3"
    );
    assert_eq!(received[0].header("x-h"), Some("1,2"));
    assert_eq!(received[1].target, "/?ids%5B0%5D=1&ids%5B1%5D=2");
    for (arguments, expected) in [
        (json!({"ids": []}), "empty"),
        (json!({"ids": ["a", ".."]}), "segments"),
        (json!({"ids": [["a"]]}), "single"),
        (json!({"ids": {"a": 1}}), "single value or a list"),
        (json!({"ids": 1, "h": ["a,b"]}), "comma"),
        (json!({"ids": 1, "o": {"fixed": 2}}), "`fixed` is a parameter already"),
        (json!({"ids": 1, "o": {"fixed[a]": 2}}), "is a parameter already"),
        (json!({"ids": 1, "o": [1]}), "must be an object"),
    ] {
        let failure = tools.failure("plain", arguments.clone()).await;
        assert!(failure.contains(expected), "{arguments}: {failure}");
    }
    assert!(server.take().is_empty());
}

/// Another attempt would be refused as well, and the author can do something.
#[tokio::test(start_paused = true)]
async fn refused_addresses_are_tried_once_and_explained() {
    let yaml =
        "tools: [{name: get, description: d, http: {url: 'http://127.0.0.1:1/', retries: 5}}]";
    let tools = Tools::of(yaml);
    let problems = &tools.library.files()[0].problems;
    let expected = "list it: allow_private: [127.0.0.1]";
    assert!(problems[0].message.contains(expected) && !problems[0].is_error(), "{problems:?}");
    let start = tokio::time::Instant::now();
    let failure = tools.failure("get", json!({})).await;
    assert!(
        failure.contains("the author of the tool can list it under `allow_private`"),
        "{failure}"
    );
    assert!(start.elapsed().as_millis() < 100, "{:?}", start.elapsed());
}

#[tokio::test]
async fn private_addresses_are_refused_unless_listed() {
    let server = MockServer::start(None, |_| Reply::json("{}")).await;
    let port = server.address.port();
    let tool = |name: &str, host: &str, allow: &str| {
        format!(
            "- {{name: {name}, description: d, http: {{url: 'http://{host}/', retries: 0, timeout: 5s, allow_private: [{allow}]}}}}\n"
        )
    };
    let hosts = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("2130706433:{port}"),
        format!("0x7f.1:{port}"),
        "169.254.169.254".to_owned(),
        "10.0.0.1".to_owned(),
        "[fe80::1]".to_owned(),
        "0.0.0.0".to_owned(),
    ];
    let mut yaml = "tools:\n".to_owned();
    for (index, host) in hosts.iter().enumerate() {
        yaml.push_str(&tool(&format!("t{index}"), host, "other.example"));
    }
    yaml.push_str(&tool("listed", &hosts[0], "127.0.0.1"));
    yaml.push_str(&tool("named", &hosts[1], "localhost"));
    let tools = Tools::of(&yaml);
    for (index, host) in hosts.iter().enumerate() {
        let failure = tools.failure(&format!("t{index}"), json!({})).await;
        assert!(failure.contains("not allowed"), "{host}: {failure}");
    }
    assert!(server.take().is_empty());
    assert_eq!(tools.call("listed", json!({})).await.0["structuredContent"], json!({}));
    assert_eq!(tools.call("named", json!({})).await.0["structuredContent"], json!({}));
}

#[tokio::test]
async fn redirects_stay_within_the_origin() {
    let elsewhere = Arc::new(MockServer::start(None, |_| Reply::json("{}")).await);
    let other = elsewhere.address;
    let server = MockServer::start(None, move |request| match request.target.as_str() {
        "/near" => Reply::status(302).header("location", "/end?x=1"),
        "/far" => Reply::status(302).header("location", format!("http://{other}/")),
        "/cloud" => Reply::status(307).header("location", "http://169.254.169.254/latest"),
        "/file" => Reply::status(302).header("location", "file:///etc/passwd"),
        "/loop" => Reply::status(302).header("location", "/loop"),
        "/posted" => Reply::status(303).header("location", "/end"),
        _ => Reply::json(json!({"method": request.method, "body": request.body})),
    })
    .await;
    let mut yaml = "tools:\n".to_owned();
    for (name, method) in [
        ("near", "GET"),
        ("far", "GET"),
        ("cloud", "GET"),
        ("file", "GET"),
        ("loop", "GET"),
        ("posted", "POST"),
    ] {
        yaml.push_str(&format!(
            "- {{name: {name}, description: d, http: {{method: {method}, url: 'http://{}/{name}', body: {{a: 1}}, allow_private: ['127.0.0.1', '169.254.169.254']}}}}\n",
            server.address
        ));
    }
    let tools = Tools::of(&yaml);
    let (result, _) = tools.call("near", json!({})).await;
    assert_eq!(result["structuredContent"]["method"], "GET", "{result}");
    let (result, _) = tools.call("posted", json!({})).await;
    assert_eq!(result["structuredContent"], json!({"method": "GET", "body": ""}), "{result}");
    for name in ["far", "cloud", "file"] {
        let failure = tools.failure(name, json!({})).await;
        assert!(failure.contains("another origin"), "{name}: {failure}");
    }
    assert!(tools.failure("loop", json!({})).await.contains("more than 5 times"));
    assert!(elsewhere.take().is_empty());
}

#[tokio::test]
async fn only_safe_requests_are_repeated() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let server = MockServer::start(None, move |_| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::status(503).header("retry-after", "0"),
        _ => Reply::json(json!({"ok": true})),
    })
    .await;
    let tool = |name: &str, method: &str| {
        format!(
            "- {{name: {name}, description: d, http: {{method: {method}, url: 'http://{}/', allow_private: ['127.0.0.1']}}}}\n",
            server.address
        )
    };
    let tools = Tools::of(&format!("tools:\n{}{}", tool("get", "GET"), tool("post", "POST")));
    assert_eq!(tools.call("get", json!({})).await.0["structuredContent"]["ok"], true);
    assert_eq!(count.swap(0, Ordering::SeqCst), 2);
    assert!(tools.failure("post", json!({})).await.contains("503"));
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

/// A server that asks for an endless wait, and a token endpoint that never answers, cost no more than
/// the timeout.
#[tokio::test]
async fn servers_cannot_hold_a_call_longer_than_its_timeout() {
    let forever = u64::MAX.to_string();
    let server =
        MockServer::start(None, move |_| Reply::status(503).header("retry-after", forever.clone()))
            .await;
    // It takes connections, and nobody reads from them.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tools = Tools::of(&format!(
        r#"
tools:
- name: busy
  description: d
  http: {{url: "http://{0}/", allow_private: [127.0.0.1]}}
- name: token
  description: d
  http:
    url: http://{0}/
    allow_private: [127.0.0.1]
    timeout: 200ms
    auth: {{oauth: {{token_url: "http://{1}/", client_id: me, client_secret: {{secret: "env:CARGO_PKG_NAME"}}}}}}
"#,
        server.address,
        silent.local_addr().unwrap()
    ));
    assert!(tools.failure("busy", json!({})).await.contains("503"));
    let failure = tools.failure("token", json!({})).await;
    assert!(failure.contains("did not answer within 200ms"), "{failure}");
    assert_eq!(server.take().len(), 1);
}

#[tokio::test]
async fn credentials_are_sent_and_masked() {
    let server = MockServer::start(None, |request| match request.target.as_str() {
        "/token" => Reply::json(
            json!({"access_token": "granted-7", "token_type": "Bearer", "expires_in": 600}),
        ),
        "/fail" => {
            let echo = request.header("authorization").unwrap_or_default().to_owned();
            Reply { body: echo.into_bytes(), ..Reply::status(418) }
        }
        _ => {
            let echo = request.header("authorization").unwrap_or_default();
            Reply::json(json!({"echo": echo, "target": request.target}))
        }
    })
    .await;
    let address = server.address;
    let tool = |name: &str, path: &str, auth: &str| {
        format!(
            "- {{name: {name}, description: d, http: {{url: 'http://{address}/{path}', allow_private: ['127.0.0.1'], {auth}}}}}\n"
        )
    };
    let secret = "{secret: 'env:CARGO_PKG_NAME'}";
    let oauth = format!(
        "auth: {{oauth: {{token_url: 'http://{address}/token', client_id: me, client_secret: {secret}, scope: a b}}}}"
    );
    let tools = Tools::of(&format!(
        "tools:\n{}{}{}{}{}",
        tool("bearer", "x", &format!("auth: {{bearer: {secret}}}")),
        tool("basic", "x", &format!("auth: {{basic: {{username: me, password: {secret}}}}}")),
        tool("oauth", "x", &oauth),
        tool("query", "x", &format!("query: {{key: {secret}}}")),
        tool("fail", "fail", &format!("auth: {{bearer: {secret}}}")),
    ));
    assert_eq!(tools.call("bearer", json!({})).await.0["structuredContent"]["echo"], "Bearer ***");
    assert_eq!(tools.call("basic", json!({})).await.0["structuredContent"]["echo"], "Basic ***");
    for _ in 0..2 {
        assert_eq!(
            tools.call("oauth", json!({})).await.0["structuredContent"]["echo"],
            "Bearer ***"
        );
    }
    let queried = tools.call("query", json!({})).await.0;
    assert_eq!(queried["structuredContent"]["target"], "/x?key=***");
    let failure = tools.failure("fail", json!({})).await;
    assert!(failure.contains("418") && failure.contains("Bearer ***"), "{failure}");
    let received = server.take();
    assert_eq!(received[0].header("authorization"), Some("Bearer mcp-flow-declarative"));
    let tokens: Vec<_> = received.iter().filter(|one| one.target == "/token").collect();
    assert_eq!(tokens.len(), 1, "the token is used until it expires");
    assert_eq!(tokens[0].body, "grant_type=client_credentials&scope=a+b");
    assert_eq!(
        received
            .iter()
            .filter(|one| one.header("authorization") == Some("Bearer granted-7"))
            .count(),
        2
    );
}

#[tokio::test]
async fn responses_are_mapped() {
    let server = MockServer::start(None, |request| match request.target.as_str() {
        "/text" => Reply { body: b"plain".to_vec(), ..Reply::status(200) },
        "/empty" => Reply::status(204),
        "/long" => Reply { body: vec![b'x'; 300_000], ..Reply::status(200) },
        _ => Reply { body: b"{\"error\": \"no\"}".to_vec(), ..Reply::status(404) },
    })
    .await;
    let tool = |name: &str, output: &str| {
        format!(
            "- {{name: {name}, description: d, http: {{url: 'http://{}/{name}', allow_private: ['127.0.0.1']}}, output: {{{output}}}}}\n",
            server.address
        )
    };
    let tools = Tools::of(&format!(
        "tools:\n{}{}{}{}",
        tool("text", ""),
        tool("empty", "as: json"),
        tool("long", "limit: 100K"),
        tool("missing", "as: json"),
    ));
    assert_eq!(tools.text("text", json!({})).await, "plain");
    assert_eq!(tools.text("empty", json!({})).await, "");
    assert!(tools.failure("long", json!({})).await.contains("102400 bytes"));
    let (result, _) = tools.call("missing", json!({})).await;
    assert_eq!(result["_meta"]["error"]["data"]["status"], 404);
    assert!(result["content"][0]["text"].as_str().unwrap().contains("\"no\""), "{result}");
}
