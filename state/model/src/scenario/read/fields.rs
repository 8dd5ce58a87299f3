//! Fields that may be written in more than one way.
//!
//! Each is read by a visitor of its own, not by trying one form after the other:
//! only so the message names what was expected and the line is kept.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Error, MapAccess, SeqAccess, Visitor};
use ttmem_event::Class;

use super::super::expression::{NameTemplate, Number};
use super::super::script::{Memory, MemorySharding};
use super::{RawRange, RawSource};
use crate::tensor::{DataType, Shard, TileLayout};

/// A type with forms that TOML tells apart; a form that is not overridden is refused.
pub(super) trait Forms: Sized {
    /// What to write, for messages.
    const EXPECTED: &'static str;

    fn from_number<E: Error>(number: u64) -> Result<Self, E> {
        let found = serde::de::Unexpected::Unsigned(number);
        Err(E::invalid_type(found, &Self::EXPECTED))
    }

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        Err(E::invalid_type(
            serde::de::Unexpected::Str(text),
            &Self::EXPECTED,
        ))
    }

    fn from_list<'de, A: SeqAccess<'de>>(_list: A) -> Result<Self, A::Error> {
        let found = serde::de::Unexpected::Seq;
        Err(A::Error::invalid_type(found, &Self::EXPECTED))
    }

    fn from_table<'de, A: MapAccess<'de>>(_table: A) -> Result<Self, A::Error> {
        let found = serde::de::Unexpected::Map;
        Err(A::Error::invalid_type(found, &Self::EXPECTED))
    }
}

/// Leads serde to the forms of a type.
pub(super) struct Form<T>(pub(super) PhantomData<T>);

impl<'de, T: Forms> Visitor<'de> for Form<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => T::from_number(number),
            Err(_negative) => Err(E::invalid_value(
                serde::de::Unexpected::Signed(number),
                &T::EXPECTED,
            )),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::from_number(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::from_list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
        T::from_table(table)
    }
}

/// `Deserialize` by the forms of the type.
macro_rules! deserialize_by_form {
    ($($type:ty),*) => {$(
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any($crate::scenario::read::fields::Form(
                    std::marker::PhantomData,
                ))
            }
        }
    )*};
}

pub(super) use deserialize_by_form;

deserialize_by_form!(
    Number,
    NameTemplate,
    RawSource,
    Memory,
    Word<DataType>,
    Word<TileLayout>
);

impl Forms for Number {
    const EXPECTED: &'static str = "a number that is not negative, or an expression in quotes";

    fn from_number<E: Error>(number: u64) -> Result<Self, E> {
        Ok(Self::from(number))
    }

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        Self::parse(text).map_err(E::custom)
    }
}

impl Forms for NameTemplate {
    const EXPECTED: &'static str = "a name";

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        Self::parse(text).map_err(E::custom)
    }
}

impl Forms for RawSource {
    const EXPECTED: &'static str = "a number, an expression, or { from = …, to = … }";

    fn from_number<E: Error>(number: u64) -> Result<Self, E> {
        Number::from_number(number).map(Self::Fixed)
    }

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        Number::from_text(text).map(Self::Fixed)
    }

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        RawRange::deserialize(MapAccessDeserializer::new(table)).map(Self::Choice)
    }
}

/// A table that says where a tensor lives.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMemory {
    class: ClassWord,
    shard: Option<Word<Shard>>,
    grid: Option<[Number; 2]>,
}

impl Forms for Memory {
    const EXPECTED: &'static str =
        "dram, l1, l1_small, or { class = …, shard = …, grid = [columns, rows] }";

    fn from_text<E: Error>(text: &str) -> Result<Self, E> {
        let ClassWord(class) = ClassWord::from_text(text)?;
        Ok(Self {
            class,
            sharding: None,
        })
    }

    fn from_table<'de, A: MapAccess<'de>>(table: A) -> Result<Self, A::Error> {
        let raw = RawMemory::deserialize(MapAccessDeserializer::new(table))?;
        let sharding = match (raw.shard, raw.grid) {
            (None, None) => None,
            (None, Some(_)) => {
                return Err(A::Error::custom(
                    "`grid` needs `shard`: height, width or block",
                ));
            }
            (Some(Word(shard)), grid) => Some(MemorySharding {
                shard,
                // All compute cores, whatever the board has.
                grid: match grid {
                    Some(grid) => grid,
                    None => [Number::from_text("columns")?, Number::from_text("rows")?],
                },
            }),
        };
        Ok(Self {
            class: raw.class.0,
            sharding,
        })
    }
}

/// One of the names of a fixed set of values.
pub(super) struct Word<T>(pub(super) T);

/// The memories a tensor can live in.
struct ClassWord(Class);

/// `Forms` for a word: `None` of the function is an unknown one.
macro_rules! words {
    ($($type:ty, $expected:literal, $find:expr;)*) => {$(
        impl Forms for $type {
            const EXPECTED: &'static str = $expected;

            fn from_text<E: Error>(text: &str) -> Result<Self, E> {
                let find: fn(&str) -> Option<Self> = $find;
                let found = serde::de::Unexpected::Str(text);
                find(text).ok_or_else(|| E::invalid_value(found, &Self::EXPECTED))
            }
        }
    )*};
}

words! {
    Word<DataType>,
        "one of bfloat16, bfloat8_b, bfloat4_b, float32, uint32, int32, uint16, uint8",
        |text| DataType::from_name(text).map(Word);
    Word<TileLayout>, "one of tile, row_major", |text| TileLayout::from_name(text).map(Word);
    Word<Shard>, "one of height, width, block", |text| Shard::from_name(text).map(Word);
    ClassWord, "one of dram, l1, l1_small", |text| match text {
        "dram" => Some(ClassWord(Class::Dram)),
        "l1" => Some(ClassWord(Class::L1)),
        "l1_small" => Some(ClassWord(Class::L1Small)),
        _ => None,
    };
}

deserialize_by_form!(Word<Shard>, ClassWord);
