"""What OpenAPI cannot say of the parameters of the read API.

A question that the description allows has to be answered, but some rules are about two parameters
at once, and a cursor is whatever the page before said. Questions that break these rules are left
out where questions should be right; where they should be wrong, all are asked.
"""

import schemathesis
from schemathesis import GenerationMode


@schemathesis.hook
def filter_case(_context, case):
    """Whether a question is worth asking."""
    should_be_right = case.meta and case.meta.generation.mode == GenerationMode.POSITIVE
    query = case.query or {}
    if not should_be_right:
        return True
    # Cursors are followed by links of the description, from page to page.
    has_invented_cursor = "cursor" in query
    has_half_a_core = ("x" in query) != ("y" in query)
    times = [str(query[name]) for name in ("since", "at", "from", "to") if name in query]
    is_in_another_zone = not all(time.upper().endswith("Z") for time in times)
    # To the second: what is behind that may be written in several ways.
    ends = [str(query.get(name, ""))[:19] for name in ("from", "to")]
    goes_back = all(ends) and ends[0] >= ends[1]
    names_no_process = case.path.endswith("/left") and not {"pid", "instance"} & set(query)
    breaks_a_rule = has_half_a_core or is_in_another_zone or goes_back or names_no_process
    return not (has_invented_cursor or breaks_a_rule)
