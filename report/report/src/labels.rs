//! One label for one figure: what every screen and report calls it, and how it is written.
//!
//! Nothing else formats these figures, so that two views of one moment cannot differ.

use crate::format::bytes;
use crate::share::{Share, percent};
use crate::{
    AllocatorUsage, ClassUsage, Device, Explanation, IncompleteReason, Mark, MemoryClass, Process,
    ProcessDevice, ProcessState, Released, Setting,
};

pub const DRAM: &str = "DRAM";
/// The union per core: the only figure that is a share of L1.
pub const L1: &str = "L1";
pub const L1_BUFFERS: &str = "L1 buffers";
pub const L1_SMALL: &str = "L1_SMALL";
pub const TRACE: &str = "TRACE";
/// Resident ones, never registered ones.
pub const CBS: &str = "CBs";
pub const LARGEST_FIT: &str = "largest fit";
pub const CB_HEADROOM: &str = "CB headroom";
pub const FRAGMENTED: &str = "fragmented";
pub const PEAK: &str = "peak";
pub const HELD_AT_EXIT: &str = "held at exit";

/// In the place of a name that only its user may see.
pub const HIDDEN: &str = "hidden: another user's";

/// The name of a mark, or that it is hidden; `unnamed` for one without a name.
#[must_use]
pub fn mark_name<'m>(mark: &'m Mark, unnamed: &'m str) -> &'m str {
    match mark.name.as_str() {
        _left_out if mark.name_hidden => HIDDEN,
        "" => unnamed,
        name => name,
    }
}

/// Below so many bytes between CBs and the lowest L1 buffer the next program may well clash.
pub const NARROW_HEADROOM_BYTES: i64 = 16 * 1024;

/// The largest request that would be granted now, with the bank's part: `10.6 GiB (922.0 MiB x 12 banks)`.
#[must_use]
pub fn largest_fit(class: &ClassUsage) -> Option<String> {
    let fit = class.largest_fit_bytes()?;
    let (per_bank, banks) = (class.largest_free_bytes_per_bank?, class.banks?);
    let parts = match banks {
        1 => String::new(),
        banks => format!(" ({} x {banks} banks)", bytes(per_bank)),
    };
    Some(format!("{}{parts}", bytes(fit)))
}

/// How much of what is free cannot be had at once: `12.3% fragmented`.
#[must_use]
pub fn fragmented(class: &ClassUsage) -> Option<String> {
    let permille = class.fragmented_permille()?;
    let share = percent(Share::of(permille.into(), Some(1000)), "");
    Some(format!("{} {FRAGMENTED}", share.trim_start()))
}

/// Why a figure that sums up allocators is more than there is: several of them hand out the same bytes.
/// `more than the device has: 2 allocators overlap`; `None` where it is not more.
#[must_use]
pub fn more_than_there_is(
    charged_bytes: u64,
    capacity_bytes: Option<u64>,
    allocators: usize,
) -> Option<String> {
    let whole = capacity_bytes.filter(|whole| charged_bytes > *whole)?;
    let who = match allocators {
        // Of a peak nobody knows how many there were.
        0 => "allocators overlapped, or it was opened with more then".to_owned(),
        allocators => format!("{allocators} allocators overlap"),
    };
    Some(format!(
        "more than the device has ({}): {who}",
        bytes(whole)
    ))
}

/// The same of what is charged now of each class: `DRAM charged 14.0 GiB, more than ...`.
#[must_use]
pub fn more_than_the_device_has(device: &Device) -> Vec<String> {
    let classes = [
        (DRAM, MemoryClass::Dram, &device.dram),
        (L1_BUFFERS, MemoryClass::L1, &device.l1),
        (L1_SMALL, MemoryClass::L1Small, &device.l1_small),
        (TRACE, MemoryClass::Trace, &device.trace),
    ];
    let said = classes.into_iter().filter_map(|(name, of, class)| {
        class.overlap_bytes.filter(|overlap| *overlap > 0)?;
        let taking = |each: &&AllocatorUsage| each.class == of && each.charged_bytes > 0;
        let allocators = device.allocators.iter().filter(taking).count();
        let charged = class.charged_bytes;
        // One alone overlaps with nothing: a reader may not be shown all of them.
        let more = more_than_there_is(charged, class.capacity_bytes, allocators.max(2))?;
        Some(format!("{name} charged {}, {more}", bytes(charged)))
    });
    said.collect()
}

/// A sum over devices says so: `9.0 GiB on 8 devices`.
#[must_use]
pub fn on_devices(sum_bytes: u64, devices: usize) -> String {
    match devices {
        0 | 1 => bytes(sum_bytes),
        devices => format!("{} on {devices} devices", bytes(sum_bytes)),
    }
}

