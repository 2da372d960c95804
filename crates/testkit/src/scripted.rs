//! Scripted servers: every response is up to the test.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

/// HTTP request with the connection for its response, which is closed afterwards.
#[derive(Debug)]
pub struct ScriptedRequest {
    /// Method and path, as in `GET /mcp`.
    pub line: String,
    /// JSON-RPC message in the body; null if there is none.
    pub message: Value,
    host: String,
    has_begun: bool,
    stream: TcpStream,
}

impl ScriptedRequest {
    /// Returns the JSON-RPC method.
    pub fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    /// Returns the `Host` header.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Responds with a result, as an event if a stream was begun.
    pub fn result(&mut self, result: &Value) {
        self.reply(&json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result}));
    }

    /// Responds with an error.
    pub fn error(&mut self, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.reply(&json!({"jsonrpc": "2.0", "id": self.message["id"], "error": error}));
    }

    fn reply(&mut self, reply: &Value) {
        match self.has_begun {
            true => self.event(reply),
            false => self.content("200 OK", "application/json", &reply.to_string()),
        }
    }

    /// Responds with content of a media type, unless a stream was begun.
    pub fn content(&mut self, status: &str, media_type: &str, content: &str) {
        if self.has_begun {
            return;
        }
        self.write(&format!(
            "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{content}",
            content.len()
        ));
    }

    /// Begins an event stream.
    pub fn begin_events(&mut self) {
        self.has_begun = true;
        self.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
    }

    /// Sends one event.
    pub fn event(&mut self, message: &Value) {
        self.write(&format!("data: {message}\n\n"));
    }

    /// Writes raw text; a closed connection is ignored.
    pub fn write(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes()).and_then(|()| self.stream.flush());
    }

    /// Waits until the client has closed the connection.
    pub fn until_closed(&mut self) {
        let mut rest = [0; 64];
        while matches!(self.stream.read(&mut rest), Ok(1..)) {}
    }
}

/// Serves HTTP on a free port, with a thread for each request, until the test ends.
pub fn http(answer: impl Fn(ScriptedRequest) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                if let Some(asked) = stream.ok().and_then(read) {
                    answer(asked);
                }
            });
        }
    });
    address
}

fn read(stream: TcpStream) -> Option<ScriptedRequest> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? <= 2 {
            break;
        }
        head.push(line.trim_end().to_owned());
    }
    let line = head.first()?.strip_suffix(" HTTP/1.1")?.to_owned();
    let header = |wanted: &str| {
        head.iter().find_map(|header| {
            let (name, value) = header.split_once(':')?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
        })
    };
    let length = header("content-length").and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let message = serde_json::from_slice(&body).unwrap_or_default();
    let host = header("host").unwrap_or_default();
    Some(ScriptedRequest { line, message, host, has_begun: false, stream })
}

/// Shell script that is a server over pipes, and logs what it receives.
#[derive(Debug)]
pub struct Script {
    folder: tempfile::TempDir,
}

impl Script {
    /// Creates a server with the handshake of 2025-11-25 and these `case` branches for later
    /// messages; `$id` is the id of the request. `at_end` runs when its input ends.
    pub fn new(branches: &str, at_end: &str) -> Self {
        Self::with_capabilities(&json!({"tools": {}}), branches, at_end)
    }

    /// Creates a server of seed 000 to the letter, without extensions: no mark on tools, no
    /// `turnId`, no `key`, no `next`, no `data.name`. Its tool `wizard` asks for a name and for an
    /// email address with an @; `add` asks nothing. `declared` is the interaction capability of the
    /// handshake, if any; `branches` come before its own.
    pub fn seed_000(declared: Option<&Value>, branches: &str) -> Self {
        let experimental = declared.map(|declared| json!({"interaction": declared}));
        let capabilities = json!({"tools": {}, "experimental": experimental.unwrap_or(json!({}))});
        Self::with_capabilities(&capabilities, &format!("{branches}{SEED_000}"), "")
    }

    fn with_capabilities(capabilities: &Value, branches: &str, at_end: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let opened = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities,
            "serverInfo": {"name": "scripted", "version": "1"}});
        let text = format!(
            r#"cd "$(dirname "$0")"
mkfifo alive 2>/dev/null
exec 3<>alive
reply() {{ printf '{{"jsonrpc":"2.0","id":%s,"%s":%s}}\n' "$id" "$1" "$2"; }}
while IFS= read -r line; do
  printf '%s\n' "$line" >>received
  id=${{line#*\"id\":}}; id=${{id%%[,\}}]*}}
  case $line in
  *'"server/discover"'*) reply error '{{"code":-32601,"message":"Method not found"}}' ;;
  *'"initialize"'*) reply result '{opened}' ;;
{branches}
  *'"method":"capabilities"'*) reply error '{{"code":-32601,"message":"Method not found"}}' ;;
  esac
done
{at_end}
"#
        );
        std::fs::write(folder.path().join("server.sh"), text).unwrap();
        Self { folder }
    }

    /// Returns the path of the script, to run with `sh`.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("server.sh")
    }

    /// Returns all messages received so far.
    pub fn received(&self) -> Vec<Value> {
        let received =
            std::fs::read_to_string(self.folder.path().join("received")).unwrap_or_default();
        received.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Opens a file that ends when the server and all its children have exited.
    pub fn life(&self) -> File {
        File::open(self.folder.path().join("alive")).unwrap()
    }
}

const SEED_000: &str = r#"
  *'"method":"capabilities"'*)
    reply result '{"interactive":true,"version":"0.1.0","features":{"statefulSessions":true,"validation":true}}' ;;
  *'"tools/list"'*)
    strings='{"type":"object","properties":{"name":{"type":"string"},"email":{"type":"string"}},"required":["name","email"]}'
    numbers='{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}'
    reply result '{"tools":[{"name":"wizard","inputSchema":'"$strings"'},{"name":"add","inputSchema":'"$numbers"'}]}' ;;
  *'"tools/call"'*) reply result '{"content":[{"type":"text","text":"called"}]}' ;;
  *'"interaction.start"'*'"add"'*)
    reply error '{"code":-32007,"message":"Server does not support mode","data":{}}' ;;
  *'"interaction.start"'*)
    push() { printf '{"jsonrpc":"2.0","id":"%s","method":"%s","params":{"sessionId":"session_abc123",%s}}\n' "push$pushed" "$1" "$2"; pushed=$((pushed+1)); }
    ask() { push interaction.prompt '"prompt":{"type":"text","message":"'"$1"'","validation":{"required":true}}'; }
    step=name pushed=0
    reply result '{"sessionId":"session_abc123","state":"idle"}'
    ask 'Enter name' ;;
  *'"interaction.respond"'*)
    case $step$line in
    name*)
      step=email
      reply result '{"accepted":true,"validation":{"valid":true}}'
      ask 'Enter email' ;;
    email*@*)
      step=over
      reply result '{"accepted":true,"validation":{"valid":true}}'
      push interaction.complete '"result":{"success":true,"data":{"email":"kept"}},"summary":"Registered"' ;;
    email*)
      reply result '{"accepted":false,"validation":{"valid":false,"error":"Invalid format"}}'
      ask 'Enter email' ;;
    *) reply error '{"code":-32003,"message":"Invalid state change","data":{"sessionId":"session_abc123"}}' ;;
    esac ;;
  *'"interaction.getState"'*)
    reply result '{"sessionId":"session_abc123","state":"processing","history":[],"accumulatedData":{}}' ;;
  *'"method":"interaction.'*) reply error '{"code":-32601,"message":"Method not found"}' ;;
"#;
