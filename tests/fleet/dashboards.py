"""The dashboards of deploy/grafana: their JSON is what Grafana documents, and each of their queries has an answer."""

import json
import re

from engines import DEPLOY

# https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
DASHBOARD = {
    "uid": str,
    "title": str,
    "tags": list,
    "timezone": str,
    "editable": bool,
    "graphTooltip": int,
    "time": dict,
    "timepicker": dict,
    "templating": dict,
    "annotations": dict,
    "refresh": str,
    "schemaVersion": int,
    "version": int,
    "links": list,
    "panels": list,
}
PANEL_KINDS = {"timeseries", "stat", "table", "gauge", "row"}
UNITS = {"short", "bytes", "percentunit", "ops", "s", "dateTimeFromNow"}
COLUMNS = 24


def all_dashboards():
    found = {path.name: json.loads(path.read_text()) for path in sorted((DEPLOY / "grafana").glob("*.json"))}
    assert len(found) == 4, found.keys()
    return found


def expressions():
    """Every query with where it stands."""
    for file, dashboard in all_dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                yield f"{file}: {panel['title']}", target["expr"]
        for annotation in dashboard["annotations"]["list"]:
            yield f"{file}: annotation {annotation['name']}", annotation["expr"]


def check_shape():
    uids = set()
    for file, dashboard in all_dashboards().items():
        for key, kind in DASHBOARD.items():
            assert isinstance(dashboard.get(key), kind), (file, key)
        assert set(dashboard["time"]) == {"from", "to"}, file
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", dashboard["uid"]) and dashboard["uid"] not in uids, file
        uids.add(dashboard["uid"])
        variables = [variable["name"] for variable in dashboard["templating"]["list"]]
        check_variables(file, dashboard["templating"]["list"])
        check_panels(file, dashboard["panels"], variables)
    # Links lead to dashboards that are there.
    for file, dashboard in all_dashboards().items():
        for uid in re.findall(r"/d/([a-z-]+)", json.dumps(dashboard)):
            assert uid in uids, (file, uid)


def check_variables(file, variables):
    assert variables[0]["type"] == "datasource" and variables[0]["query"] == "prometheus", file
    for variable in variables[1:]:
        assert variable["type"] == "query" and variable["refresh"] in (1, 2), (file, variable)
        assert variable["query"]["query"] == variable["definition"], (file, variable)
        assert re.fullmatch(r"label_values\(.+, [a-z_]+\)", variable["definition"]), (file, variable)
        check_datasource(file, variable["datasource"])


def check_datasource(file, datasource):
    assert datasource == {"type": "prometheus", "uid": "${datasource}"}, (file, datasource)


def check_panels(file, panels, variables):
    ids, cells = set(), set()
    for panel in panels:
        where = (file, panel["title"])
        assert panel["type"] in PANEL_KINDS and panel["title"], where
        assert panel["id"] not in ids, where
        ids.add(panel["id"])
        place = panel["gridPos"]
        assert 0 <= place["x"] and place["x"] + place["w"] <= COLUMNS and place["w"] > 0 < place["h"], where
        taken = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not taken & cells, (where, "lies over another")
        cells |= taken
        if panel["type"] == "row":
            continue
        check_datasource(where, panel["datasource"])
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"] in UNITS and isinstance(panel["fieldConfig"]["overrides"], list), where
        steps = defaults["thresholds"]["steps"]
        assert defaults["thresholds"]["mode"] == "absolute" and steps[0]["value"] is None, where
        refs = [target["refId"] for target in panel["targets"]]
        assert refs and len(set(refs)) == len(refs), where
        for target in panel["targets"]:
            check_datasource(where, target["datasource"])
            assert target["instant"] != target["range"], where
            assert (target.get("format") == "table") == (panel["type"] == "table"), where
            used = set(re.findall(r"\$\{?([a-z_]+)", target["expr"])) - {"__rate_interval"}
            assert used <= set(variables), (where, used)


def check_queries(prometheus, calm, growing):
    """Evaluates every query with its variables in place; each has to give something."""
    evaluated = 0
    both = "|".join(re.escape(host.instance) for host in (calm, growing)).replace("\\", "\\\\")
    for where, expression in expressions():
        # A failure of the last minutes is not on every host.
        if "annotation" in where:
            prometheus.query(substituted(expression, calm.instance, both))
            continue
        found = prometheus.query(substituted(expression, calm.instance, both))
        assert found, f"{where} has no answer: {expression}"
        evaluated += 1
    for file, dashboard in all_dashboards().items():
        for variable in dashboard["templating"]["list"][1:]:
            series, label = re.fullmatch(r"label_values\((.+), ([a-z_]+)\)", variable["definition"]).groups()
            found = prometheus.query(substituted(series, calm.instance, both))
            assert any(labels.get(label) for labels, _value in found), (file, variable["definition"])
            evaluated += 1
    return evaluated


def substituted(expression, one, several):
    expression = expression.replace('=~"$instance"', f'=~"{several}"').replace('="$instance"', f'="{one}"')
    expression = expression.replace("$device", "0").replace("$workload", ".+")
    expression = expression.replace("$__rate_interval", "1m")
    assert "$" not in expression, expression
    return expression