/// What there is on several devices together says so: `96.0 GiB on 8 devices`.
#[must_use]
pub fn on_devices_of(whole: String, devices: usize) -> String {
    match devices {
        0 | 1 => whole,
        devices => format!("{whole} on {devices} devices"),
    }
}

/// The bytes between CBs and tensors on the tightest core, in words.
#[must_use]
pub fn headroom(headroom_bytes: i64) -> String {
    let size = bytes(headroom_bytes.unsigned_abs());
    if headroom_bytes < 0 {
        format!("overlap of {size}")
    } else {
        size
    }
}

/// What a process holds of something on these devices together.
#[must_use]
pub fn held(devices: &[ProcessDevice], of: fn(&ProcessDevice) -> u64) -> u64 {
    devices.iter().map(of).fold(0, u64::saturating_add)
}

/// The device on which a process holds, or held, most DRAM: what it has there, and its peak there.
///
/// Peaks of several devices are of different moments: their sum would be a peak of nothing. A server
/// that does not keep peaks sends none.
#[must_use]
pub fn fullest(devices: &[ProcessDevice]) -> Option<(&ProcessDevice, Option<u64>)> {
    let peak = |device: &ProcessDevice| device.peak.map(|peak| peak.dram);
    let most = devices
        .iter()
        .max_by_key(|device| (device.dram_bytes, peak(device)))?;
    Some((most, peak(most)))
}

/// How a process ended and what it held then: buffers, then programs' storage apart.
#[must_use]
pub fn held_at_exit(how: &str, released: &Released) -> String {
    let mut parts = Vec::new();
    if released.buffers > 0 {
        let buffers = crate::format::counted(released.buffers, "buffer");
        parts.push(format!("{buffers}: {}", bytes(released.buffer_bytes)));
    }
    let programs = released.bytes.saturating_sub(released.buffer_bytes);
    if programs > 0 {
        parts.push(format!("programs of {}", bytes(programs)));
    }
    if parts.is_empty() {
        return format!("{how}, nothing held");
    }
    format!("{how}, {HELD_AT_EXIT} {}", parts.join(" and "))
}

/// How a process ended, in words.
#[must_use]
pub fn departure(reason: &str) -> &str {
    match reason {
        // Of older servers. With which code it exited, the server does not know.
        "goodbye" => "exited",
        "replaced" => "replaced by another program",
        "forgotten" => "forgotten on request",
        other => other,
    }
}

/// The name of a process, or that it is hidden.
#[must_use]
pub fn process_name(process: &Process) -> Option<&str> {
    let hidden = process.names_hidden.then_some(HIDDEN);
    process.name.as_deref().or(hidden)
}

/// Why the figures of a process cannot be trusted; none if they can.
#[must_use]
pub fn incomplete(process: &Process) -> Option<String> {
    let reasons = process.incomplete_reasons.iter();
    let reasons: Vec<String> = reasons.map(IncompleteReason::text).collect();
    match reasons.as_slice() {
        [] => process
            .incomplete
            .then(|| "for an unknown reason".to_owned()),
        reasons => Some(reasons.join(", ")),
    }
}

/// Whether figures were compared with the runtime's own allocator statistics.
#[must_use]
pub const fn checked(verified: Option<bool>) -> &'static str {
    match verified {
        Some(true) => "equal to the allocator",
        Some(false) => "DIFFERS from the allocator",
        None => "not checked against the allocator",
    }
}

#[must_use]
pub fn is_gone(process: &Process) -> bool {
    process.state == ProcessState::Exited
}

/// A region's size that would have done, as it is typed, and how much of it was never used.
#[must_use]
pub fn region(setting: &Setting) -> String {
    let typed = format!("{}={}", setting.name, setting.value);
    let of_bank = if setting.is_per_bank() {
        " per bank"
    } else {
        ""
    };
    match setting.unused().filter(|unused| *unused > 0) {
        Some(unused) if setting.value == 0 => {
            format!("{typed} ({}{of_bank} given, never used)", bytes(unused))
        }
        Some(unused) => format!(
            "{typed} ({}{of_bank}, {} never used)",
            bytes(setting.value),
            bytes(unused)
        ),
        None => format!("{typed} ({}{of_bank})", bytes(setting.value)),
    }
}

