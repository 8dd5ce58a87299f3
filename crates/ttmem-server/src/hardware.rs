//! Which devices there are before any client reports one.
//!
//! From the board the user names, else from the driver's files in sysfs. The
//! device node itself is never opened: that would wake the device.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use ttmem_event::catalogue::{
    BankedRegion, BoardKind, ChipAttachment, ChipDescription, DeviceOptions,
};
use ttmem_event::legacy::DeviceInfo;
use ttmem_event::{Class, CoreSet};
use ttmem_ledger::{Capacity, ComputeL1, DeviceFacts};

pub(crate) const SYSFS_CLASS: &str = "/sys/class/tenstorrent";

#[derive(Clone, Debug)]
pub(crate) struct KnownDevice {
    pub(crate) facts: DeviceFacts,
    /// The answer to old clients.
    pub(crate) info: DeviceInfo,
}

/// The chips of a board, numbered as the runtime numbers them.
pub(crate) fn devices_of_board(kind: BoardKind) -> Vec<KnownDevice> {
    kind.chips()
        .map(|chip| describe(kind, &chip, chip.logical_id))
        .collect()
}

/// The chips behind every card that the driver lists.
///
/// The runtime numbers the chips it reaches directly first, then the others.
pub(crate) fn devices_of_sysfs(class: &Path) -> Vec<KnownDevice> {
    let Ok(entries) = fs::read_dir(class) else {
        return Vec::new();
    };
    let mut cards: Vec<(u32, BoardKind)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let ordinal = name.to_str()?.strip_prefix("tenstorrent!")?.parse().ok()?;
            let card = fs::read_to_string(entry.path().join("tt_card_type")).ok()?;
            Some((ordinal, BoardKind::from_name(&card)?))
        })
        .collect();
    cards.sort_by_key(|(ordinal, _kind)| *ordinal);
    let mut chips: Vec<(bool, BoardKind, ChipDescription)> = Vec::new();
    for (_ordinal, kind) in cards {
        // One driver entry is one directly reached chip, whatever the product holds in all.
        let mut locals = kind.chips();
        let local = locals.find(|chip| chip.attachment == ChipAttachment::Local);
        let Some(local) = local else { continue };
        chips.push((false, kind, local));
        let gateway = local.logical_id;
        let behind = kind.chips().filter(move |chip| {
            matches!(chip.attachment, ChipAttachment::Remote { gateway: at } if at == gateway)
        });
        chips.extend(behind.map(|chip| (true, kind, chip)));
    }
    chips.sort_by_key(|(remote, _kind, _chip)| *remote);
    (0_u32..)
        .zip(chips)
        .map(|(id, (_remote, kind, chip))| describe(kind, &chip, id))
        .collect()
}

fn describe(kind: BoardKind, chip: &ChipDescription, logical_id: u32) -> KnownDevice {
    let mut facts = DeviceFacts {
        logical_id,
        arch: Some(kind.arch()),
        board: Some(Arc::from(kind.name())),
        remote: Some(chip.attachment != ChipAttachment::Local),
        ..DeviceFacts::default()
    };
    if let Some(capacities) = kind.capacities(&DeviceOptions::default_of(kind)) {
        let grid = capacities.compute_grid;
        facts.compute = Some(ComputeL1 {
            cores: CoreSet::grid(grid.x, grid.y),
            bytes_per_core: capacities.l1_bytes_per_core,
            reserved_bytes: capacities.l1_reserved_bytes_per_core,
        });
        // How large L1_SMALL and TRACE are is chosen when a device is opened: not known here.
        facts.capacities[Class::Dram.index()] = Some(capacity(&capacities.dram));
        facts.capacities[Class::L1.index()] = Some(capacity(&capacities.l1));
        let info = DeviceInfo {
            total_dram_bytes: capacities.physical_dram_bytes(),
            dram_bytes_per_channel: capacities.dram_bank_bytes,
            ..info_of(&facts)
        };
        return KnownDevice { facts, info };
    }
    let info = info_of(&facts);
    KnownDevice { facts, info }
}

fn capacity(region: &BankedRegion) -> Capacity {
    Capacity {
        banks: region.banks,
        base: region.base,
        per_bank_bytes: region.bytes_per_bank,
    }
}

/// The answer to old clients for a device that a client reported.
pub(crate) fn info_of(facts: &DeviceFacts) -> DeviceInfo {
    let dram = facts.capacities[Class::Dram.index()];
    let compute = facts.compute;
    DeviceInfo {
        total_dram_bytes: dram.map_or(0, |dram| dram.total_bytes()),
        total_l1_bytes: compute.map_or(0, |compute| compute.physical_bytes()),
        arch_type: facts.arch.map_or(0, |arch| arch.legacy_code()),
        num_dram_channels: dram.map_or(0, |dram| dram.banks),
        dram_bytes_per_channel: dram.map_or(0, |dram| dram.per_bank_bytes),
        l1_bytes_per_core: u32::try_from(compute.map_or(0, |compute| compute.bytes_per_core))
            .unwrap_or(u32::MAX),
        ..DeviceInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l1_counts_compute_cores_and_not_the_noc_grid() {
        let devices = devices_of_board(BoardKind::P150);
        assert_eq!(devices.len(), 1);
        assert_eq!(devices[0].info.total_l1_bytes, 110 * 1_572_864);
        let wormhole = devices_of_board(BoardKind::N150);
        assert_eq!(wormhole[0].info.total_l1_bytes, 64 * 1_499_136);
        assert_eq!(wormhole[0].info.total_dram_bytes, 12 << 30);
    }

    #[test]
    fn four_cards_with_two_chips_are_four_local_then_four_remote_devices() {
        let class = tempfile::tempdir().unwrap();
        for card in 0..4 {
            let folder = class.path().join(format!("tenstorrent!{card}"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("tt_card_type"), "n300\n").unwrap();
        }
        fs::create_dir(class.path().join("unrelated")).unwrap();
        let devices = devices_of_sysfs(class.path());
        let remote: Vec<Option<bool>> = devices.iter().map(|device| device.facts.remote).collect();
        assert_eq!(remote[..4], [Some(false); 4]);
        assert_eq!(remote[4..], [Some(true); 4]);
        let ids: Vec<u32> = devices
            .iter()
            .map(|device| device.facts.logical_id)
            .collect();
        assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn no_driver_is_no_devices() {
        assert!(devices_of_sysfs(Path::new("/nonexistent")).is_empty());
    }
}
