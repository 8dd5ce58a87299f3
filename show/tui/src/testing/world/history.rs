//! The history of a world: every figure goes up and down around what it is now.

use super::{NOW, World, ago};
use ttmem_report::{DeviceHistory, History, SCHEMA};

impl World {
    pub(super) fn history(self, seconds: u32) -> History {
        let steps = u64::from(seconds).min(600);
        let series = |now: u64, wave: u64| -> Vec<Option<u64>> {
            let value = |step: u64| {
                // The server was not running before that.
                let known = step >= steps / 6;
                let phase = step.wrapping_mul(wave) % 100;
                let swing = if phase < 50 { phase } else { 100 - phase };
                // What has no wave is what it is.
                let swing = if wave == 0 { 50 } else { swing };
                known.then(|| now / 100 * (50 + swing))
            };
            (0..steps).map(value).collect()
        };
        let device = |place: u32| {
            let device = self.device(place);
            let wave = 1 + u64::from(place % 5);
            DeviceHistory {
                id: device.id,
                unique_id: device.unique_id,
                scope: None,
                dram_bytes: series(device.dram.charged_bytes, wave),
                l1_bytes: series(device.l1.charged_bytes, 3 * wave),
                l1_small_bytes: series(device.l1_small.charged_bytes, 0),
                trace_bytes: series(device.trace.charged_bytes, 0),
                occupied_bytes: series(device.l1.occupied_bytes.unwrap_or(0), 7 * wave),
                cb_resident_bytes: series(device.cb.resident_bytes.unwrap_or(0), 9 * wave),
                cb_registered_bytes: series(device.cb.registered_bytes, wave),
                kernel_registered_bytes: series(device.kernel.registered_bytes, 0),
                dram_largest_free_bytes: series(
                    device.dram.largest_free_bytes_per_bank.unwrap_or(0),
                    wave,
                ),
                l1_largest_free_bytes: series(
                    device.l1.largest_free_bytes_per_bank.unwrap_or(0),
                    wave,
                ),
                dispatches: series(4_000, 11),
            }
        };
        History {
            schema: SCHEMA,
            time: NOW,
            step_seconds: 1,
            times: (0..steps).map(|step| ago(steps - 1 - step)).collect(),
            devices: (0..self.devices).map(device).collect(),
        }
    }
}
