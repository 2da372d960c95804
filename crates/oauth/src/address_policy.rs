//! Address policy, against request forgery: the addresses that OAuth requests may go to.
//!
//! Documents of untrusted servers name the authorization server. They cannot make this program send
//! unencrypted requests, nor connect to addresses that only it can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mcp_flow_http_client::AllowedAddresses;
use url::{Host, Url};

use crate::error::{OAuthError, redact};

/// Returns the addresses that may be dialled on behalf of a server: its own, public ones, and those
/// of its own zone. `private` adds private networks.
pub(crate) fn allowed_addresses(server: &Url, private: bool) -> AllowedAddresses {
    let own = host(server);
    let kind = literal_address(server).map_or(Zone::Public, zone);
    AllowedAddresses::only(move |host, address| match zone(address) {
        _ if host == own => true,
        Zone::Public => true,
        Zone::Private => private || kind == Zone::Private,
        Zone::LoopbackListener => kind == Zone::LoopbackListener,
        Zone::Reserved => false,
    })
}

/// Checks that a URL uses https, or http to the local machine.
pub(crate) fn check_url(what: &str, address: &str) -> Result<Url, OAuthError> {
    let refused =
        |why: &str| OAuthError::Untrusted(format!("{what} is {}, {why}", redact(address, &[])));
    let url = Url::parse(address).map_err(|_| refused("which is not a URL"))?;
    let is_local = literal_address(&url).is_some_and(|address| address.is_loopback());
    match url.scheme() {
        "https" if url.has_host() => Ok(url),
        "http" if is_local => Ok(url),
        _ => Err(refused("but https is required")),
    }
}

/// Returns the IP address that a URL names without a DNS lookup.
pub(crate) fn literal_address(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(name) => is_local_name(name).then_some(Ipv4Addr::LOCALHOST.into()),
    }
}

/// Network zone of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zone {
    Public,
    Private,
    LoopbackListener,
    /// Never allowed: link-local addresses, where clouds serve instance metadata, and addresses that
    /// are not of a single machine.
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
        [127, ..] => Zone::LoopbackListener,
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
        _ if address.is_loopback() => Zone::LoopbackListener,
        // IPv4-mapped and NAT64 addresses.
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

/// Returns the host of a URL, without brackets.
pub(crate) fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned()
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::{Zone, allowed_addresses, check_url, zone};

    /// MCP-090: a public server cannot make the client dial internal addresses.
    #[test]
    fn servers_reach_only_their_own_zone() {
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
            let policy = allowed_addresses(&server, is_private);
            let allows = |address: &&str| policy.allows("as.example", address.parse().unwrap());
            assert!(allowed.iter().all(allows), "{server}");
            assert!(!refused.iter().any(allows), "{server}");
        }
        // The server itself is always allowed.
        let own = allowed_addresses(&Url::parse("https://mcp.corp/mcp").unwrap(), false);
        assert!(own.allows("mcp.corp", private.parse().unwrap()));
        assert!(!own.allows("sso.corp", private.parse().unwrap()));
    }

    /// MCP-090: an address belongs to the zone it leads to, in any notation.
    #[test]
    fn addresses_are_classified_in_any_notation() {
        for (address, expected) in [
            ("93.184.216.34", Zone::Public),
            ("2606:2800:220:1::1", Zone::Public),
            ("127.0.0.1", Zone::LoopbackListener),
            ("127.9.9.9", Zone::LoopbackListener),
            ("::1", Zone::LoopbackListener),
            ("::ffff:127.0.0.1", Zone::LoopbackListener),
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

    /// MCP-090: only https URLs are used beyond the local machine.
    #[test]
    fn only_https_leaves_the_machine() {
        for good in [
            "https://as.example/authorize",
            "http://127.0.0.1:1/token",
            "http://[::1]/token",
            "http://localhost:8080/",
        ] {
            assert!(check_url("it", good).is_ok(), "{good}");
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
            let error = check_url("it", bad).unwrap_err().to_string();
            assert!(error.starts_with("it is "), "{bad}: {error}");
        }
    }
}
