//! How a value of the account is written into and read from bytes.
//!
//! All numbers are little-endian; a list is its length and then its items; what may be
//! missing has a byte before it. `codec!` in [`super::layout`] has the structures.

use crate::totals::GaugeKind;
use ttmem_event::{
    BinaryStatus, CbKind, Class, CoreType, CoresId, DeviceId, Direction, KernelId, KernelKind,
    Layout, ProgramId, TextId, TraceId,
};

/// Counters beyond this are noise, and must not overflow when they go on counting.
pub(super) const MAX_COUNT: u64 = 1 << 62;

/// Bytes that are read front to back.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    /// Turns the times of the writer's clock into those of the reader.
    pub(super) clock: Clock<'a>,
}

/// A way to read another's clock.
pub(super) struct Clock<'a>(pub(super) &'a dyn Fn(u64) -> u64);

impl std::fmt::Debug for Clock<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

impl Reader<'_> {
    /// The next value; none when the bytes end or hold none.
    pub(super) fn get<T: Codec>(&mut self) -> Option<T> {
        T::get(self)
    }

    /// A value that goes on counting.
    pub(super) fn count(&mut self) -> Option<u64> {
        Some(self.get::<u64>()?.min(MAX_COUNT))
    }

    pub(super) fn time<T: Time>(&mut self) -> Option<T> {
        Some(self.get::<T>()?.read_by(&self.clock))
    }

    /// Reads a list, item by item; false when it breaks off.
    ///
    /// Nothing is reserved for its length: that comes from outside.
    #[must_use]
    pub(super) fn each<T: Codec>(&mut self, mut take: impl FnMut(T)) -> bool {
        let Some(count) = self.get::<u64>() else {
            return false;
        };
        for _item in 0..count {
            let Some(item) = self.get() else {
                return false;
            };
            take(item);
        }
        true
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }
}

pub(super) fn put_list<'i, T: Codec + 'i>(
    out: &mut Vec<u8>,
    items: impl ExactSizeIterator<Item = &'i T>,
) {
    (items.len() as u64).put(out);
    items.for_each(|item| item.put(out));
}

/// A value that a state is made of.
pub(super) trait Codec: Sized {
    /// Its name in the description of the layout.
    const NAME: &'static str;
    fn put(&self, out: &mut Vec<u8>);
    fn get(read: &mut Reader<'_>) -> Option<Self>;
}

/// A time of the writer's clock.
pub(super) trait Time: Codec {
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
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn get(read: &mut Reader<'_>) -> Option<Self> {
                let bytes = read.take(size_of::<$number>())?;
                Some(Self::from_le_bytes(bytes.try_into().ok()?))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64);

/// Makes the codec of what is written as a number.
macro_rules! as_numbers {
    ($($type:ident: $number:ty = $to:expr, $from:expr;)*) => {$(
        impl Codec for $type {
            const NAME: &'static str = stringify!($type);
            fn put(&self, out: &mut Vec<u8>) {
                let to: fn($type) -> $number = $to;
                to(*self).put(out);
            }
            fn get(read: &mut Reader<'_>) -> Option<Self> {
                let from: fn($number) -> Option<$type> = $from;
                from(read.get()?)
            }
        }
    )*};
}
as_numbers! {
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
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        Some(if read.get()? { Some(read.get()?) } else { None })
    }
}

impl<T: Codec> Codec for Vec<T> {
    const NAME: &'static str = "list";
    fn put(&self, out: &mut Vec<u8>) {
        put_list(out, self.iter());
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let mut list = Self::new();
        read.each(|item| list.push(item)).then_some(list)
    }
}

impl<T: Codec, const N: usize> Codec for [T; N] {
    const NAME: &'static str = "array";
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|item| item.put(out));
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let items: Option<Vec<T>> = (0..N).map(|_item| read.get()).collect();
        items?.try_into().ok()
    }
}

impl<A: Codec, B: Codec> Codec for (A, B) {
    const NAME: &'static str = "pair";
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn get(read: &mut Reader<'_>) -> Option<Self> {
        Some((read.get()?, read.get()?))
    }
}
