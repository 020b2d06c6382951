//! The first words of an encrypted conversation (a TLS ClientHello): they name the host that is meant, and
//! behind one address there may be many. Only reads bytes.

/// What the first words say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeting {
    /// More must come before it can be told.
    Unfinished,
    /// It names the host, or is no TLS at all.
    Fine,
    /// It names another host, none, or hides it.
    Foreign,
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// Checks the bytes that a client has sent so far to `host`.
pub(super) fn check(bytes: &[u8], host: &str) -> Greeting {
    let Some((kind, rest)) = bytes.split_first() else { return Greeting::Unfinished };
    if *kind != HANDSHAKE {
        return Greeting::Fine;
    }
    let Some((header, rest)) = rest.split_at_checked(4) else { return Greeting::Unfinished };
    let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let Some(record) = rest.get(..length) else { return Greeting::Unfinished };
    // An address has no name to be given.
    let is_address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
    match server_names(record).as_deref() {
        Some([name]) if is_same(name, host) => Greeting::Fine,
        Some([]) if is_address || host == "localhost" => Greeting::Fine,
        Some(_) | None => Greeting::Foreign,
    }
}

fn is_same(name: &[u8], host: &str) -> bool {
    name.eq_ignore_ascii_case(host.strip_suffix('.').unwrap_or(host).as_bytes())
}

/// The names in a hello; nothing if it cannot be read whole.
fn server_names(record: &[u8]) -> Option<Vec<&[u8]>> {
    let mut record = Reader(record);
    if record.take(1)? != [CLIENT_HELLO] {
        return None;
    }
    let length = record.length(3)?;
    let mut hello = Reader(record.take(length)?);
    // Version and random bytes, then session, ciphers and compression.
    hello.take(34)?;
    for width in [1, 2, 1] {
        let length = hello.length(width)?;
        hello.take(length)?;
    }
    let mut found = Vec::new();
    if hello.0.is_empty() {
        return Some(found);
    }
    let length = hello.length(2)?;
    let mut extensions = Reader(hello.take(length)?);
    while !extensions.0.is_empty() {
        let kind = extensions.length(2)?;
        let length = extensions.length(2)?;
        let mut extension = Reader(extensions.take(length)?);
        if kind == usize::from(SERVER_NAME) {
            let length = extension.length(2)?;
            let mut names = Reader(extension.take(length)?);
            while !names.0.is_empty() {
                if names.take(1)? != [HOST_NAME] {
                    return None;
                }
                let length = names.length(2)?;
                found.push(names.take(length)?);
            }
        }
    }
    Some(found)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn length(&mut self, width: usize) -> Option<usize> {
        Some(self.take(width)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefixed(width: usize, bytes: &[u8]) -> Vec<u8> {
        [&bytes.len().to_be_bytes()[8 - width..], bytes].concat()
    }

    fn hello(name: Option<&str>) -> Vec<u8> {
        let mut extensions = vec![0, 43, 0, 2, 3, 4];
        if let Some(name) = name {
            let names = prefixed(2, &[vec![HOST_NAME], prefixed(2, name.as_bytes())].concat());
            extensions.extend([vec![0, 0], prefixed(2, &names)].concat());
        }
        let start = [vec![3; 34], prefixed(1, &[7; 32]), prefixed(2, &[1, 2]), prefixed(1, &[0])].concat();
        let body = [start, prefixed(2, &extensions)].concat();
        let message = [vec![CLIENT_HELLO], prefixed(3, &body)].concat();
        [vec![HANDSHAKE, 3, 1], prefixed(2, &message)].concat()
    }

    #[test]
    fn a_greeting_must_name_the_host() {
        assert_eq!(check(&hello(Some("a.org")), "a.org"), Greeting::Fine);
        assert_eq!(check(&hello(Some("A.ORG")), "a.org."), Greeting::Fine);
        assert_eq!(check(&hello(Some("b.org")), "a.org"), Greeting::Foreign);
        assert_eq!(check(&hello(Some("a.org\0.b.org")), "a.org"), Greeting::Foreign);
        assert_eq!(check(&hello(None), "a.org"), Greeting::Foreign);
        assert_eq!(check(&hello(None), "127.0.0.1"), Greeting::Fine);
        assert_eq!(check(b"GET / HTTP/1.1", "a.org"), Greeting::Fine);
        assert_eq!(check(b"", "a.org"), Greeting::Unfinished);
    }

    proptest! {
        #[test]
        fn it_is_told_only_when_whole(cut in 0usize..400) {
            let hello = hello(Some("a.org"));
            let expected = if cut >= hello.len() { Greeting::Fine } else { Greeting::Unfinished };
            prop_assert_eq!(check(&hello[..cut.min(hello.len())], "a.org"), expected);
        }

        #[test]
        fn any_bytes_are_judged(mut bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(first) = bytes.first_mut() {
                *first = HANDSHAKE;
            }
            prop_assert_ne!(check(&bytes, "a.org"), Greeting::Fine);
        }
    }
}
