//! What a process can say, one method each.

use super::{Board, Speaker, buffer, capacity, device, mesh};
use ttmem_event::{
    BufferId, CacheResult, CbKind, Class, CoreSet, CoreType, CoresId, Definition, DeviceId,
    DispatchPath, EventKind, KernelId, KernelKind, MeshId, ProgramId, TextId, TraceId,
};

impl Speaker<'_> {
    /// A device and the mesh of it alone, both with this id, and its capacities.
    pub(crate) fn chip(&mut self, id: u32, board: &Board) -> &mut Self {
        self.device(id, None, board).mesh(id, &[id], board)
    }

    pub(crate) fn device(&mut self, id: u32, unique_id: Option<u64>, board: &Board) -> &mut Self {
        self.define(&device(id, unique_id, board))
    }

    /// A mesh handle over defined devices, with its capacities.
    pub(crate) fn mesh(&mut self, id: u32, devices: &[u32], board: &Board) -> &mut Self {
        self.define(&mesh(id, devices)).on(id);
        self.capacities(id, board)
    }

    /// What the allocators of a mesh can hand out.
    pub(crate) fn capacities(&mut self, id: u32, board: &Board) -> &mut Self {
        for (class, banks, base, per_bank_bytes) in board.classes {
            self.tell(capacity(MeshId(id), *class, *banks, *base, *per_bank_bytes));
        }
        self
    }

    pub(crate) fn cores(&mut self, id: u32, cores: CoreSet) -> &mut Self {
        let id = CoresId(id);
        self.define(&Definition::Cores { id, cores })
    }

    pub(crate) fn text(&mut self, id: u32, text: &str) -> &mut Self {
        let (id, text) = (TextId(id), text.to_owned());
        self.define(&Definition::Text { id, text })
    }
}

impl Speaker<'_> {
    /// A buffer over all banks, of as many bytes as it takes.
    pub(crate) fn alloc(
        &mut self,
        id: u64,
        class: Class,
        address: u64,
        per_bank: u64,
    ) -> &mut Self {
        self.alloc_asking(id, class, address, per_bank, per_bank)
    }

    /// A buffer over all banks that was asked for with another size than it takes.
    pub(crate) fn alloc_asking(
        &mut self,
        id: u64,
        class: Class,
        address: u64,
        per_bank: u64,
        requested: u64,
    ) -> &mut Self {
        self.tell(buffer(self.mesh, id, class, address, per_bank, requested))
    }

    /// A buffer in the banks of some cores only.
    pub(crate) fn alloc_on_cores(
        &mut self,
        id: u64,
        class: Class,
        address: u64,
        per_bank: u64,
        on: u32,
    ) -> &mut Self {
        let mut event = buffer(self.mesh, id, class, address, per_bank, per_bank);
        if let EventKind::BufferAllocated { cores, .. } = &mut event {
            *cores = CoresId(on);
        }
        self.tell(event)
    }

    pub(crate) fn free(&mut self, id: u64) -> &mut Self {
        self.tell(EventKind::BufferFreed {
            mesh: self.mesh,
            buffer: BufferId(id),
        })
    }

    /// The mesh's allocators give back everything, of one class or of all.
    pub(crate) fn release_all(&mut self, class: Option<Class>) -> &mut Self {
        let mesh = self.mesh;
        self.tell(EventKind::BuffersReleased { mesh, class })
    }

    pub(crate) fn close_mesh(&mut self) -> &mut Self {
        self.tell(EventKind::MeshClosed { mesh: self.mesh })
    }

    pub(crate) fn close_device(&mut self, device: u32) -> &mut Self {
        let device = DeviceId(device);
        self.tell(EventKind::DeviceClosed { device })
    }
}

