//! Loopback redirection (RFC 8252, 7.3): receives the redirect of the authorization server on a local
//! port.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, REFERRER_POLICY,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

/// HTTP listener on a loopback port that waits for the redirect.
#[derive(Debug)]
pub struct LoopbackListener {
    listener: TcpListener,
    port: u16,
}

impl LoopbackListener {
    /// Binds a port; port 0 picks a free one.
    pub async fn open(port: u16) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Returns the redirect URI.
    pub fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for the redirect with this state, shows a page, and returns the redirect URL. Other
    /// requests are rejected and do not end the wait.
    pub async fn wait(&self, state: &str) -> String {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                served = connections.join_next(), if !connections.is_empty() => {
                    if let Some(Ok(Some(url))) = served {
                        return url;
                    }
                }
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    match accepted {
                        Ok((stream, _)) => {
                            let expected = Expected { port: self.port, state: state.to_owned() };
                            connections.spawn(serve(stream, expected));
                        }
                        // Usually too many open files; some are closed in a moment.
                        Err(_) => tokio::time::sleep(PAUSE).await,
                    }
                }
            }
        }
    }
}

/// The redirect that is waited for.
#[derive(Clone)]
struct Expected {
    port: u16,
    state: String,
}

/// Serves one connection to its end, so that the page is delivered before the program exits.
async fn serve(stream: TcpStream, expected: Expected) -> Option<String> {
    let found = Arc::new(Mutex::new(None));
    let service = service_fn(|request: Request<Incoming>| {
        let (status, url) = expected.check(&request);
        if let Some(url) = url {
            *found.lock() = Some(url);
        }
        async move { Ok::<_, Infallible>(page(status)) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .keep_alive(false)
        // A browser may close its half after the request.
        .half_close(true)
        .max_buf_size(MAX_REQUEST)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(TIMEOUT, connection).await;
    found.lock().take()
}

impl Expected {
    /// Returns the status of a request, and its URL if it is the redirect.
    fn check(&self, request: &Request<Incoming>) -> (StatusCode, Option<String>) {
        // Rejects DNS rebinding: another host name may resolve to this machine.
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
            "<h1>MCP Flow</h1><p>You can close this page and return to the terminal, which shows the result."
        }
        StatusCode::BAD_REQUEST => {
            "<h1>MCP Flow</h1><p>This response belongs to another login. Start again in the terminal."
        }
        _ => "<h1>MCP Flow</h1><p>Not found.",
    };
    let page = format!("<!doctype html><meta charset=utf-8><title>MCP Flow</title>{text}\n");
    let mut response = Response::new(Full::new(Bytes::from(page)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The URL contains the code.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
    response
}

const PATH: &str = "/callback";

/// Limit on concurrent connections; browsers open a few speculatively.
const MAX_CONNECTIONS: usize = 16;

/// Time limit of one connection.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// Limit on the size of a request; codes can be long.
const MAX_REQUEST: usize = 32 * 1024;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::LoopbackListener;

    async fn ask(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    /// MCP-090: only the redirect of this login ends the wait.
    #[tokio::test]
    async fn only_the_expected_redirect_ends_the_wait() {
        let loopback = LoopbackListener::open(0).await.unwrap();
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
