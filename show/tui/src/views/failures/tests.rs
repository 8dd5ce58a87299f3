use super::*;
use crate::data::Update;
use crate::testing::screen::{self, SIZES, assert_screen, drawn};
use crate::testing::world::{Names, World, ago};
use crate::views::problems;

const WORLD: World = World {
    devices: 8,
    processes: 3,
    busy: true,
    names: Names::Usual,
};

fn press(view: &mut Failures, data: &Data, keys: &[Key]) -> Outcome {
    let mut outcome = Outcome::Unused;
    for key in keys {
        outcome = view.handle(*key, data, &mut Chosen::default());
    }
    outcome
}

#[test]
fn screens() {
    screen::assert_in_every_world("failures", || Box::<Failures>::default());
}

#[test]
fn screens_of_explanations() {
    let data = WORLD.data();
    for size in SIZES {
        for (name, place) in [("fragmentation", 0), ("clash", 1), ("region", 2)] {
            let mut view = Failures::default();
            press(&mut view, &data, &vec![Key::Down; place]);
            press(&mut view, &data, &[Key::Enter]);
            let name = format!("failures/state_{name}_{}x{}", size.0, size.1);
            let screen = drawn(&mut view, &data, &Chosen::default(), size);
            assert_screen(&name, &screen);
        }
    }
}

#[test]
fn below_the_list_stands_what_is_known_of_the_chosen_one() {
    let data = WORLD.data();
    let mut view = Failures::default();
    press(&mut view, &data, &[Key::Down]);
    let screen = drawn(&mut view, &data, &Chosen::default(), SIZES[1]);
    for part in ["3 failures", "program 453", "0x98000", "model.py:43"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
}

#[test]
fn the_chosen_failure_stays_chosen_when_another_comes() {
    let mut data = WORLD.data();
    let mut view = Failures::default();
    press(&mut view, &data, &[Key::Down]);
    let clash = view.chosen(&data).unwrap().clone();
    assert_eq!(clash.verdict, Verdict::Clash);
    let mut failures = data.failures.clone().unwrap().document;
    let mut newer = failures.failures[2].clone();
    newer.time = Some(ago(1));
    failures.failures.insert(0, newer);
    data.apply(Update::Failures(failures), data.now);
    drawn(&mut view, &data, &Chosen::default(), SIZES[0]);
    assert_eq!(view.chosen(&data), Some(&clash));
    // At the top it is always the newest.
    press(&mut view, &data, &[Key::Home]);
    assert_eq!(view.place(&data), 0);
}

#[test]
fn enter_explains_and_enter_again_goes_to_the_map_of_the_device() {
    let data = WORLD.data();
    let (mut view, mut chosen) = (Failures::default(), Chosen::default());
    view.handle(Key::Down, &data, &mut chosen);
    view.handle(Key::Enter, &data, &mut chosen);
    let opened = drawn(&mut view, &data, &chosen, SIZES[1]);
    for part in ["program 453", "622592", "0x98000", "31776 B", "model.py:43"] {
        assert!(opened.contains(part), "{part}: {opened}");
    }
    let outcome = view.handle(Key::Enter, &data, &mut chosen);
    assert_eq!(outcome, Outcome::Go(Tab::L1Map));
    assert_eq!(chosen.device, Some(data.devices()[0].key()));
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Handled
    );
    assert!(view.opened.is_none());
    assert_eq!(
        view.handle(Key::Escape, &data, &mut chosen),
        Outcome::Unused
    );
}

#[test]
fn a_fresh_failure_stands_at_the_top_with_process_device_operation_line_bytes_and_key() {
    let data = WORLD.data();
    let line = problems::line(&data).unwrap();
    let start =
        "! pid 70100 python3, device 0: DRAM is fragmented: ttnn.linear at model.py:57 needs";
    assert!(line.text.starts_with(start), "{}", line.text);
    assert!(line.text.contains("is 9.0 MiB. (5 s ago)"), "{}", line.text);
    assert!(line.key.starts_with(" [9]"), "{}", line.key);
}
