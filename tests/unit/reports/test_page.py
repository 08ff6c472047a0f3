"""The HTML report: what it holds, and how it behaves in a real browser."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.measurements import RunFile, gather
from perfkit.analysis.metrics import load_metric_sets
from perfkit.commands._inputs import Inputs
from perfkit.commands._report_page import build_page
from perfkit.model import Table
from perfkit.model.explain import Waterfall, WaterfallStep
from perfkit.model.page import BarChart, BarRow, Explanation, ReportPage, StallRow
from perfkit.reports.page_html import render_page

HOSTILE = (
    "<script>alert(1)</script>",
    "a|b",
    "=cmd()",
    "'\"><img src=x onerror=alert(2)>",
    "{{ 7 * 7 }}",
    "</style></script><b>x",
    "cutlass::Kernel<" + "cutlass::gemm::GemmShape<128, 128, 8>, " * 210 + ">",
)
STALLS = ("long_scoreboard", "barrier", "wait", "mio_throttle")


def _launch(made: Any, index: int, name: str, count: int) -> Any:
    counters = {
        "gpu__time_duration.sum": 1e6 * (1 + (index * 7) % count),
        "smsp__issue_active.sum": 4e5,
        "smsp__cycles_active.sum": 1e6,
        "smsp__cycles_elapsed.sum": 1.1e6,
        "smsp__inst_executed.sum": 4e5,
        made.FFMA: 3.2e6,
        made.FFMA.replace("ffma", "fadd"): 0.0,
        made.FFMA.replace("ffma", "fmul"): 0.0,
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 1000.0,
        "smsp__cycles_elapsed.avg.per_second": 1.5e9,
        "dram__bytes_read.sum": 1e6 * (index + 1),
        "dram__bytes_write.sum": 1e5,
        "launch__registers_per_thread": 32 + index % 7,
        "device__attribute_memory_clock_rate": 1e6,
        "device__attribute_global_memory_bus_width": 800.0,
    }
    for number, stall in enumerate(STALLS):
        counters[f"smsp__average_warps_issue_stalled_{stall}_per_issue_active.ratio"] = (
            0.5 + number + index % 3
        )
    return made.launch(index, None, kernel=name, problem="", counters=counters)


def _page(made: Any, names: tuple[str, ...]) -> ReportPage:
    sets = load_metric_sets()
    evaluated = tuple(
        sets.evaluate(_launch(made, index, name, len(names))) for index, name in enumerate(names)
    )
    inputs = Inputs(evaluated, (), {"run/p.ncu-rep": RunFile("p.ncu-rep", "a" * 64)}, sets)
    measurements = gather(inputs.evaluated, (), inputs.files)
    return build_page(inputs, measurements, measurements.main_problem, "")


@pytest.fixture(scope="module")
def hostile_page(made: Any) -> str:
    return render_page(_page(made, HOSTILE))


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _tags(page: str) -> _Tags:
    reader = _Tags()
    reader.feed(page)
    return reader


def test_every_section_is_there_with_its_anchor(hostile_page: str) -> None:
    ids = [attributes["id"] for _, attributes in _tags(hostile_page).seen if "id" in attributes]
    assert [
        name
        for name in ids
        if name in ("summary", "counters", "stalls", "roofline", "model", "explain", "provenance")
    ]
    assert len(ids) == len(set(ids)), "an id is used twice"
    links = [a["href"] for tag, a in _tags(hostile_page).seen if tag == "a"]
    assert links
    assert all(link is not None and link.startswith("#") and link[1:] in ids for link in links)


def test_hostile_names_are_text(hostile_page: str) -> None:
    reader = _tags(hostile_page)
    tags = [tag for tag, _ in reader.seen]
    assert tags.count("script") == 1
    assert "img" not in tags
    assert not [name for _, attributes in reader.seen for name in attributes if name.startswith("on")]
    shown = "".join(reader.text)
    assert "<script>alert(1)</script>" in shown
    assert "{{ 7 * 7 }}" in shown
    assert "49" not in [text.strip() for text in reader.text]


def test_the_page_names_nothing_outside_itself(hostile_page: str) -> None:
    for tag, attributes in _tags(hostile_page).seen:
        for name in ("src", "srcset", "action", "data", "poster"):
            assert name not in attributes, (tag, attributes)
        link = attributes.get("xlink:href") or attributes.get("href") or "#"
        assert link.startswith(("#", "data:,")), (tag, attributes)
    assert "@import" not in hostile_page
    assert not re.search(r"url\((?!#)", hostile_page)
    policy = next(a["content"] for tag, a in _tags(hostile_page).seen if a.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy


def test_every_launch_is_in_the_counters_and_in_provenance(made: Any) -> None:
    page = _page(made, tuple(f"kernel{number}" for number in range(30)))
    assert [len(table.rows) for table in page.counters] == [30] * len(page.counters)
    assert len(page.provenance[-1].rows) == 30
    assert len(page.stalls) == 30
    assert len(page.explanations) == 24
    assert ("explain", "The first 24 of 29 neighbours: `perfkit explain A B` has any pair.") in page.notes


def test_a_chart_has_one_unit_and_says_what_its_colours_mean(measurements: Any) -> None:
    sets = load_metric_sets()
    page = build_page(Inputs((), (), {}, sets), measurements, "n=1000", "")
    assert page.bars[0].how.endswith("Orange: cublas, which the others are measured against.")
    values = re.findall(r'class="value">([^<]*)<', render_page(page))
    assert values[:3] == ["0.80 TFLOP/s", "1.60 TFLOP/s", "2.00 TFLOP/s"]


def test_stalls_are_charted_by_size(made: Any) -> None:
    sets = load_metric_sets()
    launches = [_launch(made, index, f"k{index}", 4) for index in range(4)]
    evaluated = tuple(
        sets.evaluate(replace(one, problem=f"n={1 + index // 2}")) for index, one in enumerate(launches)
    )
    inputs = Inputs(evaluated, (), {}, sets)
    page = build_page(inputs, gather(evaluated), "n=1", "")
    assert [(row.name, row.group) for row in page.stalls] == [
        ("k0", "n=1"),
        ("k1", "n=1"),
        ("k2", "n=2"),
        ("k3", "n=2"),
    ]
    text = render_page(page)
    stalls = text[text.index('id="stalls"') : text.index('id="roofline"')]
    assert re.findall(r"<h3>(.*?)</h3>", stalls) == ["n=2", "n=1"]


def test_a_set_of_which_nothing_was_collected_is_no_table_but_says_why(made: Any) -> None:
    text = render_page(_page(made, ("only",)))
    assert 'id="table-shared"' not in text
    assert "not collected: shared_load_conflicts" in text


def test_one_kernel(made: Any) -> None:
    text = render_page(_page(made, ("only",)))
    assert 'id="explain"' not in text
    assert "only" in text


def test_bars_stalls_and_waterfalls_have_the_widths_of_their_values() -> None:
    chart = BarChart("n=1", "FLOP/s", (BarRow("a", 1e12), BarRow("b", 4e12, second=True)))
    stalls = (StallRow("a", (("barrier", 3.0), ("wait", 1.0))),)
    steps = (WaterfallStep("warps", 0.5, "x1.65"), WaterfallStep("clock", -0.25, "x0.78"))
    explained = Explanation(
        "a to b", "slower: it is", ("Because.",), Waterfall("t", "a", 0.0, steps, "b", 0.25, "ln")
    )
    page = ReportPage("T", "s", (("kernels", "2"),), (chart,), (), stalls, (), (), (explained,), ())
    text = render_page(page)
    assert "left:0;width:25.00%" in text
    assert "left:0;width:100.00%" in text
    assert "width:75.00%;background:#0072B2" in text
    assert "barrier: 3.00 cycles per issue (75%)" in text
    assert "left:0.00%;width:100.00%" in text  # warps: 0 to 0.5
    assert "left:50.00%;width:50.00%" in text  # clock: back to 0.25
    assert "x1.28" in text  # exp(0.25)


# In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no chromium with chromedriver on this machine")
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = chromium
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-dev-shm-usage",
        "--window-size=1280,1000",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(driver))
    yield found
    found.quit()


def _open(browser: Any, page: str, folder: Path) -> None:
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())


def _requests(browser: Any) -> list[str]:
    """What the page asked for; the browser's own start page asks for things as well."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
    return [params["request"]["url"] for params in sent if params["documentURL"] == browser.current_url]


