//! Types and values of SQL: PostgreSQL's names, numbers and formats, over what columns of rows hold.
//!
//! | file | what it is |
//! |---|---|
//! | `datum` | a value while a statement runs |
//! | `text`, `binary` | values as PostgreSQL's clients write and read them |
//! | `float`, `array`, `json`, `json_raw` | the texts of numbers of floating point, of arrays and rows, of JSON |
//! | `moment`, `moment_text` | dates and times: the calendar, what they are written as, what they are read from |
//! | `date_style` | the parameter `DateStyle` |
//! | `zoned_time` | times of day with the offset of a zone |
//! | `interval` | lengths of time in months, days and microseconds |
//! | `network` | addresses of networks and of devices |
//! | `tid` | places of rows |
//! | `bits`, `money` | strings of bits, sums of money |
//! | `range`, `range_values`, `range_text` | ranges of anything, those of types, and their texts and bytes |
//! | `precision` | digits of seconds and fields of intervals that types declare |
//! | `environment` | state that values depend on besides their arguments: the time, the zone, the session |
//! | `text_encoding` | encodings that clients read and write |
//! | `packed` | intervals, arrays and ranges as columns of rows hold them |
//! | `rounded` | values of times rounded to what their types declare |
//! | `cast` | values of one type as those of another |
//! | `user` | types that users have made |
//! | `refusal` | errors that several of them make |

use std::fmt;

use quipu_rows::{Collation, DataType};

pub mod array;
pub mod binary;
pub mod bits;
pub mod cast;
pub mod date_style;
pub mod datum;
pub mod environment;
pub mod float;
pub mod interval;
pub mod json;
pub mod json_raw;
pub mod moment;
pub mod moment_text;
pub mod money;
pub mod network;
pub mod packed;
mod precision;
pub mod range;
pub mod range_text;
pub mod range_values;
pub(crate) mod refusal;
mod rounded;
#[cfg(test)]
mod tests;
pub mod text;
pub mod text_encoding;
pub(crate) mod tid;
pub mod user;
pub mod zoned_time;

use crate::error::{Result, SqlError, SqlState};
use crate::types::user::{Composite, UserType};

/// The type of a value: which, whether it is an array of such, and what is declared in parentheses.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlType {
    /// The type of the value, or of the elements.
    pub base: BaseType,
    /// Whether it is an array.
    pub is_array: bool,
    /// What is declared in parentheses, as PostgreSQL's `atttypmod` has it; -1 if nothing is.
    pub modifier: i32,
}

/// The bits of the scale in the modifier of `numeric`, and the highest of them.
const SCALE_BITS: i32 = 0x7ff;
const SCALE_SIGN: i32 = 0x400;

