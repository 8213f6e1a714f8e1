//! Little-endian fields, written to a buffer and read back in place.

use crate::ids::{Epoch, NodeId, Partition, Version};

/// Writes fields at the end of a buffer.
pub(crate) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_version(&mut self, value: Version);
    /// A length of two bytes, and so many bytes: a key, a name.
    fn put_short(&mut self, bytes: &[u8]);
    /// A length of four bytes, and so many bytes: a value.
    fn put_long(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_version(&mut self, value: Version) {
        self.extend_from_slice(&value.encode());
    }

    fn put_short(&mut self, bytes: &[u8]) {
        // Keys and names are limited far below.
        debug_assert!(bytes.len() <= usize::from(u16::MAX));
        self.put_u16(bytes.len() as u16);
        self.extend_from_slice(bytes);
    }

    fn put_long(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= u32::MAX as usize);
        self.put_u32(bytes.len() as u32);
        self.extend_from_slice(bytes);
    }
}

/// Reads fields from the front of bytes. `None` where they end too early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (chunk, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*chunk)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.chunk::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.chunk().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.chunk().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.chunk().map(u64::from_le_bytes)
    }

    pub(crate) fn node(&mut self) -> Option<NodeId> {
        self.u16().map(NodeId)
    }

    pub(crate) fn partition(&mut self) -> Option<Partition> {
        self.u16().map(Partition)
    }

    pub(crate) fn epoch(&mut self) -> Option<Epoch> {
        self.u64().map(Epoch)
    }

    pub(crate) fn version(&mut self) -> Option<Version> {
        let (version, rest) = Version::decode(self.0)?;
        self.0 = rest;
        Some(version)
    }

    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.bytes(usize::from(length))
    }

    pub(crate) fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.bytes(length as usize)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.short()?).ok()
    }

    /// What is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// Nothing, if nothing is left.
    pub(crate) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}
