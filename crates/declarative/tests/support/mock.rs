//! An HTTP server on a free port, with or without TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use mcp_flow_tls::Tls;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A request that arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    pub(crate) method: String,
    /// Path and query as they were sent.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// A response to send.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(body: impl ToString) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status: 200, headers, body: body.to_string().into_bytes() }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// A server that records what it receives.
pub(crate) struct MockServer {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
}

impl MockServer {
    pub(crate) async fn start(
        tls: Option<&Arc<Tls>>,
        answer: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let acceptor = tls.map(|tls| {
            let versions = tokio_rustls::rustls::ALL_VERSIONS;
            TlsAcceptor::from(Arc::new(tls.server_config(versions, &["http/1.1"]).unwrap()))
        });
        let (answer, log) = (Arc::new(answer), received.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Head and body are written separately, and must not wait for each other.
                stream.set_nodelay(true).unwrap();
                let (answer, log, acceptor) = (answer.clone(), log.clone(), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(stream, &*answer, &log).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                serve(stream, &*answer, &log).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, received }
    }

    /// Takes what was received so far.
    pub(crate) fn take(&self) -> Vec<Received> {
        std::mem::take(&mut self.received.lock())
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &(impl Fn(&Received) -> Reply + ?Sized),
    log: &Mutex<Vec<Received>>,
) {
    let mut buffer = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break buffer.drain(..end + 4).collect::<Vec<u8>>();
            }
            let mut chunk = [0; 4096];
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(length) => buffer.extend_from_slice(&chunk[..length]),
            }
        };
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let mut request = Received {
            method: first.next().unwrap_or_default().to_owned(),
            target: first.next().unwrap_or_default().to_owned(),
            ..Received::default()
        };
        for line in lines {
            if let Some((name, value)) = line.split_once(':') {
                request.headers.push((name.to_owned(), value.trim().to_owned()));
            }
        }
        let length: usize =
            request.header("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        while buffer.len() < length {
            let mut chunk = [0; 4096];
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => return,
                Ok(read) => buffer.extend_from_slice(&chunk[..read]),
            }
        }
        request.body =
            String::from_utf8_lossy(&buffer.drain(..length).collect::<Vec<_>>()).into_owned();
        let reply = answer(&request);
        log.lock().push(request);
        let mut head =
            format!("HTTP/1.1 {} X\r\ncontent-length: {}\r\n", reply.status, reply.body.len());
        for (name, value) in &reply.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        if stream.write_all(head.as_bytes()).await.is_err()
            || stream.write_all(&reply.body).await.is_err()
        {
            return;
        }
        let _ = stream.flush().await;
    }
}
