//! The network: cut, open, or some hosts through the proxy. All on this machine's loopback.

use crate::cage::{Cage, backends, cages};
use ostler_tools::host::{Backend, Network};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
    path::Path,
    process::Stdio,
};

#[test]
fn a_cut_network_reaches_nothing() {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    udp.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    for cage in cages() {
        cage.refuses(&format!("echo x > /dev/tcp/127.0.0.1/{tcp_port}"));
        cage.refuses("timeout 5 bash -c 'echo x > /dev/tcp/1.1.1.1/53'");
        cage.refuses("getent hosts example.org");
        cage.run(&format!("echo x > /dev/udp/127.0.0.1/{udp_port}; echo x > /dev/udp/1.1.1.1/53"));
    }
    assert!(tcp.accept().is_err(), "somebody connected");
    assert!(udp.recv(&mut [0; 8]).is_err(), "somebody sent something");
}

#[test]
fn a_namespace_has_a_loopback_of_its_own() {
    for cage in cages().into_iter().filter(|cage| cage.backend != Backend::Landlock) {
        let command = "perl -MIO::Socket::INET -e '
            my $l = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\") or exit 1;
            my $c = IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => $l->sockport) or exit 2;
            exit 0'";
        cage.allows(command);
    }
}

#[test]
fn sockets_of_other_programs_cannot_be_reached() {
    for cage in cages() {
        let outside = UnixListener::bind(cage.outside.join("agent.sock")).unwrap();
        let inside = UnixListener::bind(cage.project.join("agent.sock")).unwrap();
        let name = format!("ostler-test-{}-{}", std::process::id(), cage.backend);
        let nameless = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let connect = |path: &str| {
            format!(
                "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or exit 1; connect(S, pack_sockaddr_un({path})) or exit 2; exit 0'"
            )
        };
        for path in [
            format!("\"{}/agent.sock\"", cage.outside.display()),
            format!("\"{}/agent.sock\"", cage.project.display()),
            format!("\"\\0{name}\""),
        ] {
            cage.refuses(&connect(&path));
        }
        for listener in [outside, inside, nameless] {
            listener.set_nonblocking(true).unwrap();
            assert!(listener.accept().is_err(), "{}: somebody connected", cage.backend);
        }
        if cage.backend != Backend::Landlock {
            assert_eq!(
                cage.allows("ls -A /run | grep -v ostler-warden; true").output,
                "",
                "{}",
                cage.backend
            );
        }
    }
}

#[test]
fn an_open_network_is_the_machines_own() {
    for mut cage in cages() {
        cage.bounds.network = Network::Open;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        cage.allows(&format!("echo hello > /dev/tcp/127.0.0.1/{port}"));
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello\n");
    }
}

/// A web server for a few requests; it says what it was asked.
fn serve(listener: TcpListener) -> std::thread::JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let mut asked = Vec::new();
        loop {
            let (mut client, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && client.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            let is_last = head.starts_with("GET /last");
            asked.push(head);
            client
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
                .unwrap();
            if is_last {
                return asked;
            }
        }
    })
}

/// Runs a command while a runtime serves the proxy, as in the product.
fn run_with_runtime(cage: &Cage, command: &str) -> (i32, String) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (output, end) = std::io::pipe().unwrap();
        let group = cage.launch(&format!("exec 2>&1; {command}"), Stdio::from(end)).unwrap();
        let read = tokio::task::spawn_blocking(move || std::io::read_to_string(output).unwrap());
        group.ended().await.unwrap();
        let text = read.await.unwrap();
        (group.finish().unwrap().code().unwrap_or(-1), text)
    })
}

#[test]
fn listed_hosts_are_reached_through_the_proxy_and_no_others() {
    if !Path::new("/usr/bin/curl").exists() {
        println!("not tested: there is no curl");
        return;
    }
    for backend in backends() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut cage = Cage::new(backend);
        cage.bounds.network = Network::Hosts(vec![format!("localhost:{port}"), "*.example.org".into()]);
        let curl = "curl -sS --max-time 20 --noproxy ''";
        if backend == Backend::Landlock {
            let (code, _) = run_with_runtime(&cage, &format!("{curl} http://localhost:{port}/"));
            assert_ne!(code, 0, "with landlock the network stays cut");
            continue;
        }
        let server = serve(listener);
        let ok = |options: &str, path: &str| {
            let (code, text) =
                run_with_runtime(&cage, &format!("{curl} {options} http://localhost:{port}{path}"));
            assert_eq!((code, text.as_str()), (0, "hello"), "{backend}: {options} {path}");
        };
        ok("", "/one");
        ok("--proxytunnel", "/two");
        ok("-d body -H 'Host: evil.net'", "/three");
        for (url, why) in [
            ("http://127.0.0.1:1/", "not among"),
            (&*format!("http://127.0.0.1:{port}/"), "not among"),
            ("http://evil.net/", "not among"),
            ("http://user@evil.net:80/", "not among"),
            ("http://169.254.169.254/latest/meta-data", "not among"),
            ("http://2130706433/", "not"),
        ] {
            let (_, text) = run_with_runtime(&cage, &format!("{curl} {url}"));
            assert!(text.contains(why) && !text.contains("hello"), "{backend}: {url}: {text}");
        }
        let (code, _) = run_with_runtime(&cage, &format!("{curl} --noproxy '*' http://localhost:{port}/"));
        assert_ne!(code, 0, "{backend}: there is a way around the proxy");
        ok("", "/last");
        let asked = server.join().unwrap();
        assert_eq!(asked.len(), 4, "{backend}: {asked:?}");
        assert!(
            asked.iter().all(|head| head.contains("localhost:") || head.contains("evil.net")),
            "{asked:?}"
        );
        assert!(!asked[2].contains("evil.net"), "the host is the one that was dialled: {}", asked[2]);
    }
}
