//! Address policy, against request forgery: the addresses that OAuth requests may go to.
//!
//! Documents of untrusted servers name the authorization server. They cannot make this program send
//! unencrypted requests, nor connect to addresses that only it can reach.

use std::net::{IpAddr, Ipv4Addr};

use mcp_flow_http_client::{AddressZone, AllowedAddresses};
use url::{Host, Url};

use crate::error::{OAuthError, redact};

/// Returns the addresses that may be dialled on behalf of a server: its own, public ones, and those
/// of its own zone. `private` adds private networks.
pub(crate) fn allowed_addresses(server: &Url, private: bool) -> AllowedAddresses {
    let own = host(server);
    let kind = literal_address(server).map_or(AddressZone::Public, AddressZone::of);
    AllowedAddresses::only(move |host, address| match AddressZone::of(address) {
        _ if host == own => true,
        AddressZone::Public => true,
        AddressZone::Private => private || kind == AddressZone::Private,
        AddressZone::Loopback => kind == AddressZone::Loopback,
        AddressZone::Reserved => false,
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

    use super::{allowed_addresses, check_url};

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
