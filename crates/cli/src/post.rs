//! Posts hooks over HTTP: no redirect, no proxy, no more of an answer than was asked for, and only to
//! an address that was looked at first. What is posted, and whether it may be, is decided elsewhere.

use anyhow::{Context, bail, ensure};
use ostler_control::hooks::{HttpPost, Post, Posted, Reach};
use reqwest::{
    Client,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect::Policy,
};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// The function hooks are posted with.
pub(crate) fn http_post() -> HttpPost {
    Arc::new(|post| Box::pin(async move { send(post).await.map_err(|error| format!("{error:#}")) }))
}

async fn send(post: Post) -> anyhow::Result<Posted> {
    let host = post.url.host_str().context("the address names no host")?.to_owned();
    let client = client(&host, &addresses(&post).await?, post.url.scheme())?;
    let mut headers = HeaderMap::new();
    for (name, value) in &post.headers {
        let name = HeaderName::try_from(name).with_context(|| format!("'{name}' is no header"))?;
        headers
            .insert(name, HeaderValue::try_from(value).context("a header has a value that cannot be sent")?);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // The error repeats the whole address, which may hold a key.
    let request = client.post(post.url).headers(headers).body(post.body);
    let mut response =
        request.send().await.map_err(reqwest::Error::without_url).context("it cannot be reached")?;
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let mut posted = Posted {
        status: response.status().as_u16(),
        content_type: content_type.unwrap_or_default().to_owned(),
        body: Vec::new(),
    };
    while posted.body.len() <= post.most {
        let piece =
            response.chunk().await.map_err(reqwest::Error::without_url).context("its answer broke off")?;
        let Some(piece) = piece else { break };
        let room = post.most + 1 - posted.body.len();
        posted.body.extend_from_slice(&piece[..piece.len().min(room)]);
    }
    Ok(posted)
}

/// A client for one request, which dials the addresses that were looked at and no others.
fn client(host: &str, addresses: &[SocketAddr], scheme: &str) -> anyhow::Result<Client> {
    let builder = Client::builder()
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .connect_timeout(CONNECT)
        .resolve_to_addrs(host, addresses);
    // Loading the root certificates takes time that a plain request need not spend.
    let builder = if scheme == "http" { builder.tls_certs_only([]) } else { builder };
    builder.build().context("cannot set up an HTTP client")
}

/// Where the address leads. One that must not be reached among several is reason enough to refuse.
async fn addresses(to: &Post) -> anyhow::Result<Vec<SocketAddr>> {
    let port = to.url.port_or_known_default().context("the address has no port")?;
    let host = to.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port))
        .await
        .with_context(|| format!("the address of {host} cannot be found"))?
        .collect();
    ensure!(!found.is_empty(), "{host} has no address");
    for address in &found {
        check(address.ip(), to.reach).with_context(|| format!("{host} leads to {}", address.ip()))?;
    }
    Ok(found)
}

fn check(address: IpAddr, reach: Reach) -> anyhow::Result<()> {
    match (place(address), reach) {
        (Place::Public | Place::Local, _) | (Place::Private, Reach::Listed) => Ok(()),
        (Place::Private, Reach::PublicOrLocal) => {
            bail!("a private network is posted to only if allowedHttpHookUrls names the address")
        }
        (Place::Never, _) => bail!("nothing is posted there"),
    }
}

/// What kind of place an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Public,
    /// This machine.
    Local,
    /// Somebody's network.
    Private,
    /// Neighbours without a router between, where clouds keep credentials, and what is no single machine.
    Never,
}

fn place(address: IpAddr) -> Place {
    match address.to_canonical() {
        IpAddr::V4(address) => place_v4(address),
        IpAddr::V6(address) => match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 1] => Place::Local,
            [0xfe80..=0xfebf | 0xff00..=0xffff, ..] | [0, 0, 0, 0, 0, 0, ..] | [0xfd00, 0x0ec2, ..] => {
                Place::Never
            }
            [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Place::Private,
            // Addresses that carry another one inside.
            [0x0064, 0xff9b, _, _, _, _, high, low] | [0x2002, high, low, ..] => {
                match place_v4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))) {
                    Place::Public => Place::Public,
                    Place::Local | Place::Private | Place::Never => Place::Never,
                }
            }
            _ => Place::Public,
        },
    }
}

fn place_v4(address: Ipv4Addr) -> Place {
    match address.octets() {
        [127, ..] => Place::Local,
        [0 | 224..=255, ..] | [169, 254, ..] | [192, 0, 0, _] => Place::Never,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] | [198, 18 | 19, ..] => {
            Place::Private
        }
        _ => Place::Public,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_place(addresses: &[&str], expect: Place) {
        for address in addresses {
            assert_eq!(place(address.parse().unwrap()), expect, "{address}");
        }
    }

    #[test]
    fn every_spelling_of_an_address_is_the_same_place() {
        check_place(&["93.184.216.34", "2606:4700::1", "64:ff9b::5db8:d822"], Place::Public);
        check_place(&["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"], Place::Local);
        check_place(
            &["10.1.2.3", "172.31.0.1", "192.168.0.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1"],
            Place::Private,
        );
        let never =
            ["0.0.0.0", "169.254.169.254", "255.255.255.255", "224.0.0.1", "::", "fe80::1", "ff02::1"];
        check_place(&never, Place::Never);
        check_place(
            &["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "fd00:ec2::254"],
            Place::Never,
        );
    }

    #[test]
    fn a_private_place_must_be_listed() {
        let private = "10.0.0.1".parse().unwrap();
        assert!(check(private, Reach::PublicOrLocal).is_err() && check(private, Reach::Listed).is_ok());
        assert!(check("169.254.169.254".parse().unwrap(), Reach::Listed).is_err());
        assert!(check("127.0.0.1".parse().unwrap(), Reach::PublicOrLocal).is_ok());
    }
}
