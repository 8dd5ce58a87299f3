//! What the driver and TT-Metal's counters say, as JSON: for readers where no server runs.
//!
//! A value that is not there is null, and `unread` has its reason; TT-Metal's figures have their source and limits.

use serde::Serialize;
use serde_json::{Map, Value, json};
use ttmem_host::shm::{Bytes, LIMITS, SOURCE, SharedMemory};
use ttmem_host::{Device, Liveness, Reading};

/// One card with what its files say.
pub(super) fn device(device: &Device) -> Value {
    let mut shown = Shown::default();
    let (clocks, sensors, link) = (&device.clocks, &device.sensors, &device.link);
    shown.put("ordinal", &Ok(device.ordinal));
    shown.put(
        "pci_address",
        &device.bdf.clone().map(|bdf| bdf.to_string()),
    );
    shown.put("card_type", &device.card_type);
    shown.put(
        "board_serial",
        &device.serial.clone().map(|id| format!("{id:016X}")),
    );
    shown.put(
        "asic_id",
        &device.asic_id.clone().map(|id| format!("{id:016X}")),
    );
    shown.put("ai_clock_mhz", &clocks.ai_mhz);
    shown.put("axi_clock_mhz", &clocks.axi_mhz);
    shown.put("arc_clock_mhz", &clocks.arc_mhz);
    shown.put("heartbeat", &device.heartbeat);
    shown.put("thermal_trips", &device.thermal_trips);
    shown.put("link_speed", &link.speed);
    shown.put("link_max_speed", &link.max_speed);
    shown.put("link_width", &link.width);
    shown.put("link_max_width", &link.max_width);
    shown.put(
        "temperature_millidegrees",
        &sensors.temperature_millidegrees,
    );
    shown.put(
        "temperature_limit_millidegrees",
        &sensors.temperature_limit_millidegrees,
    );
    shown.put("voltage_millivolts", &sensors.voltage_millivolts);
    shown.put(
        "voltage_limit_millivolts",
        &sensors.voltage_limit_millivolts,
    );
    shown.put("current_milliamperes", &sensors.current_milliamperes);
    shown.put(
        "current_limit_milliamperes",
        &sensors.current_limit_milliamperes,
    );
    shown.put("power_microwatts", &sensors.power_microwatts);
    shown.put("power_limit_microwatts", &sensors.power_limit_microwatts);
    shown.put("fan_rpm", &sensors.fan_rpm);
    for (name, version) in &device.firmware {
        shown.put(name, version);
    }
    let holders = device.holders.clone().map(|holders| {
        let holder = |holder: &ttmem_host::Holder| {
            json!({"pid": holder.pid, "descriptors": holder.descriptors, "name": holder.name})
        };
        holders.iter().map(holder).collect::<Vec<_>>()
    });
    shown.put("holders", &holders);
    shown.finish()
}

/// Values by name, and why others are not there.
#[derive(Default)]
struct Shown {
    values: Map<String, Value>,
    unread: Map<String, Value>,
}

impl Shown {
    fn put(&mut self, name: &str, reading: &Reading<impl Serialize>) {
        let value = match reading {
            Ok(value) => json!(value),
            Err(why) => {
                self.unread.insert(name.to_owned(), json!(why.to_string()));
                Value::Null
            }
        };
        self.values.insert(name.to_owned(), value);
    }

    fn finish(mut self) -> Value {
        self.values
            .insert("unread".to_owned(), Value::Object(self.unread));
        Value::Object(self.values)
    }
}

/// One file of TT-Metal's counters.
pub(super) fn region(file: &SharedMemory) -> Value {
    let content = match &file.content {
        Ok(content) => content,
        Err(error) => {
            return json!({"id": file.id, "owner": file.owner, "source": SOURCE, "error": error.to_string()});
        }
    };
    let region = &content.region;
    let chips = region.chips.iter().map(|chip| {
        json!({"logical_id": chip.chip_id, "remote": chip.is_remote, "bytes": bytes(&chip.bytes)})
    });
    let processes = region.processes.iter().zip(&content.liveness).map(|(process, state)| {
        let state = match state {
            Liveness::Alive => "alive",
            Liveness::Dead => "dead",
            Liveness::Reused => "reused",
            Liveness::Unknown(_) => "unknown",
        };
        json!({"pid": process.pid, "name": process.name, "state": state, "bytes": bytes(&process.bytes)})
    });
    let doubts: Vec<String> = region.doubts.iter().map(ToString::to_string).collect();
    json!({
        "id": file.id,
        "owner": file.owner,
        "source": SOURCE,
        "error": null,
        "version": region.version,
        "changing": content.is_changing,
        "totals": bytes(&region.totals),
        "left_behind": bytes(&content.left_behind()),
        "chips": chips.collect::<Vec<_>>(),
        "processes": processes.collect::<Vec<_>>(),
        "doubts": doubts,
    })
}

/// Requested bytes by class, in upstream's words.
fn bytes(bytes: &Bytes) -> Value {
    let classes = bytes.classes().into_iter();
    let mut classes: Map<String, Value> = classes
        .map(|(name, bytes)| (name.to_lowercase(), json!(bytes)))
        .collect();
    if let Some(kernel) = bytes.kernel {
        classes.insert("kernel".to_owned(), json!(kernel));
    }
    Value::Object(classes)
}

/// What TT-Metal's figures are not.
pub(super) fn limits() -> Value {
    let limits = LIMITS
        .iter()
        .map(|limit| json!({"code": limit.code, "text": limit.text}));
    Value::Array(limits.collect())
}
