"""Tables as LaTeX with booktabs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfkit.model import Table
from perfkit.reports.layout import TextCell, TextTable, lay_out

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
    "_": r"\_", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"{\char34}", "'": r"\textquotesingle{}", "`": r"\textasciigrave{}",
    "[": "{[}", "]": "{]}", "-": "{-}",
    "…": r"\dots{}", "µ": r"\textmu{}", "–": "--", "×": r"\ensuremath{\times}",
    "→": r"\ensuremath{\rightarrow}", "·": r"\ensuremath{\cdot}", "±": r"\ensuremath{\pm}",
    "≤": r"\ensuremath{\leq}", "≥": r"\ensuremath{\geq}", "−": r"\ensuremath{-}",
}  # fmt: skip
_ROWS, _WRAPPED_ROWS = 45, 30  # that fit a page
_NAME_LIMIT = 40  # characters: what a line of a page has room for


def render(tables: Sequence[Table], *, width: int, color: bool) -> str:  # noqa: ARG001 (every format has them)
    r"""Each table as a `table` float with caption, label `tab:NAME` and notes; a long one as several.

    The document needs \usepackage{booktabs,graphicx,textcomp}.
    """
    return "\n".join(
        _table(part, table.name, first=number == 0)
        for table in tables
        for number, part in enumerate(_parts(lay_out(table, limit=_NAME_LIMIT)))
    )


def escape(text: str) -> str:
    """`text` as LaTeX text; a character that plain pdfLaTeX cannot set is named by its code point."""
    return "".join(
        _SPECIAL.get(character, character if character.isascii() else f"{{[}}U+{ord(character):04X}{{]}}")
        for character in text
    )


def _parts(text: TextTable) -> list[TextTable]:
    """A float cannot break over pages: a long table becomes several, the notes under the last."""
    wraps = any(_alignment(text, index).startswith("p") for index in range(len(text.headers)))
    height = _WRAPPED_ROWS if wraps else _ROWS
    starts = range(0, max(len(text.rows), 1), height)
    return [
        replace(
            text,
            title=text.title + (" (continued)" if start else ""),
            rows=text.rows[start : start + height],
            lead=() if start else text.lead,
            notes=text.notes if start == starts[-1] else (),
        )
        for start in starts
    ]


def _table(text: TextTable, name: str, *, first: bool) -> str:
    size = r"\small" if len(text.headers) <= 8 else r"\scriptsize"
    label = "".join(character if character.isalnum() and character.isascii() else "-" for character in name)
    spec = "".join(_alignment(text, index) for index in range(len(text.headers)))
    lines = [
        "% needs \\usepackage{booktabs,graphicx,textcomp}",
        "\\begin{table}[htbp]",
        f"\\centering{size}",
        f"\\caption{{{escape(text.title)}}}",
        *([f"\\label{{tab:{label}}}"] if first else []),
        *[f"\\parbox{{\\linewidth}}{{{escape(sentence)}}}\\par\\smallskip" for sentence in text.lead],
        # A wide table shrinks to the line, a narrow one keeps its size.
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
        f"\\begin{{tabular}}{{{spec}}}",
        "\\toprule",
        f"{' & '.join(escape(header) for header in text.headers)} \\\\",
        "\\midrule",
        *[f"{' & '.join(_cell(cell) for cell in row)} \\\\" for row in text.rows],
        "\\bottomrule",
        "\\end{tabular}}",
    ]
    if text.notes:
        notes = r" \\ ".join(escape(note) for note in text.notes)
        lines.append(f"\\par\\smallskip\\parbox{{\\linewidth}}{{\\footnotesize {notes}}}")
    lines.append("\\end{table}")
    return "\n".join(lines) + "\n"


def _alignment(text: TextTable, index: int) -> str:
    """Numbers to the right, texts to the left, sentences in lines of a paragraph."""
    if text.numeric[index]:
        return "r"
    return "p{50mm}" if any(len(row[index].text) > _NAME_LIMIT for row in text.rows) else "l"


def _cell(cell: TextCell) -> str:
    text = escape(cell.text + (" !" if cell.invalid else ""))
    if cell.missing:
        text = f"\\textit{{{text}}}"
    return f"{text}\\textsuperscript{{{escape(cell.mark)}}}" if cell.mark else text
