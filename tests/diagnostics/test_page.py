"""The page of a report: names are text, whoever chose them."""

from matplotlib.figure import Figure

from mpnp.diagnostics.page import render
from mpnp.diagnostics.sections import Section, Table, Verdict

EVIL = """'"><script>alert(1)</script><img src=x onerror="alert(2)">"""


def test_no_name_can_leave_its_text():
    figure = Figure(figsize=(2, 2))
    figure.add_subplot().set_title(EVIL)
    verdicts = [Verdict(EVIL, good) for good in (True, False, None)]
    section = Section("section", EVIL, EVIL, verdicts, [Table([EVIL, EVIL], [[EVIL, EVIL]])], {}, [figure])
    page = render(EVIL, EVIL, 0, [section])
    assert page.count("alert(1)") > 9
    assert "<script" not in page and "<img src=x" not in page and "'\"" not in page and page.count("<img ") == 1
