"""The dashboards of deploy/grafana: their JSON is of the types that Grafana publishes, and each of their queries has an answer.

Types say nothing about what belongs together: that ids differ, panels do not lie over each other and variables are there
is looked at here.
"""

import copy
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from engines import DEPLOY

SCHEMA = Path(__file__).parent / "schema"
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
            yield f"{file}: annotation {annotation['name']}", annotation["target"]["expr"]


def check_schema(folder):
    """Every dashboard has the published types, and one that has not is noticed."""
    broken = {f"broken {name}": dashboard for name, dashboard in broken_dashboards().items()}
    wrong = errors(folder / "schema", all_dashboards() | broken)
    assert not set(wrong) - set(broken), {file: wrong[file] for file in set(wrong) - set(broken)}
    assert set(wrong) == set(broken), f"not noticed: {set(broken) - set(wrong)}"
    return len(broken)


def broken_dashboards():
    """A dashboard with one thing wrong in each."""
    whole = all_dashboards()["ttmem-fleet.json"]
    places = {panel["type"]: place for place, panel in reversed(list(enumerate(whole["panels"])))}
    stat, table, graph = (["panels", places[kind]] for kind in ("stat", "table", "timeseries"))
    changes = {
        "title": (["title"], 7),
        "name of a property": (["timezones"], "utc"),
        "time": (["time"], {"from": "now-6h"}),
        "tooltip": (["graphTooltip"], 9),
        "annotation": (["annotations", "list", 0, "enabled"], True),
        "variable": (["templating", "list", 0, "type"], "prometheus"),
        "kind of panel": ([*stat, "type"], "stats"),
        "place": ([*stat, "gridPos"], {"x": 0, "y": 0, "w": 4}),
        "unit": ([*stat, "fieldConfig", "defaults", "unit"], ["bytes"]),
        "thresholds": ([*stat, "fieldConfig", "defaults", "thresholds", "mode"], "relative"),
        "options of a stat": ([*stat, "options", "colorMode"], "rainbow"),
        "options of a table": ([*table, "options", "header"], True),
        "legend": ([*graph, "options", "legend", "showLegend"], "yes"),
        "field of a graph": ([*graph, "fieldConfig", "defaults", "custom", "drawStyle"], "dots"),
        "query": ([*graph, "targets", 0, "expression"], "1"),
    }
    return {name: changed(whole, *change) for name, change in changes.items()}


def changed(dashboard, path, value):
    dashboard = copy.deepcopy(dashboard)
    place = dashboard
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return dashboard


def errors(folder, dashboards):
    """What the compiler says of each dashboard that is not of its types."""
    folder.mkdir()
    (folder / "node_modules").symlink_to(SCHEMA / "node_modules")
    shutil.copy(SCHEMA / "shape.ts", folder)
    files = {f"dashboard{number}.ts": name for number, name in enumerate(dashboards)}
    for file, name in files.items():
        (folder / file).write_text(typed(dashboards[name]))
    compiler = [os.environ["FLEET_TSC"], "--noEmit", "--strict", "--skipLibCheck", "--pretty", "false"]
    compiler += ["--module", "esnext", "--moduleResolution", "bundler", *files]
    said = subprocess.run(compiler, cwd=folder, capture_output=True, text=True)
    found = {}
    for line in (said.stdout + said.stderr).splitlines():
        where = re.match(r"(dashboard\d+\.ts)\(\d+,\d+\): error ", line)
        # What follows an error and belongs to it is indented.
        assert where or line.startswith(" "), line
        if where:
            found.setdefault(files[where[1]], []).append(line)
    assert bool(found) == (said.returncode != 0), said
    return found


def typed(dashboard):
    """A dashboard in TypeScript: as literals, in which a property too many is an error."""
    rest = {key: value for key, value in dashboard.items() if key not in ("panels", "templating", "annotations")}
    parts = [("Board", rest)]
    parts += [("Annotation", each) for each in dashboard["annotations"]["list"]]
    parts += [("Variable", each) for each in dashboard["templating"]["list"]]
    parts += [(panel["type"].capitalize(), panel) for panel in dashboard["panels"]]
    lines = ['import type * as shape from "./shape";']
    lines += [f"export const part{number}: shape.{kind} = {json.dumps(part)};" for number, (kind, part) in enumerate(parts)]
    return "\n".join(lines) + "\n"


def check_contents():
    """What types cannot say."""
    uids = set()
    for file, dashboard in all_dashboards().items():
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
        assert re.fullmatch(r"label_values\(.+, [a-z_]+\)", variable["query"]["query"]), (file, variable)
        check_datasource(file, variable["datasource"])


def check_datasource(file, datasource):
    assert datasource == {"type": "prometheus", "uid": "${datasource}"}, (file, datasource)


def check_panels(file, panels, variables):
    ids, cells = set(), set()
    for panel in panels:
        where = (file, panel["title"])
        assert panel["title"] and panel["id"] not in ids, where
        ids.add(panel["id"])
        place = panel["gridPos"]
        assert 0 <= place["x"] and place["x"] + place["w"] <= COLUMNS and place["w"] > 0 < place["h"], where
        taken = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not taken & cells, (where, "lies over another")
        cells |= taken
        if panel["type"] == "row":
            continue
        check_datasource(where, panel["datasource"])
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["value"] is None, where
        refs = [target["refId"] for target in panel["targets"]]
        assert refs and len(set(refs)) == len(refs), where
        for target in panel["targets"]:
            check_datasource(where, target["datasource"])
            assert target["instant"] != target["range"], where
            assert (target.get("format") == "table") == (panel["type"] == "table"), where
            assert not counts_twice(target["expr"]), (where, target["expr"])
            used = set(re.findall(r"\$\{?([a-z_]+)", target["expr"])) - {"__rate_interval"}
            assert used <= set(variables), (where, used)


def counts_twice(expression):
    """Whether a sum or a count is higher where two jobs scrape one server: these differ by nothing but their job."""
    # Quantiles of twice as much are the same, and these are of one job, or have none.
    expression = re.sub(r"histogram_quantile\(0\.\d+, sum by ", "", expression)
    expression = re.sub(r'sum\(up\{job="ttmem"\}|count by \([^)]*\) \(ALERTS', "", expression)
    # A count by labels alone is asked for which there are, and counted itself.
    sums = re.finditer(r"\b(?:sum(?: by \([^)]*\))?|count) ?\(", expression)
    return any(not re.match(r"(?:max|count) by \(instance", expression[found.end() :]) for found in sums)


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
            series, label = re.fullmatch(r"label_values\((.+), ([a-z_]+)\)", variable["query"]["query"]).groups()
            found = prometheus.query(substituted(series, calm.instance, both))
            assert any(labels.get(label) for labels, _value in found), (file, variable["query"])
            evaluated += 1
    return evaluated


def substituted(expression, one, several):
    expression = expression.replace('=~"$instance"', f'=~"{several}"').replace('="$instance"', f'="{one}"')
    expression = expression.replace("$device", "0").replace("$workload", ".+")
    expression = expression.replace("$__rate_interval", "1m")
    assert "$" not in expression, expression
    return expression
