//! Which devices there are before any client reports one.
//!
//! From the board the user names, else from what the machine's driver lists.

use std::sync::Arc;
use ttmem_event::catalogue::{BankedRegion, BoardKind, ChipAttachment, DeviceOptions};
use ttmem_event::legacy::DeviceInfo;
use ttmem_event::{Class, CoreSet};
use ttmem_ledger::{Capacity, ComputeL1, DeviceFacts};
use ttmem_machine::Chip;

#[derive(Clone, Debug)]
pub(crate) struct KnownDevice {
    pub(crate) facts: DeviceFacts,
    /// The answer to old clients.
    pub(crate) info: DeviceInfo,
}

/// The chips of a board, numbered as the runtime numbers them.
pub(crate) fn devices_of_board(kind: BoardKind) -> Vec<KnownDevice> {
    kind.chips()
        .map(|chip| {
            let is_remote = chip.attachment != ChipAttachment::Local;
            describe(kind, is_remote, chip.logical_id)
        })
        .collect()
}

/// The chips that the machine's driver knows.
pub(crate) fn devices_of_chips(chips: &[Chip]) -> Vec<KnownDevice> {
    chips.iter().map(of_chip).collect()
}

fn of_chip(chip: &Chip) -> KnownDevice {
    if let Some(kind) = chip.board {
        return describe(kind, chip.is_remote, chip.logical_id);
    }
    // A card that the catalogue does not have: what the driver says of it is all.
    let facts = DeviceFacts {
        logical_id: chip.logical_id,
        arch: chip.arch,
        remote: Some(chip.is_remote),
        ..DeviceFacts::default()
    };
    KnownDevice {
        info: info_of(&facts),
        facts,
    }
}

fn describe(kind: BoardKind, is_remote: bool, logical_id: u32) -> KnownDevice {
    let mut facts = DeviceFacts {
        logical_id,
        arch: Some(kind.arch()),
        board: Some(Arc::from(kind.name())),
        remote: Some(is_remote),
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
    use ttmem_event::catalogue::Arch;

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
    fn chips_are_devices_with_their_numbers_known_board_or_not() {
        let chip = |logical_id, is_remote, board| Chip {
            logical_id,
            ordinal: 0,
            is_remote,
            bdf: None,
            board,
            arch: Some(Arch::Wormhole),
            serial: None,
            asic_id: None,
            tray: None,
        };
        let n300 = Some(BoardKind::N300);
        let devices = devices_of_chips(&[
            chip(0, false, n300),
            chip(1, false, None),
            chip(2, true, n300),
        ]);
        let facts: Vec<_> = devices
            .iter()
            .map(|device| {
                let facts = &device.facts;
                let dram = facts.capacities[Class::Dram.index()];
                (facts.logical_id, facts.remote, dram.is_some())
            })
            .collect();
        assert_eq!(
            facts,
            [
                (0, Some(false), true),
                (1, Some(false), false),
                (2, Some(true), true)
            ]
        );
        assert_eq!(devices[1].facts.arch, Some(Arch::Wormhole));
    }
}
