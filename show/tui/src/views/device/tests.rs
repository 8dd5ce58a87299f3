//! Screens, keys and odd data of the view of one device.

use super::*;
use crate::testing;
use crate::testing::screen::{THEME, assert_in_every_world, assert_screen, drawn};
use crate::testing::world::{Names, World};
use crate::widgets::Canvas;
use ratatui::buffer::Buffer;

const BUSY: World = World {
    devices: 8,
    processes: 40,
    busy: true,
    names: Names::Usual,
};

fn press(view: &mut DeviceView, keys: &str, data: &Data, chosen: &mut Chosen) {
    for key in keys.chars() {
        assert_eq!(
            view.handle(Key::Char(key), data, chosen),
            Outcome::Handled,
            "{key}"
        );
    }
}

#[test]
fn screens() {
    assert_in_every_world("device", || Box::<DeviceView>::default());
}

#[test]
fn one_figure_alone_zoomed_and_scrolled_to_the_end() {
    let data = BUSY.data();
    let mut chosen = Chosen::default();
    let mut view = DeviceView::default();
    drawn(&mut view, &data, &chosen, (80, 21));
    press(&mut view, "sssszG", &data, &mut chosen);
    let screen = drawn(&mut view, &data, &chosen, (80, 21));
    assert!(screen.contains("kernels  ") && screen.contains("zoomed"));
    assert_screen("device/kernels_alone_at_the_end_80x21", &screen);
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Handled
    );
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Unused,
        "nothing is left to go back from"
    );
}

#[test]
fn the_axis_is_as_long_as_there_is_something_to_show() {
    let mut data = BUSY.data();
    let (_, history) = &mut data.history.as_mut().expect("a history").document;
    let steps = history.times.len();
    // Known for the last 40 steps of a second each.
    history.step_seconds = 1;
    let end = history.time.unix_nanos();
    for (place, time) in history.times.iter_mut().enumerate() {
        let ago = (steps - 1 - place) as u64;
        *time = ttmem_report::Timestamp::from_unix_nanos(end - ago * 1_000_000_000);
    }
    for device in &mut history.devices {
        for series in [&mut device.dram_bytes, &mut device.l1_bytes] {
            for (place, value) in series.iter_mut().enumerate() {
                *value = (steps - place <= 40).then_some(1 << 30);
            }
        }
        for series in [
            &mut device.l1_small_bytes,
            &mut device.trace_bytes,
            &mut device.occupied_bytes,
            &mut device.cb_resident_bytes,
            &mut device.cb_registered_bytes,
            &mut device.kernel_registered_bytes,
            &mut device.dram_largest_free_bytes,
            &mut device.l1_largest_free_bytes,
            &mut device.dispatches,
        ] {
            series.fill(None);
        }
    }
    let device = &data.devices()[0];
    let shown = Shown::of(device, &data).expect("a history");
    assert_eq!(shown.fitting(600), 40);
    assert_eq!(shown.fitting(20), 20, "never more than was asked for");
    let screen = drawn(
        &mut DeviceView::default(),
        &data,
        &Chosen::default(),
        (80, 24),
    );
    assert!(screen.contains("23:59:20"), "{screen}");
}

#[test]
fn a_refused_trace_says_how_large_its_region_must_be() {
    let mut data = BUSY.data();
    let refused = |device: u32, value: u64| {
        let setting = serde_json::json!({
            "name": "trace_region_size", "value": value, "bytes_per_bank": null,
            "given": 1 << 20, "is_smallest": true,
        });
        serde_json::json!({
            "verdict": "region_too_small", "sentence": "", "times": 1, "device_ids": [device],
            "setting": setting, "unknown": [], "advice": [],
        })
    };
    let other = data.devices()[1].id;
    let failures = serde_json::json!({
        "schema": 1, "omitted": 0,
        "failures": [refused(other, 1 << 40), refused(data.devices()[0].id, 1 << 30)],
    });
    let failures = serde_json::from_value(failures).expect("a document");
    data.apply(crate::data::Update::Failures(failures), data.now);
    let screen = drawn(
        &mut DeviceView::default(),
        &data,
        &Chosen::default(),
        (120, 40),
    );
    let advice = "trace_region_size=1073741824 (a smaller region was refused as too small)";
    assert!(screen.contains(advice), "{screen}");
}

#[test]
fn a_window_is_asked_for_and_until_it_comes_the_screen_says_so() {
    let data = BUSY.data();
    let mut chosen = Chosen::default();
    let mut view = DeviceView::default();
    assert_eq!(
        testing::needed(&view, &data, &chosen).history_seconds,
        Some(600)
    );
    press(&mut view, "w", &data, &mut chosen);
    assert_eq!(
        testing::needed(&view, &data, &chosen).history_seconds,
        Some(7_200)
    );
    let screen = drawn(&mut view, &data, &chosen, (100, 24));
    assert!(screen.contains("[2 h]") && screen.contains("on its way"));
    assert!(screen.contains("22:00:00"), "the axis is that of 2 hours");
    press(&mut view, "WW", &data, &mut chosen);
    assert_eq!(
        testing::needed(&view, &data, &chosen).history_seconds,
        Some(60)
    );
    assert_screen(
        "device/one_minute_80x21",
        &drawn(&mut view, &data, &chosen, (80, 21)),
    );
}

