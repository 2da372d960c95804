//! Checks of the network: certificate and ports.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, SystemTime};

use mcp_flow::tls::Tls;

use super::Finding;
use crate::configuration::ServeSection;

/// Checks that the certificate is valid, and not for a short time only.
pub(super) fn tls(serve: &ServeSection) -> Finding {
    let (Some(certificate), Some(key)) = (&serve.tls_certificate, &serve.tls_key) else {
        return Finding::ok("tls", "no certificate is configured");
    };
    let tls = match Tls::from_pem(certificate, key) {
        Ok(tls) => tls,
        Err(error) => {
            let advice = "both must be PEM files: the certificate chain, and the private key of its first certificate";
            let problem = anyhow::Error::from(error);
            return Finding::fail("tls", format!("{problem:#}"), advice);
        }
    };
    let Some((begins, ends)) = tls.validity() else {
        let advice = "issue the certificate again";
        return Finding::fail("tls", "the certificate has no validity period", advice);
    };
    let now = SystemTime::now();
    if begins > now {
        let advice = "check the clock, or wait";
        return Finding::fail("tls", "the certificate is not valid yet", advice);
    }
    let Ok(left) = ends.duration_since(now) else {
        let advice = "renew it; a running server reloads it automatically";
        return Finding::fail("tls", "the certificate has expired", advice);
    };
    let days = left.as_secs() / 86_400;
    match left < RENEWAL_PERIOD {
        true => Finding::warn(
            "tls",
            format!("the certificate expires in {days} days"),
            "renew it; a running server reloads it automatically",
        ),
        false => Finding::ok("tls", format!("the certificate is valid for {days} days")),
    }
}

/// Checks that every address is free.
pub(super) fn ports(serve: &ServeSection) -> Vec<Finding> {
    let ServeSection { listen, tcp, webtransport, .. } = serve;
    let mut findings = Vec::new();
    for address in [Some(*listen), *tcp].into_iter().flatten() {
        let bound = TcpListener::bind(address).map(drop);
        findings.push(port("TCP", address, bound, *listen == address));
    }
    if *webtransport {
        let bound = UdpSocket::bind(listen).map(drop);
        findings.push(port("UDP", *listen, bound, true));
    }
    findings
}

fn port(kind: &str, address: SocketAddr, bound: std::io::Result<()>, is_http: bool) -> Finding {
    let Err(error) = bound else {
        return Finding::ok("port", format!("{kind} {address} is free"));
    };
    let message = |problem: &str| format!("{kind} {address} {problem}");
    match error.kind() {
        ErrorKind::AddrInUse => {
            let by = match is_http && is_mcp_flow(address) {
                true => "is in use: mcp-flow is already running there",
                false => "is in use by another program",
            };
            let advice =
                "stop that program, or choose another address with --listen or serve.listen";
            Finding::fail("port", message(by), advice)
        }
        ErrorKind::PermissionDenied => Finding::fail(
            "port",
            message("cannot be bound: permission denied"),
            "ports below 1024 need CAP_NET_BIND_SERVICE; grant it or choose a higher port",
        ),
        _ => {
            Finding::fail("port", message(&error.to_string()), "choose an address of this machine")
        }
    }
}

/// Returns whether an mcp-flow server answers at an address.
fn is_mcp_flow(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(MAX_RESPONSE_LENGTH).read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nok\n"))
}

/// Remaining validity from which a renewal is advised.
const RENEWAL_PERIOD: Duration = Duration::from_secs(21 * 86_400);

const TIMEOUT: Duration = Duration::from_secs(2);

const MAX_RESPONSE_LENGTH: u64 = 4096;
