//! Log entries and notes as JSON lines: one object per line, for programs.
//!
//! Keys and words follow the read API where it has them: sizes and counts are integers, ids of
//! buffers and kernels are hex strings, what is not known is `null`. Fields of events that have
//! no form of their own stand in an object `fields`, so that they cannot meet the common keys.
//! The scribe calls this for every event; like the plain form it only appends.

use ttmem_api::MemoryClass;
use ttmem_event::{Class, What};
use ttmem_ledger::{Change, DeviceFacts, Released};

use super::entry::{LogEntry, Note};
use super::fields::{Value, fields};
use super::object::Object;
use super::plain::FailureCause;

/// Appends the line of an entry; none if only `verbose` logs show it.
pub(super) fn write_entry(out: &mut String, entry: &LogEntry, verbose: bool) {
    if !entry.is_shown(verbose) {
        return;
    }
    let mut object = Object::line(out, entry.effect.time);
    match &entry.effect.change {
        Change::Happened(what) => object.snake_case("event", what.name()),
        change => object.word("event", change_name(change)),
    }
    object.number("pid", entry.pid);
    object.number("device", entry.device_number());
    write_change(&mut object, &entry.effect.change);
    object.end_line();
}

const fn change_name(change: &Change) -> &'static str {
    match change {
        Change::BufferBooked { .. } => "buffer_alloc",
        Change::BufferReleased { .. } => "buffer_free",
        Change::CbBooked { .. } => "cb_alloc",
        Change::CbReleased { .. } => "cb_free",
        Change::KernelBooked { .. } => "kernel_load",
        Change::KernelReleased { .. } => "kernel_unload",
        Change::L1Peak { .. } => "l1_peak",
        Change::Happened(_) => "happened",
        Change::Contradicted { .. } => "anomaly",
    }
}

fn write_change(object: &mut Object<'_>, change: &Change) {
    match *change {
        Change::BufferBooked {
            class,
            id,
            bytes,
            references,
        }
        | Change::BufferReleased {
            class,
            id,
            bytes,
            references,
        } => {
            object.word("class", class_word(class));
            object.hex("id", id);
            object.number("bytes", Some(bytes));
            object.number("references", Some(references));
        }
        Change::CbBooked {
            program,
            bytes,
            total_bytes,
        }
        | Change::CbReleased {
            program,
            bytes,
            total_bytes,
        } => {
            object.number("program_id", Some(program));
            object.number("bytes", Some(bytes));
            object.number("device_total_bytes", Some(total_bytes));
        }
        Change::KernelBooked {
            program,
            kind,
            core_type,
            binary_bytes,
            cores,
            bytes,
            total_bytes,
        } => {
            object.number("program_id", Some(program));
            object.word("kind", kind.name());
            match core_type {
                Some(core_type) => object.word("core_type", core_type.name()),
                None => object.null("core_type"),
            }
            object.number("binary_bytes", binary_bytes);
            object.number("cores", cores);
            object.number("total_bytes", Some(bytes));
            object.number("device_total_bytes", Some(total_bytes));
        }
        Change::KernelReleased {
            program,
            kind,
            bytes,
            total_bytes,
        } => {
            object.number("program_id", Some(program));
            object.word("kind", kind.name());
            object.number("total_bytes", Some(bytes));
            object.number("device_total_bytes", Some(total_bytes));
        }
        Change::L1Peak { bytes, buffers } => {
            object.number("bytes", Some(bytes));
            object.number("buffers", Some(buffers));
        }
        Change::Happened(what) => {
            if let What::AllocationFailed {
                per_bank_bytes,
                free_bytes,
                largest_free_bytes,
                ..
            } = what
            {
                let cause = FailureCause::of(per_bank_bytes, free_bytes, largest_free_bytes);
                object.word("cause", cause.name());
            }
            write_fields(object, &what);
        }
        Change::Contradicted { anomaly, what } => {
            object.word("anomaly", anomaly.name());
            object.snake_case("report", what.name());
            write_fields(object, &what);
        }
    }
}

