//! The golden vectors, encoded and decoded.

use std::collections::BTreeMap;

use super::super::{
    DeviceInfo, DeviceInfoReply, Reply, RingBuffer, Totals, encode_device_count,
    encode_device_info, encode_response,
};
use super::*;

/// One line of the vector file.
struct Vector<'a> {
    generation: Generation,
    direction: &'a str,
    kind: RequestKind,
    fields: BTreeMap<&'a str, i128>,
    bytes: Vec<u8>,
}

impl<'a> Vector<'a> {
    fn parse(line: &'a str) -> Self {
        let words: Vec<&str> = line.split(' ').collect();
        let [generation, direction, kind, fields @ .., hex] = words.as_slice() else {
            panic!("too few words: {line}");
        };
        let generation = match *generation {
            "G1" => Generation::G1,
            "G2" => Generation::G2,
            "G3" => Generation::G3,
            "G4" => Generation::G4,
            other => panic!("no generation {other}"),
        };
        let fields = fields.iter().map(|field| {
            let (name, value) = field.split_once('=').unwrap();
            (name, value.parse().unwrap())
        });
        let (pairs, []) = hex.as_bytes().as_chunks::<2>() else {
            panic!("odd hex: {line}")
        };
        let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        Self {
            generation,
            direction,
            kind: kind_named(kind),
            fields: fields.collect(),
            bytes: pairs.iter().map(byte).collect(),
        }
    }

    fn get<T: TryFrom<i128, Error: std::fmt::Debug>>(&self, name: &str) -> T {
        T::try_from(self.fields.get(name).copied().unwrap_or(0)).unwrap()
    }

    fn request(&self) -> Request {
        Request {
            kind: self.kind,
            device_id: self.get("device_id"),
            size: self.get("size"),
            buffer_type: self.get("buffer_type"),
            process_id: self.get("process_id"),
            buffer_id: self.get("buffer_id"),
            timestamp: self.get("timestamp"),
        }
    }

    fn totals(&self) -> Totals {
        Totals {
            dram: self.get("dram_allocated"),
            l1: self.get("l1_allocated"),
            l1_small: self.get("l1_small_allocated"),
            trace: self.get("trace_allocated"),
            cb: self.get("cb_allocated"),
            kernel: self.get("kernel_allocated"),
        }
    }

    fn device_info(&self) -> DeviceInfo {
        DeviceInfo {
            total_dram_bytes: self.get("total_dram_size"),
            total_l1_bytes: self.get("total_l1_size"),
            arch_type: self.get("arch_type"),
            num_dram_channels: self.get("num_dram_channels"),
            dram_bytes_per_channel: self.get("dram_size_per_channel"),
            l1_bytes_per_core: self.get("l1_size_per_core"),
            ring_buffer: RingBuffer {
                total_bytes: self.get("ringbuffer_total_size"),
                used_bytes: self.get("ringbuffer_used_bytes"),
                num_programs: self.get("ringbuffer_num_programs"),
            },
        }
    }

    fn reply(&self) -> Reply {
        let device_id = self.get("device_id");
        match self.kind {
            RequestKind::Response => Reply::Totals {
                device_id,
                totals: self.totals(),
            },
            RequestKind::DeviceInfoResponse => Reply::DeviceInfo(DeviceInfoReply {
                device_id,
                is_available: self.get::<u32>("is_available") != 0,
                num_devices: self.get("num_devices"),
                info: self.device_info(),
            }),
            other => panic!("{other:?} is no reply"),
        }
    }

    fn encode_reply(&self, out: &mut Vec<u8>) {
        let info = self.device_info();
        match (self.kind, self.get("device_id")) {
            (RequestKind::Response, id) => {
                encode_response(self.generation, id, &self.totals(), out);
            }
            (_, -1) => encode_device_count(self.generation, self.get("num_devices"), out),
            (_, id) => {
                let available = self.get::<u32>("is_available") != 0;
                encode_device_info(self.generation, id, available.then_some(&info), out);
            }
        }
    }
}

fn kind_named(name: &str) -> RequestKind {
    match name {
        "ALLOC" => RequestKind::Alloc,
        "FREE" => RequestKind::Free,
        "QUERY" => RequestKind::Query,
        "RESPONSE" => RequestKind::Response,
        "DUMP_REMAINING" => RequestKind::DumpRemaining,
        "DEVICE_INFO_QUERY" => RequestKind::DeviceInfoQuery,
        "DEVICE_INFO_RESPONSE" => RequestKind::DeviceInfoResponse,
        "CB_ALLOC" => RequestKind::CbAlloc,
        "CB_FREE" => RequestKind::CbFree,
        "KERNEL_LOAD" => RequestKind::KernelLoad,
        "KERNEL_UNLOAD" => RequestKind::KernelUnload,
        "DUMP_KERNELS" => RequestKind::DumpKernels,
        other => panic!("no message type {other}"),
    }
}

fn vectors() -> Vec<Vector<'static>> {
    include_str!("../../../tests/data/legacy_vectors.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(Vector::parse)
        .collect()
}

#[test]
fn requests_match_the_golden_bytes() {
    let mut seen = BTreeMap::<Generation, Vec<u8>>::new();
    for vector in vectors().iter().filter(|v| v.direction == "request") {
        let request = vector.request();
        assert_eq!(encoded(vector.generation, &[request]), vector.bytes);
        assert_eq!(
            Request::decode(vector.generation, &vector.bytes),
            Ok(request)
        );
        seen.entry(vector.generation)
            .or_default()
            .push(vector.kind.code());
    }
    seen.values_mut().for_each(Vec::dedup);
    let expected = [
        (Generation::G1, vec![1, 2, 3, 5]),
        (Generation::G2, vec![1, 2, 3, 5, 6]),
        (Generation::G3, vec![1, 2, 3, 5, 6, 8, 9, 10, 11]),
        (Generation::G4, vec![1, 2, 3, 5, 6, 8, 9, 10, 11, 12]),
    ];
    assert_eq!(
        seen,
        BTreeMap::from(expected),
        "a message type has no vector"
    );
}

#[test]
fn replies_match_the_golden_bytes() {
    let mut seen = BTreeMap::<Generation, Vec<u8>>::new();
    for vector in vectors().iter().filter(|v| v.direction == "reply") {
        let mut bytes = Vec::new();
        vector.encode_reply(&mut bytes);
        assert_eq!(bytes, vector.bytes);
        assert_eq!(Reply::decode(vector.generation, &bytes), Ok(vector.reply()));
        seen.entry(vector.generation)
            .or_default()
            .push(vector.kind.code());
    }
    seen.values_mut().for_each(Vec::dedup);
    let expected = Generation::ALL.map(|generation| (generation, vec![4, 7]));
    assert_eq!(seen, BTreeMap::from(expected), "a reply has no vector");
}

#[test]
fn all_golden_requests_of_a_generation_are_one_stream() {
    for generation in Generation::ALL {
        let of_generation = |v: &Vector<'_>| v.direction == "request" && v.generation == generation;
        let vectors: Vec<_> = vectors().into_iter().filter(of_generation).collect();
        let stream: Vec<u8> = vectors.iter().flat_map(|v| v.bytes.clone()).collect();
        let mut session = Session::default();
        session.push(&stream).unwrap();
        session.finish().unwrap();
        let expected: Vec<_> = vectors.iter().map(|v| (generation, v.request())).collect();
        assert_eq!(session.emitted, expected);
    }
}
