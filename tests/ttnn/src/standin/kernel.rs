//! Whose text a link makes, and how long it is.
//!
//! Nothing is compiled, so the length is made up: within what such kernels take on
//! such a processor, and always the same for the same name, so that a test can
//! expect a figure and two runs agree.

use std::path::Path;

/// Longest firmware text that every release accepts, on any processor.
const FIRMWARE_TEXT_BYTES: u32 = 0x200;

/// RISC-V instructions without compression.
const INSTRUCTION_BYTES: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkedKernel<'a> {
    /// The firmware of a processor.
    Firmware,
    /// A kernel for a processor.
    Kernel {
        /// The kernel's name: that of its source file, or of its operation.
        name: &'a str,
        /// The processor: `brisc`, `trisc0`, `erisc`, …
        target: &'a str,
    },
}

impl<'a> LinkedKernel<'a> {
    /// Reads it off the place of the executable.
    ///
    /// Kernels are built at `kernels/<name>/<hash>/<target>/`, firmware at `firmware/…`.
    pub(crate) fn of_output(output: &'a Path) -> Option<Self> {
        let folders: Vec<&str> = output.parent()?.iter().filter_map(|f| f.to_str()).collect();
        if let [.., "kernels", name, _hash, target] = folders[..] {
            return Some(Self::Kernel { name, target });
        }
        folders.contains(&"firmware").then_some(Self::Firmware)
    }

    /// How long its text is.
    pub(crate) fn text_bytes(self) -> u32 {
        match self {
            Self::Firmware => FIRMWARE_TEXT_BYTES,
            Self::Kernel { name, target } => {
                let (shortest, longest) = usual_bytes(name, target);
                let choices = (longest - shortest) / INSTRUCTION_BYTES;
                let choice = fnv1a(&[name, "/", target]) % u64::from(choices);
                shortest + u32::try_from(choice).map_or(0, |choice| choice * INSTRUCTION_BYTES)
            }
        }
    }
}

/// What text of that kind usually takes, shortest and longest.
///
/// The longest stay below the smallest place such text has: 16 KiB of instruction
/// memory for NCRISC on Wormhole, 25 KiB of ring on an idle Ethernet core.
fn usual_bytes(name: &str, target: &str) -> (u32, u32) {
    if name.starts_with("cq_") || name.contains("fabric") {
        (8 * 1024, 14 * 1024)
    } else if target.starts_with("trisc") {
        (768, 4 * 1024)
    } else if target.contains("erisc") {
        (1024, 6 * 1024)
    } else {
        (512, 3 * 1024)
    }
}

/// FNV-1a, chosen because it never changes: sizes are part of what tests expect.
fn fnv1a(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel<'a>(name: &'a str, target: &'a str) -> LinkedKernel<'a> {
        LinkedKernel::Kernel { name, target }
    }

    #[test]
    fn the_place_tells_name_and_processor() {
        let output = Path::new("/c/123/kernels/eltwise_binary/9876/trisc1/trisc1.elf.tmp");
        let expected = kernel("eltwise_binary", "trisc1");
        assert_eq!(LinkedKernel::of_output(output), Some(expected));
        let output = Path::new("/c/123/firmware/88/brisc/brisc.elf");
        assert_eq!(
            LinkedKernel::of_output(output),
            Some(LinkedKernel::Firmware)
        );
        assert_eq!(LinkedKernel::of_output(Path::new("/tmp/a.out")), None);
    }

    #[test]
    fn sizes_are_stable_and_differ_by_name_and_processor() {
        let sizes = [
            kernel("reader_bmm_tile", "brisc").text_bytes(),
            kernel("writer_unary", "ncrisc").text_bytes(),
            kernel("bmm", "trisc0").text_bytes(),
            kernel("bmm", "trisc1").text_bytes(),
            kernel("cq_prefetch", "brisc").text_bytes(),
        ];
        assert_eq!(sizes, [2784, 796, 3796, 2824, 9916]);
    }

    #[test]
    fn texts_are_whole_instructions_and_fit() {
        for index in 0..1000 {
            let name = format!("kernel_{index}");
            for target in ["brisc", "ncrisc", "trisc2", "idle_erisc"] {
                let bytes = kernel(&name, target).text_bytes();
                assert_eq!(bytes % INSTRUCTION_BYTES, 0);
                assert!((512..16 * 1024).contains(&bytes));
            }
        }
    }
}
