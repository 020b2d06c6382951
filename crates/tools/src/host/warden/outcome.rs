//! What a warden tells the harness over the control socket: how the command ended, or why it never
//! began. Plain bytes both ways; never blocks.

use std::{
    io::{self, Read, Write},
    os::unix::{net::UnixStream, process::ExitStatusExt},
    process::ExitStatus,
};

const ENDED: u8 = b'S';
const FAILED: u8 = b'E';
/// The kinds of failure that callers tell apart.
const KINDS: [(io::ErrorKind, i32); 3] =
    [(io::ErrorKind::NotFound, 1), (io::ErrorKind::PermissionDenied, 2), (io::ErrorKind::Unsupported, 3)];
/// Longer explanations are cut.
const MOST: usize = 4096;

/// Says how the command ended.
pub(super) fn report_end(mut control: &UnixStream, raw_status: i32) {
    let [a, b, c, d] = raw_status.to_le_bytes();
    // A harness that is gone has no use for it, and its going is noticed elsewhere.
    let _ = control.write_all(&[ENDED, a, b, c, d]);
}

/// Says why the command could not be started as ordered.
pub(super) fn report_failure(mut control: &UnixStream, error: &io::Error) {
    let mut bytes = vec![FAILED];
    let number = KINDS.iter().find(|(kind, _)| *kind == error.kind()).map_or(0, |(_, number)| *number);
    bytes.extend(number.to_le_bytes());
    bytes.extend(error.to_string().bytes().take(MOST));
    // As above.
    let _ = control.write_all(&bytes);
}

/// What has been told so far; the first word counts. `None` when nothing was.
pub(crate) fn read(mut control: &UnixStream) -> io::Result<Option<ExitStatus>> {
    control.set_nonblocking(true)?;
    let mut bytes = Vec::new();
    let mut piece = [0; 512];
    while bytes.len() < MOST {
        match control.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    let Some((kind, rest)) = bytes.split_first() else { return Ok(None) };
    let Some((number, text)) = rest.split_first_chunk() else { return Ok(None) };
    let number = i32::from_le_bytes(*number);
    match *kind {
        ENDED => Ok(Some(ExitStatus::from_raw(number))),
        _ => Err(failure(number, &String::from_utf8_lossy(text))),
    }
}

fn failure(number: i32, text: &str) -> io::Error {
    let kind =
        KINDS.iter().find(|(_, known)| *known == number).map_or(io::ErrorKind::Other, |(kind, _)| *kind);
    io::Error::new(kind, text.to_owned())
}