def _column(browser: Any, table: str, column: int) -> list[str]:
    cell = "r.cells[arguments[1]]"
    rows = "[...document.querySelectorAll(`#${arguments[0]} tbody tr`)]"
    script = f"return {rows}.map(r => {cell}.dataset.value ?? {cell}.textContent)"
    values: list[str] = browser.execute_script(script, table, column)
    return values


@pytest.mark.browser
def test_in_a_browser_nothing_is_loaded_and_nothing_complains(
    browser: Any, hostile_page: str, tmp_path: Path
) -> None:
    _open(browser, hostile_page, tmp_path)
    assert browser.execute_script("return document.readyState") == "complete"
    asked = _requests(browser)
    assert asked[0] == browser.current_url
    assert [url for url in asked[1:] if not url.startswith("data:")] == []
    assert browser.get_log("browser") == []
    from selenium.common.exceptions import NoAlertPresentException

    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert
    assert browser.execute_script("return document.scripts.length") == 1
    assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.browser
def test_in_a_browser_headings_sort_by_value(browser: Any, made: Any, tmp_path: Path) -> None:
    page = _page(made, tuple(f"kernel{number}" for number in range(11)))
    table = next(table for table in page.counters if table.name == "issue")
    at = [column.name for column in table.columns].index("duration")
    _open(browser, render_page(page), tmp_path)
    before = [float(value) for value in _column(browser, "table-issue", at)]
    assert before != sorted(before)
    button = browser.find_elements("css selector", "#table-issue thead button")[at]
    button.click()
    assert [float(value) for value in _column(browser, "table-issue", at)] == sorted(before)
    button.send_keys("\n")  # by keyboard
    assert [float(value) for value in _column(browser, "table-issue", at)] == sorted(before, reverse=True)
    header = button.find_element("xpath", "./..")
    assert header.get_attribute("aria-sort") == "descending"
    assert header.get_attribute("title")
    browser.find_elements("css selector", "#table-issue thead button")[0].click()
    names = _column(browser, "table-issue", 0)
    assert names == [
        f"kernel{number}" for number in range(11)
    ]  # kernel10 after kernel9: numbers in names count
    assert browser.get_log("browser") == []


