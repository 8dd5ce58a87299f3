//! The enumerations of the vocabulary: small, with fixed numbers.
//!
//! The numbers are part of the wire format. Where the runtime has a number of
//! its own for the same thing, it is the same number.

/// The numbers that a one-byte field can have, each with its name.
pub type NamedCodes = &'static [(u8, &'static str)];

macro_rules! enumerations {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$vdoc])* $variant = $number,)*
        }

        impl $name {
            /// Every value, in the order of its number.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Every number with its name, for the layout of the records that use it.
            pub const VALUES: $crate::event::enumerations::NamedCodes = &[$(($number, $text),)*];

            /// The name in JSON and text.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The number on the wire.
            #[must_use]
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// The value with this number.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code { $($number => Some(Self::$variant),)* _ => None }
            }
        }
    )*};
}

pub(crate) use enumerations;

enumerations! {
    /// Where a buffer lives. The numbers are the runtime's own.
    Class {
        Dram = 0 "DRAM",
        /// The L1 of the compute cores.
        L1 = 1 "L1",
        /// Host memory the device can reach; never device memory.
        System = 2 "SYSTEM_MEMORY",
        /// The small region at the top of L1.
        L1Small = 3 "L1_SMALL",
        /// The trace region at the top of DRAM.
        Trace = 4 "TRACE",
    }

    /// How a buffer is laid out over banks. The numbers are the runtime's own.
    Layout {
        /// Pages dealt over all banks.
        Interleaved = 0 "interleaved",
        Unknown = 1 "unknown",
        HeightSharded = 2 "height_sharded",
        WidthSharded = 3 "width_sharded",
        BlockSharded = 4 "block_sharded",
        /// Sharded in any number of dimensions.
        NdSharded = 5 "nd_sharded",
    }

    /// The end of the bank a buffer was taken from.
    Direction {
        /// From low addresses.
        BottomUp = 0 "bottom_up",
        /// From high addresses.
        TopDown = 1 "top_down",
    }

    /// The kinds of per-core storage that a program places itself.
    CbKind {
        /// A circular buffer placed by the program.
        Local = 0 "local",
        /// A circular buffer inside an existing L1 buffer: shown, but no further memory.
        Global = 1 "global",
        /// A dataflow buffer placed by the program.
        Dataflow = 2 "dataflow",
        /// A dataflow buffer inside an existing L1 buffer: shown, but no further memory.
        DataflowBorrowed = 3 "dataflow_borrowed",
        /// Scratch memory placed by the program.
        Scratchpad = 4 "scratchpad",
    }

    /// What a kernel is for. 0 to 2 are the old protocol's numbers.
    KernelKind {
        Application = 0 "application",
        Fabric = 1 "fabric",
        Dispatch = 2 "dispatch",
        Unknown = 3 "unknown",
    }

    /// Where the binary of a program is, per device.
    BinaryStatus {
        /// Not yet written.
        NotSent = 0 "not_sent",
        /// The commands to write it were issued.
        InFlight = 1 "in_flight",
        /// Written, reused from now on.
        Committed = 2 "committed",
    }

    /// Whether something was found in a cache.
    CacheResult {
        /// The runtime did not say.
        Unknown = 0 "unknown",
        Hit = 1 "hit",
        Miss = 2 "miss",
    }

    /// The way a program reaches the device.
    DispatchPath {
        /// Through the command queues on the device.
        Fast = 0 "fast",
        Slow = 1 "slow",
    }

    /// Why a program's per-core storage was refused.
    ClashKind {
        /// It grows into an L1 buffer.
        L1Buffer = 0 "l1_buffer",
        /// It grows beyond the end of L1.
        BeyondL1 = 1 "beyond_l1",
        /// It grows into memory of service cores.
        ServiceCore = 2 "service_core",
        /// Its cores lie outside the compute grid.
        OutsideGrid = 3 "outside_grid",
    }

    /// What a mesh handle stands for in the runtime.
    MeshKind {
        /// A mesh device with an allocator of its own.
        Mesh = 0 "mesh",
        /// A single physical device used directly.
        Chip = 1 "chip",
    }

    Source {
        /// From an unmodified runtime, by interposition.
        Attached = 0 "attached",
        Model = 1 "model",
        /// From a program that calls the tracker.
        Client = 2 "client",
        /// From a sender of the old protocol.
        Legacy = 3 "legacy",
        /// From the runtime's shared-memory counters.
        Shm = 4 "shm",
    }
}

impl Class {
    /// How many classes there are: they index per-class arrays.
    pub const COUNT: usize = Self::ALL.len();

    /// The place of this class in a per-class array.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the class takes bytes of the L1 of compute cores.
    #[must_use]
    pub const fn is_l1(self) -> bool {
        matches!(self, Self::L1 | Self::L1Small)
    }
}

impl CbKind {
    /// Whether the storage lies inside an L1 buffer that is counted already.
    #[must_use]
    pub const fn borrows(self) -> bool {
        matches!(self, Self::Global | Self::DataflowBorrowed)
    }
}
