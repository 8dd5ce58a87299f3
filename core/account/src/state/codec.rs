//! How a value of an account or of a ledger is written into and read from bytes.
//!
//! All numbers are little-endian; a list is its length and then its items; what may be
//! missing has a byte before it. [`codec!`](crate::codec) makes those of structures; it is used by
//! `layout` and by the ledger.

use crate::Map;
use crate::budget::{Charge, Turn, TurnEnd};
use crate::totals::GaugeKind;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use ttmem_event::{
    BinaryStatus, CbKind, Class, CoreType, CoresId, DeviceId, Direction, KernelId, KernelKind,
    Layout, ProgramId, TextId, TraceId,
};

/// Counters beyond this are noise, and must not overflow when they go on counting.
pub const MAX_COUNT: u64 = 1 << 62;

/// What an index or the system's allocator may add to an item.
const ITEM_BYTES: usize = 16;

/// What is written, and the texts in it, each once.
#[derive(Debug, Default)]
pub struct Out {
    pub bytes: Vec<u8>,
    texts: Vec<Arc<str>>,
    numbers: Map<Arc<str>, u32>,
}

impl Out {
    /// Goes on behind some bytes.
    #[must_use]
    pub fn after(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }

    /// The texts that were written, in the order of their numbers.
    #[must_use]
    pub fn texts(&self) -> &[Arc<str>] {
        &self.texts
    }

    fn number(&mut self, text: &Arc<str>) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(Arc::clone(text));
        self.numbers.insert(Arc::clone(text), number);
        number
    }
}

/// Bytes that are read front to back.
#[derive(Debug)]
pub struct Reader<'a> {
    pub bytes: &'a [u8],
    /// Turns the times of the writer's clock into those of the reader.
    pub clock: Clock<'a>,
    /// The texts that are written by their numbers.
    pub texts: &'a [Arc<str>],
    /// Whether the writer had the first layout of a ledger's state: what was added since is not there.
    pub is_first_layout: bool,
    /// Whether it noted which blocks a failing call had placed.
    pub has_calls: bool,
    /// What is made of the bytes is drawn here.
    pub room: Room,
}

/// The memory and the work for what is decoded, if they are bounded, and whether they were too little.
#[derive(Debug, Default)]
pub struct Room {
    charge: Option<Charge>,
    turn: Option<Turn>,
    over: Option<TurnEnd>,
}

impl Room {
    #[must_use]
    pub fn of(charge: Charge, turn: Turn) -> Self {
        Self {
            charge: Some(charge),
            turn: Some(turn),
            over: None,
        }
    }

    /// Draws bytes; none if there are no more, now and from here on.
    #[inline]
    pub fn draw(&mut self, bytes: usize) -> Option<()> {
        let Some(charge) = &mut self.charge else {
            return Some(());
        };
        if self.over.is_none() {
            let drawn = charge.draw(bytes as u64);
            self.over = drawn.err().map(TurnEnd::OverBudget);
        }
        self.over.is_none().then_some(())
    }

    /// Counts work; none if there is no more for it.
    pub fn spend(&mut self, units: u64) -> Option<()> {
        if let (Some(turn), None) = (&mut self.turn, &self.over) {
            self.over = turn.spend(units).err();
        }
        self.over.is_none().then_some(())
    }

    #[must_use]
    pub fn over(&self) -> Option<TurnEnd> {
        self.over
    }

    /// What was drawn.
    #[must_use]
    pub fn into_charge(self) -> Option<Charge> {
        self.charge
    }

    /// Room in the same budget, for a part.
    #[must_use]
    pub fn part(&self) -> Self {
        let charge = self.charge.as_ref();
        Self {
            charge: charge.map(|charge| charge.budget().charge()),
            turn: None,
            over: self.over,
        }
    }

    /// Takes over what a part drew.
    #[must_use]
    pub fn join(&mut self, part: Self) -> Option<()> {
        self.over = self.over.or(part.over);
        let bytes = part.charge.as_ref().map_or(0, Charge::bytes);
        drop(part);
        self.draw(usize::try_from(bytes).ok()?)
    }
}

/// A way to read another's clock.
pub struct Clock<'a>(pub &'a dyn Fn(u64) -> u64);

impl std::fmt::Debug for Clock<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl<'a> Reader<'a> {
    /// Reads what was written by the reader's own clock.
    #[must_use]
    pub fn new(bytes: &'a [u8], texts: &'a [Arc<str>]) -> Self {
        Self {
            bytes,
            clock: Clock(&|time| time),
            texts,
            is_first_layout: false,
            has_calls: true,
            room: Room::default(),
        }
    }

