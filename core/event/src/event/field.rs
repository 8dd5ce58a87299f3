//! How one field of an event is written into and read from its record, and what readers see of it.
//!
//! All numbers are little-endian. A field that cannot hold every bit pattern
//! (an enumeration, a flag) refuses the ones it cannot hold.

use super::enumerations::{
    BinaryStatus, CacheResult, CbKind, ClashKind, Class, Direction, DispatchPath, KernelKind,
    Layout, NamedCodes,
};
use crate::core::CoreType;
use crate::ids::{BufferId, CoresId, DeviceId, KernelId, MeshId, ProgramId, TextId, TraceId};

/// A record that is not an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeEventError {
    /// The kind byte names no event of this version.
    #[error("event kind {0} is not known")]
    UnknownKind(u8),
    /// A field holds a value outside its range.
    #[error("{event}.{field} cannot be {value}")]
    InvalidField {
        event: &'static str,
        field: &'static str,
        value: u8,
    },
}

/// The value of a field, for those who show or write events of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldValue {
    /// A count, a size, an address, a small id.
    Number(u64),
    /// A number that may be below zero.
    Signed(i32),
    /// A 64-bit id or pointer, which people know in hex.
    Hex(u64),
    /// A word of the vocabulary.
    Word(&'static str),
    Class(Class),
    Flag(bool),
    All,
    /// A text that the process defined.
    Text(TextId),
    /// A core set that the process defined.
    Cores(CoresId),
    /// A mesh that the process defined.
    Mesh(MeshId),
    /// A device that the process defined.
    Device(DeviceId),
}

/// A type that a field of an event can have.
pub trait Field: Sized + Copy {
    /// Bytes in the record.
    const WIDTH: usize;
    /// The type's name in the protocol document.
    const NAME: &'static str;
    /// The numbers it can have, where they are words.
    const VALUES: NamedCodes = &[];
    /// Writes the value into exactly `WIDTH` bytes; others are the caller's mistake.
    fn put(self, bytes: &mut [u8]);
    /// Reads the value from exactly `WIDTH` bytes; `Err` is the offending byte.
    fn get(bytes: &[u8]) -> Result<Self, u8>;
    /// The value as readers see it.
    fn value(self) -> FieldValue;
}

macro_rules! number_fields {
    ($($number:ty as $form:ident),*) => {$(
        impl Field for $number {
            const WIDTH: usize = size_of::<$number>();
            const NAME: &'static str = stringify!($number);
            #[inline]
            fn put(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn get(bytes: &[u8]) -> Result<Self, u8> {
                let mut raw = [0; size_of::<$number>()];
                raw.copy_from_slice(bytes);
                Ok(Self::from_le_bytes(raw))
            }
            fn value(self) -> FieldValue {
                FieldValue::$form(self.into())
            }
        }
    )*};
}
number_fields!(
    u8 as Number,
    u16 as Number,
    u32 as Number,
    u64 as Number,
    i32 as Signed
);

macro_rules! id_fields {
    (|$this:ident| $value:expr; $($id:ident($repr:ty)),*) => {$(
        impl Field for $id {
            const WIDTH: usize = size_of::<$repr>();
            const NAME: &'static str = stringify!($id);
            #[inline]
            fn put(self, bytes: &mut [u8]) {
                self.0.put(bytes);
            }
            #[inline]
            fn get(bytes: &[u8]) -> Result<Self, u8> {
                <$repr>::get(bytes).map(Self)
            }
            fn value(self) -> FieldValue {
                let $this = self;
                $value
            }
        }
    )*};
}
id_fields!(|id| FieldValue::Hex(id.0); BufferId(u64), KernelId(u64));
id_fields!(|id| id.0.value(); ProgramId(u64), TraceId(u32));
id_fields!(|id| FieldValue::Text(id); TextId(u32));
id_fields!(|id| FieldValue::Cores(id); CoresId(u32));
id_fields!(|id| FieldValue::Device(id); DeviceId(u32));
id_fields!(|id| FieldValue::Mesh(id); MeshId(u32));

macro_rules! word_fields {
    (|$this:ident| $value:expr; $($word:ident),*) => {$(
        impl Field for $word {
            const WIDTH: usize = 1;
            const NAME: &'static str = stringify!($word);
            const VALUES: NamedCodes = Self::VALUES;
            #[inline]
            fn put(self, bytes: &mut [u8]) {
                bytes[0] = self.code();
            }
            #[inline]
            fn get(bytes: &[u8]) -> Result<Self, u8> {
                Self::from_code(bytes[0]).ok_or(bytes[0])
            }
            fn value(self) -> FieldValue {
                let $this = self;
                $value
            }
        }
    )*};
}
word_fields!(|class| FieldValue::Class(class); Class);
word_fields!(
    |word| FieldValue::Word(word.name());
    Layout,
    Direction,
    CbKind,
    KernelKind,
    BinaryStatus,
    CacheResult,
    DispatchPath,
    ClashKind
);

impl Field for CoreType {
    const WIDTH: usize = 1;
    const NAME: &'static str = "CoreType";
    const VALUES: NamedCodes = Self::VALUES;
    #[inline]
    fn put(self, bytes: &mut [u8]) {
        bytes[0] = self as u8;
    }

    #[inline]
    fn get(bytes: &[u8]) -> Result<Self, u8> {
        Self::ALL
            .get(usize::from(bytes[0]))
            .copied()
            .ok_or(bytes[0])
    }

    fn value(self) -> FieldValue {
        FieldValue::Word(self.name())
    }
}

impl Field for bool {
    const WIDTH: usize = 1;
    const NAME: &'static str = "bool";
    #[inline]
    fn put(self, bytes: &mut [u8]) {
        bytes[0] = u8::from(self);
    }

    #[inline]
    fn get(bytes: &[u8]) -> Result<Self, u8> {
        match bytes[0] {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(other),
        }
    }

    fn value(self) -> FieldValue {
        FieldValue::Flag(self)
    }
}

/// "All of them" is all ones: no program has that many, and no content hash is expected to be that.
macro_rules! fields_or_all {
    ($($type:ty, $name:literal;)*) => {$(
        impl Field for Option<$type> {
            const WIDTH: usize = <$type>::WIDTH;
            const NAME: &'static str = $name;
            const VALUES: NamedCodes = <$type as Field>::VALUES;
            #[inline]
            fn put(self, bytes: &mut [u8]) {
                match self {
                    Some(value) => value.put(bytes),
                    None => bytes.fill(u8::MAX),
                }
            }
            #[inline]
            fn get(bytes: &[u8]) -> Result<Self, u8> {
                if bytes.iter().all(|byte| *byte == u8::MAX) {
                    return Ok(None);
                }
                <$type>::get(bytes).map(Some)
            }
            fn value(self) -> FieldValue {
                self.map_or(FieldValue::All, Field::value)
            }
        }
    )*};
}
fields_or_all! {
    u32, "u32, all ones = all";
    KernelId, "KernelId, all ones = all";
    Class, "Class, all ones = all";
}
