//! Cards, driver, nodes, huge pages and the IOMMU.

use super::{Check, State};
use ttmem_machine::{Device, Iommu, Machine, Reading, Unread};

/// From this version on the driver tells who has a device open.
const TELLS_HOLDERS: (u32, u32) = (2, 5);

const DRIVER: &str =
    "install the driver: packages are at https://github.com/tenstorrent/tt-kmd/releases";

const KERNEL: &str = "the kernel's messages say more: `sudo dmesg | grep -i tenstorrent`";

const NO_DEVICES: &str = "no devices";

pub(super) fn checks(machine: &Machine, devices: &Reading<Vec<Device>>) -> Vec<Check> {
    let cards = machine.cards.as_ref().map_or(0, Vec::len);
    let found = devices.as_deref().unwrap_or_default();
    vec![
        driver(machine, cards),
        listed(devices, cards),
        health(found),
        holders(found),
        nodes(machine, found),
        huge_pages(machine, cards),
        iommu(machine, cards),
    ]
}

fn driver(machine: &Machine, cards: usize) -> Check {
    let check = |state, found: String| Check::new("driver", state, found);
    match &machine.driver {
        Ok(version) if version_of(version).is_some_and(|version| version < TELLS_HOLDERS) => {
            let found =
                format!("tt-kmd {version}: does not say who has a device open (2.5.0 does)");
            check(State::Warning, found).with(DRIVER)
        }
        Ok(version) => check(State::Ok, format!("tt-kmd {version}")),
        Err(Unread::Missing) if cards == 0 => check(
            State::Info,
            "not loaded, and there is no card for it".to_owned(),
        ),
        Err(Unread::Missing) => {
            let found = format!("not loaded, but there are cards: {cards}");
            check(State::Problem, found).with(format!(
                "`sudo modprobe tenstorrent`; if there is no such module, {DRIVER}"
            ))
        }
        Err(error) => check(
            State::Warning,
            format!("its version cannot be read: {error}"),
        )
        .with(KERNEL),
    }
}

/// Major and minor number.
fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(['.', '-']).map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

fn listed(devices: &Reading<Vec<Device>>, cards: usize) -> Check {
    let check = |state, found: String| Check::new("devices", state, found);
    match devices {
        Err(Unread::Missing) if cards == 0 => check(State::Info, "none in this machine".to_owned())
            .with("nothing has to be done: `ttmem demo` shows ttmem without a card"),
        Err(Unread::Missing) => check(
            State::Problem,
            format!("cards: {cards}, but the driver lists none"),
        )
        .with("see `driver` above"),
        Err(error) => check(
            State::Problem,
            format!("the driver's list cannot be read: {error}"),
        )
        .with(KERNEL),
        Ok(devices) if devices.len() < cards => check(
            State::Problem,
            format!("cards: {cards}, but the driver has taken {}", devices.len()),
        )
        .with(KERNEL),
        Ok(devices) if devices.is_empty() => check(State::Info, "the driver has none".to_owned()),
        Ok(devices) => {
            let kinds = devices.iter().map(|device| match &device.card_type {
                Ok(kind) => kind.clone(),
                Err(error) => format!("unknown ({error})"),
            });
            let state = match devices.iter().all(|device| device.card_type.is_ok()) {
                true => State::Ok,
                false => State::Warning,
            };
            let found = format!(
                "{}: {}",
                devices.len(),
                kinds.collect::<Vec<_>>().join(", ")
            );
            let check = check(state, found);
            match state {
                State::Ok => check,
                _ => check.with(
                    "after a reset or a boot, Wormhole may take two minutes to report itself: try again; then \
                     `sudo dmesg | grep -i tenstorrent`",
                ),
            }
        }
    }
}

/// Detached devices, and shutdowns by heat.
fn health(devices: &[Device]) -> Check {
    let check = |state, found: String| Check::new("health", state, found);
    let ordinals = |is: &dyn Fn(&Device) -> bool| {
        let ordinals = devices
            .iter()
            .filter(|device| is(device))
            .map(|device| device.ordinal.to_string());
        ordinals.collect::<Vec<_>>().join(", ")
    };
    let detached = ordinals(&Device::is_detached);
    if !detached.is_empty() {
        return check(
            State::Problem,
            format!("detached from the driver, or in reset: {detached}"),
        )
        .with("`tt-smi -r` resets devices; programs that use them have to be started again");
    }
    let tripped = ordinals(&|device| device.thermal_trips.as_ref().is_ok_and(|trips| *trips > 0));
    if !tripped.is_empty() {
        return check(
            State::Warning,
            format!("shut down by heat since power was switched on: {tripped}"),
        )
        .with(
            "look after its cooling; the count goes back to 0 when power is switched off and on",
        );
    }
    let temperatures = devices
        .iter()
        .filter_map(|device| device.sensors.temperature_millidegrees.as_ref().ok());
    match temperatures.max() {
        Some(hottest) => check(State::Ok, format!("hottest chip: {} °C", hottest / 1000)),
        None if devices.is_empty() => check(State::Info, NO_DEVICES.to_owned()),
        None => check(State::Info, "no temperature is reported".to_owned()),
    }
}

