//! What the columns of the fleet's lists are, for the help.

use crate::views::Meaning;

pub(super) const HOSTS: &[Meaning] = &[
    (
        "HOST",
        "the `instance` of the scrape target: where Prometheus finds the server",
    ),
    ("DEVICES", "devices that the server knows"),
    (
        "DRAM, OF",
        "charged DRAM of all devices of the host, and what they have",
    ),
    (
        "FULLEST",
        "how full DRAM of its fullest device is: 1 - free / capacity",
    ),
    (
        "MOST 7D",
        "the same at its highest in the last week, by samples and by the peak that the server keeps",
    ),
    ("L1", "how full L1 of its fullest device is"),
    (
        "FRAGMENTED",
        "1 - largest fit / free of DRAM, of the device where that is most",
    ),
    (
        "GREW 1H, GREW 7D",
        "charged DRAM now, less that of an hour or a week ago; - where that is not known",
    ),
    (
        "REFUSED 7D",
        "requests for memory that were refused in the last week",
    ),
];

pub(super) const JOBS: &[Meaning] = &[
    (
        "JOB",
        "the number or name of the batch job; known of servers with --http-names",
    ),
    ("USER", "whose job it is"),
    ("HOSTS", "hosts that its processes are on"),
    ("DRAM", "charged DRAM of all its processes"),
    (
        "MOST 7D",
        "the same at its highest in the last week; known where Prometheus has the recording rules",
    ),
    ("L1 BUFFERS", "charged L1 of all its processes"),
    (
        "GROWS/MARK",
        "what its processes grow by at every mark, together",
    ),
];

pub(super) const DEVICES: &[Meaning] = &[
    (
        "HOST",
        "the `instance` of the scrape target: where Prometheus finds the server",
    ),
    ("DEVICE", "the number of the device there"),
    ("CLASS", "the memory that is full: DRAM, or L1 buffers"),
    ("FULL", "how full it is: 1 - free / capacity"),
];