@pytest.mark.browser
def test_in_a_browser_missing_values_stay_last(browser: Any, tmp_path: Path) -> None:
    from perfkit.model import Cell, Column, Status

    cells = (Cell(3.0), Cell(None, Status.NOT_COLLECTED), Cell(1.0), Cell(2.0, Status.INVALID))
    rows = tuple((Cell(f"k{index}"), cell) for index, cell in enumerate(cells))
    table = Table("t", "T", (Column("kernel", "Kernel"), Column("value", "Value")), rows)
    _open(browser, render_page(ReportPage("T", "", (), (), (table,), (), (), (), (), ())), tmp_path)
    button = browser.find_elements("css selector", "#table-t thead button")[1]
    button.click()
    assert _column(browser, "table-t", 0) == ["k2", "k3", "k0", "k1"]
    button.click()
    assert _column(browser, "table-t", 0) == ["k0", "k3", "k2", "k1"]


@pytest.mark.browser
def test_in_a_browser_the_filter_and_the_theme_work(browser: Any, made: Any, tmp_path: Path) -> None:
    _open(browser, render_page(_page(made, tuple(f"kernel{number}" for number in range(11)))), tmp_path)
    browser.find_element("id", "filter").send_keys("KERNEL1")
    visible = browser.execute_script(
        "return [...document.querySelectorAll('#table-issue tbody tr')].filter(r => !r.hidden).length"
    )
    assert visible == 2
    assert browser.find_element("id", "filter-count").text == "2 of 11 launches"
    paper = "return getComputedStyle(document.body).backgroundColor"
    light = browser.execute_script(paper)
    browser.find_element("id", "theme").click()
    assert browser.execute_script(paper) != light
    assert browser.get_log("browser") == []


@pytest.mark.browser
def test_in_a_browser_it_prints(browser: Any, hostile_page: str, tmp_path: Path) -> None:
    import base64

    _open(browser, hostile_page, tmp_path)
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    assert printed.startswith(b"%PDF")
    assert len(printed) > 20_000


@pytest.mark.browser
def test_five_hundred_launches_stay_small_and_open(browser: Any, made: Any, tmp_path: Path) -> None:
    names = tuple(HOSTILE[-1] if number % 50 == 0 else f"kernel{number}" for number in range(500))
    text = render_page(_page(made, names))
    assert len(text.encode()) < 5e6
    _open(browser, text, tmp_path)
    entry = "performance.getEntriesByType('navigation')[0]"
    timing = f"return {entry}.domContentLoadedEventEnd - {entry}.startTime"
    assert browser.execute_script(timing) < 3000
    assert len(_column(browser, "table-issue", 0)) == 500