fn holders(devices: &[Device]) -> Check {
    let mut open: Vec<String> = Vec::new();
    let mut untold = None;
    for device in devices {
        match &device.holders {
            Ok(holders) => open.extend(holders.iter().map(|holder| {
                let who = match &holder.name {
                    Some(name) => format!("{name} ({})", holder.pid),
                    None => format!("process {}", holder.pid),
                };
                format!("{who} has /dev/tenstorrent/{} open", device.ordinal)
            })),
            Err(error) => untold = Some(error),
        }
    }
    match untold {
        Some(error) => Check::new(
            "holders",
            State::Info,
            format!("not told by the driver: {error}"),
        ),
        None if devices.is_empty() => Check::new("holders", State::Info, NO_DEVICES),
        None if open.is_empty() => Check::new("holders", State::Ok, "no process has a device open"),
        None => Check::new("holders", State::Ok, open.join(", ")),
    }
}

fn nodes(machine: &Machine, devices: &[Device]) -> Check {
    let check = |state, found: String| Check::new("permissions", state, found);
    if devices.is_empty() {
        return check(State::Info, NO_DEVICES.to_owned());
    }
    let missing = devices.iter().filter(|device| {
        !machine
            .nodes
            .iter()
            .any(|node| node.ordinal == device.ordinal)
    });
    let missing: Vec<String> = missing.map(|device| device.ordinal.to_string()).collect();
    if !missing.is_empty() {
        return check(
            State::Problem,
            format!("no node in /dev/tenstorrent for {}", missing.join(", ")),
        )
        .with("a container needs `--device /dev/tenstorrent`; elsewhere `sudo udevadm trigger`");
    }
    let denied = machine.nodes.iter().filter(|node| node.may_use.is_err());
    let denied: Vec<String> = denied.map(|node| node.ordinal.to_string()).collect();
    if denied.is_empty() {
        return check(State::Ok, "this user may use every device".to_owned());
    }
    check(State::Problem, format!("this user may not use {}", denied.join(", ")))
        .with("the driver's udev rule lets everybody (mode 0666): `ls -l /dev/tenstorrent`, then `sudo udevadm trigger`")
}

/// Where UMD looks for pages of 1 GiB, and nowhere else.
const HUGE_PAGE_MOUNT: &str = "/dev/hugepages-1G";

fn huge_pages(machine: &Machine, cards: usize) -> Check {
    let check = |state, found: String| Check::new("hugepages", state, found);
    let pages = &machine.huge_pages;
    let needed = machine.untranslated.len();
    let (Ok(total), Ok(free)) = (&pages.total, &pages.free) else {
        let error = pages.total.as_ref().err().or(pages.free.as_ref().err());
        let why = error.map(ToString::to_string).unwrap_or_default();
        let found = format!("pages of 1 GiB: {why}");
        return match needed {
            0 => check(State::Info, found),
            _ => check(State::Problem, format!("{found}; cards without an IOMMU need them: {needed}"))
                .with(
                "a processor or a virtual machine without pages of that size needs an IOMMU that translates: turn it on in the \
                 firmware's setup; a virtual machine has the pages with the processor flag pdpe1gb",
            ),
        };
    };
    let found = format!("of 1 GiB: {total}, free {free}");
    if cards == 0 {
        return check(State::Info, format!("{found}; nothing here needs them"));
    }
    if needed == 0 {
        let found = format!("{found}; none are needed: the IOMMU translates for every card");
        return check(State::Ok, found);
    }
    let remedy = "install tenstorrent-tools of https://github.com/tenstorrent/tt-system-tools, then \
                  `sudo systemctl enable --now tenstorrent-hugepages.service 'dev-hugepages\\x2d1G.mount'`";
    if usize::try_from(*total).unwrap_or(usize::MAX) < needed {
        let found = format!("{found}, but cards without an IOMMU need one each: {needed}");
        return check(State::Problem, found).with(remedy);
    }
    let mut mounts = machine.huge_page_mounts.iter();
    if !mounts.any(|mount| mount.place == HUGE_PAGE_MOUNT) {
        let found = format!("{found}, but they are not mounted at {HUGE_PAGE_MOUNT}");
        return check(State::Problem, found).with(remedy);
    }
    check(State::Ok, found)
}

fn iommu(machine: &Machine, cards: usize) -> Check {
    const PAGES: &str = "host memory of devices comes from huge pages";
    let without = machine.untranslated.len();
    let found = match &machine.iommu {
        Iommu::Off if cards == 0 => "off, or there is none".to_owned(),
        Iommu::On { .. } if cards == 0 => "on".to_owned(),
        _ if 0 < without && without < cards => {
            format!(
                "translates for {} of {cards} cards; for the others, {PAGES}",
                cards - without
            )
        }
        Iommu::Off => format!("off: {PAGES}"),
        Iommu::On { .. } if without > 0 => format!("on, but passes addresses through: {PAGES}"),
        Iommu::On {
            group_type: Some(kind),
        } => format!("on ({kind})"),
        Iommu::On { group_type: None } => "on".to_owned(),
    };
    Check::new("iommu", State::Ok, found)
}