/// The regions of a device, as [`region`] has them; where one was refused as too small, what would have done.
#[must_use]
pub fn regions(device: &Device, failures: &[Explanation]) -> Vec<String> {
    let refused = |setting: &Setting| {
        let on_device = failures.iter().filter(|failure| {
            let ids = failure.device_ids.as_ref();
            ids.is_none_or(|ids| ids.contains(&device.id))
        });
        let wanted = on_device.filter_map(|failure| failure.setting.as_ref());
        let same = wanted.filter(|wanted| wanted.name == setting.name);
        let largest = same.map(|wanted| wanted.value).max();
        largest.filter(|value| *value > setting.value)
    };
    let text = |setting: &Setting| match refused(setting) {
        Some(value) => format!(
            "{}={value} (a smaller region was refused as too small)",
            setting.name
        ),
        None => region(setting),
    };
    device.regions.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_that_was_never_used_is_named_as_it_is_given() {
        let unused = |name: &str, given| {
            let setting = Setting {
                name: name.to_owned(),
                value: 0,
                bytes_per_bank: Some(0),
                given: Some(given),
                is_smallest: true,
            };
            region(&setting)
        };
        assert_eq!(
            unused("trace_region_size", 4 << 20),
            "trace_region_size=0 (4.0 MiB given, never used)"
        );
        assert_eq!(
            unused("l1_small_size", 32 << 10),
            "l1_small_size=0 (32.0 KiB per bank given, never used)"
        );
    }

    fn class(free_per_bank: u64) -> ClassUsage {
        ClassUsage {
            capacity_bytes: Some(12 << 30),
            banks: Some(12),
            union_bytes: Some(6 << 30),
            largest_free_bytes_per_bank: Some(free_per_bank),
            ..ClassUsage::default()
        }
    }

    #[test]
    fn more_than_a_device_has_is_said_with_its_reason() {
        let over = ClassUsage {
            charged_bytes: 14 << 30,
            overlap_bytes: Some(3 << 30),
            peak_bytes: 15 << 30,
            ..class(0)
        };
        let allocator = |mesh, class| AllocatorUsage {
            pid: Some(7),
            instance: None,
            mesh: Some(mesh),
            class,
            charged_bytes: 7 << 30,
            capacity_bytes: Some(12 << 30),
            banks: Some(12),
            largest_free_bytes_per_bank: None,
            fragmentation: None,
            buffers: 1,
            verified: None,
        };
        let mut device = Device {
            dram: over,
            allocators: vec![
                allocator(1, MemoryClass::Dram),
                allocator(2, MemoryClass::Dram),
                allocator(2, MemoryClass::L1),
            ],
            ..Device::default()
        };
        let now =
            "DRAM charged 14.0 GiB, more than the device has (12.0 GiB): 2 allocators overlap";
        assert_eq!(more_than_the_device_has(&device), [now]);
        device.dram.charged_bytes = 12 << 30;
        assert_eq!(more_than_the_device_has(&device), [""; 0]);
        // They are gone, but the peak is still there.
        let peak = "more than the device has (12.0 GiB): allocators overlapped, or it was opened with \
                    more then";
        let said = more_than_there_is(15 << 30, Some(12 << 30), 0);
        assert_eq!(said.as_deref(), Some(peak));
        assert_eq!(more_than_there_is(12 << 30, Some(12 << 30), 0), None);
        assert_eq!(more_than_there_is(15 << 30, None, 2), None);
    }

    #[test]
    fn the_largest_fit_is_a_request_and_never_above_what_is_free() {
        let half = class(256 << 20);
        assert_eq!(
            largest_fit(&half).as_deref(),
            Some("3.0 GiB (256.0 MiB x 12 banks)")
        );
        assert_eq!(fragmented(&half).as_deref(), Some("50.0% fragmented"));
        let whole = class(512 << 20);
        assert_eq!(fragmented(&whole).as_deref(), Some("0.0% fragmented"));
        // Whatever a server sends.
        assert_eq!(class(u64::MAX).largest_fit_bytes(), Some(6 << 30));
        assert_eq!(largest_fit(&ClassUsage::default()), None);
        assert_eq!(fragmented(&ClassUsage::default()), None);
    }

    #[test]
    fn a_sum_over_devices_says_so() {
        assert_eq!(on_devices(9 << 30, 8), "9.0 GiB on 8 devices");
        assert_eq!(on_devices(9 << 30, 1), "9.0 GiB");
        assert_eq!(headroom(-2048), "overlap of 2.0 KiB");
    }

    #[test]
    fn buffers_and_programs_held_at_exit_are_said_apart() {
        let said = |buffers, buffer_bytes, bytes| {
            let released = Released {
                buffers,
                buffer_bytes,
                bytes,
                ..released()
            };
            held_at_exit("ended", &released)
        };
        assert_eq!(said(0, 0, 0), "ended, nothing held");
        assert_eq!(
            said(2, 1 << 20, 3 << 20),
            "ended, held at exit 2 buffers: 1.0 MiB and programs of 2.0 MiB"
        );
        assert_eq!(
            said(0, 0, 2 << 20),
            "ended, held at exit programs of 2.0 MiB"
        );
    }

    fn released() -> Released {
        Released {
            buffers: 0,
            cbs: 0,
            kernels: 0,
            bytes: 0,
            buffer_bytes: 0,
            time: crate::Timestamp::from_unix_nanos(0),
            reason: "ended".to_owned(),
        }
    }
}
