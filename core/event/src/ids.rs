//! Identifiers a client hands out.
//!
//! Each is meaningful only inside the process that sent it. None of them is an
//! address: addresses are reused, identities are not.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($repr:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $repr);

        impl From<$repr> for $name {
            fn from(value: $repr) -> Self {
                Self(value)
            }
        }
    )*};
}

ids! {
    /// A device allocation, from creation to release; never reused by a process.
    BufferId(u64);
    /// A program, from construction to destruction: the client's own counter.
    ProgramId(u64);
    /// A kernel binary: equal binaries have equal ids, also across programs.
    KernelId(u64);
    /// A defined text; 0 means none.
    TextId(u32);
    /// A defined core set; 0 means none.
    CoresId(u32);
    DeviceId(u32);
    /// A defined mesh handle: the devices an event is about. A single chip is a mesh of one.
    MeshId(u32);
    /// A captured trace of one mesh.
    TraceId(u32);
}

impl TextId {
    pub const NONE: Self = Self(0);
}

impl CoresId {
    /// No core set: every bank, or cores that are not known.
    pub const NONE: Self = Self(0);
}