/// A type without what is declared in parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BaseType {
    /// A literal in quotes, or NULL, whose type is not known yet.
    Unknown,
    /// No value: what functions return that are called for what they do.
    Void,
    /// `boolean`
    Bool,
    /// `smallint`
    Int2,
    /// `integer`
    Int4,
    /// `bigint`
    Int8,
    /// `real`
    Float4,
    /// `double precision`
    Float8,
    /// `numeric`
    Numeric,
    /// `text`
    Text,
    /// `character varying`
    Varchar,
    /// `character`: padded with blanks
    Char,
    /// `"char"`: one byte, of the catalogue
    SingleChar,
    /// `name`: identifiers of the catalogue
    Name,
    /// Text that compares without case and accents: the type `text(unicode)` of rows, and `citext` to clients.
    CaselessText,
    /// `bytea`
    Bytea,
    /// `date`
    Date,
    /// `time without time zone`
    Time,
    /// `time with time zone`
    TimeTz,
    /// `timestamp without time zone`
    Timestamp,
    /// `timestamp with time zone`
    TimestampTz,
    /// `interval`
    Interval,
    /// `uuid`
    Uuid,
    /// `inet`: an address of a network, or a network
    Inet,
    /// `cidr`: a network
    Cidr,
    /// `macaddr`: the address of a device
    MacAddr,
    /// `macaddr8`: the address of a device, of eight bytes
    MacAddr8,
    /// `bit`: a string of bits of a fixed length
    Bit,
    /// `bit varying`: a string of bits
    VarBit,
    /// `money`: a sum in hundredths
    Money,
    /// `json`
    Json,
    /// `jsonb`
    Jsonb,
    /// `oid`: the number of an object of the catalogue
    Oid,
    /// `regclass`: the number of a table or an index, written as its name
    RegClass,
    /// `regtype`: the number of a type, written as its name
    RegType,
    /// `regproc`: the number of a function, written as its name
    RegProc,
    /// `regprocedure`: the number of a function, written as its name and the types that it takes
    RegProcedure,
    /// `regoper`: the number of an operator, written as its name.
    RegOper,
    /// `regoperator`: the number of an operator, written as its name and the types that it takes.
    RegOperator,
    /// `regnamespace`: the number of a schema, written as its name
    RegNamespace,
    /// `regrole`: the number of a role, written as its name
    RegRole,
    /// `xid`: the number of a transaction
    Xid,
    /// `tid`: where a row lies
    Tid,
    /// `record`: a row
    Record,
    /// `any`: an argument of a function that takes values of all types
    Any,
    /// `anyelement`: an argument of any type, or a result of the type of such an argument; as an array, `anyarray`
    AnyElement,
    /// `anynonarray`: an argument of any type but arrays
    AnyNonArray,
    /// `anyenum`: an argument of any enum
    AnyEnum,
    /// `anyrange`: an argument of any range
    AnyRange,
    /// `anymultirange`: an argument of any multirange
    AnyMultirange,
    /// `int4range` and its like: values between two bounds
    Range(RangeKind),
    /// `int4multirange` and its like: ranges that do not touch each other
    Multirange(RangeKind),
    /// An enum: texts of a list, in the order of that
    Enum(UserType),
    /// A domain: values of another type that keep some conditions
    Domain(UserType),
    /// A composite type: rows of certain types, also those of a table
    Composite(UserType),
}

/// What the values of a range are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RangeKind {
    /// `int4range`
    Int4,
    /// `int8range`
    Int8,
    /// `numrange`
    Numeric,
    /// `daterange`
    Date,
    /// `tsrange`
    Timestamp,
    /// `tstzrange`
    TimestampTz,
}

impl RangeKind {
    /// All of them.
    pub const ALL: [RangeKind; 6] = {
        use RangeKind::{Date, Int4, Int8, Numeric, Timestamp, TimestampTz};
        [Int4, Int8, Numeric, Date, Timestamp, TimestampTz]
    };

    /// The type of the bounds.
    pub fn element(self) -> BaseType {
        match self {
            RangeKind::Int4 => BaseType::Int4,
            RangeKind::Int8 => BaseType::Int8,
            RangeKind::Numeric => BaseType::Numeric,
            RangeKind::Date => BaseType::Date,
            RangeKind::Timestamp => BaseType::Timestamp,
            RangeKind::TimestampTz => BaseType::TimestampTz,
        }
    }

    /// The ranges of values of a type.
    pub fn of_element(element: BaseType) -> Option<RangeKind> {
        RangeKind::ALL.into_iter().find(|kind| kind.element() == element)
    }
}

/// A type's number, the number of its arrays, its name in the catalogue and the one that users know.
#[derive(Clone, Copy)]
struct Known(BaseType, u32, u32, &'static str, &'static str);

