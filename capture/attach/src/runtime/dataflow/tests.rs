use super::*;

/// The memory of one dataflow buffer, as the runtime has it.
struct Fabricated {
    ranges: Vec<[u64; 4]>,
    places: Vec<Place>,
    groups: Vec<Group>,
}

fn vector_of<T>(elements: &[T]) -> Vector {
    let range = elements.as_ptr_range();
    let words = [range.start, range.end, range.end];
    // SAFETY: a vector is three pointers.
    unsafe { std::mem::transmute::<[*const T; 3], Vector>(words) }
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

    fn fields(&self) -> Fields {
        Fields {
            number: 3,
            cores: vector_of(&self.ranges),
            entry_bytes: 2048,
            entries: 4,
            groups: vector_of(&self.groups),
        }
    }

    /// An object with these fields, of one of the shapes.
    fn object(&self, shape: &Shape) -> Box<[usize; 32]> {
        let mut object = Box::new([0; 32]);
        let fields = self.fields();
        object[0] = 3;
        object[shape.entry / 8] = 4 << 32 | 2048;
        for (offset, vector) in [(shape.cores, fields.cores), (shape.groups, fields.groups)] {
            // SAFETY: a vector is three words.
            let words = unsafe { std::mem::transmute::<Vector, [usize; 3]>(vector) };
            object[offset / 8..][..3].copy_from_slice(&words);
        }
        object
    }
}

fn understood(fields: &Fields) -> Option<DataflowBuffer> {
    // SAFETY: the vectors are the test's own.
    unsafe { understand(fields) }
}

/// What a list of one object says, and the shape that is sure afterwards.
fn read_one(object: &[usize; 32], known: usize) -> (Option<Vec<DataflowBuffer>>, usize) {
    let sure = AtomicUsize::new(known);
    let list = [Shared {
        object: Object(object.as_ptr().cast()),
        count: Object::NULL,
    }];
    // SAFETY: the object is larger than any shape, and its vectors are the test's own.
    let read = unsafe { read_all(&list, &sure) };
    (read, sure.into_inner())
}

#[test]
fn every_shape_is_recognised_and_then_the_only_one() {
    let fabricated = Fabricated::at(&[236_896, 236_896]);
    let expected = understood(&fabricated.fields()).expect("it makes sense");
    for (at, shape) in SHAPES.iter().enumerate() {
        let object = fabricated.object(shape);
        let (read, sure) = read_one(&object, usize::MAX);
        assert_eq!((read, sure), (Some(vec![expected]), at), "{shape:?}");
        let other = (at + 1) % SHAPES.len();
        assert_eq!(read_one(&object, other), (None, other), "{shape:?}");
    }
}

#[test]
fn a_buffer_without_groups_decides_nothing() {
    let mut fabricated = Fabricated::at(&[]);
    fabricated.groups.clear();
    for shape in &SHAPES {
        let mut object = fabricated.object(shape);
        object[shape.groups / 8..][..3].fill(0);
        let (read, sure) = read_one(&object, usize::MAX);
        assert_eq!(sure, usize::MAX);
        let buffers = read.expect("it makes sense");
        assert_eq!((buffers[0].size_bytes, buffers[0].address), (8192, None));
    }
}

#[test]
fn a_placed_buffer_is_understood() {
    let fabricated = Fabricated::at(&[236_896, 236_896]);
    let buffer = understood(&fabricated.fields()).expect("it makes sense");
    assert_eq!(buffer.number, 3);
    assert_eq!(buffer.address, Some(236_896));
    assert_eq!(buffer.size_bytes, 8192);
    assert_eq!(buffer.cores.len(), 2);
}

#[test]
fn a_borrowing_buffer_has_no_place_yet() {
    let fabricated = Fabricated::at(&[0, 0]);
    let buffer = understood(&fabricated.fields()).expect("it makes sense");
    assert_eq!(buffer.address, None);
}

#[test]
fn what_makes_no_sense_is_doubted() {
    let fabricated = Fabricated::at(&[4096, 8192]);
    assert_eq!(understood(&fabricated.fields()), None, "two addresses");
    let fabricated = Fabricated::at(&[4096]);
    let good = fabricated.fields();
    assert!(understood(&good).is_some());
    let nothing = Fields { entries: 0, ..good };
    assert_eq!(understood(&nothing), None, "no bytes");
    let huge = Fields {
        entry_bytes: u32::MAX,
        entries: u32::MAX,
        ..good
    };
    assert_eq!(understood(&huge), None, "more than any L1");
    let nowhere = Fields {
        cores: Vector::EMPTY,
        ..good
    };
    assert_eq!(understood(&nowhere), None, "no cores");
    let crooked = Fields {
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

#[test]
fn a_glance_tells_when_a_buffer_was_moved_or_resized() {
    fn glance(fields: &Fields) -> Option<u64> {
        let mut seen = Glance::default();
        // SAFETY: the vectors are the test's own.
        unsafe { seen.look_at(fields) }.map(|()| seen.0)
    }
    let mut fabricated = Fabricated::at(&[0, 0]);
    let before = glance(&fabricated.fields());
    assert_eq!(glance(&fabricated.fields()), before);
    let resized = Fields {
        entries: 5,
        ..fabricated.fields()
    };
    assert_ne!(glance(&resized), before);
    for place in &mut fabricated.places {
        place.address = 236_896;
    }
    let moved = glance(&fabricated.fields());
    assert!(moved.is_some() && moved != before);
    let crooked = Fields {
        groups: vector_of(&[0_u8; 5]),
        ..fabricated.fields()
    };
    assert_eq!(glance(&crooked), None);
}
