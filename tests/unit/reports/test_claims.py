"""Claims: what is decided how, what is refused, and placeholders in an article."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.claim_expression import Evaluator
from perfkit.analysis.claims import decide, fill, load_claims, shipped_claims
from perfkit.errors import ConfigError, UsageError
from perfkit.model.claims import Claim, Outcome, Where
from perfkit.model.measurements import Measurements
from perfkit.reports.figures import claims_table


def _claim(expression: str, expected: Any = None, tolerance: Any = 0.0, **where: Any) -> Claim:
    return Claim("c", "text", expression, expected, tolerance, Where(**where), "claims.toml")


@pytest.mark.parametrize(
    ("expression", "expected", "tolerance", "outcome"),
    [
        ("sectors_per_load(k1) == 16.5", None, 0.0, "holds"),
        ("sectors_per_load(k1) == 16.4", None, 0.0, "fails"),
        ("sectors_per_load(k1) == 16.4", None, 0.2, "holds"),
        ("sectors_per_load(k1) != 16.4", None, 0.0, "holds"),
        ("sectors_per_load(k1)", 16.5, 0.0, "holds"),
        ("flop_rate(k1)", "800 GFLOP/s", "1 %", "holds"),
        ("gflops(k1)", 790, "1 %", "fails"),
        ("gflops(k1)", 793, "1 %", "holds"),
        ("timed_share_of_peak(k2)", "41 %", "1 point", "holds"),
        ("timed_share_of_peak(k2)", "42 %", "1 point", "fails"),
        ('dram_bytes(k1) == "8 MB"', None, 0.0, "holds"),
        ('top_stall(k1) == "lg_throttle"', None, 0.0, "holds"),
        ('top_stall(k1) == "barrier"', None, 0.0, "fails"),
        ("time(k1) > time(k2) > time(cublas)", None, 0.0, "holds"),
        ("time(k1) > time(cublas) > time(k2)", None, 0.0, "fails"),
        ("time(k1) / time(k2) == 2 and issue_rate(k1) < issue_rate(k2)", None, 0.0, "holds"),
        ("time(k1) < time(k2) or issue_rate(k1) < 0.1", None, 0.0, "fails"),
        ('abs(two_factor_error(k2)) <= "20 points"', None, "0.001 points", "holds"),
        ("max(time(k1), time(k2)) - min(time(k1), time(k2)) == 1.25e-3", None, 0.0, "holds"),
        ("-issue_rate(k1) < 0", None, 0.0, "holds"),
        ('time("k1", n=1000) == "2.5 ms"', None, 0.0, "holds"),
        ("shared_load_conflicts(k1) == 0", None, 0.0, "undecided"),
        ("issue_rate(k7) > 0.1", None, 0.0, "not applicable"),
        ("issue_rate(k1, n=4096) > 0.1", None, 0.0, "not applicable"),
        ("log(time(k1) / time(k2)) > 0.69", None, 0.0, "holds"),
    ],
)
def test_outcomes(
    measurements: Measurements, expression: str, expected: Any, tolerance: Any, outcome: str
) -> None:
    assert decide(_claim(expression, expected, tolerance), measurements).outcome.value == outcome


def test_a_failure_shows_both_values_in_the_same_unit(measurements: Measurements) -> None:
    result = decide(_claim("timed_share_of_peak(k2) > timed_share_of_peak(cublas)"), measurements)
    assert (result.outcome, result.measured, result.stated) == (Outcome.FAILS, "40.0 %", "> 50.0 %")
    result = decide(_claim("issue_rate(k1)", 0.3, 0.01), measurements)
    assert (result.measured, result.stated) == ("20.0 %", "30.0 % ± 0.01")


def test_an_undecided_claim_says_what_is_missing(measurements: Measurements) -> None:
    result = decide(_claim("conflicts(k1) == 0"), measurements)
    assert result.outcome is Outcome.UNDECIDED
    assert result.reason == "conflicts(k1, n=1000): not measured"


def test_a_claim_on_timings_is_undecided_where_none_were_taken(made: Any) -> None:
    from perfkit.analysis.measurements import NAMES, gather

    found = gather(made.ladder())
    for name in ("time", "flop_rate", "timed_share_of_peak", "speedup", "clock", "power"):
        result = decide(_claim(f"{name}(k2) > 0"), found)
        assert (result.outcome, result.reason) == (Outcome.UNDECIDED, f"{name}(k2, n=1000): not measured")
    complete = gather(made.ladder(), [made.run("profile"), made.bench()])
    derived = {key[0] for key in complete.values} - set(made.ladder()[0].metrics)
    assert derived == set(NAMES) - {"spill_bytes", "loop_instructions", "loop_fmas"}  # nothing was built


@pytest.mark.parametrize(
    ("where", "applies"),
    [
        ({"gpu": "test"}, True),
        ({"gpu": "RTX 4060 Laptop"}, False),
        ({"compute_capability": ("8.9",)}, False),
        ({"compute_capability": ("8.9", "9.0")}, True),
        ({"problem": "n=4096"}, False),
    ],
)
def test_where_it_is_said(measurements: Measurements, where: dict[str, Any], applies: bool) -> None:
    result = decide(_claim("issue_rate(k1) > 0", **where), measurements)
    assert (result.outcome is Outcome.HOLDS) == applies
    assert bool(result.reason) != applies


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("__import__('os').system('true') == 0", "not allowed"),
        ("issue_rate.__class__(k1) == 0", "not allowed"),
        ("[1 for x in (1,)] == 1", "not allowed"),
        ("(lambda: 1)() == 1", "not allowed"),
        ("9 ** 9 ** 9 == 1", "not allowed"),
        ("issue_rat(k1) == 1", "unknown measurement 'issue_rat'"),
        ("issue_rate(k1, k2) == 1", "give one kernel"),
        ("issue_rate(k1, n='x') == 1", "a size is a whole number"),
        ("issue_rate(k1)", "compares nothing"),
        ("issue_rate(k1) is 1", "only == != < <= > >="),
        ("top_stall(k1) > 1", "is a word where a number is needed"),
        ("True == True", "True and False are no values"),
        ("issue_rate(k1) ==", "cannot parse"),
        ("(" * 300 + "1" + ")" * 300, "cannot parse"),
        ("1" * 2000, "longer than 1000"),
    ],
)
def test_what_no_expression_may_do(measurements: Measurements, expression: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decide(_claim(expression), measurements)
    assert says in caught.value.message
    assert "claims.toml: claim 'c'" in caught.value.message


@given(
    st.recursive(
        st.integers(1, 50).map(str),
        lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        max_leaves=8,
    )
)
def test_arithmetic_is_pythons(text: str) -> None:
    empty = Measurements("", None, ("k",), ("",), {}, {})
    evaluator = Evaluator(empty, "")
    assert evaluator.value(evaluator.parse(text)).number == float(eval(text))


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("x = 1", "no [[claim]]"),
        ("[[claim]]\nid = 'a'", "expression is missing"),
        ("[[claim]]\nid='a'\nexpression='1==1'\nexpect=3", "unknown key expect"),
        ("[[claim]]\nid='a'\nexpression='1==1'\nwhere={gpus='x'}", "unknown key where.gpus"),
        ("[[claim]]\nid='a'\nexpression='1==1'\nwhere={gpu='('}", "no regular expression"),
        (
            "[[claim]]\nid='a'\nexpression='1==1'\n[[claim]]\nid='a'\nexpression='1==1'",
            "two claims are called 'a'",
        ),
        ("[[claim]\n", "line 1"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path: Path, toml: str, says: str) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(toml)
    with pytest.raises(ConfigError) as caught:
        load_claims(path)
    assert says in caught.value.message
    assert str(path) in caught.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_claims(tmp_path / "none.toml")


def test_the_shipped_claims_load_and_each_can_be_read(measurements: Measurements) -> None:
    claims = load_claims(shipped_claims())
    assert len(claims) > 70
    assert all(claim.text for claim in claims)
    evaluator = Evaluator(measurements, "n=1000")
    for claim in claims:
        evaluator.parse(claim.expression)


# Placeholders


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{ sectors_per_load(k1) }} sectors", "16.5 sectors"),
        ("{{time(k2) | µs 0}}", "1,250 µs"),
        ("{{ dram_bytes(k1) | MB 1 }}", "8.0 MB"),
        ("{{ timed_share_of_peak(k2) | % 0 }}", "40 %"),
        ("{{ timed_share_of_peak(k2) }}", "40.0 %"),
        ("{{ gflops(k1) | - 0 }}", "800"),
        ("{{ gflops(k1) | 0 }}", "800"),
        ("{{ top_stall(k1) }}", "lg_throttle"),
        ("{{ time(k1) / time(k2) | - 2 }} times", "2.00 times"),
        ("{{ table:climb }}", "| the table |"),
        (r"\{{ kept }}", "{{ kept }}"),
        ("no placeholder", "no placeholder"),
    ],
)
def test_placeholders(measurements: Measurements, text: str, filled: str) -> None:
    assert fill(text, measurements, "a.md", {"table:climb": "| the table |"}) == filled


@pytest.mark.parametrize(
    ("inner", "says"),
    [
        ("issue_rat(k1)", "unknown measurement"),
        ("issue_rate(k9)", "no kernel 'k9'"),
        ("shared_load_conflicts(k1)", "not measured"),
        ("table:none", "no table:none"),
        ("time(k1) | GB 1", "'GB' does not fit s"),
        ("time(k1) | ms x", "no unit with digits"),
    ],
)
def test_a_placeholder_that_cannot_be_filled_names_file_and_line(
    measurements: Measurements, inner: str, says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        fill(f"one\ntwo\n{{{{ {inner} }}}}\n", measurements, "article.md", {})
    assert caught.value.message.startswith("article.md, line 3: {{ ")
    assert says in caught.value.message


@pytest.mark.parametrize(
    "claim",
    [
        Claim("a", "", "time(k1)", "2.5 GB"),
        Claim("a", "", "time(k1)", "2.5 ms", "1 W"),
        Claim("a", "", 'time(k1) < "1 Hz"'),
        Claim("a", "", "time(k1) < clock(k1)"),
    ],
)
def test_values_of_different_kinds_are_not_compared(measurements: Any, claim: Claim) -> None:
    with pytest.raises(ConfigError, match=r"claim 'a'.* is in .*, .* in "):
        decide(claim, measurements)


def test_quotients_keep_their_unit(measurements: Any) -> None:
    for expression, shown in (
        ("flops(k1) / dram_bytes(k1)", "250 FLOP/byte"),
        ("flops(k1) / time(k1)", "800 GFLOP/s"),
        ("flop_rate(k1) / dram_bandwidth(k1)", "4 FLOP/byte"),
        ("time(k1) / time(k2)", "2"),
    ):
        evaluator = Evaluator(measurements, "n=1000")
        assert str(evaluator.value(evaluator.parse(expression))) == shown


def test_a_terminal_shows_what_applies_and_names_the_rest(measurements: Any) -> None:
    claims = [
        Claim("here", "", "time(k1)", "2.5 ms"),
        Claim("there", "", "time(k1)", "9 ms", where=Where(gpu="RTX 1")),
        Claim("elsewhere", "", "time(k1)", "9 ms", where=Where(gpu="RTX 1")),
    ]
    results = [decide(claim, measurements) for claim in claims]
    brief = claims_table(results, "G", brief=True)
    assert [[cell.value for cell in row] for row in brief.rows] == [["here", "holds", "2.5 ms", "2.5 ms"]]
    assert brief.notes == ("2 not applicable, said of RTX 1; this is Test GPU: there, elsewhere",)
    assert len(claims_table(results, "G").rows) == 3