const KNOWN: [Known; 62] = [
    Known(BaseType::Unknown, 705, 0, "unknown", "unknown"),
    Known(BaseType::Void, 2278, 0, "void", "void"),
    Known(BaseType::Bool, 16, 1000, "bool", "boolean"),
    Known(BaseType::Int2, 21, 1005, "int2", "smallint"),
    Known(BaseType::Int4, 23, 1007, "int4", "integer"),
    Known(BaseType::Int8, 20, 1016, "int8", "bigint"),
    Known(BaseType::Float4, 700, 1021, "float4", "real"),
    Known(BaseType::Float8, 701, 1022, "float8", "double precision"),
    Known(BaseType::Numeric, 1700, 1231, "numeric", "numeric"),
    Known(BaseType::Text, 25, 1009, "text", "text"),
    Known(BaseType::Varchar, 1043, 1015, "varchar", "character varying"),
    Known(BaseType::Char, 1042, 1014, "bpchar", "character"),
    Known(BaseType::SingleChar, 18, 1002, "char", "\"char\""),
    Known(BaseType::Name, 19, 1003, "name", "name"),
    Known(BaseType::CaselessText, 16_000, 16_001, "citext", "citext"),
    Known(BaseType::Bytea, 17, 1001, "bytea", "bytea"),
    Known(BaseType::Date, 1082, 1182, "date", "date"),
    Known(BaseType::Time, 1083, 1183, "time", "time without time zone"),
    Known(BaseType::TimeTz, 1266, 1270, "timetz", "time with time zone"),
    Known(BaseType::Timestamp, 1114, 1115, "timestamp", "timestamp without time zone"),
    Known(BaseType::TimestampTz, 1184, 1185, "timestamptz", "timestamp with time zone"),
    Known(BaseType::Interval, 1186, 1187, "interval", "interval"),
    Known(BaseType::Uuid, 2950, 2951, "uuid", "uuid"),
    Known(BaseType::Inet, 869, 1041, "inet", "inet"),
    Known(BaseType::Cidr, 650, 651, "cidr", "cidr"),
    Known(BaseType::MacAddr, 829, 1040, "macaddr", "macaddr"),
    Known(BaseType::MacAddr8, 774, 775, "macaddr8", "macaddr8"),
    Known(BaseType::Bit, 1560, 1561, "bit", "bit"),
    Known(BaseType::VarBit, 1562, 1563, "varbit", "bit varying"),
    Known(BaseType::Money, 790, 791, "money", "money"),
    Known(BaseType::Json, 114, 199, "json", "json"),
    Known(BaseType::Jsonb, 3802, 3807, "jsonb", "jsonb"),
    Known(BaseType::Oid, 26, 1028, "oid", "oid"),
    Known(BaseType::RegClass, 2205, 2210, "regclass", "regclass"),
    Known(BaseType::RegType, 2206, 2211, "regtype", "regtype"),
    Known(BaseType::RegProc, 24, 1008, "regproc", "regproc"),
    Known(BaseType::RegProcedure, 2202, 2207, "regprocedure", "regprocedure"),
    Known(BaseType::RegOper, 2203, 2208, "regoper", "regoper"),
    Known(BaseType::RegOperator, 2204, 2209, "regoperator", "regoperator"),
    Known(BaseType::RegNamespace, 4089, 4090, "regnamespace", "regnamespace"),
    Known(BaseType::RegRole, 4096, 4097, "regrole", "regrole"),
    Known(BaseType::Xid, 28, 1011, "xid", "xid"),
    Known(BaseType::Tid, 27, 1010, "tid", "tid"),
    Known(BaseType::Record, 2249, 2287, "record", "record"),
    Known(BaseType::Any, 2276, 0, "any", "\"any\""),
    Known(BaseType::AnyElement, 2283, 2277, "anyelement", "anyelement"),
    Known(BaseType::AnyNonArray, 2776, 0, "anynonarray", "anynonarray"),
    Known(BaseType::AnyEnum, 3500, 0, "anyenum", "anyenum"),
    Known(BaseType::AnyRange, 3831, 0, "anyrange", "anyrange"),
    Known(BaseType::AnyMultirange, 4537, 0, "anymultirange", "anymultirange"),
    Known(BaseType::Range(RangeKind::Int4), 3904, 3905, "int4range", "int4range"),
    Known(BaseType::Range(RangeKind::Int8), 3926, 3927, "int8range", "int8range"),
    Known(BaseType::Range(RangeKind::Numeric), 3906, 3907, "numrange", "numrange"),
    Known(BaseType::Range(RangeKind::Date), 3912, 3913, "daterange", "daterange"),
    Known(BaseType::Range(RangeKind::Timestamp), 3908, 3909, "tsrange", "tsrange"),
    Known(BaseType::Range(RangeKind::TimestampTz), 3910, 3911, "tstzrange", "tstzrange"),
    Known(BaseType::Multirange(RangeKind::Int4), 4451, 6150, "int4multirange", "int4multirange"),
    Known(BaseType::Multirange(RangeKind::Int8), 4536, 6157, "int8multirange", "int8multirange"),
    Known(BaseType::Multirange(RangeKind::Numeric), 4532, 6151, "nummultirange", "nummultirange"),
    Known(BaseType::Multirange(RangeKind::Date), 4535, 6155, "datemultirange", "datemultirange"),
    Known(BaseType::Multirange(RangeKind::Timestamp), 4533, 6152, "tsmultirange", "tsmultirange"),
    Known(BaseType::Multirange(RangeKind::TimestampTz), 4534, 6153, "tstzmultirange", "tstzmultirange"),
];

