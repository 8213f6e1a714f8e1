//! The value of a key: a header and a body. `docs/internals/format-keyspace.md` has the picture.
//!
//! One byte says the kind and which fields follow: the moment at which the key expires, the version that the HTTP face
//! gave it. The body of a string is its bytes, or if they are many its [`Outline`]; that of a collection is its id,
//! under which its elements lie in another table. Not here: elements, pieces, tables, what commands make of them.

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Bytes.
    String = 0,
    /// Members in the order of their scores.
    SortedSet = 1,
    /// Fields and values.
    Hash = 2,
    /// Members.
    Set = 3,
    /// Values in the order given.
    List = 4,
}

impl Kind {
    /// Its name as `TYPE` tells it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::SortedSet => "zset",
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::List => "list",
        }
    }
}

/// Stands in the place of a kind's number for a string in pieces.
const IN_PIECES: u8 = 5;
const KIND_BITS: u8 = 0b0000_1111;
const HAS_DEADLINE: u8 = 0b0001_0000;
const HAS_VERSION: u8 = 0b0010_0000;
const FORM_SHIFT: u32 = 6;

/// Bytes of the longest header.
pub const HEADER_BYTES_MAX: usize = 17;

/// Bytes of a collection's id.
pub const ID_BYTES: usize = 6;

/// Bytes of an outline.
pub const OUTLINE_BYTES: usize = 24;

/// Names a collection, or the pieces of a string, in the table of elements. Never given twice while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CollectionId(pub u64);

impl CollectionId {
    /// As it begins the keys of the elements: big-endian, so that ids sort.
    pub fn bytes(self) -> [u8; ID_BYTES] {
        let mut bytes = [0; ID_BYTES];
        bytes.copy_from_slice(&self.0.to_be_bytes()[8 - ID_BYTES..]);
        bytes
    }

    /// From the start of an element's key, or the body of a collection.
    pub fn from_bytes(bytes: &[u8]) -> Option<CollectionId> {
        let mut whole = [0; 8];
        whole[8 - ID_BYTES..].copy_from_slice(bytes.get(..ID_BYTES)?);
        Some(CollectionId(u64::from_be_bytes(whole)))
    }
}

/// How a string came to be, as far as `OBJECT` tells: Redis holds the same bytes in one way or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// Put as a whole: its bytes tell the rest.
    Content = 0,
    /// Changed in place: `raw` however short it is.
    Changed = 1,
    /// The sum of `INCRBYFLOAT`: a text even if it is whole.
    Text = 2,
    /// A copy of an integer: shared with no other key however small it is.
    Copied = 3,
}

/// What stands before the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the key holds.
    pub kind: Kind,
    /// The first millisecond since 1970 at which the key is no more.
    pub deadline_ms: Option<u64>,
    /// The version that the HTTP face gave it; a write by another face takes it away.
    pub version: Option<u64>,
    /// What Redis would make of a string, where its bytes do not tell.
    pub form: Form,
}

impl Header {
    /// Of a kind, without anything else.
    pub fn new(kind: Kind) -> Header {
        Header { kind, deadline_ms: None, version: None, form: Form::Content }
    }

    /// Of a string that expires or not.
    pub fn string(deadline_ms: Option<u64>) -> Header {
        Header { deadline_ms, ..Header::new(Kind::String) }
    }

    /// Whether the key is no more at `now_ms`.
    #[inline]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.deadline_ms.is_some_and(|deadline| deadline <= now_ms)
    }

    /// Appends the header; the body comes after it.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut first = self.kind as u8;
        first |= if self.deadline_ms.is_some() { HAS_DEADLINE } else { 0 };
        first |= if self.version.is_some() { HAS_VERSION } else { 0 };
        first |= (self.form as u8) << FORM_SHIFT;
        out.push(first);
        for field in [self.deadline_ms, self.version].into_iter().flatten() {
            out.extend_from_slice(&field.to_le_bytes());
        }
    }
}

/// What a string in pieces comes to. Strings with the same bytes have the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Outline {
    /// Bytes of the string.
    pub length: u64,
    /// Sum of the hashes of its pieces.
    pub hash: u128,
}