#[test]
fn devices_go_round_and_a_chart_can_be_clicked() {
    let data = BUSY.data();
    let mut chosen = Chosen::default();
    let mut view = DeviceView::default();
    press(&mut view, "[", &data, &mut chosen);
    assert_eq!(chosen.place(&data), 7);
    assert!(drawn(&mut view, &data, &chosen, (80, 24)).starts_with("Device 7  8 of 8"));
    press(&mut view, "]]", &data, &mut chosen);
    assert_eq!(chosen.place(&data), 1);
    let click = |column, row| Pointer {
        column,
        row,
        did: Gesture::Click,
    };
    assert_eq!(
        view.point(click(60, 5), &data, &mut chosen),
        Outcome::Handled
    );
    assert_eq!(view.only, Some(Series::Occupied));
    assert_eq!(view.point(click(0, 0), &data, &mut chosen), Outcome::Unused);
    assert_eq!(
        view.handle(Key::Enter, &data, &mut chosen),
        Outcome::Go(Tab::L1Map)
    );
    assert_eq!(
        view.handle(Key::Char('q'), &data, &mut chosen),
        Outcome::Unused
    );
}

#[test]
fn what_is_not_known_leaves_a_gap_and_what_is_nothing_a_line() {
    let mut data = BUSY.data();
    let device = data.devices()[0].clone();
    let (_, history) = &mut data.history.as_mut().expect("a history").document;
    let last = history.times.len() - 1;
    let values = &mut history.devices[0].dram_bytes;
    values.fill(None);
    values[last] = Some(0);
    let chart = Chart {
        series: Series::Dram,
        device: &device,
        history: Some((&*history, &history.devices[0])),
        seconds: 10,
        zoomed: false,
    };
    let mut canvas = Buffer::empty(Rect::new(0, 0, 21, 3));
    let area = canvas.area;
    chart.draw(&mut Canvas::new(&mut canvas, THEME), area);
    assert_eq!(
        crate::testing::screen::text(&canvas).lines().nth(1),
        Some("  11.9 GiB          ▁")
    );
}

#[test]
fn more_than_there_is_is_told_below_the_classes() {
    let mut data = BUSY.data();
    let (mut view, chosen) = (DeviceView::default(), Chosen::default());
    let usual = drawn(&mut view, &data, &chosen, (80, 24));
    assert!(!usual.contains("! DRAM"), "{usual}");
    let snapshot = &mut data.snapshot.as_mut().expect("totals").document;
    let dram = &mut snapshot.devices[0].dram;
    dram.capacity_bytes = Some(10 << 30);
    dram.union_bytes = Some(12 << 30);
    let screen = drawn(&mut view, &data, &chosen, (80, 24));
    assert!(
        screen.contains("! DRAM charged 12.0 GiB of 10.0 GiB"),
        "{screen}"
    );
    assert!(screen.contains("100.0%"), "{screen}");
}

#[test]
fn any_area_and_any_data_can_be_drawn() {
    let mut data = BUSY.data();
    let mut chosen = Chosen::default();
    let mut view = DeviceView::default();
    for width in 0..90 {
        for height in [0, 1, 2, 3, 5, 8, 13, 24] {
            let mut canvas = Buffer::empty(Rect::new(3, 2, width, height));
            let area = canvas.area;
            view.draw(&mut Canvas::new(&mut canvas, THEME), area, &data, &chosen);
        }
    }
    view.scroll.handle(Key::End);
    chosen.device = Some(ttmem_report::DeviceKey::Number(99, None));
    // Series that are shorter than the times, times that run backwards, numbers that are none.
    let (_, history) = &mut data.history.as_mut().expect("a history").document;
    history.devices[0].dram_bytes.truncate(3);
    history.devices[0].occupied_bytes.fill(Some(u64::MAX));
    history.times.reverse();
    history.step_seconds = 0;
    let snapshot = &mut data.snapshot.as_mut().expect("totals").document;
    snapshot.devices[0].allocators[0].fragmentation = Some(f64::NAN);
    snapshot.devices[0].allocators[1].fragmentation = Some(-7.0);
    snapshot.devices[0].dram.peak_bytes = u64::MAX;
    snapshot.devices[0].l1.banks = Some(0);
    let screen = drawn(&mut view, &data, &chosen, (200, 50));
    assert!(screen.contains("Device 0") && !screen.contains("NaN"));
    let snapshot = &mut data.snapshot.as_mut().expect("totals").document;
    snapshot.devices.clear();
    let screen = drawn(&mut view, &data, &chosen, (80, 24));
    assert!(screen.starts_with("no device"));
}