impl BaseType {
    fn known(self) -> Known {
        match self {
            BaseType::Enum(user) | BaseType::Domain(user) | BaseType::Composite(user) => {
                let known = user.definition();
                Known(self, known.number, known.array, &known.name, &known.shown)
            }
            _ => *KNOWN.iter().find(|known| known.0 == self).expect("each type is listed"),
        }
    }

    /// All types but those that users have made.
    pub fn all() -> impl Iterator<Item = BaseType> {
        KNOWN.iter().map(|known| known.0)
    }

    /// The name in the catalogue: `int4`.
    pub fn catalogue_name(self) -> &'static str {
        self.known().3
    }

    /// Whether it holds numbers.
    pub fn is_number(self) -> bool {
        use BaseType::{Float4, Float8, Int2, Int4, Int8, Numeric};
        matches!(self, Int2 | Int4 | Int8 | Float4 | Float8 | Numeric)
    }

    /// Whether it is no type of values, but of arguments and results of functions.
    pub fn is_pseudo(self) -> bool {
        use BaseType::{Any, AnyElement, AnyEnum, AnyMultirange, AnyNonArray, AnyRange, Record, Void};
        matches!(self, Void | Record | Any | AnyElement | AnyNonArray | AnyEnum | AnyRange | AnyMultirange)
    }

    /// Whether users have made it.
    pub fn user_type(self) -> Option<UserType> {
        match self {
            BaseType::Enum(user) | BaseType::Domain(user) | BaseType::Composite(user) => Some(user),
            _ => None,
        }
    }

    /// What its rows are, of a composite type.
    pub fn composite(self) -> Option<&'static Composite> {
        match self {
            BaseType::Composite(user) => user.composite(),
            _ => None,
        }
    }

    /// What the values of its ranges are, of ranges and multiranges.
    pub fn range_kind(self) -> Option<RangeKind> {
        match self {
            BaseType::Range(kind) | BaseType::Multirange(kind) => Some(kind),
            _ => None,
        }
    }

    /// The type of the bounds of ranges and multiranges; other types are themselves.
    pub fn of_bounds(self) -> BaseType {
        self.range_kind().map_or(self, RangeKind::element)
    }

    /// Whether its values are texts.
    pub fn is_text(self) -> bool {
        use BaseType::{CaselessText, Char, Name, SingleChar, Text, Unknown, Varchar};
        matches!(self, Text | Varchar | Char | SingleChar | Name | CaselessText | Unknown)
    }

    /// Whether its values are addresses of networks or of devices.
    pub fn is_network(self) -> bool {
        matches!(self, BaseType::Inet | BaseType::Cidr) || self.is_device()
    }

    /// Whether its values are addresses of devices.
    pub fn is_device(self) -> bool {
        matches!(self, BaseType::MacAddr | BaseType::MacAddr8)
    }

    /// Whether its values are strings of bits.
    pub fn is_bits(self) -> bool {
        matches!(self, BaseType::Bit | BaseType::VarBit)
    }

    /// Whether its values are numbers of objects of the catalogue.
    pub fn is_oid(self) -> bool {
        use BaseType::{Oid, RegClass, RegNamespace, RegOper, RegOperator, RegProc, RegProcedure, RegRole, RegType};
        let is_of_code = matches!(self, RegProc | RegProcedure | RegOper | RegOperator);
        is_of_code || matches!(self, Oid | RegClass | RegType | RegNamespace | RegRole)
    }
}

