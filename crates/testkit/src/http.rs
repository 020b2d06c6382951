//! HTTP/1.1 on one connection, byte by byte: reads requests, writes heads and body pieces.
//! It knows no model API and never decides what is said.

use std::{
    io,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const MAX_HEAD: usize = 64 * 1024;
const MAX_BODY: usize = 64 * 1024 * 1024;
const MAX_HEADERS: usize = 128;

/// One client's connection, with what it sent beyond the request being answered.
pub(crate) struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

/// A whole request.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) arrived: Instant,
    pub(crate) arrived_complete: Instant,
    pub(crate) keep_alive: bool,
}

/// Why no request could be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The client left in the middle of it.
    Gone,
    /// What came is not HTTP, or too much of it.
    Malformed { status: u16, problem: String },
}

/// How the end of a body is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// In chunks; the empty one ends it.
    Chunked,
    /// By a length in the head.
    Length,
}

struct Head {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    minor_version: u8,
    length: usize,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, unread: Vec::new() })
    }

    /// Reads the next request; none when the client is done with the connection.
    pub(crate) async fn read_request(&mut self) -> Result<Option<Incoming>, ReadError> {
        let head = loop {
            if let Some(head) = parse_head(&self.unread)? {
                break head;
            }
            if self.fill().await? == 0 {
                return if self.unread.is_empty() { Ok(None) } else { Err(ReadError::Gone) };
            }
        };
        let arrived = Instant::now();
        self.unread.drain(..head.length);
        let says = |name: &str, value: &str| {
            find(&head.headers, name).is_some_and(|given| given.to_ascii_lowercase().contains(value))
        };
        let keep_alive = head.minor_version > 0 && !says("connection", "close");
        if says("expect", "100-continue") {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let body = if says("transfer-encoding", "chunked") {
            self.read_chunks().await?
        } else {
            self.read_length(content_length(&head.headers)?).await?
        };
        let Head { method, path, headers, .. } = head;
        let arrived_complete = Instant::now();
        Ok(Some(Incoming { method, path, headers, body, arrived, arrived_complete, keep_alive }))
    }

    async fn read_length(&mut self, length: usize) -> Result<Vec<u8>, ReadError> {
        if length > MAX_BODY {
            return Err(malformed(413, "the body is too large"));
        }
        while self.unread.len() < length {
            if self.fill().await? == 0 {
                return Err(ReadError::Gone);
            }
        }
        let rest = self.unread.split_off(length);
        Ok(std::mem::replace(&mut self.unread, rest))
    }

    async fn read_chunks(&mut self) -> Result<Vec<u8>, ReadError> {
        let mut body = Vec::new();
        loop {
            let (line, size) = self.read_chunk_size().await?;
            if size > MAX_BODY || body.len() + size > MAX_BODY {
                return Err(malformed(413, "the body is too large"));
            }
            let chunk = self.read_length(line + size + 2).await?;
            if !chunk.ends_with(b"\r\n") {
                return Err(malformed(400, "a chunk does not end where it says"));
            }
            body.extend_from_slice(&chunk[line..line + size]);
            if size == 0 {
                return Ok(body);
            }
        }
    }

    async fn read_chunk_size(&mut self) -> Result<(usize, usize), ReadError> {
        loop {
            match httparse::parse_chunk_size(&self.unread) {
                Ok(httparse::Status::Complete((line, size))) => {
                    let size = usize::try_from(size).map_err(|_| malformed(413, "the body is too large"))?;
                    return Ok((line, size));
                }
                Ok(httparse::Status::Partial) => {
                    if self.fill().await? == 0 {
                        return Err(ReadError::Gone);
                    }
                }
                Err(_) => return Err(malformed(400, "a chunk has no size")),
            }
        }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.stream.read_buf(&mut self.unread).await
    }

    /// Waits; an error when the client leaves meanwhile.
    pub(crate) async fn wait(&mut self, time: Duration) -> io::Result<()> {
        let deadline = tokio::time::sleep(time);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                () = &mut deadline => return Ok(()),
                read = self.stream.read_buf(&mut self.unread) => if read? == 0 {
                    return Err(closed_early());
                },
            }
        }
    }

    /// Waits until the client leaves.
    pub(crate) async fn wait_for_leave(&mut self) {
        // A broken connection is a client that left, too.
        while self.fill().await.is_ok_and(|read| read > 0) {
            self.unread.clear();
        }
    }

    pub(crate) async fn write_head(&mut self, status: u16, headers: &[(String, String)]) -> io::Result<()> {
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let head = format!("HTTP/1.1 {status} {}\r\n{}\r\n", reason(status), lines.collect::<String>());
        self.stream.write_all(head.as_bytes()).await
    }

    /// Writes one piece of a body, on its own.
    pub(crate) async fn write_piece(&mut self, framing: Framing, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            // An empty chunk would end the body.
            return Ok(());
        }
        match framing {
            Framing::Length => self.stream.write_all(bytes).await,
            Framing::Chunked => {
                // One write, so that chunk and packet agree.
                let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
                chunk.extend_from_slice(bytes);
                chunk.extend_from_slice(b"\r\n");
                self.stream.write_all(&chunk).await
            }
        }
    }

    pub(crate) async fn end_body(&mut self, framing: Framing) -> io::Result<()> {
        match framing {
            Framing::Length => Ok(()),
            Framing::Chunked => self.stream.write_all(b"0\r\n\r\n").await,
        }
    }

    /// Says goodbye in order.
    pub(crate) async fn close(mut self) {
        // The client may have gone first; there is nobody left to tell.
        let _ = self.stream.shutdown().await;
    }

    /// Breaks the connection: the client sees a reset instead of an end.
    pub(crate) fn reset(self) -> io::Result<()> {
        self.stream.set_zero_linger()
    }
}

impl From<io::Error> for ReadError {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// The value of a header; `name` in lower case.
pub(crate) fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
}

fn parse_head(bytes: &[u8]) -> Result<Option<Head>, ReadError> {
    let mut storage = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut storage);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(malformed(431, "the head is too large")),
        Err(error) => return Err(malformed(400, &format!("not an HTTP request: {error}"))),
    };
    let headers = request.headers.iter().map(|header| {
        (header.name.to_ascii_lowercase(), String::from_utf8_lossy(header.value).trim().to_owned())
    });
    Ok(Some(Head {
        method: request.method.unwrap_or_default().to_owned(),
        path: request.path.unwrap_or_default().to_owned(),
        headers: headers.collect(),
        minor_version: request.version.unwrap_or_default(),
        length,
    }))
}

fn content_length(headers: &[(String, String)]) -> Result<usize, ReadError> {
    match find(headers, "content-length") {
        None => Ok(0),
        Some(text) => text.parse().map_err(|_| malformed(400, &format!("content-length: {text}"))),
    }
}

fn malformed(status: u16, problem: &str) -> ReadError {
    ReadError::Malformed { status, problem: problem.to_owned() }
}

fn closed_early() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the client left")
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Overloaded",
        _ => "Scripted",
    }
}
