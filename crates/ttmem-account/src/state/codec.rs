//! How a value of the account is written into and read from bytes.
//!
//! All numbers are little-endian; a list is its length and then its items; what may be
//! missing has a byte before it. `codec!` in [`super::layout`] has the structures.

use crate::totals::GaugeKind;
use ttmem_event::{
    BinaryStatus, BufferId, CbKind, Class, CoreType, CoresId, DeviceId, Direction, KernelId,
    KernelKind, Layout, MeshId, ProgramId, TextId, TraceId,
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
    /// The same of a value that goes on counting.
    fn get_count(read: &mut Reader<'_>) -> Option<Self> {
        Self::get(read)
    }
    /// The same of a value that is a time.
    fn get_time(read: &mut Reader<'_>) -> Option<Self> {
        Self::get(read)
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
numbers!(u8, u16, u32);

impl Codec for u64 {
    const NAME: &'static str = "u64";
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn get(read: &mut Reader<'_>) -> Option<Self> {
        Some(Self::from_le_bytes(read.take(8)?.try_into().ok()?))
    }
    fn get_count(read: &mut Reader<'_>) -> Option<Self> {
        Some(Self::get(read)?.min(MAX_COUNT))
    }
    fn get_time(read: &mut Reader<'_>) -> Option<Self> {
        let time = Self::get(read)?;
        Some((read.clock.0)(time))
    }
}

macro_rules! ids {
    ($($id:ident),*) => {$(
        impl Codec for $id {
            const NAME: &'static str = stringify!($id);
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn get(read: &mut Reader<'_>) -> Option<Self> {
                read.get().map(Self)
            }
        }
    )*};
}
ids!(
    BufferId, CoresId, DeviceId, KernelId, MeshId, ProgramId, TextId, TraceId
);

macro_rules! words {
    ($($word:ident),*) => {$(
        impl Codec for $word {
            const NAME: &'static str = stringify!($word);
            fn put(&self, out: &mut Vec<u8>) {
                out.push(self.code());
            }
            fn get(read: &mut Reader<'_>) -> Option<Self> {
                Self::from_code(read.get()?)
            }
        }
    )*};
}
words!(BinaryStatus, CbKind, Class, Direction, KernelKind, Layout);

impl Codec for CoreType {
    const NAME: &'static str = "CoreType";
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let code: u8 = read.get()?;
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl Codec for GaugeKind {
    const NAME: &'static str = "GaugeKind";
    fn put(&self, out: &mut Vec<u8>) {
        u8::try_from(self.index()).unwrap_or(u8::MAX).put(out);
    }
    fn get(read: &mut Reader<'_>) -> Option<Self> {
        let code: u8 = read.get()?;
        Self::all().nth(usize::from(code))
    }
}

impl Codec for bool {
    const NAME: &'static str = "bool";
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn get(read: &mut Reader<'_>) -> Option<Self> {
        match read.get()? {
            0_u8 => Some(false),
            1 => Some(true),
            _other => None,
        }
    }
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
    fn get_time(read: &mut Reader<'_>) -> Option<Self> {
        Some(if read.get()? {
            Some(T::get_time(read)?)
        } else {
            None
        })
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
