//! What of the machine decides whether devices work and are seen: driver, huge pages, IOMMU, namespaces.

use crate::device::line;
use crate::files::{Reader, Reading, Unread};
use crate::roots::Roots;
use rustix::fs::{Access, access, statvfs};

/// Inode numbers of the first namespaces of a machine, fixed by the kernel (`linux/proc_ns.h`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";
const FIRST_IPC_NAMESPACE: &str = "ipc:[4026531839]";
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

/// Vendor of PCI devices.
const VENDOR: &str = "0x1e52";

/// Pages of 1 GiB, of which host queues of Wormhole and Blackhole are made without an IOMMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HugePages {
    pub total: Reading<u64>,
    pub free: Reading<u64>,
}

/// Whether addresses of devices are translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Iommu {
    /// There is none, or it is off.
    Off,
    /// It is on; the type of the device's group as the kernel writes it: `DMA`, `DMA-FQ`, `identity`.
    On { group_type: Option<String> },
}

/// A file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub place: String,
    pub kind: String,
    pub options: String,
    pub free_bytes: Option<u64>,
}

/// Whether this process is in the machine's first namespaces; containers are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespaces {
    pub is_first_pid: Reading<bool>,
    pub is_first_ipc: Reading<bool>,
    pub is_first_user: Reading<bool>,
}

/// Whether this user may use a device node. It is asked of the file system; the node is not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAccess {
    pub ordinal: u32,
    pub may_use: Reading<()>,
}

/// The machine as one user sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The version of the driver that is loaded.
    pub driver: Reading<String>,
    /// PCI addresses of cards, whether a driver has them or not.
    pub cards: Reading<Vec<String>>,
    pub nodes: Vec<NodeAccess>,
    pub huge_pages: HugePages,
    /// Where pages of 1 GiB are mounted.
    pub huge_page_mounts: Vec<Mount>,
    pub iommu: Iommu,
    /// PCI addresses of cards whose addresses no IOMMU translates: UMD takes their host memory from huge pages.
    pub untranslated: Vec<String>,
    pub shm: Option<Mount>,
    /// Whether this user may make files in `/dev/shm`, where it is mounted.
    pub may_write_shm: Reading<()>,
    pub namespaces: Namespaces,
}

impl Machine {
    /// Looks at everything.
    pub fn read(roots: &Roots, reader: &mut Reader) -> Self {
        let cards = cards(roots, reader);
        let mounts = mounts(roots, reader);
        let is_large = |mount: &&Mount| {
            let mut options = mount.options.split(',');
            mount.kind == "hugetlbfs"
                && options.any(|option| matches!(option, "pagesize=1024M" | "pagesize=1G"))
        };
        let pages = "/sys/kernel/mm/hugepages/hugepages-1048576kB";
        let mut count = |file: &str| {
            let text = reader.text(roots.path(&format!("{pages}/{file}")))?;
            text.parse()
                .map_err(|_none| Unread::Malformed(file.to_owned()))
        };
        let huge_pages = HugePages {
            total: count("nr_hugepages"),
            free: count("free_hugepages"),
        };
        let shm = mounts
            .iter()
            .find(|mount| mount.place == "/dev/shm")
            .cloned();
        let shm = shm.map(|mount| {
            let space = statvfs(roots.path("/dev/shm")).ok();
            let free = space.and_then(|space| space.f_bavail.checked_mul(space.f_frsize));
            Mount {
                free_bytes: free,
                ..mount
            }
        });
        let may_write_shm = access(roots.path("/dev/shm"), Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| std::io::Error::from(error).into());
        let mut is_first = |name: &str, first: &str| {
            let namespace = reader.link(roots.path(&format!("/proc/self/ns/{name}")))?;
            Ok(namespace == first)
        };
        let namespaces = Namespaces {
            is_first_pid: is_first("pid", FIRST_PID_NAMESPACE),
            is_first_ipc: is_first("ipc", FIRST_IPC_NAMESPACE),
            is_first_user: is_first("user", FIRST_USER_NAMESPACE),
        };
        Self {
            driver: reader
                .text(roots.path("/sys/module/tenstorrent/version"))
                .and_then(|version| line(&version)),
            nodes: nodes(roots, reader),
            huge_pages,
            huge_page_mounts: mounts.iter().filter(is_large).cloned().collect(),
            iommu: iommu(roots, reader, cards.as_deref().unwrap_or_default()),
            untranslated: untranslated(roots, reader, cards.as_deref().unwrap_or_default()),
            cards,
            shm,
            may_write_shm,
            namespaces,
        }
    }
}

