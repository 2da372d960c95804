//! Test servers on one port: a protected MCP server and its authorization server.
//!
//! They follow the protocol unless a rule replies first. All requests are recorded.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use url::Url;
use url::form_urlencoded;

/// A received request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) authorization: Option<String>,
    /// DPoP proof.
    pub(crate) proof: Option<String>,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Returns a field of the form in the body, or of the query.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let pairs = form_urlencoded::parse(self.body.as_bytes());
        let mut pairs = pairs.chain(form_urlencoded::parse(query.as_bytes()));
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    pub(crate) fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && self.path() == path
    }
}

/// A reply to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Response {
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    /// No response; the connection stays open.
    Silence,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        Self::Response { status, headers, body: body.to_string() }
    }

    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        match self {
            Self::Response { status, mut headers, body } => {
                headers.push((name.to_owned(), value.to_owned()));
                Self::Response { status, headers, body }
            }
            Self::Silence => Self::Silence,
        }
    }

    pub(crate) fn redirect_to(location: &str) -> Self {
        Self::json(307, &json!({})).with("Location", location)
    }
}

/// State of the authorization server.
#[derive(Debug)]
pub(crate) struct State {
    /// Access tokens that are valid.
    pub(crate) valid_tokens: Vec<String>,
    /// Lifetime of new tokens in seconds.
    pub(crate) lifetime: u64,
    /// Scope that the server requires.
    pub(crate) scope: String,
    issued: usize,
}

pub(crate) struct TestServer {
    address: SocketAddr,
    state: Mutex<State>,
    requests: Mutex<Vec<Received>>,
    rule: Box<Rule>,
}

type Rule = dyn Fn(&TestServer, &Received) -> Option<Reply> + Send + Sync;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TestServer {
    pub(crate) fn new() -> Arc<Self> {
        Self::with_rule(|_, _| None)
    }

    /// Starts a server in which this rule replies first.
    pub(crate) fn with_rule(
        rule: impl Fn(&TestServer, &Received) -> Option<Reply> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state =
            State { valid_tokens: Vec::new(), lifetime: 3600, scope: "read".to_owned(), issued: 0 };
        let server = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            state: Mutex::new(state),
            requests: Mutex::default(),
            rule: Box::new(rule),
        });
        let serving = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = serving.clone();
                std::thread::spawn(move || server.serve(&stream));
            }
        });
        server
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.base())
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns all requests so far.
    pub(crate) fn requests(&self) -> Vec<Received> {
        lock(&self.requests).clone()
    }

    /// Returns the token requests with this grant type.
    pub(crate) fn grants(&self, grant: &str) -> Vec<Received> {
        let is_grant = |request: &Received| request.field("grant_type").as_deref() == Some(grant);
        self.requests().into_iter().filter(is_grant).collect()
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(request) = read(&mut reader) {
            lock(&self.requests).push(request.clone());
            let reply = (self.rule)(self, &request).unwrap_or_else(|| self.reply(&request));
            let Reply::Response { status, headers, body } = reply else {
                let _ = reader.read(&mut [0]);
                return;
            };
            let mut text = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n", body.len());
            for (name, value) in headers {
                text += &format!("{name}: {value}\r\n");
            }
            let mut stream = stream;
            if stream.write_all(format!("{text}\r\n{body}").as_bytes()).is_err() {
                return;
            }
        }
    }

    /// Replies by the protocol.
    pub(crate) fn reply(&self, request: &Received) -> Reply {
        let base = self.base();
        match (request.method.as_str(), request.path()) {
            (_, "/mcp") => self.serve_protocol(request),
            ("GET", "/.well-known/oauth-protected-resource/mcp") => Reply::json(
                200,
                &json!({"resource": self.url(), "authorization_servers": [format!("{base}/as")]}),
            ),
            ("GET", "/.well-known/oauth-authorization-server/as") => {
                Reply::json(200, &self.metadata())
            }
            ("POST", "/register") => {
                let wanted: Value = serde_json::from_str(&request.body).unwrap_or_default();
                let client = json!({"client_id": "registered", "client_secret": CLIENT_SECRET,
                    "redirect_uris": wanted["redirect_uris"]});
                Reply::json(201, &client)
            }
            ("GET", "/authorize") => {
                let field = |name: &str| request.field(name).unwrap_or_default();
                let mut location = Url::parse(&field("redirect_uri")).unwrap();
                location
                    .query_pairs_mut()
                    .append_pair("code", CODE)
                    .append_pair("state", &field("state"));
                Reply::json(302, &json!({})).with("Location", location.as_str())
            }
            ("POST", "/token") => self.issue_token(request),
            ("POST", "/revoke") => {
                // RFC 7009: revoking a refresh token revokes its access tokens.
                let is_last = |token: &String| *token == format!("r3fresh-{}", self.state().issued);
                if request.field("token").as_ref().is_some_and(is_last) {
                    self.state().valid_tokens.clear();
                }
                Reply::json(200, &json!({}))
            }
            _ => Reply::json(404, &json!({})),
        }
    }

    /// Returns the authorization server metadata.
    pub(crate) fn metadata(&self) -> Value {
        let base = self.base();
        json!({
            "issuer": format!("{base}/as"), "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "revocation_endpoint": format!("{base}/revoke"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
        })
    }

    fn issue_token(&self, request: &Received) -> Reply {
        let refused = |error: &str| Reply::json(400, &json!({"error": error}));
        let mut state = self.state();
        let last = format!("r3fresh-{}", state.issued);
        match request.field("grant_type").as_deref() {
            Some("authorization_code") if request.field("code").as_deref() != Some(CODE) => {
                return refused("invalid_grant");
            }
            // Each can be used once.
            Some("refresh_token") if request.field("refresh_token") != Some(last) => {
                return refused("invalid_grant");
            }
            Some("authorization_code" | "refresh_token" | "client_credentials") => {}
            _ => return refused("unsupported_grant_type"),
        }
        state.issued += 1;
        let number = state.issued;
        let token = format!("t0ken-{number}");
        state.valid_tokens = vec![token.clone()];
        let mut response = json!({"access_token": token, "token_type": "Bearer",
            "expires_in": state.lifetime});
        if request.field("grant_type").as_deref() != Some("client_credentials") {
            response["refresh_token"] = format!("r3fresh-{number}").into();
        }
        Reply::json(200, &response)
    }

    fn serve_protocol(&self, request: &Received) -> Reply {
        let state = self.state();
        let is_good = |token: &String| request.authorization == Some(format!("Bearer {token}"));
        if !state.valid_tokens.iter().any(is_good) {
            let challenge = format!(
                "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\", scope=\"{}\"",
                self.base(),
                state.scope
            );
            return Reply::json(401, &json!({})).with("WWW-Authenticate", &challenge);
        }
        if request.method != "POST" {
            return Reply::json(405, &json!({}));
        }
        let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
        if message.get("id").is_none() {
            return Reply::json(202, &json!({}));
        }
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "server", "version": "1"}}),
            Some("ping") => json!({}),
            Some("tools/list") => {
                json!({"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]})
            }
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                return Reply::json(
                    200,
                    &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}),
                );
            }
        };
        Reply::json(200, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Received> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut request = Received { method, target, ..Received::default() };
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => request.authorization = Some(value.trim().to_owned()),
            "dpop" => request.proof = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    request.body = String::from_utf8(body).ok()?;
    Some(request)
}

pub(crate) const CODE: &str = "c0de-of-the-server";
pub(crate) const CLIENT_SECRET: &str = "s3cret-of-the-client";
