use super::*;

/// The memory of one dataflow buffer, as the runtime has it.
struct Fabricated {
    ranges: Vec<[u64; 4]>,
    places: Vec<Place>,
    groups: Vec<Group>,
}

fn vector_of<T>(elements: &[T]) -> Vector {
    let range = elements.as_ptr_range();
    let words: [Object; 3] = [range.start.cast(), range.end.cast(), range.end.cast()];
    // SAFETY: a vector is three pointers.
    unsafe { std::mem::transmute::<[Object; 3], Vector>(words) }
}

impl Fabricated {
    fn at(addresses: &[u32]) -> Self {
        let places = (0_u64..)
            .zip(addresses)
            .map(|(x, &address)| Place { x, y: 0, address })
            .collect();
        let ranges = vec![[0, 0, 1, 0]];
        let mut fabricated = Self {
            ranges,
            places,
            groups: Vec::new(),
        };
        fabricated.groups.push(Group {
            cores: vector_of(&fabricated.ranges),
            processors: Vector::EMPTY,
            places: vector_of(&fabricated.places),
        });
        fabricated
    }

    fn layout(&self) -> Layout {
        Layout {
            number: 3,
            context: 0,
            device_slot: 3,
            padding: 0,
            cores: vector_of(&self.ranges),
            entry_bytes: 2048,
            entries: 4,
            unread: [0; 10],
            groups: vector_of(&self.groups),
        }
    }
}

fn understood(layout: &Layout) -> Option<DataflowBuffer> {
    // SAFETY: the vectors are the test's own.
    unsafe { understand(layout) }
}

#[test]
fn a_placed_buffer_is_understood() {
    let fabricated = Fabricated::at(&[236_896, 236_896]);
    let buffer = understood(&fabricated.layout()).expect("it makes sense");
    assert_eq!(buffer.number, 3);
    assert_eq!(buffer.address, Some(236_896));
    assert_eq!(buffer.size_bytes, 8192);
    assert_eq!(buffer.cores.len(), 2);
}

#[test]
fn a_borrowing_buffer_has_no_place_yet() {
    let fabricated = Fabricated::at(&[0, 0]);
    let buffer = understood(&fabricated.layout()).expect("it makes sense");
    assert_eq!(buffer.address, None);
}

#[test]
fn what_makes_no_sense_is_doubted() {
    let fabricated = Fabricated::at(&[4096, 8192]);
    assert_eq!(understood(&fabricated.layout()), None, "two addresses");
    let fabricated = Fabricated::at(&[4096]);
    let good = fabricated.layout();
    assert!(understood(&good).is_some());
    let nothing = Layout { entries: 0, ..good };
    assert_eq!(understood(&nothing), None, "no bytes");
    let huge = Layout {
        entry_bytes: u32::MAX,
        entries: u32::MAX,
        ..good
    };
    assert_eq!(understood(&huge), None, "more than any L1");
    let nowhere = Layout {
        cores: Vector::EMPTY,
        ..good
    };
    assert_eq!(understood(&nowhere), None, "no cores");
    let crooked = Layout {
        groups: vector_of(&[1_u8, 2, 3]),
        ..good
    };
    assert_eq!(understood(&crooked), None, "no vector of groups");
}

#[test]
fn aliases_are_counted_once_as_the_largest() {
    let cores = CoreSet::grid(2, 1);
    let buffer = |number, address, size_bytes| DataflowBuffer {
        number,
        address,
        size_bytes,
        cores,
    };
    let mut buffers = vec![
        buffer(0, Some(100), 64),
        buffer(1, Some(200), 64),
        buffer(2, Some(200), 128),
        buffer(3, Some(200), 128),
        buffer(4, None, 64),
        buffer(5, None, 64),
    ];
    without_aliases(&mut buffers);
    let left: Vec<u32> = buffers.iter().map(|buffer| buffer.number).collect();
    assert_eq!(left, [0, 2, 4, 5]);
}
