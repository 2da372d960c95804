//! Addresses of hosts.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::lookup_host;

/// Resolves the name of a host.
///
/// `localhost` is always this machine (RFC 6761): without a resolver too, as in a container that holds
/// nothing but the program, and whatever a name server says.
pub async fn lookup(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if host.strip_suffix('.').unwrap_or(host).eq_ignore_ascii_case("localhost") {
        return Ok(vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]);
    }
    Ok(lookup_host((host, port)).await?.collect())
}

#[cfg(test)]
mod tests {
    use super::lookup;

    #[tokio::test]
    async fn localhost_is_this_machine() {
        for host in ["localhost", "LocalHost", "localhost."] {
            let addresses = lookup(host, 80).await.unwrap();
            assert!(!addresses.is_empty(), "{host}");
            assert!(addresses.iter().all(|address| address.ip().is_loopback()), "{addresses:?}");
        }
        assert_eq!(lookup("192.0.2.1", 80).await.unwrap(), ["192.0.2.1:80".parse().unwrap()]);
        assert_eq!(lookup("::1", 80).await.unwrap(), ["[::1]:80".parse().unwrap()]);
    }
}