impl From<BaseType> for SqlType {
    fn from(base: BaseType) -> SqlType {
        SqlType { base, is_array: false, modifier: -1 }
    }
}

impl SqlType {
    /// Text.
    pub const TEXT: SqlType = SqlType { base: BaseType::Text, is_array: false, modifier: -1 };
    /// A truth value.
    pub const BOOL: SqlType = SqlType { base: BaseType::Bool, is_array: false, modifier: -1 };
    /// An integer of 32 bits.
    pub const INT4: SqlType = SqlType { base: BaseType::Int4, is_array: false, modifier: -1 };
    /// An integer of 64 bits.
    pub const INT8: SqlType = SqlType { base: BaseType::Int8, is_array: false, modifier: -1 };
    /// The modifier of `int2vector` and `oidvector`: arrays of the catalogue that are written `1 2` and counted from 0.
    const VECTOR: i32 = -2;
    /// `int2vector`: numbers of columns.
    pub const INT2_VECTOR: SqlType = SqlType { base: BaseType::Int2, is_array: true, modifier: SqlType::VECTOR };
    /// `oidvector`: numbers of objects.
    pub const OID_VECTOR: SqlType = SqlType { base: BaseType::Oid, is_array: true, modifier: SqlType::VECTOR };
    /// Not known yet.
    pub const UNKNOWN: SqlType = SqlType { base: BaseType::Unknown, is_array: false, modifier: -1 };

    /// Arrays of this type.
    pub fn array_of(base: BaseType) -> SqlType {
        SqlType { base, is_array: true, modifier: -1 }
    }

    /// A number of so many digits, from 1 to 1,000, some of which follow the point: -1,000 to 1,000.
    pub fn numeric(precision: u16, scale: i16) -> SqlType {
        let modifier = ((i32::from(precision) << 16) | (i32::from(scale) & SCALE_BITS)) + 4;
        SqlType { modifier, ..BaseType::Numeric.into() }
    }