/// PCI addresses of the vendor's devices.
fn cards(roots: &Roots, reader: &mut Reader) -> Reading<Vec<String>> {
    let folder = roots.path("/sys/bus/pci/devices");
    let all = reader.names(folder.clone())?;
    let vendors = reader.texts(
        all.iter()
            .map(|bdf| folder.join(bdf).join("vendor"))
            .collect(),
    );
    let ours = all
        .into_iter()
        .zip(vendors)
        .filter(|(_bdf, vendor)| vendor.as_deref() == Ok(VENDOR));
    Ok(ours.map(|(bdf, _vendor)| bdf).collect())
}

fn nodes(roots: &Roots, reader: &mut Reader) -> Vec<NodeAccess> {
    let names = reader
        .names(roots.path("/dev/tenstorrent"))
        .unwrap_or_default();
    let mut ordinals: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    ordinals.sort_unstable();
    let node = |ordinal: u32| {
        let path = roots.path(&format!("/dev/tenstorrent/{ordinal}"));
        let asked = access(&path, Access::READ_OK | Access::WRITE_OK);
        NodeAccess {
            ordinal,
            may_use: asked.map_err(|error| std::io::Error::from(error).into()),
        }
    };
    ordinals.into_iter().map(node).collect()
}

fn iommu(roots: &Roots, reader: &mut Reader, cards: &[String]) -> Iommu {
    for bdf in cards {
        let group = reader.link(roots.path(&format!("/sys/bus/pci/devices/{bdf}/iommu_group")));
        if let Ok(group) = group {
            let number = group.rsplit('/').next().unwrap_or_default();
            let kind = reader.text(roots.path(&format!("/sys/kernel/iommu_groups/{number}/type")));
            return Iommu::On {
                group_type: kind.and_then(|kind| line(&kind)).ok(),
            };
        }
    }
    // Where there is no card, whether the machine has one that is on.
    let units = reader
        .names(roots.path("/sys/class/iommu"))
        .unwrap_or_default();
    match cards.is_empty() && !units.is_empty() {
        true => Iommu::On { group_type: None },
        false => Iommu::Off,
    }
}

/// Cards of which UMD says that they have no IOMMU: the type of their group is not `DMA` or `DMA-FQ`.
fn untranslated(roots: &Roots, reader: &mut Reader, cards: &[String]) -> Vec<String> {
    let kind = |bdf: &String| roots.path(&format!("/sys/bus/pci/devices/{bdf}/iommu_group/type"));
    let kinds = reader.texts(cards.iter().map(kind).collect());
    let without = cards.iter().zip(kinds).filter(|(_bdf, kind)| {
        let kind = kind.as_deref().unwrap_or_default();
        !kind.starts_with("DMA")
    });
    without.map(|(bdf, _kind)| bdf.clone()).collect()
}

fn mounts(roots: &Roots, reader: &mut Reader) -> Vec<Mount> {
    let text = reader
        .text(roots.path("/proc/self/mounts"))
        .unwrap_or_default();
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(1).map(str::to_owned);
        Some(Mount {
            place: fields.next()?,
            kind: fields.next()?,
            options: fields.next()?,
            free_bytes: None,
        })
    };
    text.lines().filter_map(mount).collect()
}
