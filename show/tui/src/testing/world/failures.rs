//! Failures of a world: of each verdict one, long ago; in a busy world just now.

use super::{World, ago};
use ttmem_report::{
    BlockOwner, Clash, Explanation, FailedRequest, Failures, HeldBlock, HolderGroup, InTheWay,
    MapRow, MemoryClass, Release, SCHEMA, Setting, StorageKind, StorageLimit, Verdict,
};

/// The first process of every world.
const PID: u32 = 70_100;

impl World {
    pub(super) fn failures(self) -> Failures {
        let mut failures = Vec::new();
        if self.processes > 0 {
            failures = vec![self.fragmentation(), self.clash(), self.region()];
        }
        Failures {
            schema: SCHEMA,
            omitted: if self.busy { 12 } else { 0 },
            failures,
        }
    }

    fn owner(self, line: u32, seconds: u64) -> BlockOwner {
        BlockOwner {
            pid: Some(PID),
            process: Some(self.name("python3", 0)),
            python: Some(format!(
                "/home/me/{}:{line} forward",
                self.name("model.py", 0)
            )),
            operation: Some("ttnn.empty".to_owned()),
            class: Some(MemoryClass::Dram),
            since: Some(ago(seconds)),
            of_call: false,
        }
    }

    fn blank(self, verdict: Verdict, sentence: String, seconds: u64) -> Explanation {
        let seconds = if self.busy { seconds } else { seconds + 3_000 };
        Explanation {
            verdict,
            heading: String::new(),
            sentence,
            time: Some(ago(seconds)),
            last_time: Some(ago(seconds)),
            times: 1,
            device_ids: Some(vec![0]),
            pid: Some(PID),
            process: Some(self.name("python3", 0)),
            names_hidden: false,
            operation: Some(self.name("ttnn.linear", 0)),
            python: Some(format!("/home/me/{}:57 forward", self.name("model.py", 0))),
            request: None,
            clash: None,
            holders: None,
            release: None,
            other_release: None,
            map: None,
            setting: None,
            unknown: Vec::new(),
            advice: Vec::new(),
            log: None,
        }
    }

    fn fragmentation(self) -> Explanation {
        let (small, large) = (self.owner(41, 3_012), self.owner(10, 6_700));
        let row = |address, size_bytes, owner: Option<&BlockOwner>, in_release| MapRow {
            address,
            size_bytes,
            owner: owner.cloned(),
            in_release,
            stands_for: 1,
        };
        let block = HeldBlock {
            address: 10_485_824,
            size_bytes: 65_536,
            owner: small.clone(),
        };
        Explanation {
            times: 3,
            request: Some(FailedRequest {
                class: Some(MemoryClass::Dram),
                requested_bytes: Some(201_326_592),
                banks: Some(12),
                need_bytes_per_bank: Some(16_777_216),
                bank_bytes: Some(1_072_693_184),
                allocated_bytes_per_bank: Some(1_053_753_344),
                free_bytes_per_bank: Some(18_939_840),
                largest_free_bytes_per_bank: Some(9_469_920),
            }),
            holders: Some(vec![
                HolderGroup {
                    owner: large.clone(),
                    newest: Some(ago(6_000)),
                    buffers: 64,
                    bytes_per_bank: 1_053_687_808,
                },
                HolderGroup {
                    owner: small.clone(),
                    newest: Some(ago(3_012)),
                    buffers: 1,
                    bytes_per_bank: 65_536,
                },
            ]),
            release: Some(Release {
                address: 1_015_904,
                free_bytes: 19_005_376,
                buffers: 1,
                bytes_per_bank: 65_536,
                blocks: vec![block],
                unless: "unless this call uses it".to_owned(),
            }),
            other_release: None,
            map: Some(vec![
                row(1_015_904, 9_469_920, None, false),
                row(10_485_824, 65_536, Some(&small), true),
                row(10_551_360, 9_469_920, None, false),
                row(20_021_280, 8_388_608, Some(&large), false),
            ]),
            advice: vec![
                "release 1 buffer of ttnn.empty at 10485824 (0xa00040), unless this call uses it"
                    .to_owned(),
            ],
            ..self.blank(
                Verdict::Fragmentation,
                format!(
                    "DRAM is fragmented: {} at {}:57 needs 16.0 MiB in one piece in each of 12 \
                     banks; 18.1 MiB are free, but the largest free block is 9.0 MiB.",
                    self.name("ttnn.linear", 0),
                    self.name("model.py", 0)
                ),
                5,
            )
        }
    }

    fn clash(self) -> Explanation {
        let block = HeldBlock {
            address: 622_592,
            size_bytes: 65_536,
            owner: self.owner(43, 3_020),
        };
        Explanation {
            clash: Some(Clash {
                storage: StorageKind::CircularBuffers,
                met: StorageLimit::L1Buffer,
                program: Some(453),
                cores: Some("[0-0 - 7-7]".to_owned()),
                storage_start: Some(105_824),
                storage_end: 654_368,
                limit: 622_592,
                overlap_bytes: 31_776,
                in_the_way: Some(vec![InTheWay {
                    block,
                    overlap_bytes: 31_776,
                }]),
            }),
            advice: vec!["gain 31776 B per core: keep the buffers in the way in DRAM".to_owned()],
            ..self.blank(
                Verdict::Clash,
                "Circular buffers of program 453 on cores [0-0 - 7-7] end at 654368 (0x9fc20), \
                 31776 B (31.0 KiB) beyond the lowest L1 buffer at 622592 (0x98000)."
                    .to_owned(),
                1_275,
            )
        }
    }

    fn region(self) -> Explanation {
        Explanation {
            setting: Some(Setting {
                name: "l1_small_size".to_owned(),
                value: 19_840,
                bytes_per_bank: Some(19_840),
                given: Some(0),
                is_smallest: true,
            }),
            advice: vec!["open the device with l1_small_size=19840".to_owned()],
            ..self.blank(
                Verdict::RegionTooSmall,
                "The L1_SMALL region is too small: ttnn.conv2d needs 19.3 KiB in each of 64 banks, \
                 and a bank has 0 B; l1_small_size=19840 is enough."
                    .to_owned(),
                700,
            )
        }
    }
}