impl Outline {
    /// As it stands after the header: little-endian.
    pub fn bytes(self) -> [u8; OUTLINE_BYTES] {
        let mut bytes = [0; OUTLINE_BYTES];
        bytes[..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..].copy_from_slice(&self.hash.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Outline> {
        let bytes: &[u8; OUTLINE_BYTES] = bytes.try_into().ok()?;
        let (length, hash) = (bytes.first_chunk()?, bytes.last_chunk()?);
        Some(Outline { length: u64::from_le_bytes(*length), hash: u128::from_le_bytes(*hash) })
    }
}

/// What stands after the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'v> {
    /// A string as a whole.
    Bytes(&'v [u8]),
    /// A string whose pieces lie in the table of elements.
    Pieces(Outline),
    /// A collection.
    Collection(CollectionId),
}

/// A value taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'v> {
    /// What stands before the body.
    pub header: Header,
    /// What stands after it.
    pub body: Body<'v>,
}

impl<'v> Entry<'v> {
    /// Takes a value apart; `None` if the bytes are no value of this format.
    #[inline]
    pub fn decode(value: &'v [u8]) -> Option<Entry<'v>> {
        let (&first, mut rest) = value.split_first()?;
        if first == Kind::String as u8 {
            return Some(Entry { header: Header::new(Kind::String), body: Body::Bytes(rest) });
        }
        let number = first & KIND_BITS;
        let kind = match number {
            0 | IN_PIECES => Kind::String,
            1 => Kind::SortedSet,
            2 => Kind::Hash,
            3 => Kind::Set,
            4 => Kind::List,
            _ => return None,
        };
        let form = [Form::Content, Form::Changed, Form::Text, Form::Copied][usize::from(first >> FORM_SHIFT)];
        let mut field = |flag: u8| -> Option<Option<u64>> {
            if first & flag == 0 {
                return Some(None);
            }
            let (bytes, behind) = rest.split_first_chunk::<8>()?;
            rest = behind;
            Some(Some(u64::from_le_bytes(*bytes)))
        };
        let (deadline_ms, version) = (field(HAS_DEADLINE)?, field(HAS_VERSION)?);
        let body = match kind {
            Kind::String if number == IN_PIECES => Body::Pieces(Outline::from_bytes(rest)?),
            Kind::String => Body::Bytes(rest),
            _ if rest.len() == ID_BYTES => Body::Collection(CollectionId::from_bytes(rest)?),
            _ => return None,
        };
        Some(Entry { header: Header { kind, deadline_ms, version, form }, body })
    }

    /// Appends the value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let place = out.len();
        self.header.encode(out);
        match self.body {
            Body::Bytes(bytes) => out.extend_from_slice(bytes),
            Body::Pieces(outline) => {
                out[place] |= IN_PIECES;
                out.extend_from_slice(&outline.bytes());
            }
            Body::Collection(id) => out.extend_from_slice(&id.bytes()),
        }
    }

    /// The id, if it is a collection.
    pub fn collection(&self) -> Option<CollectionId> {
        match self.body {
            Body::Collection(id) => Some(id),
            Body::Bytes(_) | Body::Pieces(_) => None,
        }
    }

    /// Whether it is a string.
    #[inline]
    pub fn is_string(&self) -> bool {
        self.header.kind == Kind::String
    }

    /// The bytes of a string that is stored as a whole; none of anything else.
    pub fn whole(&self) -> &'v [u8] {
        match self.body {
            Body::Bytes(bytes) => bytes,
            Body::Pieces(_) | Body::Collection(_) => &[],
        }
    }

    /// How many bytes a string has; 0 of a collection.
    pub fn length(&self) -> u64 {
        match self.body {
            Body::Bytes(bytes) => bytes.len() as u64,
            Body::Pieces(outline) => outline.length,
            Body::Collection(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let outline = Outline { length: 1 << 40, hash: 77 << 90 };
        for (kind, body) in [
            (Kind::String, Body::Bytes(b"some bytes")),
            (Kind::String, Body::Pieces(outline)),
            (Kind::SortedSet, Body::Collection(CollectionId(77))),
            (Kind::Hash, Body::Collection(CollectionId(77))),
            (Kind::Set, Body::Collection(CollectionId(77))),
            (Kind::List, Body::Collection(CollectionId(77))),
        ] {
            for bits in 0..16u64 {
                let header = Header {
                    kind,
                    deadline_ms: (bits & 1 != 0).then_some(1_700_000_000_000),
                    version: (bits & 2 != 0).then_some(u64::MAX - 1),
                    form: [Form::Content, Form::Changed, Form::Text, Form::Copied][(bits >> 2) as usize],
                };
                let (entry, mut value) = (Entry { header, body }, Vec::new());
                entry.encode(&mut value);
                assert_eq!(Entry::decode(&value), Some(entry));
                assert_eq!(entry.collection(), (kind != Kind::String).then_some(CollectionId(77)));
            }
        }
    }

    #[test]
    fn what_is_no_value_is_told() {
        for bytes in [&[][..], &[6], &[5, 0, 0], &[0x86], &[HAS_DEADLINE, 1, 2], &[1, 0, 0], &[1, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert_eq!(Entry::decode(bytes), None, "{bytes:?}");
        }
    }
}
