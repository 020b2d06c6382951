//! Which addresses may be dialled. An address is parsed once, by the rules browsers use, and judged
//! by what it is rather than how it is spelled.

use super::Reach;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// An address that is not dialled, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// Reads an address and makes sure that it may be fetched: http or https, a real host, no
/// credentials, nothing private. Names are judged again by what they resolve to.
pub fn check(text: &str, reach: &Reach) -> Result<Url, Refused> {
    let refused = |why: &str| Refused(format!("cannot fetch '{}': {why}", text.escape_debug()));
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(refused("the address holds blanks or control characters"));
    }
    let url = Url::parse(text).map_err(|error| refused(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("only http and https are fetched"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("addresses with a user or a password are not fetched"));
    }
    let Some(host) = url.host() else { return Err(refused("it has no host")) };
    if is_named(&url, reach) {
        return Ok(url);
    }
    match host {
        Host::Ipv4(address) if !is_public(address.into()) => {
            Err(refused("the host is not on the public network"))
        }
        Host::Ipv6(address) if !is_public(address.into()) => {
            Err(refused("the host is not on the public network"))
        }
        Host::Domain(name) if is_local_name(name) => Err(refused("the name belongs to a private network")),
        Host::Domain(_) | Host::Ipv4(_) | Host::Ipv6(_) => Ok(url),
    }
}

/// Whether the user has named the host, or the host with its port.
pub(super) fn is_named(url: &Url, reach: &Reach) -> bool {
    let host = url.host_str().unwrap_or_default();
    let with_port = url.port_or_known_default().map(|port| format!("{host}:{port}"));
    reach.private.iter().any(|named| named == host || Some(named) == with_port.as_ref())
}

fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    !name.contains('.')
        || ["localhost", "local", "internal", "lan", "home", "corp", "arpa", "onion"].contains(&last)
}

/// Whether an address is anybody's on the public network.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded_v4(address) {
            Some(inner) => is_public_v4(inner),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (18..20).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        // Metadata services of clouds that are not link-local.
        || (a == 168 && b == 63 && c == 129))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let first = address.segments()[0];
    // Global unicast is 2000::/3; of that, documentation, Teredo and benchmarking are nobody's.
    (0x2000..0x4000).contains(&first)
        && !(first == 0x2001 && address.segments()[1] < 0x0200)
        && !(first == 0x2001 && address.segments()[1] == 0x0db8)
        && first != 0x3fff
}

/// The IPv4 address that an IPv6 address stands for, in any of the ways this is written.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let from = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    let is_mapped = parts[..5] == [0; 5] && matches!(parts[5], 0 | 0xffff);
    let stands_alone = [Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST].contains(&address);
    match parts {
        [.., high, low] if is_mapped && !stands_alone => Some(from(high, low)),
        // NAT64 and 6to4.
        [0x64, 0xff9b, .., high, low] | [0x2002, high, low, ..] => Some(from(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_refused_in_every_spelling() {
        let open = Reach::default();
        for text in [
            "http://localhost/",
            "http://LOCALHOST./x",
            "http://127.0.0.1",
            "http://127.1",
            "http://2130706433",
            "http://0x7f.1",
            "http://0177.0.0.1",
            "http://[::1]",
            "http://[::ffff:127.0.0.1]",
            "http://[::ffff:7f00:1]",
            "http://[::127.0.0.1]",
            "http://[64:ff9b::7f00:1]",
            "http://[2002:7f00:1::]",
            "http://0.0.0.0",
            "http://[::]",
            "http://10.0.0.1",
            "http://172.16.3.4",
            "http://192.168.1.1",
            "http://169.254.169.254/latest/meta-data",
            "http://[fe80::1]",
            "http://[fd00:ec2::254]",
            "http://100.64.0.1",
            "http://metadata.google.internal",
            "http://printer.local",
            "http://router",
            "http://foo.localhost",
            "http://168.63.129.16",
            "http://224.0.0.1",
            "file:///etc/passwd",
            "ftp://example.org",
            "javascript:alert(1)",
            "http://user:pass@example.org",
            "http://user@example.org",
            "http://exa mple.org",
            "http://example.org\0.evil.com",
            "http://example.org\n",
            "http://①②⑦.⓪.⓪.①",
            "//example.org",
            "example.org",
            "http://",
            "http://[::1%25lo]",
        ] {
            assert!(check(text, &open).is_err(), "{text}");
        }
        for text in [
            "https://example.org/a?b=c#d",
            "http://8.8.8.8",
            "https://[2606:4700::1111]/",
            "https://müller.de",
        ] {
            assert!(check(text, &open).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_named_host_is_reached_on_its_port_only() {
        let reach = Reach { private: vec!["localhost:3000".into()] };
        assert!(check("http://localhost:3000/x", &reach).is_ok());
        assert!(check("http://localhost:3001/x", &reach).is_err());
        assert!(check("http://localhost/x", &reach).is_err());
    }
}
