//! Objects of the runtime that belong to a mesh, by their addresses: managers of config
//! rings, and prefetcher caches.
//!
//! They are made long before their mesh is initialised, and end with it, unseen; then their
//! addresses are anybody's. The runtime uses each under a lock of its own: the atomics only
//! make it safe to say so.

use crate::lock_free::address_map::{AddressMap, Slot};
use crate::open_devices;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use ttmem_event::MeshId;

#[derive(Debug, Default)]
pub(crate) struct MeshObject<T> {
    address: AtomicUsize,
    /// The address of its `MeshDevice`; 0 = that is gone.
    mesh: AtomicUsize,
    /// The mesh with which it was reported; 0 = it was not.
    reported: AtomicU32,
    pub(crate) state: T,
}

impl<T> MeshObject<T> {
    /// Its mesh is gone: whatever has its address next is another object.
    pub(crate) fn end(&self) {
        self.mesh.store(0, Relaxed);
        self.set_reported(MeshId(0));
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.mesh.load(Relaxed) == 0
    }

    /// The mesh it belongs to, if that is open and known.
    pub(crate) fn mesh(&self) -> Option<MeshId> {
        let mesh = open_devices::at(self.mesh.load(Relaxed))?;
        Some(mesh.mesh)
    }

    #[inline]
    pub(crate) fn reported(&self) -> Option<MeshId> {
        let reported = self.reported.load(Relaxed);
        (reported != 0).then_some(MeshId(reported))
    }

    /// Notes the mesh with which it is reported; 0 = it has to be reported again.
    pub(crate) fn set_reported(&self, mesh: MeshId) {
        self.reported.store(mesh.0, Relaxed);
    }
}

#[derive(Debug)]
pub(crate) struct MeshObjects<T: 'static, const MAX: usize>(AddressMap<MeshObject<T>, MAX>);

impl<T: Default + Sync, const MAX: usize> MeshObjects<T, MAX> {
    pub(crate) const fn new() -> Self {
        Self(AddressMap::new([const { Slot::new() }; MAX]))
    }

    #[inline]
    pub(crate) fn at(&self, object: usize) -> Option<&'static MeshObject<T>> {
        self.0.get(object)
    }

    /// The objects of a mesh; 0 = those whose mesh is gone.
    pub(crate) fn of_mesh(&self, mesh: usize) -> impl Iterator<Item = &'static MeshObject<T>> {
        let objects = self.0.values();
        objects.filter(move |object| object.mesh.load(Relaxed) == mesh)
    }

    /// Notes that an object is that of a mesh, which was not reported; none if there is no room.
    pub(crate) fn register(&self, object: usize, mesh: usize) -> Option<&'static MeshObject<T>> {
        let known = self.at(object);
        let entry: &'static MeshObject<T> = known
            .or_else(|| {
                let ended = self.of_mesh(0).next()?;
                self.0.remove(ended.address.load(Relaxed))
            })
            .unwrap_or_else(|| Box::leak(Box::default()));
        entry.set_reported(MeshId(0));
        entry.address.store(object, Relaxed);
        entry.mesh.store(mesh, Relaxed);
        let is_there = known.is_some() || self.0.insert(object, entry);
        is_there.then_some(entry)
    }

    /// Ends the objects of a mesh that is closed, or in whose place another is made.
    pub(crate) fn end_of_mesh(&self, mesh: usize) {
        self.of_mesh(mesh).for_each(MeshObject::end);
    }

    /// Forgets every object: in a child, they are its parent's.
    pub(crate) fn forget(&self) {
        self.0.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_found_by_their_address_and_by_their_mesh() {
        static OBJECTS: MeshObjects<u8, 8> = MeshObjects::new();
        let first = OBJECTS.register(0x100, 0x7000).expect("there is room");
        let second = OBJECTS.register(0x200, 0x7000).expect("there is room");
        assert!(!std::ptr::eq(first, second));
        assert!(OBJECTS.at(0x300).is_none());
        assert!(std::ptr::eq(first, OBJECTS.at(0x100).expect("it is known")));
        let again = OBJECTS.register(0x100, 0x7000).expect("there is room");
        assert!(std::ptr::eq(again, first));
        assert_eq!(OBJECTS.of_mesh(0x7000).count(), 2);
        assert_eq!(OBJECTS.of_mesh(0x8000).count(), 0);
    }

    #[test]
    fn an_object_ends_with_its_mesh_and_its_address_is_taken_anew() {
        static OBJECTS: MeshObjects<u8, 8> = MeshObjects::new();
        let first = OBJECTS.register(0x100, 0x7000).expect("there is room");
        first.set_reported(MeshId(6));
        OBJECTS.end_of_mesh(0x8000);
        assert_eq!(
            (first.reported(), first.is_ended()),
            (Some(MeshId(6)), false)
        );
        OBJECTS.end_of_mesh(0x7000);
        assert_eq!((first.reported(), first.is_ended()), (None, true));
        assert_eq!(OBJECTS.of_mesh(0x7000).count(), 0);
        let second = OBJECTS.register(0x100, 0x8000).expect("there is room");
        second.set_reported(MeshId(7));
        // A mesh whose end was not seen.
        let third = OBJECTS.register(0x100, 0x9000).expect("there is room");
        assert_eq!(third.reported(), None);
        third.end();
        let fourth = OBJECTS.register(0x200, 0x9000).expect("there is room");
        assert!(std::ptr::eq(third, fourth), "what has ended is used again");
        assert!(OBJECTS.at(0x100).is_none());
    }
}
