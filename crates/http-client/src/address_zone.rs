//! Network zones of addresses, against request forgery.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Network zone of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressZone {
    /// An address of the internet.
    Public,
    /// An address of a private network.
    Private,
    /// This machine.
    Loopback,
    /// Link-local addresses, where clouds serve instance metadata, and addresses that are not of a
    /// single machine.
    Reserved,
}

impl AddressZone {
    /// Returns the zone that an address leads to, in any notation.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => zone_of_4(address),
            IpAddr::V6(address) => zone_of_6(address),
        }
    }
}

fn zone_of_4(address: Ipv4Addr) -> AddressZone {
    match address.octets() {
        [127, ..] => AddressZone::Loopback,
        [100, 64..=127, ..] => AddressZone::Private,
        _ if address.is_private() => AddressZone::Private,
        [0 | 224..=255, ..] | [169, 254, ..] | [192, 0, 0, _] | [198, 18 | 19, ..] => {
            AddressZone::Reserved
        }
        _ => AddressZone::Public,
    }
}

fn zone_of_6(address: Ipv6Addr) -> AddressZone {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let four = |high: u16, low: u16| {
        let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
        zone_of_4(Ipv4Addr::new(a, b, c, d))
    };
    match [a, b, c, d, e, f] {
        _ if address.is_loopback() => AddressZone::Loopback,
        // IPv4-mapped and NAT64 addresses.
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => four(g, h),
        [0x2002, ..] => four(b, c),
        [0, 0, 0, 0, 0, 0] | [0x64, 0xff9b, 1, ..] | [0x2001, 0, ..] => AddressZone::Reserved,
        [0xfc00..=0xfdff, ..] => AddressZone::Private,
        [0xfe80..=0xffff, ..] => AddressZone::Reserved,
        _ => AddressZone::Public,
    }
}

#[cfg(test)]
mod tests {
    use super::AddressZone;

    /// MCP-090: an address belongs to the zone it leads to, in any notation.
    #[test]
    fn addresses_are_classified_in_any_notation() {
        for (address, expected) in [
            ("93.184.216.34", AddressZone::Public),
            ("2606:2800:220:1::1", AddressZone::Public),
            ("127.0.0.1", AddressZone::Loopback),
            ("127.9.9.9", AddressZone::Loopback),
            ("::1", AddressZone::Loopback),
            ("::ffff:127.0.0.1", AddressZone::Loopback),
            ("10.0.0.9", AddressZone::Private),
            ("172.16.0.1", AddressZone::Private),
            ("192.168.1.1", AddressZone::Private),
            ("100.64.0.1", AddressZone::Private),
            ("fd00::1", AddressZone::Private),
            ("::ffff:10.0.0.1", AddressZone::Private),
            ("64:ff9b::a00:1", AddressZone::Private),
            ("2002:a00:1::", AddressZone::Private),
            ("169.254.169.254", AddressZone::Reserved),
            ("::ffff:169.254.169.254", AddressZone::Reserved),
            ("0.0.0.0", AddressZone::Reserved),
            ("224.0.0.1", AddressZone::Reserved),
            ("255.255.255.255", AddressZone::Reserved),
            ("fe80::1", AddressZone::Reserved),
            ("ff02::1", AddressZone::Reserved),
            ("::", AddressZone::Reserved),
            ("2001:0:1::1", AddressZone::Reserved),
        ] {
            assert_eq!(AddressZone::of(address.parse().unwrap()), expected, "{address}");
        }
    }
}