    /// The `numeric` that declares so many digits, some of which follow the point.
    ///
    /// # Errors
    /// 22023 if there are too many or too few.
    pub fn declared_numeric(precision: u64, scale: i64) -> Result<SqlType> {
        let refuse = |what: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, what));
        match (u16::try_from(precision), i16::try_from(scale)) {
            (Ok(precision @ 1..=1_000), Ok(scale @ -1_000..=1_000)) => Ok(SqlType::numeric(precision, scale)),
            (Ok(1..=1_000), _) => refuse(format!("NUMERIC scale {scale} must be between -1000 and 1000")),
            _ => refuse(format!("NUMERIC precision {precision} must be between 1 and 1000")),
        }
    }

    /// Text of at most so many characters (`varchar`), or padded to so many (`char`); or a string of so many bits.
    pub fn of_length(base: BaseType, length: u32) -> SqlType {
        SqlType { modifier: length as i32 + if base.is_bits() { 0 } else { 4 }, ..base.into() }
    }

    /// The type of the elements of an array.
    pub fn element(self) -> SqlType {
        SqlType { is_array: false, modifier: self.declared_modifier(), ..self }
    }

    /// Whether it is `int2vector` or `oidvector`, which are arrays to all but those that write or count them.
    pub fn is_vector(self) -> bool {
        self.is_array && self.modifier == SqlType::VECTOR
    }

    /// What is declared in parentheses, as clients are told it; -1 if nothing is.
    pub fn declared_modifier(self) -> i32 {
        self.modifier.max(-1)
    }

    /// The type of a vector of the catalogue by its name.
    pub fn vector_named(name: &str) -> Option<SqlType> {
        [SqlType::INT2_VECTOR, SqlType::OID_VECTOR].into_iter().find(|vector| vector.vector_name() == name)
    }

    fn vector_name(self) -> &'static str {
        if self.base == BaseType::Oid { "oidvector" } else { "int2vector" }
    }

    /// The same type without what is declared in parentheses.
    pub fn bare(self) -> SqlType {
        SqlType { modifier: -1, ..self }
    }

    /// The type that values of a domain have besides, whatever domains that goes through; others are themselves.
    pub fn without_domain(self) -> SqlType {
        match self.base {
            BaseType::Domain(user) if !self.is_array => {
                user.domain().map_or(self, |domain| domain.base.without_domain())
            }
            _ => self,
        }
    }

    /// All digits, and those after the point, that a numeric type declares.
    pub fn precision_and_scale(self) -> Option<(u16, i16)> {
        let declared = self.modifier.checked_sub(4).filter(|_| self.base == BaseType::Numeric && self.modifier >= 4)?;
        // A scale has eleven bits and a sign.
        let scale = ((declared & SCALE_BITS) ^ SCALE_SIGN) - SCALE_SIGN;
        Some(((declared >> 16) as u16, scale as i16))
    }

    /// The length that a type of texts declares, in characters, or one of strings of bits.
    pub fn length(self) -> Option<u32> {
        if self.base.is_bits() {
            return u32::try_from(self.modifier).ok();
        }
        let has_length = matches!(self.base, BaseType::Varchar | BaseType::Char) && self.modifier >= 4;
        has_length.then(|| (self.modifier - 4) as u32)
    }

    /// PostgreSQL's number of the type.
    pub fn oid(self) -> u32 {
        if self.is_vector() {
            return if self.base == BaseType::Oid { 30 } else { 22 };
        }
        let known = self.base.known();
        if self.is_array { known.2 } else { known.1 }
    }

    /// The type of that number.
    pub fn of_oid(oid: u32) -> Option<SqlType> {
        if let Some(vector) = [SqlType::INT2_VECTOR, SqlType::OID_VECTOR].into_iter().find(|known| known.oid() == oid) {
            return Some(vector);
        }
        let known = KNOWN.iter().find(|known| known.1 == oid || (known.2 == oid && oid != 0))?;
        Some(SqlType { is_array: known.1 != oid, ..known.0.into() })
    }

    /// The bytes of a value, or -1 where values differ, as RowDescription says it.
    pub fn size(self) -> i16 {
        if self.is_array {
            return -1;
        }
        match self.base {
            BaseType::Bool | BaseType::SingleChar => 1,
            BaseType::Int2 => 2,
            BaseType::Int4 | BaseType::Float4 | BaseType::Date | BaseType::Xid => 4,
            BaseType::Enum(_) | BaseType::AnyEnum => 4,
            BaseType::Domain(_) => self.without_domain().size(),
            BaseType::Int8 | BaseType::Float8 | BaseType::Time | BaseType::Timestamp | BaseType::TimestampTz => 8,
            BaseType::Money | BaseType::MacAddr8 => 8,
            BaseType::TimeTz => 12,
            BaseType::Interval | BaseType::Uuid => 16,
            BaseType::MacAddr | BaseType::Tid => 6,
            BaseType::Void => 4,
            BaseType::Name => 64,
            BaseType::Unknown => -2,
            base if base.is_oid() => 4,
            _ => -1,
        }
    }

    /// Whether columns of rows hold its values as bytes of [`packed`], of which expressions of rows know nothing.
    pub fn is_packed(self) -> bool {
        let plain = self.without_domain();
        plain.is_array
            || matches!(plain.base, BaseType::Interval | BaseType::Composite(_))
            || plain.base.range_kind().is_some()
    }

    /// Whether keys can sort its values: those of [`packed`] without JSON within, and of all types that are not packed.
    pub fn is_sorted(self) -> bool {
        fn has_json(sql_type: SqlType) -> bool {
            match sql_type.without_domain().base {
                BaseType::Json | BaseType::Jsonb => true,
                BaseType::Composite(user) => {
                    user.composite().is_some_and(|composite| composite.types.iter().copied().any(has_json))
                }
                _ => false,
            }
        }
        !self.is_packed() || !has_json(self)
    }

    /// Whether rows read the texts of values as SQL does, and have the values that these are.
    pub fn is_held_as_written(self) -> bool {
        let base = self.without_domain().base;
        let is_other = matches!(base, BaseType::Time | BaseType::TimeTz | BaseType::Money) || base.is_bits();
        !self.is_packed() && !is_other && (base == BaseType::Bytea || self.column_type() != Some(DataType::Bytes))
    }

    /// The type of a column of rows.
    pub fn of_column(data_type: DataType) -> SqlType {
        match data_type {
            DataType::Bool => BaseType::Bool.into(),
            DataType::I8 | DataType::U8 | DataType::I16 => BaseType::Int2.into(),
            DataType::U16 | DataType::I32 => BaseType::Int4.into(),
            DataType::U32 | DataType::I64 => BaseType::Int8.into(),
            DataType::U64 => SqlType::numeric(20, 0),
            DataType::F32 => BaseType::Float4.into(),
            DataType::F64 => BaseType::Float8.into(),
            DataType::Decimal { precision, scale } => SqlType::numeric(precision.into(), scale.into()),
            DataType::Numeric => BaseType::Numeric.into(),
            DataType::Text(Collation::Binary) => BaseType::Text.into(),
            DataType::Text(Collation::Unicode) => BaseType::CaselessText.into(),
            DataType::Bytes | DataType::KeyedBytes => BaseType::Bytea.into(),
            DataType::Date => BaseType::Date.into(),
            DataType::Timestamp => BaseType::Timestamp.into(),
            DataType::Uuid => BaseType::Uuid.into(),
            DataType::Json => BaseType::Json.into(),
        }
    }

    fn decimal(self) -> Option<DataType> {
        let (precision, scale) = self.precision_and_scale()?;
        let (precision, scale) = (u8::try_from(precision).ok()?, u8::try_from(scale).ok()?);
        (precision <= 38 && scale <= precision).then_some(DataType::Decimal { precision, scale })
    }

    /// What a column of this type holds; none if no column can be of it.
    ///
    /// A `numeric` of up to 38 digits, as many of them after the point or fewer, is a decimal of a fixed size.
    pub fn column_type(self) -> Option<DataType> {
        if self.is_array {
            let has_columns = !self.is_vector() && self.element().column_type().is_some();
            return has_columns.then_some(DataType::KeyedBytes);
        }
        Some(match self.base {
            BaseType::Bool => DataType::Bool,
            BaseType::Int2 => DataType::I16,
            BaseType::Int4 => DataType::I32,
            BaseType::Int8 | BaseType::Time | BaseType::TimeTz | BaseType::Money => DataType::I64,
            BaseType::Float4 => DataType::F32,
            BaseType::Float8 => DataType::F64,
            BaseType::Numeric => self.decimal().unwrap_or(DataType::Numeric),
            BaseType::Text | BaseType::Varchar | BaseType::Char | BaseType::Name => DataType::TEXT,
            BaseType::Bit | BaseType::VarBit => DataType::TEXT,
            BaseType::CaselessText => DataType::Text(Collation::Unicode),
            BaseType::Bytea => DataType::Bytes,
            BaseType::Interval | BaseType::Range(_) | BaseType::Multirange(_) => DataType::KeyedBytes,
            base if base.is_network() => DataType::Bytes,
            BaseType::Date => DataType::Date,
            BaseType::Timestamp | BaseType::TimestampTz => DataType::Timestamp,
            BaseType::Uuid => DataType::Uuid,
            BaseType::Json | BaseType::Jsonb => DataType::Json,
            BaseType::Oid => DataType::U32,
            BaseType::Enum(_) => DataType::F64,
            BaseType::Domain(_) => return self.without_domain().column_type(),
            BaseType::Composite(user) => {
                let composite = user.composite().filter(|composite| !composite.is_of_table)?;
                let has_columns = composite.types.iter().all(|own| own.column_type().is_some());
                return has_columns.then_some(DataType::KeyedBytes);
            }
            _ => return None,
        })
    }
}

impl fmt::Debug for SqlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
