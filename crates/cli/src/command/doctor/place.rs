//! Where a server is and where it keeps things: its store, its certificate, its ports.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, SystemTime};

use mcp_flow::session::Store as _;
use mcp_flow::store_redb::{RedbStore, keys};
use mcp_flow::tls::Tls;

use super::Finding;
use crate::configuration::{OfferSection, ServeSection};
use crate::store::{self, StoreUrl};

/// Opens a store that is there and writes to it; one that is not there is not made.
pub(super) fn store(offer: &OfferSection) -> Vec<Finding> {
    let path = match &offer.store {
        _ if !offer.interaction || offer.stateless && !offer.replay_guard => {
            return vec![Finding::ok("store", "none is needed")];
        }
        Some(StoreUrl::Memory) => {
            let advice = "say offer.store = \"redb:PATH\" to keep them";
            let problem = "conversations are kept in memory, and lost at the end";
            return vec![Finding::warn("store", problem, advice)];
        }
        Some(StoreUrl::Redb(path)) => path.as_path(),
        None => Path::new(store::DEFAULT),
    };
    let mut findings = Vec::new();
    findings.extend(key_of(path));
    if !path.exists() {
        findings.push(match is_writable_folder(path) {
            true => Finding::ok("store", format!("{} will be made", path.display())),
            false => Finding::fail(
                "store",
                format!("{} cannot be made", path.display()),
                "make its folder, and let the server write there",
            ),
        });
        return findings;
    }
    findings.push(match open_and_write(path) {
        Ok(()) => Finding::ok("store", format!("{} opens and can be written", path.display())),
        Err(problem) => {
            let problem = format!("{} cannot be used: {problem:#}", path.display());
            let advice = "or choose another file or \"memory:\" with --store or offer.store";
            Finding::fail("store", problem, advice)
        }
    });
    findings
}

fn open_and_write(path: &Path) -> anyhow::Result<()> {
    let store = RedbStore::open(path)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(store.probe())?)
}

/// Whether others could read what seals the conversations.
fn key_of(journal: &Path) -> Option<Finding> {
    let path = keys::path(journal);
    if std::env::var_os(keys::VARIABLE).is_some() || !path.exists() {
        return None;
    }
    Some(match mcp_flow::seal::file::load(&path) {
        Ok(_) => Finding::ok("key", format!("{} is its owner's alone", path.display())),
        Err(error) => Finding::fail("key", error.to_string(), "without its key a store is lost"),
    })
}

/// Whether a file could be made: in its folder, or in the nearest one that is there.
pub(super) fn is_writable_folder(path: &Path) -> bool {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.ancestors().skip(1).find(|folder| folder.exists());
    let may = |folder: &Path| {
        rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
    };
    folder.is_some_and(|folder| folder.is_dir() && may(folder).is_ok())
}

/// Whether the certificate can be used, and for how long.
pub(super) fn tls(serve: &ServeSection) -> Finding {
    let (Some(certificate), Some(key)) = (&serve.tls_certificate, &serve.tls_key) else {
        return Finding::ok("tls", "no certificate is configured");
    };
    let tls = match Tls::from_pem(certificate, key) {
        Ok(tls) => tls,
        Err(error) => {
            let advice = "both are PEM: the whole chain, and the private key of its first part";
            let problem = anyhow::Error::from(error);
            return Finding::fail("tls", format!("{problem:#}"), advice);
        }
    };
    let Some((begins, ends)) = tls.validity() else {
        let advice = "make it again";
        return Finding::fail(
            "tls",
            "the certificate does not say for how long it is good",
            advice,
        );
    };
    let now = SystemTime::now();
    if begins > now {
        let advice = "look at the clock, or wait";
        return Finding::fail("tls", "the certificate is not good yet", advice);
    }
    let Ok(left) = ends.duration_since(now) else {
        let advice = "renew it; a running server takes it up by itself";
        return Finding::fail("tls", "the certificate has expired", advice);
    };
    let days = left.as_secs() / 86_400;
    match left < SOON {
        true => Finding::warn(
            "tls",
            format!("the certificate expires in {days} days"),
            "renew it; a running server takes it up by itself",
        ),
        false => Finding::ok("tls", format!("the certificate is good for {days} days")),
    }
}

/// Whether every address could be listened on.
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
    let told = |problem: &str| format!("{kind} {address} {problem}");
    match error.kind() {
        ErrorKind::AddrInUse => {
            let by = match is_http && is_alive(address) {
                true => "is in use: mcp-flow is already running there",
                false => "is in use by another program",
            };
            let advice = "stop it, or choose another address with --listen or serve.listen";
            Finding::fail("port", told(by), advice)
        }
        ErrorKind::PermissionDenied => Finding::fail(
            "port",
            told("may not be listened on"),
            "ports below 1024 need CAP_NET_BIND_SERVICE; choose a higher one or give it that",
        ),
        _ => Finding::fail("port", told(&error.to_string()), "choose an address of this machine"),
    }
}

/// Whether something at an address answers as a server of ours does.
fn is_alive(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(LONGEST_ANSWER).read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nok\n"))
}

/// When it is time to renew.
const SOON: Duration = Duration::from_secs(21 * 86_400);

const PATIENCE: Duration = Duration::from_secs(2);

const LONGEST_ANSWER: u64 = 4096;
