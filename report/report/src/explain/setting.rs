//! Regions whose size is given when the device is opened, and the value that is large enough.

use crate::explain::bank::Bank;
use crate::explain::moment::{Refused, TraceRegion};
use crate::{Device, FailedRequest, MemoryClass, PeakBytes, Setting};

/// Each bank's part of the trace region is a multiple of this.
const TRACE_PAGE_BYTES: u64 = 8192;

/// The largest alignment of any known architecture, for one that is not known.
const MAX_ALIGNMENT: u64 = 64;

/// Of each bank: more than the models of ttnn give it.
const GENEROUS_L1_SMALL_BYTES: u64 = 32 << 10;

/// Of all banks.
const GENEROUS_TRACE_BYTES: u64 = 64 << 20;

/// How a setting was found, where that leaves a doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    None,
    /// Right if the free block lies at the region's growing end.
    HoleAtTheEnd,
    /// Enough in any case; this much per bank is the least that could have been.
    AtLeast(u64),
    /// Enough in any case; what was taken is not known.
    TakenUnknown,
}

/// The size of the region that would have held the request as well.
pub(crate) fn for_request(refused: &Refused, need: u64) -> Option<(Setting, Doubt)> {
    let request = &refused.request;
    let (per_bank, doubt) = region_bytes(refused, need)?;
    let setting = match request.class? {
        MemoryClass::L1Small => {
            let alignment = refused.alignment.unwrap_or(MAX_ALIGNMENT).max(1);
            let value = per_bank.checked_next_multiple_of(alignment)?;
            Setting {
                name: "l1_small_size".to_owned(),
                value,
                bytes_per_bank: Some(value),
                given: request.bank_bytes,
                is_smallest: true,
            }
        }
        MemoryClass::Trace => {
            let banks = u64::from(request.banks?);
            let per_bank = per_bank.checked_next_multiple_of(TRACE_PAGE_BYTES)?;
            let given = request.bank_bytes.and_then(|bank| bank.checked_mul(banks));
            Setting {
                name: "trace_region_size".to_owned(),
                value: per_bank.checked_mul(banks)?,
                bytes_per_bank: Some(per_bank),
                given,
                is_smallest: true,
            }
        }
        _of_no_region => return None,
    };
    let is_smallest = matches!(doubt, Doubt::None | Doubt::HoleAtTheEnd);
    Some((
        Setting {
            is_smallest,
            ..setting
        },
        doubt,
    ))
}

/// What the region needs of each bank. A region that is larger keeps its blocks where they are, seen
/// from the end at which it is filled, and the request comes behind the last one.
fn region_bytes(refused: &Refused, need: u64) -> Option<(u64, Doubt)> {
    let FailedRequest {
        class,
        bank_bytes,
        allocated_bytes_per_bank: allocated,
        free_bytes_per_bank: free,
        largest_free_bytes_per_bank: largest,
        ..
    } = refused.request;
    if let Some(table) = &refused.table {
        let bank = Bank::new(table);
        let extent = if class == Some(MemoryClass::L1Small) {
            bank.extent_downwards()
        } else {
            bank.extent_upwards()
        };
        return Some((extent.checked_add(need)?, Doubt::None));
    }
    match (allocated, bank_bytes) {
        (Some(0), _) => Some((need, Doubt::None)),
        (Some(allocated), _) if free.is_some() && free == largest => {
            Some((allocated.checked_add(need)?, Doubt::HoleAtTheEnd))
        }
        (Some(allocated), Some(bank)) => {
            let least = allocated.checked_add(need)?;
            Some((bank.checked_add(need)?, Doubt::AtLeast(least)))
        }
        (None, Some(0)) => Some((need, Doubt::None)),
        (None, Some(bank)) => Some((bank.checked_add(need)?, Doubt::TakenUnknown)),
        (_, None) => None,
    }
}