fn write_fields(object: &mut Object<'_>, what: &What) {
    object.nested("fields", |object| {
        for (name, value) in fields(what) {
            match value {
                Value::Number(number) => object.number(name, Some(number)),
                Value::Signed(number) => object.number(name, Some(number)),
                Value::Id(id) => object.hex(name, id),
                Value::Word(word) => object.word(name, word),
                Value::Class(class) => object.word(name, class_word(class)),
                Value::Flag(flag) => object.flag(name, flag),
                Value::All => object.word(name, "all"),
            }
        }
    });
}

/// The word of the read API, which differs from the old log's.
const fn class_word(class: Class) -> &'static str {
    match class {
        Class::Dram => MemoryClass::Dram.as_str(),
        Class::L1 => MemoryClass::L1.as_str(),
        Class::System => MemoryClass::System.as_str(),
        Class::L1Small => MemoryClass::L1Small.as_str(),
        Class::Trace => MemoryClass::Trace.as_str(),
    }
}

/// Appends the line of a note.
pub(super) fn write_note(out: &mut String, time_nanos: u64, note: &Note) {
    let mut object = Object::line(out, time_nanos);
    object.word("event", note_name(note));
    match note {
        Note::Started { sockets, devices } => {
            object.texts("sockets", sockets);
            object.list("devices", devices, write_device);
        }
        Note::Stopped => {}
        Note::Joined { pid, name } => {
            object.number("pid", *pid);
            object.text("name", name);
        }
        Note::Detached { pid } | Note::Returned { pid } => object.number("pid", *pid),
        Note::Departed { pid, exit } => {
            object.number("pid", *pid);
            object.word("departure", exit.departure.name());
            write_released(&mut object, &exit.released);
        }
        Note::Refused { pid, reason } | Note::Dropped { pid, reason } => {
            object.number("pid", *pid);
            object.text("reason", reason);
        }
        Note::InvalidBufferType {
            pid,
            buffer_type,
            id,
            device,
        } => {
            object.number("pid", *pid);
            object.number("device", Some(*device));
            object.hex("id", *id);
            object.number("buffer_type", Some(*buffer_type));
        }
        Note::UnknownMessage { pid, message_type } => {
            object.number("pid", *pid);
            object.number("message_type", Some(*message_type));
        }
    }
    object.end_line();
}

const fn note_name(note: &Note) -> &'static str {
    match note {
        Note::Started { .. } => "server_started",
        Note::Stopped => "server_stopped",
        Note::Joined { .. } => "process_joined",
        Note::Detached { .. } => "process_detached",
        Note::Returned { .. } => "process_returned",
        Note::Departed { .. } => "process_departed",
        Note::Refused { .. } => "connection_refused",
        Note::Dropped { .. } => "connection_closed",
        Note::InvalidBufferType { .. } => "invalid_buffer_type",
        Note::UnknownMessage { .. } => "unknown_message",
    }
}

fn write_device(object: &mut Object<'_>, device: &DeviceFacts) {
    object.number("id", Some(device.logical_id));
    match device.arch {
        Some(arch) => object.word("arch", arch.name()),
        None => object.null("arch"),
    }
    let dram = device.capacities[Class::Dram.index()];
    object.number("dram_bytes", dram.map(|capacity| capacity.total_bytes()));
    let l1 = device.compute.map(|compute| compute.physical_bytes());
    object.number("l1_bytes", l1);
    match device.remote {
        Some(remote) => object.flag("remote", remote),
        None => object.null("remote"),
    }
}

fn write_released(object: &mut Object<'_>, released: &Released) {
    for (name, figure) in [
        ("buffers", released.buffers),
        ("buffer_bytes", released.buffer_bytes),
        ("cbs", released.cbs),
        ("cb_bytes", released.cb_bytes),
        ("kernels", released.kernels),
        ("kernel_bytes", released.kernel_bytes),
    ] {
        object.number(name, Some(figure));
    }
}

/// Appends a printed dump as one line.
pub(super) fn write_dump(out: &mut String, time_nanos: u64, kind: &'static str, text: &str) {
    let mut object = Object::line(out, time_nanos);
    object.word("event", "dump");
    object.word("kind", kind);
    object.text("text", text);
    object.end_line();
}

#[cfg(test)]
mod tests;
