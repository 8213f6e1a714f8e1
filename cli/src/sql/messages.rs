//! Messages of PostgreSQL's protocol, as bytes. They are read with suspicion: nothing is reserved before it has
//! arrived.

use std::io::{self, Read, Write};

use super::backend::{Column, Report};

/// The longest message that is read.
const BODY_MAX: u32 = 1 << 30;

/// A message of the server: what kind it is, and its bytes.
pub(super) struct Message {
    pub(super) tag: u8,
    pub(super) body: Vec<u8>,
}

/// Reads a message.
pub(super) fn read(from: &mut impl Read) -> io::Result<Message> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]).checked_sub(4);
    let length = length.filter(|&length| length <= BODY_MAX).ok_or_else(malformed)?;
    let mut body = Vec::new();
    from.take(u64::from(length)).read_to_end(&mut body)?;
    if body.len() != length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Message { tag: head[0], body })
}

/// Sends a message.
pub(super) fn write(to: &mut impl Write, tag: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + 4).map_err(|_| malformed())?;
    let mut bytes = Vec::with_capacity(body.len() + 5);
    bytes.push(tag);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(body);
    to.write_all(&bytes)?;
    to.flush()
}

/// What is said of a server that says what cannot be read.
pub(super) fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the server's answer is malformed")
}

/// Reads the parts of a message.
pub(super) struct Parts<'m>(pub(super) &'m [u8]);

impl<'m> Parts<'m> {
    /// So many bytes.
    pub(super) fn bytes(&mut self, count: usize) -> io::Result<&'m [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A number of two bytes.
    pub(super) fn u16(&mut self) -> io::Result<u16> {
        self.bytes(2)?.try_into().map(u16::from_be_bytes).map_err(|_| malformed())
    }

    /// A number of four bytes.
    pub(super) fn i32(&mut self) -> io::Result<i32> {
        self.bytes(4)?.try_into().map(i32::from_be_bytes).map_err(|_| malformed())
    }

    /// A text that ends with a zero.
    pub(super) fn text(&mut self) -> io::Result<&'m str> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or_else(malformed)?;
        let text = std::str::from_utf8(self.bytes(end)?).map_err(|_| malformed())?;
        self.bytes(1)?;
        Ok(text)
    }
}

/// The columns that a RowDescription tells.
pub(super) fn columns(body: &[u8]) -> io::Result<Vec<Column>> {
    let mut parts = Parts(body);
    let count = parts.u16()?;
    let mut column = || {
        let name = parts.text()?.to_owned();
        parts.bytes(6)?;
        let oid = parts.i32()?.cast_unsigned();
        parts.bytes(8)?;
        Ok(Column { name, oid })
    };
    (0..count).map(|_| column()).collect()
}

/// The values of a DataRow.
pub(super) fn values(body: &[u8]) -> io::Result<Vec<Option<&str>>> {
    let mut parts = Parts(body);
    let count = parts.u16()?;
    let mut value = || match parts.i32()? {
        -1 => Ok(None),
        length => {
            let bytes = parts.bytes(usize::try_from(length).map_err(|_| malformed())?)?;
            std::str::from_utf8(bytes).map(Some).map_err(|_| malformed())
        }
    };
    (0..count).map(|_| value()).collect()
}

/// What an ErrorResponse or a NoticeResponse says.
pub(super) fn report(body: &[u8]) -> io::Result<Report> {
    let mut parts = Parts(body);
    let mut report = Report::default();
    loop {
        let kind = parts.bytes(1)?[0];
        if kind == 0 {
            return Ok(report);
        }
        let text = parts.text()?.to_owned();
        match kind {
            b'S' => report.severity = text,
            b'C' => report.code = text,
            b'M' => report.message = text,
            b'D' => report.detail = Some(text),
            b'H' => report.hint = Some(text),
            b'W' => report.context = Some(text),
            b'P' => report.position = text.parse().ok(),
            _ => {}
        }
    }
}
