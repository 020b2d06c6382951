//! Brings up the loopback of a new network namespace and hands a listener on it to the harness.
//! Nothing here reaches any other network.

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    recv, send, sendmsg, socket_with,
};
use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    net::{Ipv4Addr, TcpListener},
    os::{fd::AsFd, unix::net::UnixStream},
};

/// rtnetlink(7): `RTM_NEWLINK`.
const NEW_LINK: u16 = 16;
/// `NLM_F_REQUEST | NLM_F_ACK`.
const ASK_AND_ANSWER: u16 = 5;
/// `IFF_UP`.
const UP: u32 = 1;
/// The loopback is the first device of every network namespace.
const LOOPBACK: i32 = 1;

/// Brings it up.
pub(super) fn bring_up() -> io::Result<()> {
    let link = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut message = Vec::with_capacity(32);
    message.extend(32u32.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(ASK_AND_ANSWER.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    send(&link, &message, SendFlags::empty())?;
    let mut answer = [0; 256];
    let (length, _) = recv(&link, &mut answer, RecvFlags::empty())?;
    // The header is 16 bytes long; the number of the error, negated, follows.
    match answer[..length].get(16..20).and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(-error)),
        None => Err(io::Error::other("the kernel did not answer")),
    }
}

/// Listens on the loopback and gives the listener to the harness, whose proxy serves it from its own
/// network. Gives the port.
pub(super) fn open_gate(gate: &UnixStream) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let descriptors = [listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(gate, &[IoSlice::new(&[1])], &mut ancillary, SendFlags::empty())?;
    Ok(listener.local_addr()?.port())
}
