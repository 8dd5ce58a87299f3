//! What a program says that the report of its tracked run must say.

use serde_json::Value;

/// Compares a report, or a server's answer, with what the program expects of it.
///
/// The expectation has `values` by their JSON pointer, and the `pids` of all processes that
/// must be known, and no other.
///
/// # Errors
///
/// The first difference.
pub(super) fn compare(expected: &Value, report: &Value) -> Result<(), String> {
    let values = expected.get("values").and_then(Value::as_object);
    for (pointer, value) in values.ok_or("no values are expected")? {
        match report.pointer(pointer) {
            Some(said) if said == value => {}
            said => return Err(format!("{pointer}: expected {value}, told {said:?}")),
        }
    }
    let pids = expected.get("pids").and_then(Value::as_array);
    let mut known: Vec<Value> = processes(report)
        .iter()
        .map(|process| process["pid"].clone())
        .collect();
    known.sort_by_key(Value::as_u64);
    let pids = pids.ok_or("no processes are expected")?;
    if known != *pids {
        return Err(format!("processes: expected {pids:?}, told {known:?}"));
    }
    Ok(())
}

/// Looks whether a report says that nothing was tracked.
///
/// # Errors
///
/// What it says instead.
pub(super) fn compare_untracked(report: &Value) -> Result<(), String> {
    if report["tracked"] == Value::Bool(false) && processes(report).is_empty() {
        return Ok(());
    }
    Err(format!("nothing was to be tracked: {report}"))
}

fn processes(report: &Value) -> &[Value] {
    report["processes"].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_and_processes_must_be_equal() {
        let report = json!({"exit_code": 3, "processes": [{"pid": 7}, {"pid": 5}]});
        let compared =
            |values: Value, pids: Value| compare(&json!({"values": values, "pids": pids}), &report);
        assert_eq!(compared(json!({"/exit_code": 3}), json!([5, 7])), Ok(()));
        assert!(compared(json!({"/exit_code": 4}), json!([5, 7])).is_err());
        assert!(compared(json!({"/nothing": null}), json!([5, 7])).is_err());
        assert!(compared(json!({}), json!([5])).is_err());
        assert!(compare(&json!({}), &report).is_err());
    }

    #[test]
    fn a_program_without_the_runtime_is_not_tracked() {
        let untracked = json!({"tracked": false, "processes": []});
        assert_eq!(compare_untracked(&untracked), Ok(()));
        assert!(compare_untracked(&json!({"tracked": true, "processes": [{}]})).is_err());
        assert!(compare_untracked(&json!({})).is_err());
    }
}
