//! Which hosts may be reached: names compared label by label, and what a name may turn out to be.
//! Knows no sockets; anything it does not understand is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ports of a host that is listed without one.
const WEB_PORTS: [u16; 2] = [80, 443];

/// The hosts that may be reached; an empty list means none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostList {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    host: String,
    /// Whether it means every host below, and not the host itself.
    is_below: bool,
    port: Option<u16>,
}

/// Which addresses a permitted name may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// Those of the public internet only: a name must not lead to this machine or its neighbours.
    Public,
    /// Any: the entry itself says that it is near.
    Any,
}

impl HostList {
    /// Takes `host`, `host:port`, `*.host` and `*.host:port`; entries that are none of these permit nothing.
    pub fn new<T: AsRef<str>>(entries: &[T]) -> Self {
        Self { entries: entries.iter().filter_map(|entry| parse_entry(entry.as_ref())).collect() }
    }

    /// Whether a host may be reached on a port, or why not.
    pub fn permit(&self, host: &str, port: u16) -> Result<Permit, String> {
        let host = normal(host).ok_or_else(|| "that is not the name of a host".to_owned())?;
        let matching = |entry: &&Entry| {
            let is_host = if entry.is_below {
                host.strip_suffix(&entry.host).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
            } else {
                host == entry.host
            };
            is_host && entry.port.map_or_else(|| WEB_PORTS.contains(&port), |listed| listed == port)
        };
        if !self.entries.iter().any(|entry| matching(&entry)) {
            return Err(format!("{host}:{port} is not among the hosts that may be reached"));
        }
        let is_near = host == "localhost" || host.parse::<IpAddr>().is_ok();
        Ok(if is_near { Permit::Any } else { Permit::Public })
    }
}

/// Whether an address is one of the public internet, in whatever way it is written.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(address) = address.to_ipv4_mapped() {
        return is_public_v4(address);
    }
    let [first, second, third, middle @ .., high, low] = address.segments();
    let embedded =
        |high: u16, low: u16| is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match (first, second) {
        // Translated to the other protocol on the way.
        (0x64, 0xff9b) => third == 0 && middle == [0; 3] && embedded(high, low),
        (0x2002, _) => embedded(second, third),
        // Documentation and tunnels.
        (0x2001, 0 | 0xdb8) => false,
        // All of the public internet so far.
        (0x2000..=0x3fff, _) => true,
        (_, _) => false,
    }
}

fn parse_entry(text: &str) -> Option<Entry> {
    let text = text.trim();
    let (is_below, text) = text.strip_prefix("*.").map_or((false, text), |rest| (true, rest));
    let (host, port) = match text.rsplit_once(':') {
        // With more colons it is an address, unless in brackets.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, Some(port.parse().ok().filter(|port| *port != 0)?))
        }
        Some(_) | None => (text, None),
    };
    let host = normal(host)?;
    // A star over an address, or over everything below one label, means too much.
    let is_too_wide = is_below && (!host.contains('.') || host.parse::<IpAddr>().is_ok());
    (!is_too_wide).then_some(Entry { host, is_below, port })
}

/// A host's name as compared: lower case, no dot at the end, an address in its one spelling.
fn normal(host: &str) -> Option<String> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if let Some(address) = bare {
        return address.parse::<Ipv6Addr>().ok().map(|address| address.to_string());
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_label = |label: &str| {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(inside)
    };
    // Resolvers take 127.1, 0x7f.1 and 2130706433 for addresses.
    let is_number = |label: &str| {
        label.bytes().all(|byte| byte.is_ascii_digit())
            || label.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    let is_name =
        host.len() <= 253 && host.split('.').all(is_label) && !host.rsplit('.').next().is_some_and(is_number);
    is_name.then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(entries: &[&str], host: &str, port: u16, expected: Option<Permit>) {
        assert_eq!(HostList::new(entries).permit(host, port).ok(), expected, "{entries:?} {host}:{port}");
    }

    #[test]
    fn names_are_matched_by_label() {
        let list = ["example.org", "*.crates.io", "localhost:8080", "10.0.0.7:5432", "[::1]:81"];
        let public = Some(Permit::Public);
        check(&list, "example.org", 443, public);
        check(&list, "EXAMPLE.org.", 80, public);
        check(&list, "index.crates.io", 443, public);
        check(&list, "a.b.crates.io", 443, public);
        check(&list, "localhost", 8080, Some(Permit::Any));
        check(&list, "10.0.0.7", 5432, Some(Permit::Any));
        check(&list, "::1", 81, Some(Permit::Any));
        for (host, port) in [
            ("example.org", 22),
            ("www.example.org", 443),
            ("notexample.org", 443),
            ("example.org.evil.net", 443),
            ("crates.io", 443),
            (".crates.io", 443),
            ("evilcrates.io", 443),
            ("localhost", 443),
            ("10.0.0.7", 443),
            ("", 443),
        ] {
            check(&list, host, port, None);
        }
        check(&[], "example.org", 443, None);
        check(&["*", "*.org", "*.*", "*.127.0.0.1", "http://example.org"], "example.org", 443, None);
    }

    #[test]
    fn tricks_with_names_are_refused() {
        let list = ["example.org", "*.example.org", "127.0.0.1"];
        for host in [
            "evil.net\0.example.org",
            "evil.net\r\n.example.org",
            "user@example.org",
            "evil.net#.example.org",
            "evil.net/.example.org",
            "evil.net%2e.example.org",
            "evil..example.org",
            "127.1",
            "0x7f.0.0.1",
            "0x7f000001",
            "2130706433",
            "017700000001",
            "ex\u{e4}mple.org",
        ] {
            check(&list, host, 443, None);
        }
    }

    #[test]
    fn near_addresses_are_not_public() {
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "::127.0.0.1",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        for address in ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::101:101"] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    proptest! {
        #[test]
        fn only_what_ends_in_a_listed_name_is_permitted(host in "\\PC{0,40}") {
            let permitted = HostList::new(&["*.example.org"]).permit(&host, 443).is_ok();
            let ends = host.trim_end_matches('.').to_ascii_lowercase().ends_with(".example.org");
            prop_assert!(!permitted || ends);
        }
    }
}
