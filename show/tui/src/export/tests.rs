use super::*;
use crate::data::Update;
use crate::testing::world::{Names, World};
use crate::views::Chosen;

fn data() -> Data {
    let world = World {
        devices: 2,
        processes: 3,
        busy: false,
        names: Names::Usual,
    };
    world.data()
}

fn exported(tab: Tab, data: &Data) -> Export {
    let asked = tab.view().documents(data, &Chosen::default());
    Export::of(tab, &asked, data)
}

#[test]
fn every_view_has_the_documents_that_it_is_drawn_from_and_a_list() {
    let data = data();
    for tab in Tab::ALL {
        let export = exported(tab, &data);
        let json: Value = serde_json::from_str(&export.text(ExportForm::Json)).unwrap();
        assert_eq!(json["view"], tab.name());
        assert!(json.as_object().unwrap().len() >= 2, "{tab:?}: {json}");
        let csv = export.text(ExportForm::Csv);
        let lines: Vec<&str> = csv.lines().collect();
        assert!(lines.len() >= 2, "{tab:?}: {csv}");
        assert!(lines[0].split(',').count() >= 4, "{tab:?}: {}", lines[0]);
    }
}

#[test]
fn figures_of_both_forms_are_those_of_the_api() {
    let data = data();
    let export = exported(Tab::Overview, &data);
    let json: Value = serde_json::from_str(&export.text(ExportForm::Json)).unwrap();
    let dram = data.devices()[1].dram.charged_bytes;
    let devices = &json["snapshot"]["devices"];
    assert_eq!(devices[1]["dram"]["charged_bytes"], dram);
    let csv = export.text(ExportForm::Csv);
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| lines[0].iter().position(|title| *title == name).unwrap();
    assert_eq!(lines[0][0], "id", "{:?}", lines[0]);
    assert_eq!(lines[2][column("id")], data.devices()[1].id.to_string());
    // Lists are the only fields with commas, and they stand behind it.
    assert_eq!(lines[2][column("dram.charged_bytes")], dram.to_string());
}

#[test]
fn a_history_is_a_row_for_each_step_of_each_device() {
    let data = data();
    let export = exported(Tab::Device, &data);
    let history = &data.history.as_ref().unwrap().document.1;
    let rows = export.rows();
    assert_eq!(rows.len(), history.times.len() * history.devices.len());
    let last = rows.last().unwrap();
    let device = history.devices.last().unwrap();
    assert_eq!(last["dram_bytes"], json!(device.dram_bytes.last().unwrap()));
    assert_eq!(last["time"], json!(history.times.last().unwrap()));
}

#[test]
fn what_grows_is_in_one_list_with_what_came_since_the_mark() {
    let mut data = data();
    let since_mark = exported(Tab::Leaks, &data).rows().len();
    let leaks = crate::testing::leaks();
    data.apply(Update::Leaks(Box::new(leaks)), data.now);
    let rows = exported(Tab::Leaks, &data).rows();
    assert_eq!(rows.len(), since_mark + 3);
    let lists = rows.iter().filter_map(|row| row["list"].as_str());
    let lists: Vec<&str> = lists.take(4).collect();
    let first = ["growing", "held at close", "held at close", "since mark"];
    assert_eq!(lists, first);
    assert_eq!(rows[0]["bytes_per_step"], 2 << 20);
}

#[test]
fn an_empty_list_has_the_heading_of_a_full_one() {
    let full = data();
    let now = full.now;
    let empty = Data::new("ttmem.sock", std::time::Duration::from_secs(1), now);
    for tab in Tab::ALL {
        let heading = |data: &Data| {
            let csv = exported(tab, data).text(ExportForm::Csv);
            let names = csv.lines().next().unwrap().split(',').map(str::to_owned);
            names.collect::<BTreeSet<String>>()
        };
        assert_eq!(exported(tab, &empty).rows().len(), 0, "{tab:?}");
        let (of_none, of_some) = (heading(&empty), heading(&full));
        // A field that is null in every row has none inside, and those of events differ.
        let is_known = |name: &String| {
            let inside = format!("{name}.");
            of_none.contains(name) || of_none.iter().any(|known| known.starts_with(&inside))
        };
        let unknown: Vec<&String> = of_some.iter().filter(|name| !is_known(name)).collect();
        let is_field = |name: &&String| tab == Tab::Events && name.starts_with("fields.");
        assert!(unknown.iter().all(is_field), "{tab:?}: {unknown:?}");
    }
    let empty = exported(Tab::Buffers, &empty).text(ExportForm::Csv);
    assert!(
        empty.starts_with("time,pid,instance,id,address,"),
        "{empty}"
    );
    assert_eq!(empty.lines().count(), 1);
}

#[test]
fn odd_text_stays_one_field_and_is_no_formula() {
    let rows = [
        json!({"name": "=cmd,\"x\"\n\u{1b}[2J", "pid": 7, "in": {"deep": [1, 2]}}),
        json!({"name": null, "pid": -1}),
    ];
    let text = csv(&rows);
    let shown = "pid,name,in.deep\n7,\"'=cmd,\"\"x\"\"\u{fffd}\u{fffd}[2J\",\"[1,2]\"\n-1,,\n";
    assert_eq!(text, shown);
}
