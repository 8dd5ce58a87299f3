//! The closed sets of words in the read model.
//!
//! Each set ends with a word for what this reader does not know, because the server is newer. A reader
//! must not fail because a class was added; a writer never produces that word.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares one set: the enum, its words, and that JSON and `Display` use the same words.
macro_rules! words {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }
    ) => {
        $(#[$meta])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema
        )]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)+
            /// A word this reader does not know.
            #[serde(rename = "other", other)]
            #[schemars(skip)]
            Other,
        }

        impl $name {
            /// The word as it stands in JSON.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                    Self::Other => "other",
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

words! {
    /// Of what a peak is.
    PeakOf {
        /// Device DRAM, without the trace region.
        Dram = "dram",
        /// L1 of the compute cores, without the small region.
        L1 = "l1",
        /// The small region of L1.
        L1Small = "l1_small",
        /// The trace region of DRAM.
        Trace = "trace",
        /// Host memory that the runtime books like device memory.
        System = "system",
        /// Per-core storage of every live program.
        Cb = "cb",
        /// Kernels of every live program.
        Kernel = "kernel",
    }
}

words! {
    /// How much a problem matters.
    Urgency {
        /// Something failed or is about to, or figures cannot be trusted.
        Danger = "danger",
        /// It may come to that.
        Warning = "warning",
    }
}

words! {
    /// Where more can be seen of a problem.
    ProblemView {
        /// Processes and what they hold.
        Processes = "processes",
        /// One device.
        Device = "device",
        /// Where everything lies in L1 and DRAM.
        Map = "map",
        /// Live buffers.
        Buffers = "buffers",
        /// What grows, and what was left behind.
        Leaks = "leaks",
        /// What was refused, and why.
        Failures = "failures",
    }
}

words! {
    /// Where an allocator's buffer lies.
    MemoryClass {
        /// Device DRAM, without the trace region.
        Dram = "dram",
        /// L1 of the compute cores, without the small region.
        L1 = "l1",
        /// The small region of L1 that is set aside at device open.
        L1Small = "l1_small",
        /// The trace region of DRAM.
        Trace = "trace",
        /// Host memory that the runtime books like device memory.
        System = "system",
    }
}

words! {
    /// How figures are known.
    Source {
        /// Reported by a client inside the workload.
        Attached = "attached",
        /// Reported by the runtime model.
        Model = "model",
        /// Reported by a program that calls the tracker itself.
        Client = "client",
        /// Reported by an instrumented runtime over the old protocol.
        Legacy = "legacy",
        /// Read from the runtime's shared-memory files.
        Shm = "shm",
    }
}

words! {
    /// What is known of a process.
    ProcessState {
        /// Connected.
        Live = "live",
        /// No connection, but the process is alive: what it holds is kept.
        Detached = "detached",
        /// Gone; what it held was released.
        Exited = "exited",
        /// It never reported: what the machine says of it is all that is known.
        NotAttached = "not_attached",
    }
}

words! {
    /// What a kernel is for.
    KernelKind {
        /// Part of the user's program.
        Application = "application",
        /// Routing between chips.
        Fabric = "fabric",
        /// Prefetching and dispatching commands.
        Dispatch = "dispatch",
        /// Not known to the sender.
        Unknown = "unknown",
    }
}

words! {
    /// The kind of core that code or a config ring is on.
    CoreType {
        /// A compute core.
        Tensix = "tensix",
        /// An Ethernet core with a link that is up.
        ActiveEth = "active_eth",
        /// An Ethernet core without one.
        IdleEth = "idle_eth",
        /// A programmable core of a DRAM bank.
        Dram = "dram",
    }
}

words! {
    /// What a circular buffer's memory is.
    CbKind {
        /// Placed by its program, above the buffers.
        Local = "local",
        /// Lies inside an L1 buffer and takes no memory of its own.
        Global = "global",
        /// A dataflow buffer.
        Dataflow = "dataflow",
        /// A dataflow buffer that lies inside an L1 buffer and takes no memory of its own.
        DataflowBorrowed = "dataflow_borrowed",
        /// A kernel's scratchpad.
        Scratchpad = "scratchpad",
    }
}

words! {
    /// How a buffer's pages are spread over its banks.
    BufferLayout {
        /// Page by page over all banks.
        Interleaved = "interleaved",
        /// In one bank.
        SingleBank = "single_bank",
        /// Shards of rows.
        HeightSharded = "height_sharded",
        /// Shards of columns.
        WidthSharded = "width_sharded",
        /// Rectangular shards.
        BlockSharded = "block_sharded",
        /// Shards of any number of dimensions.
        NdSharded = "nd_sharded",
    }
}

words! {
    /// Whether a program's binary is on a device.
    BinaryState {
        /// It was not sent yet.
        NotSent = "not_sent",
        /// It is on its way.
        InFlight = "in_flight",
        /// It is there.
        Committed = "committed",
    }
}

words! {
    /// What a stretch of memory is.
    SegmentKind {
        /// The runtime's own, at the bottom of L1.
        Reserved = "reserved",
        /// The ring of programs' configurations and code, within the runtime's own part.
        ConfigRing = "config_ring",
        /// Storage of the program that ran last: circular buffers, dataflow buffers, scratchpads.
        Cb = "cb",
        /// A buffer.
        Buffer = "buffer",
        /// A buffer in the small region of L1.
        L1Small = "l1_small",
        /// Nothing.
        Free = "free",
    }
}

words! {
    /// What buffers are put together by.
    GroupBy {
        /// The operation they were allocated for.
        Operation = "operation",
        /// The line of Python that they come from.
        Line = "line",
        /// The whole stack of Python that they come from.
        Stack = "stack",
        /// What they take on a device.
        Size = "size",
        /// The class.
        Class = "class",
        /// The process.
        Process = "process",
        /// How their pages are spread.
        Layout = "layout",
    }
}

words! {
    /// What rows are sorted by.
    SortBy {
        /// As the server has them: the cheapest order.
        Place = "place",
        /// What they take on a device.
        Size = "size",
        /// The address.
        Address = "address",
        /// When they were allocated.
        Time = "time",
    }
}

words! {
    /// Where instants come from that can be looked back at.
    RecordingSource {
        /// A server that goes on recording.
        Live = "live",
        /// A file.
        File = "file",
    }
}

words! {
    /// What failed at an instant of a recording.
    RecordedFailureKind {
        /// Memory was refused.
        Refused = "refused",
        /// A program's storage would have overlapped memory that is in use.
        Clashed = "clashed",
    }
}

words! {
    /// What a failure comes down to.
    Verdict {
        /// Less is free than is needed.
        Capacity = "capacity",
        /// Enough is free, but in no single block.
        Fragmentation = "fragmentation",
        /// A program's storage would overlap memory that is in use.
        Clash = "clash",
        /// A region whose size is set when the device is opened is too small.
        RegionTooSmall = "region_too_small",
        /// What is known does not decide it.
        Unknown = "unknown",
    }
}

words! {
    /// What a program asked for outside any allocator.
    StorageKind {
        /// Circular buffers.
        CircularBuffers = "circular_buffers",
        /// Dataflow buffers and scratchpads.
        DataflowBuffers = "dataflow_buffers",
        /// A captured trace that is kept in ordinary DRAM.
        Trace = "trace",
    }
}

words! {
    /// What a program's storage ran into.
    StorageLimit {
        /// The lowest buffer in L1.
        L1Buffer = "l1_buffer",
        /// The end of L1.
        EndOfL1 = "end_of_l1",
        /// Memory of a service core.
        ServiceCore = "service_core",
        /// DRAM that was in use while traces were captured.
        CapturedDram = "captured_dram",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_display_use_the_same_word() {
        let json = serde_json::to_string(&MemoryClass::L1Small).unwrap();
        assert_eq!(json, format!("\"{}\"", MemoryClass::L1Small));
        assert_eq!(
            serde_json::from_str::<CoreType>("\"active_eth\"").unwrap(),
            CoreType::ActiveEth
        );
    }

    #[test]
    fn a_newer_word_does_not_fail_the_document() {
        assert_eq!(
            serde_json::from_str::<Source>("\"telepathy\"").unwrap(),
            Source::Other
        );
        assert_eq!(
            serde_json::from_str::<KernelKind>("\"new\"").unwrap(),
            KernelKind::Other
        );
        assert!(serde_json::from_str::<Source>("7").is_err());
    }
}
