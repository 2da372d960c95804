//! Where tokens and questions about them may go.
//!
//! Which authorization server is asked is decided by documents of strangers. They cannot make this
//! program speak in the clear, nor to what only it can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mcp_flow_http::client::Addresses;
use url::{Host, Url};

use crate::error::{OAuthError, tell};

/// The addresses that may be dialled on behalf of a server: its own, those of the public network,
/// and those of its own kind. `private` adds those of private networks.
pub(crate) fn addresses(server: &Url, private: bool) -> Addresses {
    let own = bare(server);
    let kind = literal(server).map_or(Zone::Public, zone);
    Addresses::only(move |host, address| match zone(address) {
        _ if host == own => true,
        Zone::Public => true,
        Zone::Private => private || kind == Zone::Private,
        Zone::Loopback => kind == Zone::Loopback,
        Zone::Reserved => false,
    })
}

/// Refuses what would go over the network in the clear, or is no address of the web at all.
pub(crate) fn check(what: &str, address: &str) -> Result<Url, OAuthError> {
    let refused =
        |why: &str| OAuthError::OutOfBounds(format!("{what} is {}, {why}", tell(address, &[])));
    let url = Url::parse(address).map_err(|_| refused("which is no URL"))?;
    let is_local = literal(&url).is_some_and(|address| address.is_loopback());
    match url.scheme() {
        "https" if url.has_host() => Ok(url),
        "http" if is_local => Ok(url),
        _ => Err(refused("where https is wanted")),
    }
}

/// Returns the address that a URL names without asking anybody where that is.
pub(crate) fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(name) => is_local_name(name).then_some(Ipv4Addr::LOCALHOST.into()),
    }
}

/// Where an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zone {
    Public,
    Private,
    Loopback,
    /// Of no use to anybody with good intentions: link-local, where clouds keep their secrets, and
    /// what is no address of a single machine.
    Reserved,
}

fn zone(address: IpAddr) -> Zone {
    match address {
        IpAddr::V4(address) => zone_of_4(address),
        IpAddr::V6(address) => zone_of_6(address),
    }
}

fn zone_of_4(address: Ipv4Addr) -> Zone {
    match address.octets() {
        [127, ..] => Zone::Loopback,
        [100, 64..=127, ..] => Zone::Private,
        _ if address.is_private() => Zone::Private,
        [0 | 224..=255, ..] | [169, 254, ..] | [192, 0, 0, _] | [198, 18 | 19, ..] => {
            Zone::Reserved
        }
        _ => Zone::Public,
    }
}

fn zone_of_6(address: Ipv6Addr) -> Zone {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let four = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
        zone_of_4(Ipv4Addr::new(a, b, c, d))
    };
    match [a, b, c, d, e, f] {
        _ if address.is_loopback() => Zone::Loopback,
        // One of the old kind, written as one of the new or wrapped into it.
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => four(g, h),
        [0x2002, ..] => four(b, c),
        [0, 0, 0, 0, 0, 0] | [0x64, 0xff9b, 1, ..] | [0x2001, 0, ..] => Zone::Reserved,
        [0xfc00..=0xfdff, ..] => Zone::Private,
        [0xfe80..=0xffff, ..] => Zone::Reserved,
        _ => Zone::Public,
    }
}

fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// A host as it is dialled, without the brackets of a URL.
pub(crate) fn bare(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned()
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::{Zone, addresses, check, zone};

    /// MCP-090: a server on the outside cannot have anything inside dialled for it.
    #[test]
    fn a_server_reaches_its_own_kind() {
        let (public, private, local, cloud) =
            ("93.184.216.34", "10.0.0.9", "127.0.0.1", "169.254.169.254");
        for (server, is_private, allowed, refused) in [
            ("https://mcp.example/mcp", false, &[public][..], &[private, local, cloud][..]),
            ("https://mcp.example/mcp", true, &[public, private], &[local, cloud]),
            ("https://10.0.0.1/mcp", false, &[public, private], &[local, cloud]),
            ("http://localhost:1/mcp", false, &[public, local], &[private, cloud]),
            ("http://[::1]:1/mcp", false, &[public, local], &[private, cloud]),
        ] {
            let server = Url::parse(server).unwrap();
            let bounds = addresses(&server, is_private);
            let allows = |address: &&str| bounds.allows("as.example", address.parse().unwrap());
            assert!(allowed.iter().all(allows), "{server}");
            assert!(!refused.iter().any(allows), "{server}");
        }
        // Whoever names a server means it, wherever it is.
        let own = addresses(&Url::parse("https://mcp.corp/mcp").unwrap(), false);
        assert!(own.allows("mcp.corp", private.parse().unwrap()));
        assert!(!own.allows("sso.corp", private.parse().unwrap()));
    }

    /// MCP-090: what a stranger's document names is dialled by where it is, however it is written.
    #[test]
    fn an_address_is_known_by_where_it_leads() {
        for (address, expected) in [
            ("93.184.216.34", Zone::Public),
            ("2606:2800:220:1::1", Zone::Public),
            ("127.0.0.1", Zone::Loopback),
            ("127.9.9.9", Zone::Loopback),
            ("::1", Zone::Loopback),
            ("::ffff:127.0.0.1", Zone::Loopback),
            ("10.0.0.9", Zone::Private),
            ("172.16.0.1", Zone::Private),
            ("192.168.1.1", Zone::Private),
            ("100.64.0.1", Zone::Private),
            ("fd00::1", Zone::Private),
            ("::ffff:10.0.0.1", Zone::Private),
            ("64:ff9b::a00:1", Zone::Private),
            ("2002:a00:1::", Zone::Private),
            ("169.254.169.254", Zone::Reserved),
            ("::ffff:169.254.169.254", Zone::Reserved),
            ("0.0.0.0", Zone::Reserved),
            ("224.0.0.1", Zone::Reserved),
            ("255.255.255.255", Zone::Reserved),
            ("fe80::1", Zone::Reserved),
            ("ff02::1", Zone::Reserved),
            ("::", Zone::Reserved),
            ("2001:0:1::1", Zone::Reserved),
        ] {
            assert_eq!(zone(address.parse().unwrap()), expected, "{address}");
        }
    }

    /// MCP-090: nothing about tokens is sent in the clear, and no page is opened that is none.
    #[test]
    fn only_https_leaves_this_machine() {
        for good in [
            "https://as.example/authorize",
            "http://127.0.0.1:1/token",
            "http://[::1]/token",
            "http://localhost:8080/",
        ] {
            assert!(check("it", good).is_ok(), "{good}");
        }
        for bad in [
            "http://as.example/authorize",
            "http://10.0.0.1/token",
            "http://localhost.example/",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "custom-scheme://as.example/authorize",
            "/authorize",
            "",
        ] {
            let told = check("it", bad).unwrap_err().to_string();
            assert!(told.starts_with("it is "), "{bad}: {told}");
        }
    }
}
