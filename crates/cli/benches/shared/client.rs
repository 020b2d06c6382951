//! The least a client can do: one connection, bytes out, bytes in, nothing understood.
//! What it needs is the floor under what any agent could need against the same server.

use anyhow::{Context, ensure};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

/// Ends every chunked body, and occurs nowhere else in one of events.
const END: &[u8] = b"\r\n0\r\n\r\n";

/// One connection, used again for each request.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(url: &str) -> anyhow::Result<Self> {
        let address = url.strip_prefix("http://").context("the scripted model speaks plain HTTP")?;
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        Ok(Self { stream, buffer: vec![0; 256 * 1024] })
    }

    /// Sends one Messages request and reads the answer to its end.
    pub(crate) fn ask(&mut self, body: &[u8]) -> anyhow::Result<()> {
        let mut request = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        self.stream.write_all(&request)?;
        let mut tail = Vec::new();
        while !tail.ends_with(END) {
            let count = self.stream.read(&mut self.buffer)?;
            ensure!(count > 0, "the server left in the middle of an answer");
            tail.extend_from_slice(&self.buffer[count.saturating_sub(END.len())..count]);
            tail.drain(..tail.len().saturating_sub(END.len()));
        }
        Ok(())
    }
}
