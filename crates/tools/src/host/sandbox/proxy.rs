//! The only way out of a cut network: an HTTP proxy in the harness that lets listed hosts through. It
//! dials the very address it has looked at, and passes nothing on that it has not understood.

use super::{
    greeting::{self, Greeting},
    host_list::{HostList, Permit, is_public},
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::{
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    net::SocketAddr,
    os::{fd::OwnedFd, unix::net::UnixStream},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream, lookup_host},
    time::timeout,
};

/// Longer requests are refused.
const MAX_HEAD: usize = 32 * 1024;
const MAX_HEADERS: usize = 100;
/// More connections wait for others to end.
const MAX_CONNECTIONS: usize = 128;
/// How long a client may take to say what it wants, and a host to answer the call.
const PATIENCE: Duration = Duration::from_secs(20);

/// Takes a listener that the warden sends through the gate and serves it until dropped.
pub(crate) async fn serve_gate(gate: UnixStream, hosts: HostList) {
    // A gate that breaks means the warden is gone; what it could not do, it tells by itself.
    if let Ok(listener) = receive(gate).await {
        serve(listener, hosts).await;
    }
}

/// Serves a listener until dropped.
pub async fn serve(listener: TcpListener, hosts: HostList) {
    let mut open = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if open.len() < MAX_CONNECTIONS => match accepted {
                Ok((client, _)) => open.push(attend(client, &hosts)),
                // Out of descriptors, say: others will be closed.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(()) = open.next() => {}
        }
    }
}

async fn receive(gate: UnixStream) -> io::Result<TcpListener> {
    gate.set_nonblocking(true)?;
    let gate = tokio::net::UnixStream::from_std(gate)?;
    let descriptor = gate.async_io(tokio::io::Interest::READABLE, || receive_descriptor(&gate)).await?;
    let listener = std::net::TcpListener::from(descriptor);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn receive_descriptor(gate: &tokio::net::UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    recvmsg(gate, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    let descriptors = ancillary.drain().filter_map(|message| {
        let RecvAncillaryMessage::ScmRights(descriptors) = message else { return None };
        Some(descriptors)
    });
    descriptors.flatten().next().ok_or_else(|| io::Error::other("the gate was closed"))
}

/// What a client asked for.
struct Request {
    host: String,
    port: u16,
    kind: Kind,
}

enum Kind {
    /// A tunnel.
    Connect,
    /// One exchange: the head to send on, and how much of a body follows it.
    Forward { head: Vec<u8>, body: u64 },
}

async fn attend(mut client: TcpStream, hosts: &HostList) {
    let outcome = match timeout(PATIENCE, read_head(&mut client)).await {
        Ok(Ok((head, rest))) => match exchange(&mut client, &head, &rest, hosts).await {
            Ok(()) => return,
            Err(refusal) => refusal,
        },
        Ok(Err(_)) | Err(_) => return,
    };
    let (status, why) = outcome;
    let body = format!("ostler: {why}\n");
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nX-Proxy-Error: blocked-by-sandbox\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    // A client that is gone has no use for it.
    let _ = client.write_all(answer.as_bytes()).await;
    let _ = client.shutdown().await;
}

/// A status line and a reason for the client.
type Refusal = (&'static str, String);

async fn exchange(client: &mut TcpStream, head: &[u8], rest: &[u8], hosts: &HostList) -> Result<(), Refusal> {
    let request = parse(head).map_err(|why| ("400 Bad Request", why.to_owned()))?;
    let mut server = dial(&request, hosts).await?;
    // Past this point a failure is the connection's own, and both sides see it.
    match request.kind {
        Kind::Connect => {
            let tunnel = tunnel(client, &mut server, rest, &request.host);
            drop(tunnel.await);
        }
        Kind::Forward { head, body } => drop(forward(client, server, &head, rest, body).await),
    }
    Ok(())
}

/// Lets bytes pass both ways, once it is clear that an encrypted conversation is with the permitted host.
async fn tunnel(client: &mut TcpStream, server: &mut TcpStream, rest: &[u8], host: &str) -> io::Result<()> {
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    let mut first = rest.to_vec();
    loop {
        match greeting::check(&first, host) {
            Greeting::Fine => break,
            Greeting::Foreign => return Err(io::Error::other("the greeting names another host")),
            Greeting::Unfinished => {
                // Some protocols let the server speak first.
                let mut answer = [0; 4096];
                tokio::select! {
                    read = client.read_buf(&mut first) => if read? == 0 { break },
                    read = server.read(&mut answer), if first.is_empty() => match read? {
                        0 => return Ok(()),
                        length => client.write_all(&answer[..length]).await?,
                    },
                }
            }
        }
    }
    server.write_all(&first).await?;
    copy_bidirectional(client, server).await.map(drop)
}

/// Sends one request on and the answer back. Bytes after the request's body are not passed on: a
/// second request could name another host.
async fn forward(
    client: &mut TcpStream,
    mut server: TcpStream,
    head: &[u8],
    rest: &[u8],
    body: u64,
) -> io::Result<()> {
    server.write_all(head).await?;
    let at_hand = rest.len().min(usize::try_from(body).unwrap_or(usize::MAX));
    server.write_all(&rest[..at_hand]).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let mut remaining = (&mut from_client).take(body - at_hand as u64);
    let up = tokio::io::copy(&mut remaining, &mut to_server);
    let down = tokio::io::copy(&mut from_server, &mut to_client);
    // A server may answer before it has read everything; then the answer counts.
    futures_util::future::select(
        Box::pin(down),
        Box::pin(async { up.await.and(std::future::pending().await) }),
    )
    .await
    .factor_first()
    .0?;
    to_client.shutdown().await
}

/// Reads up to the empty line; gives the head with it, and what came after.
async fn read_head(client: &mut TcpStream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Ok((bytes, rest));
        }
        if bytes.len() > MAX_HEAD || client.read_buf(&mut bytes).await? == 0 {
            return Err(io::Error::other("the request has no end"));
        }
    }
}

fn parse(head: &[u8]) -> Result<Request, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let is_whole = parsed.parse(head).is_ok_and(|status| status.is_complete());
    let (true, Some(method), Some(target)) = (is_whole, parsed.method, parsed.path) else {
        return Err("the request cannot be read");
    };
    if method == "CONNECT" {
        let (host, port) = authority(target, None)?;
        return Ok(Request { host, port, kind: Kind::Connect });
    }
    let Some(rest) = target.strip_prefix("http://") else {
        return Err("only http and CONNECT are spoken here");
    };
    let split = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, port) = authority(&rest[..split], Some(80))?;
    let path = if rest[split..].starts_with('/') {
        rest[split..].to_owned()
    } else {
        format!("/{}", &rest[split..])
    };
    let body = body_length(parsed.headers)?;
    let mut head =
        format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", &rest[..split]).into_bytes();
    for header in parsed.headers.iter().filter(|header| !is_between_hops(header.name)) {
        head.extend([header.name.as_bytes(), b": ", header.value, b"\r\n"].concat());
    }
    head.extend(b"\r\n");
    Ok(Request { host, port, kind: Kind::Forward { head, body } })
}

