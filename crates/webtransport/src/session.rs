//! One session on the server, from its CONNECT request to its close.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_proto::webtransport::{PATH, ServerTransport, negotiate_encoding};
use mcp_flow_proto::{Params, RpcError};
use mcp_flow_server::access::{AccessDenied, Credentials};
use mcp_flow_server::negotiation::{Agreement, Negotiation};
use mcp_flow_server::{ConnectionInfo, Principal};
use serde_json::json;
use tokio::time::timeout;
use web_transport_quinn::http::StatusCode;
use web_transport_quinn::proto::ConnectRequest;
use web_transport_quinn::quinn::Connection as QuicConnection;

use crate::control::{Control, SessionEnd};
use crate::datagrams::SessionDatagrams;
use crate::http3::session::{Capsules, Session, http3_code};
use crate::http3::{Arrivals, NO_ERROR, SessionRequest, respond};
use crate::listen::Service;
use crate::streams::Streams;
use crate::unsolicited;

/// Authenticates a client and serves its session.
pub(crate) async fn serve(
    service: Arc<Service>,
    connection: QuicConnection,
    mut arrivals: Arrivals,
) {
    let requested = timeout(service.options.handshake_timeout, arrivals.request());
    let Some(request) = service.tasks.draining().run_until_cancelled(requested).await else {
        return;
    };
    let Ok(Some(request)) = request else {
        tracing::debug!("client requested no session");
        return connection.close(NO_ERROR, b"no session was requested");
    };
    let principal = match authenticate(&service, &request.request).await {
        Ok(principal) => principal,
        Err(status) => {
            let reason = match status {
                StatusCode::UNAUTHORIZED => "token",
                StatusCode::FORBIDDEN => "host, origin or scope",
                StatusCode::NOT_FOUND => "path",
                _ => "identity cannot be checked",
            };
            service.server.denied("webtransport", None, reason);
            return reject(&connection, request, status).await;
        }
    };
    let accepted = Session::accept(connection, request, arrivals);
    match timeout(service.options.handshake_timeout, accepted).await {
        Ok(Some((session, capsules))) => run(&service, session, capsules, principal).await,
        Ok(None) => tracing::debug!("client did not accept the session"),
        Err(_) => tracing::debug!("client did not read the CONNECT response in time"),
    }
}

/// Returns the principal of a session, or the status to reject it with (WT-009, WT-068).
async fn authenticate(
    service: &Service,
    request: &ConnectRequest,
) -> Result<Principal, StatusCode> {
    if request.url.path() != PATH {
        return Err(StatusCode::NOT_FOUND);
    }
    let header =
        |name: &str| request.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let status = |denied| match denied {
        AccessDenied::Forbidden(_) | AccessDenied::Insufficient(..) => StatusCode::FORBIDDEN,
        AccessDenied::Unauthorized(..) | AccessDenied::InvalidProof(..) => StatusCode::UNAUTHORIZED,
        AccessDenied::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let host = request.url.authority();
    service.access.check_origin(Some(host), header("origin")).map_err(status)?;
    // Of two headers, an intermediary may have checked the other one.
    let single = |name: &str| {
        let is_duplicate = request.headers.get_all(name).iter().nth(1).is_some();
        if is_duplicate { Some("") } else { header(name) }
    };
    let credentials = Credentials {
        authorization: single("authorization"),
        proof: single("dpop"),
        method: "CONNECT",
        url: &|| Some(format!("https://{host}{PATH}")),
    };
    let caller = service.access.authenticate(&credentials).await.map_err(status)?;
    Ok(caller.principal)
}

/// Responds with a status and waits until the client has it, because closing the connection would
/// discard it.
async fn reject(connection: &QuicConnection, request: Box<SessionRequest>, status: StatusCode) {
    let SessionRequest { request, send, recv } = *request;
    tracing::debug!(%status, url = %request.url, "session rejected");
    let response = async {
        respond(send, recv, status).await;
        connection.closed().await;
    };
    let _ = timeout(REJECT_TIMEOUT, response).await;
}

async fn run(service: &Arc<Service>, session: Session, capsules: Capsules, principal: Principal) {
    let options = &service.options;
    let streams = Streams::new(session.clone(), options);
    let datagrams = Arc::new(SessionDatagrams::new(
        session.clone(),
        options.datagrams,
        service.datagram_counts.clone(),
    ));
    let signed = service.server.signing().is_some();
    let handshake =
        Handshake { streams: options.max_streams, datagrams: datagrams.clone(), signed };
    let info = ConnectionInfo {
        principal: principal.clone(),
        side_channel: Some(streams.clone()),
        // Datagrams are not signed, so they are disabled where messages are.
        datagrams: (!signed).then(|| datagrams.clone() as _),
        negotiation: Some(Arc::new(handshake)),
        ..ConnectionInfo::new("webtransport")
    };
    let connection = match service.server.connect(info) {
        Ok(connection) => Arc::new(connection),
        Err(veto) => return close(&session, SessionEnd::rejected(&veto.to_string())).await,
    };
    streams.attach(&connection);
    // Dropping this before the session is closed would stop the CONNECT stream, and browsers would
    // not get the close reason.
    let mut closed = Box::pin(capsules.closed());
    let opened = timeout(options.handshake_timeout, session.accept_bi()).await;
    let end = match opened {
        Ok(Some((send, recv))) => {
            let control = Control::new(send, recv, connection.clone(), streams.clone());
            // The other futures run only as long as the control stream.
            tokio::select! {
                end = Box::pin(control.run(service)) => end,
                () = Box::pin(unsolicited::reject(&session, &connection, &streams, &datagrams)) => SessionEnd::Lost,
                () = Box::pin(datagrams.run(&connection)) => SessionEnd::Lost,
                () = Box::pin(principal.invalidated()) => SessionEnd::rejected("the token has expired or was revoked"),
                number = &mut closed => {
                    session.connection().close(http3_code(number), b"");
                    SessionEnd::Lost
                }
            }
        }
        Ok(None) => SessionEnd::Lost,
        Err(_) => SessionEnd::rejected("no control stream was opened"),
    };
    connection.stop();
    streams.stop_all();
    close(&session, end).await;
}

async fn close(session: &Session, end: SessionEnd) {
    if let SessionEnd::Closed { code, reason } = end {
        session.close(code, &reason).await;
    }
}

/// Negotiates the transport options in `initialize`.
#[derive(Debug)]
struct Handshake {
    streams: u32,
    datagrams: Arc<SessionDatagrams>,
    /// Messages are signed. Datagrams are not, so they are disabled then.
    signed: bool,
}

impl Negotiation for Handshake {
    fn agree(&self, params: Params<'_>) -> Result<Agreement, RpcError> {
        let encoding = negotiate_encoding(params)?;
        let supported = self.datagrams.are_supported_by_client() && !self.signed;
        let transport = json!(ServerTransport::new(encoding, self.streams, supported));
        Ok(Agreement { encoding, transport })
    }
}

/// Time limit for a rejection to be delivered.
const REJECT_TIMEOUT: Duration = Duration::from_secs(3);
