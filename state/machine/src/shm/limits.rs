//! What upstream's figures are not, to be shown beside them.

/// A known limit of upstream's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// For programs.
    pub code: &'static str,
    /// For people.
    pub text: &'static str,
}

/// Where the figures come from, as a label for each of them.
pub const SOURCE: &str = "shm";

/// Limits of all versions.
pub const LIMITS: &[Limit] = &[
    Limit {
        code: "requested_bytes",
        text: "sizes are as requested: what the allocator adds for alignment and for equal shares in every \
               bank is missing",
    },
    Limit {
        code: "opener_thread",
        text: "buffers made or freed in other threads than the one that opened the first device may not be \
               counted",
    },
    Limit {
        code: "cb_approximate",
        text: "circular buffers are counted at most ten times a second, with programs that are only cached, \
               and the last process to write wins",
    },
    Limit {
        code: "no_dataflow_buffers",
        text: "dataflow buffers are in no figure",
    },
    Limit {
        code: "no_capacity",
        text: "there is no capacity, no free block, no peak and no list of buffers",
    },
    Limit {
        code: "own_namespaces",
        text: "process numbers are those of the writer's namespace, and files of other containers are not \
               seen",
    },
];