/// Takes `host:port` apart. Names with a user before them are refused: what is dialled must be what is read.
fn authority(text: &str, default: Option<u16>) -> Result<(String, u16), &'static str> {
    if text.contains('@') {
        return Err("a user in an address is refused");
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().ok()),
        Some(_) | None => (text, default),
    };
    let port = port.filter(|port| *port != 0).ok_or("the port is missing or wrong")?;
    Ok((host.to_owned(), port))
}

fn body_length(headers: &[httparse::Header<'_>]) -> Result<u64, &'static str> {
    let named =
        |name: &'static str| headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    if named("transfer-encoding").next().is_some() {
        return Err("a body of unknown length is refused; send a Content-Length");
    }
    let mut lengths = named("content-length");
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(0),
        (Some(length), None) if length.value.iter().all(u8::is_ascii_digit) => {
            let text = std::str::from_utf8(length.value).unwrap_or_default();
            text.parse().map_err(|_| "the body's length cannot be read")
        }
        (Some(_), _) => Err("the body's length cannot be read"),
    }
}

fn is_between_hops(name: &str) -> bool {
    let names = [
        "host",
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "te",
        "trailer",
        "upgrade",
    ];
    names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Connects to a permitted host. All its addresses must be ones that it may have.
async fn dial(request: &Request, hosts: &HostList) -> Result<TcpStream, Refusal> {
    let Request { host, port, .. } = request;
    let forbidden = |why: String| ("403 Forbidden", why);
    let permit = hosts.permit(host, *port).map_err(forbidden)?;
    let unreachable = |why: String| ("502 Bad Gateway", why);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let addresses: Vec<SocketAddr> = match timeout(PATIENCE, lookup_host((bare, *port))).await {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => return Err(unreachable(format!("{host} cannot be resolved: {error}"))),
        Err(_) => return Err(unreachable(format!("{host} cannot be resolved in time"))),
    };
    if permit == Permit::Public
        && let Some(near) = addresses.iter().find(|address| !is_public(address.ip()))
    {
        return Err(forbidden(format!("{host} leads to {}, which is not on the public internet", near.ip())));
    }
    match timeout(PATIENCE, TcpStream::connect(addresses.as_slice())).await {
        Ok(Ok(server)) => Ok(server),
        Ok(Err(error)) => Err(unreachable(format!("{host}:{port} cannot be reached: {error}"))),
        Err(_) => Err(unreachable(format!("{host}:{port} does not answer"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(head: &str) -> Result<(String, u16, Option<String>), &'static str> {
        let request = parse(head.as_bytes())?;
        let head = match request.kind {
            Kind::Connect => None,
            Kind::Forward { head, .. } => Some(String::from_utf8(head).unwrap()),
        };
        Ok((request.host, request.port, head))
    }

    #[test]
    fn requests_are_taken_apart() {
        assert_eq!(
            parsed("CONNECT a.org:443 HTTP/1.1\r\nHost: b.org\r\n\r\n"),
            Ok(("a.org".into(), 443, None))
        );
        let sent = "GET /x?y HTTP/1.1\r\nHost: a.org:81\r\nConnection: close\r\nAccept: */*\r\n\r\n";
        assert_eq!(
            parsed(
                "GET http://a.org:81/x?y HTTP/1.1\r\nHost: evil.net\r\nProxy-Connection: keep-alive\r\nAccept: */*\r\n\r\n"
            ),
            Ok(("a.org".into(), 81, Some(sent.into())))
        );
    }

    #[test]
    fn doubtful_requests_are_refused() {
        for head in [
            "CONNECT a.org HTTP/1.1\r\n\r\n",
            "CONNECT a.org:0 HTTP/1.1\r\n\r\n",
            "CONNECT u@a.org:443 HTTP/1.1\r\n\r\n",
            "GET http://u:p@a.org/ HTTP/1.1\r\n\r\n",
            "GET https://a.org/ HTTP/1.1\r\n\r\n",
            "GET file:///etc/passwd HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
            "POST http://a.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST http://a.org/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "nonsense",
        ] {
            assert!(parsed(head).is_err(), "{head}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
