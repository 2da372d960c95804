//! A town to log in to, on one port: a protected server, and the office that gives out tokens for it.
//!
//! It is honest unless a rule answers first. Everything it was asked is written down.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use url::Url;
use url::form_urlencoded;

/// What arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// A field of the form in the body, or of the query.
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

/// What is answered.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Said {
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    /// Nothing, for as long as the other end waits.
    Silence,
}

impl Answer {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        Self::Said { status, headers, body: body.to_string() }
    }

    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        match self {
            Self::Said { status, mut headers, body } => {
                headers.push((name.to_owned(), value.to_owned()));
                Self::Said { status, headers, body }
            }
            Self::Silence => Self::Silence,
        }
    }

    pub(crate) fn sends_to(place: &str) -> Self {
        Self::json(307, &json!({})).with("Location", place)
    }
}

/// What the office remembers.
#[derive(Debug)]
pub(crate) struct Books {
    /// The tokens that are good at the moment.
    pub(crate) good: Vec<String>,
    /// How long a token is good.
    pub(crate) lifetime: u64,
    /// What the server wants a token to be good for.
    pub(crate) scope: String,
    given_out: usize,
}

pub(crate) struct Town {
    address: SocketAddr,
    books: Mutex<Books>,
    asked: Mutex<Vec<Asked>>,
    rule: Box<Rule>,
}

type Rule = dyn Fn(&Town, &Asked) -> Option<Answer> + Send + Sync;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Town {
    pub(crate) fn honest() -> Arc<Self> {
        Self::ruled(|_, _| None)
    }

    /// One in which this rule answers first.
    pub(crate) fn ruled(
        rule: impl Fn(&Town, &Asked) -> Option<Answer> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let books =
            Books { good: Vec::new(), lifetime: 3600, scope: "read".to_owned(), given_out: 0 };
        let town = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            books: Mutex::new(books),
            asked: Mutex::default(),
            rule: Box::new(rule),
        });
        let serving = town.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let town = serving.clone();
                std::thread::spawn(move || town.serve(&stream));
            }
        });
        town
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn server(&self) -> String {
        format!("{}/mcp", self.base())
    }

    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        lock(&self.books)
    }

    /// Everything that was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        lock(&self.asked).clone()
    }

    /// The requests for tokens by this grant.
    pub(crate) fn grants(&self, grant: &str) -> Vec<Asked> {
        let is_grant = |asked: &Asked| asked.field("grant_type").as_deref() == Some(grant);
        self.asked().into_iter().filter(is_grant).collect()
    }

    fn serve(&self, stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some(asked) = read(&mut reader) {
            lock(&self.asked).push(asked.clone());
            let answer = (self.rule)(self, &asked).unwrap_or_else(|| self.answer(&asked));
            let Answer::Said { status, headers, body } = answer else {
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

    /// The honest answer.
    pub(crate) fn answer(&self, asked: &Asked) -> Answer {
        let base = self.base();
        match (asked.method.as_str(), asked.path()) {
            (_, "/mcp") => self.serve_protocol(asked),
            ("GET", "/.well-known/oauth-protected-resource/mcp") => Answer::json(
                200,
                &json!({"resource": self.server(), "authorization_servers": [format!("{base}/as")]}),
            ),
            ("GET", "/.well-known/oauth-authorization-server/as") => {
                Answer::json(200, &self.metadata())
            }
            ("POST", "/register") => {
                let wanted: Value = serde_json::from_str(&asked.body).unwrap_or_default();
                let client = json!({"client_id": "registered", "client_secret": CLIENT_SECRET,
                    "redirect_uris": wanted["redirect_uris"]});
                Answer::json(201, &client)
            }
            ("GET", "/authorize") => {
                let field = |name: &str| asked.field(name).unwrap_or_default();
                let mut place = Url::parse(&field("redirect_uri")).unwrap();
                place
                    .query_pairs_mut()
                    .append_pair("code", CODE)
                    .append_pair("state", &field("state"));
                Answer::json(302, &json!({})).with("Location", place.as_str())
            }
            ("POST", "/token") => self.give_out(asked),
            ("POST", "/revoke") => {
                // RFC 7009: with what renews a token, all that came of it goes.
                let is_last =
                    |token: &String| *token == format!("r3fresh-{}", self.books().given_out);
                if asked.field("token").as_ref().is_some_and(is_last) {
                    self.books().good.clear();
                }
                Answer::json(200, &json!({}))
            }
            _ => Answer::json(404, &json!({})),
        }
    }

    /// What the office says of itself.
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

    fn give_out(&self, asked: &Asked) -> Answer {
        let refused = |error: &str| Answer::json(400, &json!({"error": error}));
        let mut books = self.books();
        let last = format!("r3fresh-{}", books.given_out);
        match asked.field("grant_type").as_deref() {
            Some("authorization_code") if asked.field("code").as_deref() != Some(CODE) => {
                return refused("invalid_grant");
            }
            // Each is good once.
            Some("refresh_token") if asked.field("refresh_token") != Some(last) => {
                return refused("invalid_grant");
            }
            Some("authorization_code" | "refresh_token" | "client_credentials") => {}
            _ => return refused("unsupported_grant_type"),
        }
        books.given_out += 1;
        let number = books.given_out;
        let token = format!("t0ken-{number}");
        books.good = vec![token.clone()];
        let mut answer = json!({"access_token": token, "token_type": "Bearer",
            "expires_in": books.lifetime});
        if asked.field("grant_type").as_deref() != Some("client_credentials") {
            answer["refresh_token"] = format!("r3fresh-{number}").into();
        }
        Answer::json(200, &answer)
    }

    fn serve_protocol(&self, asked: &Asked) -> Answer {
        let books = self.books();
        let is_good = |token: &String| asked.authorization == Some(format!("Bearer {token}"));
        if !books.good.iter().any(is_good) {
            let challenge = format!(
                "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\", scope=\"{}\"",
                self.base(),
                books.scope
            );
            return Answer::json(401, &json!({})).with("WWW-Authenticate", &challenge);
        }
        if asked.method != "POST" {
            return Answer::json(405, &json!({}));
        }
        let message: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        if message.get("id").is_none() {
            return Answer::json(202, &json!({}));
        }
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "town", "version": "1"}}),
            Some("ping") => json!({}),
            Some("tools/list") => {
                json!({"tools": [{"name": "greet", "inputSchema": {"type": "object"}}]})
            }
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                return Answer::json(
                    200,
                    &json!({"jsonrpc": "2.0", "id": message["id"], "error": error}),
                );
            }
        };
        Answer::json(200, &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut asked = Asked { method, target, ..Asked::default() };
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => asked.authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    asked.body = String::from_utf8(body).ok()?;
    Some(asked)
}

pub(crate) const CODE: &str = "c0de-of-the-town";
pub(crate) const CLIENT_SECRET: &str = "s3cret-of-the-client";