/// The parameter is the sum of all banks.
pub(crate) fn for_traces(region: &TraceRegion) -> Option<Setting> {
    let value = region
        .need_bytes
        .checked_next_multiple_of(TRACE_PAGE_BYTES)?;
    let banks = region.banks.map(u64::from).filter(|banks| *banks > 0);
    let per_bank = banks.map(|banks| value.div_ceil(banks).next_multiple_of(TRACE_PAGE_BYTES));
    Some(Setting {
        name: "trace_region_size".to_owned(),
        value,
        bytes_per_bank: per_bank,
        given: Some(region.region_bytes),
        is_smallest: true,
    })
}

/// The regions of a device that were given or used, by the most that was in them at once.
///
/// A request needs a block in one piece, so after releases in another order a little more may be
/// needed.
#[must_use]
pub fn regions(device: &Device, peaks: &PeakBytes) -> Vec<Setting> {
    let trace = region(
        "trace_region_size",
        // The region is a part of the DRAM banks.
        device.trace.banks.or(device.dram.banks),
        peaks.trace,
        device.trace.capacity_bytes,
        TRACE_PAGE_BYTES,
    );
    let trace = trace.and_then(|(setting, banks)| {
        Some(Setting {
            value: setting.value.checked_mul(banks)?,
            given: setting.given.and_then(|given| given.checked_mul(banks)),
            ..setting
        })
    });
    let alignment = match device.arch.as_deref() {
        Some("wormhole_b0") => 32,
        _other => MAX_ALIGNMENT,
    };
    let l1_small = region(
        "l1_small_size",
        device.l1_small.banks.or(device.l1.banks),
        peaks.l1_small,
        device.l1_small.capacity_bytes,
        alignment,
    );
    let l1_small = l1_small.map(|(setting, _banks)| setting);
    trace.into_iter().chain(l1_small).collect()
}

/// A region with its sizes per bank, and its banks.
fn region(
    name: &str,
    banks: Option<u32>,
    peak_bytes: u64,
    capacity_bytes: Option<u64>,
    alignment: u64,
) -> Option<(Setting, u64)> {
    let banks = banks.map(u64::from).filter(|banks| *banks > 0)?;
    let given = capacity_bytes.map(|bytes| bytes / banks);
    if peak_bytes == 0 && given.unwrap_or(0) == 0 {
        return None;
    }
    let per_bank = peak_bytes.div_ceil(banks);
    let value = per_bank.checked_next_multiple_of(alignment)?;
    let setting = Setting {
        name: name.to_owned(),
        value,
        bytes_per_bank: Some(value),
        given,
        is_smallest: true,
    };
    Some((setting, banks))
}

/// As it is typed.
pub(crate) fn typed(setting: &Setting) -> String {
    format!("{}={}", setting.name, setting.value)
}

/// The end of a sentence about a region that was too small: the failure ended what would have shown
/// how much more is needed.
pub(crate) fn needed(setting: &Setting) -> String {
    let typed = typed(setting);
    if setting.is_smallest {
        format!("; at least {typed} is needed.")
    } else {
        format!("; with {typed} it fits.")
    }
}

/// The size for what failed, and the run that shows it for all that `comes_later`.
pub(crate) fn advice(setting: &Setting, comes_later: &str) -> String {
    let mut advice = format!(
        "open the device with at least {}: {comes_later} needs room as well",
        typed(setting)
    );
    if let Some(value) = generous(setting) {
        advice.push_str(&format!(
            ". To learn the exact size at once, run it under `ttmem run` with {}={value}: the report \
             says it",
            setting.name
        ));
    }
    advice
}

/// A value that is likely to be enough for all of a program.
fn generous(setting: &Setting) -> Option<u64> {
    let least = if setting.is_per_bank() {
        GENEROUS_L1_SMALL_BYTES
    } else {
        GENEROUS_TRACE_BYTES
    };
    let twice = setting.value.checked_mul(2)?.checked_next_power_of_two()?;
    Some(twice.max(least))
}
