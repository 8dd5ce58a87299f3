//! Kernels: what runs on which cores, and the binaries it was compiled to.

use super::ranges::CoreRanges;
use crate::jit;
use ttmem_event::{CoreType, KernelId};

/// The processor of a core that a kernel runs on; a core runs one kernel on each.
///
/// In the order in which the runtime numbers processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Processor {
    /// BRISC, by custom the writer's.
    DataMovement0 = 0,
    /// NCRISC, by custom the reader's.
    DataMovement1 = 1,
    /// TRISC 0 to 2: three binaries for unpacking, mathematics and packing.
    Compute = 2,
    /// The processor of an Ethernet core.
    Ethernet = 3,
}

impl Processor {
    /// How many binaries a kernel for it has.
    #[must_use]
    pub const fn binaries(self) -> u64 {
        match self {
            Self::Compute => 3,
            Self::DataMovement0 | Self::DataMovement1 | Self::Ethernet => 1,
        }
    }

    /// Whether cores of that type have it.
    #[must_use]
    pub const fn is_on(self, core_type: CoreType) -> bool {
        match self {
            Self::DataMovement0 => matches!(core_type, CoreType::Tensix | CoreType::Dram),
            Self::DataMovement1 | Self::Compute => matches!(core_type, CoreType::Tensix),
            Self::Ethernet => matches!(core_type, CoreType::ActiveEth | CoreType::IdleEth),
        }
    }
}

/// A kernel as a program asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSpec {
    /// Path or name of the source file.
    pub source: String,
    /// Where on each core it runs.
    pub processor: Processor,
    pub core_type: CoreType,
    pub cores: CoreRanges,
    /// Arguments that the compiler sees: other arguments, another binary.
    pub compile_args: Vec<u64>,
    /// How many 4-byte arguments each core has of its own.
    pub runtime_args: u32,
    /// How many 4-byte arguments all cores share.
    pub common_args: u32,
    /// Bytes over all of its binaries; `None` for what the compiler makes of the source.
    pub text_bytes: Option<u64>,
}

impl KernelSpec {
    /// A kernel without arguments.
    #[must_use]
    pub fn new(source: &str, processor: Processor, core_type: CoreType, cores: CoreRanges) -> Self {
        Self {
            source: source.to_owned(),
            processor,
            core_type,
            cores,
            compile_args: Vec::new(),
            runtime_args: 0,
            common_args: 0,
            text_bytes: None,
        }
    }

    /// A kernel that brings data in, on the Tensix processor customary for it.
    #[must_use]
    pub fn reader(source: &str, cores: CoreRanges) -> Self {
        Self::new(source, Processor::DataMovement1, CoreType::Tensix, cores)
    }

    /// A kernel that takes data out, on the Tensix processor customary for it.
    #[must_use]
    pub fn writer(source: &str, cores: CoreRanges) -> Self {
        Self::new(source, Processor::DataMovement0, CoreType::Tensix, cores)
    }

    #[must_use]
    pub fn compute(source: &str, cores: CoreRanges) -> Self {
        Self::new(source, Processor::Compute, CoreType::Tensix, cores)
    }

    /// A kernel of Ethernet cores, of which the runtime tells those with a link from the others.
    #[must_use]
    pub fn ethernet(source: &str, core_type: CoreType, cores: CoreRanges) -> Self {
        Self::new(source, Processor::Ethernet, core_type, cores)
    }

    /// The same kernel with these arguments for the compiler.
    #[must_use]
    pub fn with_compile_args(mut self, arguments: &[u64]) -> Self {
        self.compile_args = arguments.to_vec();
        self
    }

    /// The same kernel with so many arguments per core and shared ones.
    #[must_use]
    pub const fn with_args(mut self, runtime_args: u32, common_args: u32) -> Self {
        self.runtime_args = runtime_args;
        self.common_args = common_args;
        self
    }

    /// The same kernel with binaries of so many bytes together.
    #[must_use]
    pub const fn with_text_bytes(mut self, bytes: u64) -> Self {
        self.text_bytes = Some(bytes);
        self
    }

    /// What the runtime calls the kernel: the source file's name without folder and extension.
    #[must_use]
    pub fn name(&self) -> &str {
        let file = self.source.rsplit('/').next().unwrap_or(&self.source);
        match file.rsplit_once('.') {
            Some((stem, _)) if !stem.is_empty() => stem,
            _ => file,
        }
    }
}

/// A kernel of a program, with its binaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub spec: KernelSpec,
    /// Equal for equal binaries, in every program and every process.
    pub id: KernelId,
    /// Packed bytes of each binary.
    pub binaries: Vec<u64>,
}

impl Kernel {
    pub(super) fn new(spec: KernelSpec) -> Self {
        let binaries = match spec.text_bytes {
            Some(bytes) => shared_out(bytes, spec.processor.binaries()),
            None => jit::text_bytes(spec.name(), spec.processor),
        };
        Self {
            id: id_of(&spec),
            binaries,
            spec,
        }
    }

    /// Bytes over all binaries.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.binaries
            .iter()
            .fold(0, |sum, binary| sum.saturating_add(*binary))
    }
}

/// `bytes` in `parts` whole words each, the first taking what is left over.
fn shared_out(bytes: u64, parts: u64) -> Vec<u64> {
    const WORD_BYTES: u64 = 4;
    let words = bytes.div_ceil(WORD_BYTES);
    let each = words / parts;
    let first = words - each * (parts - 1);
    std::iter::once(first)
        .chain((1..parts).map(|_| each))
        .map(|words| words.saturating_mul(WORD_BYTES))
        .collect()
}

/// The identity of the binaries that a kernel is compiled to.
fn id_of(spec: &KernelSpec) -> KernelId {
    let mut hash = jit::StableHash::new();
    hash.text(&spec.source);
    hash.number(u64::from(spec.processor as u8));
    hash.number(u64::from(spec.core_type as u8));
    hash.number(spec.compile_args.len() as u64);
    for argument in &spec.compile_args {
        hash.number(*argument);
    }
    // A size that was given stands for a text of its own.
    if let Some(bytes) = spec.text_bytes {
        hash.number(bytes);
    }
    // 0 is easily taken for "none", and all ones means "every kernel" in an event.
    KernelId(hash.value().clamp(1, u64::MAX - 1))
}