impl Speaker<'_> {
    pub(crate) fn create(&mut self, program: u64) -> &mut Self {
        self.tell(EventKind::ProgramCreated {
            program: ProgramId(program),
            name: TextId::NONE,
            runtime_id: program,
            pointer: 0,
        })
    }

    /// A circular buffer that the program placed itself.
    pub(crate) fn cb(
        &mut self,
        program: u64,
        number: u32,
        address: u64,
        size: u64,
        cores: u32,
    ) -> &mut Self {
        self.storage(CbKind::Local, program, number, address, size, cores)
    }

    pub(crate) fn storage(
        &mut self,
        kind: CbKind,
        program: u64,
        number: u32,
        address: u64,
        size_bytes: u64,
        cores: u32,
    ) -> &mut Self {
        self.tell(EventKind::CbAllocated {
            mesh: self.mesh,
            program: ProgramId(program),
            cb: number,
            kind,
            address,
            size_bytes,
            cores: CoresId(cores),
        })
    }

    /// The program gives back its storage on the mesh, one number or all of it.
    pub(crate) fn free_cb(&mut self, program: u64, cb: Option<u32>) -> &mut Self {
        self.tell(EventKind::CbFreed {
            mesh: self.mesh,
            program: ProgramId(program),
            cb,
        })
    }

    /// A kernel on defined cores.
    pub(crate) fn kernel(
        &mut self,
        program: u64,
        kernel: u64,
        (kind, core_type): (KernelKind, CoreType),
        binary_bytes: u64,
        cores: u32,
    ) -> &mut Self {
        self.tell(EventKind::KernelLoaded {
            mesh: self.mesh,
            program: ProgramId(program),
            kernel: KernelId(kernel),
            name: TextId::NONE,
            binary_bytes,
            cores: CoresId(cores),
            core_count: 0,
            kind,
            core_type,
        })
    }

    pub(crate) fn unload(&mut self, program: u64, kernel: Option<u64>) -> &mut Self {
        self.tell(EventKind::KernelUnloaded {
            mesh: self.mesh,
            program: ProgramId(program),
            kernel: kernel.map(KernelId),
        })
    }

    /// A run that found the program in its cache.
    pub(crate) fn dispatch(&mut self, program: u64) -> &mut Self {
        self.tell(EventKind::Dispatched {
            mesh: self.mesh,
            program: ProgramId(program),
            runtime_id: 0,
            operation: TextId::NONE,
            program_cache: CacheResult::Hit,
            binary_reused: true,
            path: DispatchPath::Fast,
        })
    }

    pub(crate) fn destroy(&mut self, program: u64) -> &mut Self {
        let program = ProgramId(program);
        self.tell(EventKind::ProgramDestroyed { program })
    }

    /// Captures a trace of these programs.
    pub(crate) fn capture(&mut self, trace: u32, programs: &[u64]) -> &mut Self {
        let (mesh, trace) = (self.mesh, TraceId(trace));
        self.tell(EventKind::TraceBegan { mesh, trace });
        for program in programs {
            self.dispatch(*program);
        }
        self.tell(EventKind::TraceEnded {
            mesh,
            trace,
            bytes: 4096,
        })
    }

    pub(crate) fn replay(&mut self, trace: u32) -> &mut Self {
        let (mesh, trace) = (self.mesh, TraceId(trace));
        self.tell(EventKind::TraceReplayed { mesh, trace })
    }

    pub(crate) fn mark(&mut self, name: u32, number: u64) -> &mut Self {
        let name = TextId(name);
        self.tell(EventKind::Marked { name, number })
    }
}

impl Speaker<'_> {
    pub(crate) fn old_alloc(&mut self, device: i32, class: Class, id: u64, size: u64) -> &mut Self {
        self.tell(EventKind::LegacyAllocated {
            device,
            class,
            size_bytes: size,
            id,
        })
    }

    pub(crate) fn old_free(&mut self, device: i32, id: u64) -> &mut Self {
        self.tell(EventKind::LegacyFreed { device, id })
    }

    pub(crate) fn old_cb(&mut self, device: i32, id: u64, size_bytes: u64) -> &mut Self {
        self.tell(EventKind::LegacyCbAllocated {
            device,
            size_bytes,
            id,
        })
    }

    pub(crate) fn old_cb_free(&mut self, device: i32, id: u64, size_bytes: u64) -> &mut Self {
        self.tell(EventKind::LegacyCbFreed {
            device,
            size_bytes,
            id,
        })
    }

    pub(crate) fn old_kernel(
        &mut self,
        device: i32,
        kind: KernelKind,
        id: u64,
        size_bytes: u64,
    ) -> &mut Self {
        self.tell(EventKind::LegacyKernelLoaded {
            device,
            kind,
            size_bytes,
            id,
        })
    }

    pub(crate) fn old_unload(&mut self, device: i32, id: u64) -> &mut Self {
        self.tell(EventKind::LegacyKernelUnloaded { device, id })
    }
}
