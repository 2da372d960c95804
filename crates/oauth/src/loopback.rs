//! Where a person comes back to after they consented: a page of this process, on this machine.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, REFERRER_POLICY,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

/// Waits on a port of this machine for somebody to be sent back.
#[derive(Debug)]
pub struct Loopback {
    listener: TcpListener,
    port: u16,
}

impl Loopback {
    /// Opens a port: this one, or one that is free (0).
    pub async fn open(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Where people are to be sent back to.
    pub fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for somebody who was sent with this state, tells them that they can go, and gives the
    /// address they came to. Others are turned away and change nothing.
    pub async fn wait(&self, state: &str) -> String {
        let mut visits = JoinSet::new();
        loop {
            tokio::select! {
                visited = visits.join_next(), if !visits.is_empty() => {
                    if let Some(Ok(Some(address))) = visited {
                        return address;
                    }
                }
                accepted = self.listener.accept(), if visits.len() < MOST_VISITS => {
                    match accepted {
                        Ok((stream, _)) => {
                            let desk = Desk { port: self.port, state: state.to_owned() };
                            visits.spawn(receive(stream, desk));
                        }
                        // There are too many files open, and there may be fewer in a moment.
                        Err(_) => tokio::time::sleep(PAUSE).await,
                    }
                }
            }
        }
    }
}

/// What a visitor is compared with.
#[derive(Clone)]
struct Desk {
    port: u16,
    state: String,
}

/// Answers one connection. Its end is waited for, so that the page is there before the program goes.
async fn receive(stream: TcpStream, desk: Desk) -> Option<String> {
    let found = Arc::new(Mutex::new(None));
    let service = service_fn(|request: Request<Incoming>| {
        let (status, address) = desk.look_at(&request);
        if let Some(address) = address {
            *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
        }
        async move { Ok::<_, Infallible>(page(status)) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .max_buf_size(LONGEST_REQUEST)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(PATIENCE, connection).await;
    found.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Desk {
    fn look_at(&self, request: &Request<Incoming>) -> (StatusCode, Option<String>) {
        // A page elsewhere can have a name of its own lead here, but not under ours.
        let hosts = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        if !host.is_some_and(|host| hosts.iter().any(|ours| ours == host)) {
            return (StatusCode::FORBIDDEN, None);
        }
        if request.uri().path() != PATH || request.method() != Method::GET {
            return (StatusCode::NOT_FOUND, None);
        }
        let address = format!("http://{}{}", hosts[0], request.uri());
        let is_ours = Url::parse(&address).is_ok_and(|url| {
            url.query_pairs().any(|(name, value)| name == "state" && value == self.state)
        });
        match is_ours {
            true => (StatusCode::OK, Some(address)),
            false => (StatusCode::BAD_REQUEST, None),
        }
    }
}

fn page(status: StatusCode) -> Response<Full<Bytes>> {
    let text = match status {
        StatusCode::OK => {
            "<h1>MCP Flow</h1><p>You can close this page and go back to the terminal, which says how it went."
        }
        StatusCode::BAD_REQUEST => {
            "<h1>MCP Flow</h1><p>This is not the login that is waited for. Begin anew in the terminal."
        }
        _ => "<h1>MCP Flow</h1><p>There is nothing here.",
    };
    let page = format!("<!doctype html><meta charset=utf-8><title>MCP Flow</title>{text}\n");
    let mut response = Response::new(Full::new(Bytes::from(page)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The code is in the address.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
    response
}

const PATH: &str = "/callback";

/// How many connections are answered at once; a browser opens a few for nothing.
const MOST_VISITS: usize = 16;

/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long nobody is let in when nobody can be.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a request may be; codes are long sometimes.
const LONGEST_REQUEST: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::Loopback;

    async fn ask(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    /// MCP-090: only who was sent by this login is let in; nobody else ends the wait.
    #[tokio::test]
    async fn only_the_right_visitor_is_let_in() {
        let loopback = Loopback::open(0).await.unwrap();
        let port = loopback.port;
        assert_eq!(loopback.redirect_uri(), format!("http://127.0.0.1:{port}/callback"));
        let waiting = tokio::spawn(async move { loopback.wait("right").await });
        let own = format!("127.0.0.1:{port}");
        for (line, host, status) in [
            ("GET / HTTP/1.1", own.as_str(), "404"),
            ("GET /favicon.ico HTTP/1.1", &own, "404"),
            ("POST /callback?code=x&state=right HTTP/1.1", &own, "404"),
            ("GET /callback?code=x HTTP/1.1", &own, "400"),
            ("GET /callback?code=x&state=wrong HTTP/1.1", &own, "400"),
            ("GET /callback?code=x&state=right HTTP/1.1", "evil.example", "403"),
            ("nonsense", &own, "400"),
        ] {
            let answer = ask(port, &format!("{line}\r\nHost: {host}\r\n\r\n")).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {answer}");
            assert!(!waiting.is_finished(), "{line}");
        }
        let line = "GET /callback?code=a%2Bb&state=right&iss=x HTTP/1.1";
        let answer = ask(port, &format!("{line}\r\nHost: {own}\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("close this page"));
        assert!(!answer.contains("a%2Bb"));
        let address = waiting.await.unwrap();
        assert_eq!(address, format!("http://{own}/callback?code=a%2Bb&state=right&iss=x"));
    }
}
