"""The sensitivity table and the figures of a search, as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from imbfit.cli.messages import BadInput
from imbfit.cli.printing import objective_text
from imbfit.cli.thresholds_file import number_or_word
from imbfit.displays import ThresholdDisplay
from imbfit.displays.panels import figure_size
from imbfit.threshold.search import ThresholdSearch

_MOST_PANELS = 12
_MOST_TABLE_ROWS = 100_000


def make_folder(folder: Path) -> Path:
    """Make the folder for what is written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"--out {folder}: {error.strerror}; give a folder") from None
    return folder


def write_table(found: ThresholdSearch, path: Path, names: Sequence[str]) -> str:
    """Write the sensitivity table, and say where."""
    candidates = int(found.tables.starts[-1])
    note = ""
    top = None
    if candidates > _MOST_TABLE_ROWS:
        top = max(10, _MOST_TABLE_ROWS // len(found.tables.segments))
        note = f" (the best {top:,} of each segment; all {candidates:,} would be a large file)"
        if not found.segmented:
            note = f" (the best {top:,} of {candidates:,} candidates)"
    table = found.table(top=top)
    if len(names) > 1:
        for place, name in reversed(list(enumerate(names))):
            table.insert(0, name, [segment[place] for segment in table["segment"]])
        table = table.drop(columns="segment")
    elif names:
        table = table.rename(columns={"segment": names[0]})
    table["threshold"] = [number_or_word(cut) for cut in table["threshold"].tolist()]
    table.to_csv(path, index=False)
    return f"{path}{note}"


def write_figures(found: ThresholdSearch, folder: Path) -> list[str]:
    """Draw the figures, and say where."""
    written = []
    show = None
    if len(found.tables.segments) > _MOST_PANELS:
        order = sorted(found.thresholds, key=lambda s: -float(found.segment_counts[s].pp))
        show = order[:_MOST_PANELS]
    extra = [e for e in ("precision", "recall") if e != objective_text(found.objective)]
    display = display_of(found, extra)
    path = folder / "curves.png"
    save_figure(display, path, show=show)
    limited = f" (the {_MOST_PANELS} segments that flag most)" if show is not None else ""
    written.append(f"{path}{limited}")
    if len(found.tables.segments) == 2:
        path = folder / "surface.png"
        save_figure(display, path, surface=True)
        written.append(str(path))
    return written


def display_of(
    found: ThresholdSearch, expressions: Sequence[str], *, tables: Any = None
) -> ThresholdDisplay:
    """Prepare the picture of a search, on its own rows or on the tables of others."""
    return ThresholdDisplay(
        tables=found.tables if tables is None else tables,
        thresholds=found.thresholds,
        objective=found.objective,
        greater_is_better=found.greater_is_better,
        constraints=found.rules,
        expressions=expressions,
    )


def save_figure(
    display: ThresholdDisplay, path: Path, *, show: Any = None, surface: bool = False
) -> None:
    """Draw a display into a file, without a window and without touching pyplot's figures."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = 1 if surface else len(display.tables.segments if show is None else show)
    size = (7.2, 5.6) if surface else figure_size(panels)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    if surface:
        display.plot_surface(ax, show=show)
    else:
        display.plot(ax, show=show)
    figure.savefig(path, dpi=120)