    /// The next value; none when the bytes end or hold none.
    pub fn get<T: Codec>(&mut self) -> Option<T> {
        T::get(self)
    }

    /// A value that goes on counting.
    pub fn count(&mut self) -> Option<u64> {
        Some(self.get::<u64>()?.min(MAX_COUNT))
    }

    pub fn time<T: Time>(&mut self) -> Option<T> {
        Some(self.get::<T>()?.read_by(&self.clock))
    }

    /// Reads a list, item by item; false when it breaks off.
    ///
    /// Nothing is reserved for its length: that comes from outside.
    #[must_use]
    pub fn each<T: Codec>(&mut self, mut take: impl FnMut(T)) -> bool {
        let Some(count) = self.get::<u64>() else {
            return false;
        };
        for _item in 0..count {
            let Some(item) = self.item() else {
                return false;
            };
            take(item);
        }
        true
    }

    /// The next item of a list or a table, which has room for twice as many when it grows.
    #[inline]
    pub fn item<T: Codec>(&mut self) -> Option<T> {
        self.room.draw(2 * size_of::<T>() + ITEM_BYTES)?;
        self.get()
    }

    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }
}

pub fn put_list<'i, T: Codec + 'i>(out: &mut Out, items: impl ExactSizeIterator<Item = &'i T>) {
    (items.len() as u64).put(out);
    items.for_each(|item| item.put(out));
}

