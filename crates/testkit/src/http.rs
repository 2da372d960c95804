//! Raw HTTP client: writes requests exactly as given, valid or not, and reads responses
//! incrementally.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::wait::within;

/// HTTP request with ordered headers.
#[derive(Clone, Debug)]
pub struct Request {
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Request {
    /// Creates a GET that accepts events.
    pub fn get(path: &str) -> Self {
        Self::new("GET", path).header("accept", "text/event-stream")
    }

    /// Creates a POST of JSON that accepts JSON and events.
    pub fn post(path: &str, body: impl ToString) -> Self {
        Self::new("POST", path)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .body(body.to_string())
    }

    /// Creates a request with only a `Host` header.
    pub fn new(method: &'static str, path: &str) -> Self {
        let headers = vec![("host".to_owned(), "localhost".to_owned())];
        Self { method, path: path.to_owned(), headers, body: None }
    }

    /// Sets a header, replacing one with the same name.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes a header.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Returns the encoded request.
    pub fn bytes(&self) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = &self.body {
            text += &format!("content-length: {}\r\n", body.len());
        }
        text += "\r\n";
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }

    /// Sends the request on a new connection and waits for the response head.
    pub async fn send(&self, address: SocketAddr) -> Response {
        let mut connection = Connection::open(address).await;
        connection.write(&self.bytes()).await;
        connection.response().await
    }
}

/// HTTP connection to a server.
pub struct Connection {
    stream: BufReader<Box<dyn Stream>>,
}

/// Bidirectional byte stream.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Connection {
    /// Opens a TCP connection.
    pub async fn open(address: SocketAddr) -> Self {
        let connected = within("a connection", TcpStream::connect(address)).await;
        let stream = connected.expect("the server listens");
        stream.set_nodelay(true).expect("a socket has this option");
        Self::over(stream)
    }

    /// Uses an open stream.
    pub fn over(stream: impl Stream + 'static) -> Self {
        Self { stream: BufReader::new(Box::new(stream)) }
    }

    /// Writes raw bytes. A closed connection shows in the response.
    pub async fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
        let _ = self.stream.flush().await;
    }

    /// Reads the next byte; `None` if the server closed the connection.
    pub async fn byte(&mut self) -> Option<u8> {
        // One timeout covers all bytes that are buffered already.
        if self.stream.buffer().is_empty() {
            within("the next byte", self.stream.fill_buf()).await.ok()?;
        }
        self.stream.read_u8().await.ok()
    }

    async fn line(&mut self, line: &mut String) -> Option<usize> {
        within("the next line", self.stream.read_line(line)).await.ok()
    }

    /// Reads a response head.
    pub async fn response(self) -> Response {
        self.try_response().await.expect("the server answers")
    }

    /// Reads a response head; `None` if the server closed the connection.
    pub async fn try_response(mut self) -> Option<Response> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            self.line(&mut line).await?;
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let status = lines.first()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<_> = lines[1..]
            .iter()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let mut response = Response { status, headers, connection: self, left: Left::Nothing };
        response.left = match response.header("content-length") {
            Some(length) => Left::Bytes(length.parse().ok()?),
            None if response.header("transfer-encoding") == Some("chunked") => Left::Chunks(0),
            None => Left::Nothing,
        };
        Some(response)
    }
}

/// HTTP response whose body is read incrementally.
pub struct Response {
    /// Status code.
    pub status: u16,
    headers: Vec<(String, String)>,
    connection: Connection,
    left: Left,
}

/// Remaining body.
enum Left {
    Nothing,
    Bytes(usize),
    /// Remaining bytes of the current chunk; more chunks may follow.
    Chunks(usize),
}

/// Server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Event name.
    pub name: Option<String>,
    /// Event id, for `Last-Event-ID`.
    pub id: Option<String>,
    /// Data.
    pub data: String,
    /// All lines.
    pub lines: Vec<String>,
}

impl Response {
    /// Returns the value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Returns all values of a header.
    pub fn headers_of(&self, name: &str) -> Vec<&str> {
        let all = self.headers.iter().filter(|(known, _)| known == name);
        all.map(|(_, value)| &**value).collect()
    }

    /// Reads the whole body, or what arrived of it.
    pub async fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(byte) = self.byte().await {
            bytes.push(byte);
        }
        bytes
    }

    /// Reads the whole body as text.
    pub async fn text(&mut self) -> String {
        String::from_utf8(self.bytes().await).expect("the body is UTF-8")
    }

    /// Reads the whole body as JSON.
    pub async fn json(&mut self) -> Value {
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("the body is JSON: {text:?}"))
    }

    /// Reads the next event, including comments; `None` at the end of the stream.
    pub async fn raw_event(&mut self) -> Option<Event> {
        let mut event = Event::default();
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                return Some(event);
            }
            match line.split_once(": ") {
                Some(("event", name)) => event.name = Some(name.to_owned()),
                Some(("id", id)) => event.id = Some(id.to_owned()),
                Some(("data", data)) => {
                    event.data += if event.data.is_empty() { "" } else { "\n" };
                    event.data += data;
                }
                _ => {}
            }
            event.lines.push(line);
        }
    }

    /// Reads the next event with data.
    pub async fn event(&mut self) -> Option<Event> {
        loop {
            let event = self.raw_event().await?;
            if !event.data.is_empty() {
                return Some(event);
            }
        }
    }

    /// Reads the next JSON-RPC message of the stream.
    pub async fn message(&mut self) -> Option<Value> {
        let event = self.event().await?;
        Some(serde_json::from_str(&event.data).expect("messages are JSON"))
    }

    /// Returns the connection after the body was read.
    pub fn into_connection(self) -> Connection {
        self.connection
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            match self.byte().await? {
                b'\n' => return Some(String::from_utf8(line).expect("events are UTF-8")),
                byte => line.push(byte),
            }
        }
    }

    /// Reads the next byte of the body.
    pub async fn byte(&mut self) -> Option<u8> {
        match &mut self.left {
            Left::Nothing | Left::Bytes(0) => return None,
            Left::Bytes(left) => *left -= 1,
            Left::Chunks(left @ 0) => {
                let mut size = String::new();
                self.connection.line(&mut size).await?;
                // A chunk ends with a line break, which precedes the size of the next one.
                if size.trim().is_empty() {
                    size.clear();
                    self.connection.line(&mut size).await?;
                }
                *left = usize::from_str_radix(size.trim(), 16).ok()?;
                if *left == 0 {
                    self.connection.line(&mut size).await?;
                    self.left = Left::Nothing;
                    return None;
                }
                *left -= 1;
            }
            Left::Chunks(left) => *left -= 1,
        }
        self.connection.byte().await
    }
}
