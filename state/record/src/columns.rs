//! Events of a block by column, so that they pack well.
//!
//! Records of one kind have the same fields at the same places, and what follows each other in a
//! program has mostly the same values or the next ones. So the kinds stand first, one byte each, then
//! the times as steps from one event to the next, and then for each kind its words as steps from the
//! last record of that kind, byte by byte: all first bytes, then all second ones. Planes of nothing
//! but zeros, which are most, are left out.

use ttmem_event::event::{EVENT_BYTES, TIME_AT};

type Record = [u8; EVENT_BYTES];

/// Words of a record that are not its time.
const LANES: [usize; 14] = [0, 4, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60];

const KINDS: usize = 256;

/// Appends records; the first time is a step from `base`.
pub(crate) fn put(records: &[Record], base: u64, out: &mut Vec<u8>) {
    out.extend(records.iter().map(|record| record[0]));
    put_times(records, base, out);
    let mut lane: Vec<u32> = Vec::with_capacity(records.len());
    for places in by_kind(records.iter().map(|record| record[0])) {
        if places.is_empty() {
            continue;
        }
        let bitmap_at = out.len();
        out.extend_from_slice(&[0; 8]);
        let mut bitmap = 0_u64;
        for (number, at) in LANES.into_iter().enumerate() {
            lane.clear();
            let (mut before, mut bits) = (0_u32, 0);
            for place in &places {
                let record = &records[*place as usize];
                let word = [record[at], record[at + 1], record[at + 2], record[at + 3]];
                let word = u32::from_le_bytes(word);
                let step = zigzag(word.wrapping_sub(before));
                before = word;
                bits |= step;
                lane.push(step);
            }
            for (byte, bits) in bits.to_le_bytes().into_iter().enumerate() {
                if bits != 0 {
                    bitmap |= 1 << (4 * number + byte);
                    let shift = 8 * byte;
                    out.extend(lane.iter().map(|step| (step >> shift).to_le_bytes()[0]));
                }
            }
        }
        out[bitmap_at..bitmap_at + 8].copy_from_slice(&bitmap.to_le_bytes());
    }
}

fn put_times(records: &[Record], base: u64, out: &mut Vec<u8>) {
    let mut steps: Vec<u64> = Vec::with_capacity(records.len());
    let (mut before, mut bits) = (base, 0);
    for record in records {
        let time = time_of(record);
        let step = time.wrapping_sub(before);
        let step = (step << 1) ^ (0_u64.wrapping_sub(step >> 63));
        before = time;
        bits |= step;
        steps.push(step);
    }
    let planes = bits.to_le_bytes();
    let bitmap = planes
        .iter()
        .enumerate()
        .fold(0_u8, |bitmap, (byte, bits)| {
            bitmap | (u8::from(*bits != 0) << byte)
        });
    out.push(bitmap);
    for (byte, _bits) in planes
        .iter()
        .enumerate()
        .filter(|(_byte, bits)| **bits != 0)
    {
        let shift = 8 * byte;
        out.extend(steps.iter().map(|step| (step >> shift).to_le_bytes()[0]));
    }
}

/// Reads so many records; none if the bytes do not hold them or hold more.
pub(crate) fn get(mut bytes: &[u8], count: usize, base: u64) -> Option<Vec<Record>> {
    let kinds = take(&mut bytes, count)?;
    let mut records = vec![[0; EVENT_BYTES]; count];
    get_times(&mut bytes, base, &mut records)?;
    let mut lane: Vec<u32> = Vec::with_capacity(count);
    for places in by_kind(kinds.iter().copied()) {
        if places.is_empty() {
            continue;
        }
        let mut bitmap = [0; 8];
        bitmap.copy_from_slice(take(&mut bytes, 8)?);
        let bitmap = u64::from_le_bytes(bitmap);
        if bitmap >> (4 * LANES.len()) != 0 {
            return None;
        }
        for (number, at) in LANES.into_iter().enumerate() {
            let planes = bitmap >> (4 * number) & 0xf;
            if planes == 0 {
                continue;
            }
            lane.clear();
            lane.resize(places.len(), 0);
            for byte in (0..4).filter(|byte| planes >> byte & 1 != 0) {
                let plane = take(&mut bytes, places.len())?;
                for (step, more) in lane.iter_mut().zip(plane) {
                    *step |= u32::from(*more) << (8 * byte);
                }
            }
            let mut word = 0_u32;
            for (place, step) in places.iter().zip(&lane) {
                word = word.wrapping_add(unzigzag(*step));
                let record = &mut records[*place as usize];
                record[at..at + 4].copy_from_slice(&word.to_le_bytes());
            }
        }
    }
    bytes.is_empty().then_some(records)
}

fn get_times(bytes: &mut &[u8], base: u64, records: &mut [Record]) -> Option<()> {
    let bitmap = take(bytes, 1)?[0];
    let mut steps = vec![0_u64; records.len()];
    for byte in (0..8).filter(|byte| bitmap >> byte & 1 != 0) {
        let plane = take(bytes, records.len())?;
        for (step, more) in steps.iter_mut().zip(plane) {
            *step |= u64::from(*more) << (8 * byte);
        }
    }
    let mut time = base;
    for (record, step) in records.iter_mut().zip(steps) {
        let step = (step >> 1) ^ (0_u64.wrapping_sub(step & 1));
        time = time.wrapping_add(step);
        record[TIME_AT..TIME_AT + 8].copy_from_slice(&time.to_le_bytes());
    }
    Some(())
}

/// The places of each kind, in order.
fn by_kind(kinds: impl Iterator<Item = u8>) -> Vec<Vec<u32>> {
    let mut places: Vec<Vec<u32>> = vec![Vec::new(); KINDS];
    for (place, kind) in (0..).zip(kinds) {
        places[usize::from(kind)].push(place);
    }
    places
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn time_of(record: &Record) -> u64 {
    ttmem_event::Event::time_of(record)
}

/// A step up or down as a number that is small when the step is.
fn zigzag(step: u32) -> u32 {
    (step << 1) ^ 0_u32.wrapping_sub(step >> 31)
}

fn unzigzag(number: u32) -> u32 {
    (number >> 1) ^ 0_u32.wrapping_sub(number & 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> impl Strategy<Value = Record> {
        let bytes = proptest::collection::vec(any::<u8>(), EVENT_BYTES);
        bytes.prop_map(|bytes| bytes.try_into().expect("as many as a record has"))
    }

    proptest! {
        #[test]
        fn records_come_back(
            mut records in proptest::collection::vec(record(), 0..200),
            kinds in 1..8_u8,
            base in any::<u64>(),
        ) {
            for record in &mut records {
                record[0] %= kinds;
            }
            let mut bytes = Vec::new();
            put(&records, base, &mut bytes);
            let read = get(&bytes, records.len(), base);
            prop_assert_eq!(read.as_deref(), Some(&records[..]));
        }

        #[test]
        fn other_bytes_are_refused_or_make_as_many_records(
            bytes in proptest::collection::vec(any::<u8>(), 0..500),
            count in 0..100_usize,
        ) {
            if let Some(records) = get(&bytes, count, 0) {
                prop_assert_eq!(records.len(), count);
            }
        }
    }
}