/// A value that a state is made of.
pub trait Codec: Sized {
    /// Its name in the description of the layout.
    const NAME: &'static str;
    fn put(&self, out: &mut Out);
    fn get(read: &mut Reader<'_>) -> Option<Self>;
}

/// A time of the writer's clock.
pub trait Time: Codec {
    fn read_by(self, clock: &Clock<'_>) -> Self;
}

impl Time for u64 {
    fn read_by(self, clock: &Clock<'_>) -> Self {
        (clock.0)(self)
    }
}

impl Time for Option<u64> {
    fn read_by(self, clock: &Clock<'_>) -> Self {
        self.map(|time| time.read_by(clock))
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Codec for $number {
            const NAME: &'static str = stringify!($number);
            fn put(&self, out: &mut Out) {
                out.bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn get(read: &mut Reader<'_>) -> Option<Self> {
                let bytes = read.take(size_of::<$number>())?;
                Some(Self::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, i64);

/// Makes the codec of what is written as a number.
#[doc(hidden)]
#[macro_export]
macro_rules! codec_as_numbers {
    ($($type:ident: $number:ty = $to:expr, $from:expr;)*) => {$(
        impl $crate::state::codec::Codec for $type {
            const NAME: &'static str = stringify!($type);
            fn put(&self, out: &mut $crate::state::codec::Out) {
                let to: fn($type) -> $number = $to;
                $crate::state::codec::Codec::put(&to(*self), out);
            }
            fn get(read: &mut $crate::state::codec::Reader<'_>) -> Option<Self> {
                let from: fn($number) -> Option<$type> = $from;
                from(read.get()?)
            }
        }
    )*};
}
codec_as_numbers! {
    CoresId: u32 = |id| id.0, |number| Some(CoresId(number));
    DeviceId: u32 = |id| id.0, |number| Some(DeviceId(number));
    KernelId: u64 = |id| id.0, |number| Some(KernelId(number));
    ProgramId: u64 = |id| id.0, |number| Some(ProgramId(number));
    TextId: u32 = |id| id.0, |number| Some(TextId(number));
    TraceId: u32 = |id| id.0, |number| Some(TraceId(number));
    BinaryStatus: u8 = BinaryStatus::code, BinaryStatus::from_code;
    CbKind: u8 = CbKind::code, CbKind::from_code;
    Class: u8 = Class::code, Class::from_code;
    CoreType: u8 = |kind| kind as u8, |code| CoreType::ALL.get(usize::from(code)).copied();
    Direction: u8 = Direction::code, Direction::from_code;
    GaugeKind: u8 = |gauge| u8::try_from(gauge.index()).unwrap_or(u8::MAX),
        |code| GaugeKind::all().nth(usize::from(code));
    KernelKind: u8 = KernelKind::code, KernelKind::from_code;
    Layout: u8 = Layout::code, Layout::from_code;
    bool: u8 = u8::from, |code| [false, true].get(usize::from(code)).copied();
}

impl<T: Codec> Codec for Option<T> {
    const NAME: &'static str = "optional";
    fn put(&self, out: &mut Out) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        Some(if read.get()? { Some(read.get()?) } else { None })
    }
}

impl<T: Codec> Codec for Vec<T> {
    const NAME: &'static str = "list";
    fn put(&self, out: &mut Out) {
        put_list(out, self.iter());
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let mut list = Self::new();
        read.each(|item| list.push(item)).then_some(list)
    }
}

impl<T: Codec, const N: usize> Codec for [T; N] {
    const NAME: &'static str = "array";
    fn put(&self, out: &mut Out) {
        self.iter().for_each(|item| item.put(out));
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let items: Option<Vec<T>> = (0..N).map(|_item| read.get()).collect();
        items?.try_into().ok()
    }
}

impl<A: Codec, B: Codec> Codec for (A, B) {
    const NAME: &'static str = "pair";
    fn put(&self, out: &mut Out) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        Some((read.get()?, read.get()?))
    }
}

impl<A: Codec, B: Codec, C: Codec> Codec for (A, B, C) {
    const NAME: &'static str = "triple";
    fn put(&self, out: &mut Out) {
        self.0.put(out);
        self.1.put(out);
        self.2.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        Some((read.get()?, read.get()?, read.get()?))
    }
}

impl Codec for Arc<str> {
    const NAME: &'static str = "text";
    fn put(&self, out: &mut Out) {
        out.number(self).put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let number: u32 = read.get()?;
        read.texts.get(number as usize).map(Self::clone)
    }
}

impl<T: Codec> Codec for Arc<T> {
    const NAME: &'static str = T::NAME;
    fn put(&self, out: &mut Out) {
        T::put(self, out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        read.room.draw(size_of::<T>() + 2 * ITEM_BYTES)?;
        read.get().map(Self::new)
    }
}

impl<T: Codec> Codec for Arc<[T]> {
    const NAME: &'static str = "list";
    fn put(&self, out: &mut Out) {
        put_list(out, self.iter());
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        read.get::<Vec<T>>().map(Self::from)
    }
}

impl<T: Codec> Codec for VecDeque<T> {
    const NAME: &'static str = "list";
    fn put(&self, out: &mut Out) {
        put_list(out, self.iter());
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        read.get::<Vec<T>>().map(Self::from)
    }
}

impl<K: Codec + Ord, V: Codec> Codec for BTreeMap<K, V> {
    const NAME: &'static str = "map";
    fn put(&self, out: &mut Out) {
        (self.len() as u64).put(out);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let mut map = Self::new();
        let mut is_once = true;
        let is_whole =
            read.each(|(key, value): (K, V)| is_once &= map.insert(key, value).is_none());
        (is_whole && is_once).then_some(map)
    }
}

/// The name of a field's type.
pub fn name_of<S, T: Codec>(_field: fn(&S) -> &T) -> &'static str {
    T::NAME
}

/// A fingerprint of fields, given as their structure, their name and their type: two builds that agree
/// on it agree on every byte.
#[must_use]
pub fn fingerprint_of(
    describe: impl FnOnce(&mut dyn FnMut(&'static str, &'static str, &'static str)),
) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |text: &str| {
        for byte in text.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    describe(&mut |structure, field, type_name| {
        add(structure);
        add(field);
        add(type_name);
    });
    hash
}

/// Makes the codec of structures, and a function that describes them.
#[doc(hidden)]
#[macro_export]
macro_rules! codec {
    ($describe:ident: $(
        $type:ty {
            $($field:ident),* $(,)?
        } $(counts { $($count:ident),* $(,)? })? $(times { $($time:ident),* })?
        $(without { $($rest:ident: $value:expr),* })? ;
    )*) => {
        $(impl $crate::state::codec::Codec for $type {
            const NAME: &'static str = stringify!($type);
            fn put(&self, out: &mut $crate::state::codec::Out) {
                $($crate::state::codec::Codec::put(&self.$field, out);)*
                $($($crate::state::codec::Codec::put(&self.$count, out);)*)?
                $($($crate::state::codec::Codec::put(&self.$time, out);)*)?
            }
            fn get(read: &mut $crate::state::codec::Reader<'_>) -> Option<Self> {
                // Fields are read in the order in which they stand here.
                Some(Self {
                    $($field: read.get()?,)*
                    $($($count: read.count()?,)*)?
                    $($($time: read.time()?,)*)?
                    $($($rest: $value,)*)?
                })
            }
        })*

        fn $describe(give: &mut dyn FnMut(&'static str, &'static str, &'static str)) {
            $(
                $(give(
                    stringify!($type),
                    stringify!($field),
                    $crate::state::codec::name_of(|each: &$type| &each.$field),
                );)*
                $($(give(stringify!($type), stringify!($count), "count");)*)?
                $($(give(stringify!($type), stringify!($time), "time");)*)?
            )*
        }
    };
}
