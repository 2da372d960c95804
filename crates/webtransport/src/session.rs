//! One session, from its CONNECT to its close.

use std::sync::Arc;
use std::time::Duration;

use mcp_flow_proto::webtransport::{PATH, ServerTransport, agree};
use mcp_flow_proto::{Params, RpcError};
use mcp_flow_server::access::AccessDenied;
use mcp_flow_server::negotiation::{Agreement, Negotiation};
use mcp_flow_server::{ConnectionInfo, Principal};
use serde_json::json;
use tokio::time::timeout;
use web_transport_quinn::http::StatusCode;
use web_transport_quinn::proto::ConnectRequest;
use web_transport_quinn::quinn::Connection as QuicConnection;

use crate::control::{Control, Over};
use crate::datagrams::SessionDatagrams;
use crate::http3::{Arrivals, NO_ERROR, SessionRequest, respond};
use crate::http3_session::{Capsules, Session, code};
use crate::listen::Service;
use crate::strangers;
use crate::streams::Streams;

/// Lets a client in or not, and serves it.
pub(crate) async fn serve(
    service: Arc<Service>,
    connection: QuicConnection,
    mut arrivals: Arrivals,
) {
    let asking = timeout(service.options.handshake_time, arrivals.request());
    let Some(asked) = service.ending.run_until_cancelled(asking).await else { return };
    let Ok(Some(request)) = asked else {
        tracing::debug!("a client did not ask for a session");
        return connection.close(NO_ERROR, b"no session was asked for");
    };
    let principal = match admit(&service, &request.request).await {
        Ok(principal) => principal,
        Err(status) => {
            let reason = match status {
                StatusCode::UNAUTHORIZED => "token",
                StatusCode::FORBIDDEN => "host, origin or scope",
                StatusCode::NOT_FOUND => "path",
                _ => "identity cannot be checked",
            };
            service.server.denied("webtransport", None, reason);
            return refuse(&connection, request, status).await;
        }
    };
    let accepting = Session::accept(connection, request, arrivals);
    match timeout(service.options.handshake_time, accepting).await {
        Ok(Some((session, capsules))) => hold(&service, session, capsules, principal).await,
        Ok(None) => tracing::debug!("a session was not accepted by its client"),
        Err(_) => tracing::debug!("a client did not read that it may come in"),
    }
}

/// Whom a session is for, or the status it is refused with (WT-009, WT-068).
async fn admit(service: &Service, request: &ConnectRequest) -> Result<Principal, StatusCode> {
    if request.url.path() != PATH {
        return Err(StatusCode::NOT_FOUND);
    }
    let header =
        |name: &str| request.headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let status = |denied| match denied {
        AccessDenied::Forbidden(_) | AccessDenied::Insufficient(..) => StatusCode::FORBIDDEN,
        AccessDenied::Unauthorized(..) => StatusCode::UNAUTHORIZED,
        AccessDenied::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let host = request.url.authority();
    service.guard.check_origin(Some(host), header("origin")).map_err(status)?;
    // Of two, somebody on the way may have looked at the other.
    let is_doubled = request.headers.get_all("authorization").iter().nth(1).is_some();
    let authorization = if is_doubled { Some("") } else { header("authorization") };
    service.guard.authenticate(authorization).await.map_err(status)
}

/// Answers with a status, and stays until the client has it: it goes down with the connection.
async fn refuse(connection: &QuicConnection, request: Box<SessionRequest>, status: StatusCode) {
    let SessionRequest { request, send, recv } = *request;
    tracing::debug!(%status, url = %request.url, "a session was refused");
    let answer = async {
        respond(send, recv, status).await;
        connection.closed().await;
    };
    let _ = timeout(REFUSAL, answer).await;
}

async fn hold(service: &Arc<Service>, session: Session, capsules: Capsules, principal: Principal) {
    let options = &service.options;
    let streams = Streams::new(session.clone(), options);
    let datagrams = Arc::new(SessionDatagrams::new(
        session.clone(),
        options.datagrams,
        service.datagram_counts.clone(),
    ));
    let signed = service.server.signing().is_some();
    let handshake = Handshake { streams: options.streams, datagrams: datagrams.clone(), signed };
    let info = ConnectionInfo {
        principal: principal.clone(),
        side_channel: Some(streams.clone()),
        // They are not signed, so where messages are nothing is sent by them.
        datagrams: (!signed).then(|| datagrams.clone() as _),
        negotiation: Some(Arc::new(handshake)),
        ..ConnectionInfo::new("webtransport")
    };
    let connection = match service.server.connect(info) {
        Ok(connection) => Arc::new(connection),
        Err(veto) => return close(&session, Over::refused(&veto.to_string())).await,
    };
    streams.attach(&connection);
    // Dropped before the session is closed, it would tell the client that nobody listens, and
    // browsers would not hear the reason.
    let mut closed = Box::pin(capsules.closed());
    let opened = timeout(options.handshake_time, session.accept_bi()).await;
    let over = match opened {
        Ok(Some((send, recv))) => {
            let control = Control::new(send, recv, connection.clone(), streams.clone());
            // What else a client opens and sends is looked at beside, and only as long.
            tokio::select! {
                over = Box::pin(control.hold(service)) => over,
                () = Box::pin(strangers::refuse(&session, &connection, &streams, &datagrams)) => Over::Lost,
                () = Box::pin(datagrams.pump(&connection)) => Over::Lost,
                () = Box::pin(principal.invalidated()) => Over::refused("the token has ended"),
                number = &mut closed => {
                    session.connection().close(code(number), b"");
                    Over::Lost
                }
            }
        }
        Ok(None) => Over::Lost,
        Err(_) => Over::refused("no control stream was opened"),
    };
    connection.stop();
    streams.stop_all();
    close(&session, over).await;
}

async fn close(session: &Session, over: Over) {
    if let Over::Closed { code, reason } = over {
        session.close(code, &reason).await;
    }
}

/// What is agreed on in `initialize`.
#[derive(Debug)]
struct Handshake {
    streams: u32,
    datagrams: Arc<SessionDatagrams>,
    /// Whether messages are signed, which datagrams are not.
    signed: bool,
}

impl Negotiation for Handshake {
    fn agree(&self, params: Params<'_>) -> Result<Agreement, RpcError> {
        let encoding = agree(params)?;
        let supported = self.datagrams.are_possible() && !self.signed;
        let transport = json!(ServerTransport::new(encoding, self.streams, supported));
        Ok(Agreement { encoding, transport })
    }
}

/// How long a refusal may be on its way.
const REFUSAL: Duration = Duration::from_secs(3);
