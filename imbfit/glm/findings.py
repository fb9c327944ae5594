"""What a fit found out, in the words of the user's columns."""

from __future__ import annotations

from collections.abc import Sequence

from imbfit.exceptions import CollinearityWarning, SamplingWarning, SeparationWarning
from imbfit.glm.troubles import Finding


def worded(finding: Finding, names: Sequence[str]) -> tuple[type[Warning] | None, str]:
    """Return the kind of warning and its text; None where the shell's own kind is meant.

    Parameters
    ----------
    finding : Finding
        What was found.
    names : sequence of str
        Names of the slopes' columns.

    Returns
    -------
    tuple
    """
    detail = finding.detail
    if finding.kind in {"separation", "pilot_separated"}:
        name = names[finding.columns[0]]
        if detail.get("alone"):
            what = f"column {name!r} separates the classes"
        else:
            what = f"a combination of columns separates the classes, {name!r} most of all"
        if finding.kind == "pilot_separated":
            return SeparationWarning, (
                f"in the pilot {what}, so it can't tell what a sampling rate costs, and all rows "
                "are used; give a ridge such as C=1, drop the column, or give a number as "
                "sampling_rate"
            )
        return SeparationWarning, (
            f"{what}, so the likelihood grows for ever and the coefficients and standard errors "
            "mean nothing; give a ridge such as C=1, drop the column, or keep more rows"
        )
    if finding.kind == "collinear":
        shown = [repr(names[j] if j >= 0 else "intercept") for j in finding.columns[:5]]
        listed = ", ".join(shown) + (", ..." if len(finding.columns) > 5 else "")
        return CollinearityWarning, (
            f"constant, or a combination of other columns: {listed}; their coefficients are not "
            "identified, and their standard errors are infinite. Drop them, or give a ridge such "
            "as C=1"
        )
    if finding.kind == "pseudo_bias":
        return SamplingWarning, (
            f"the pseudo-likelihood is consistent only where the sampling rate is far above the "
            f"prevalence, and here it is {detail['kappa']:.3g} times that: the slopes are biased "
            f"by about {detail['bias']:+.0%}, and the standard errors do not show it. Use "
            'method="cmle", or a higher sampling_rate'
        )
    if finding.kind == "efficiency":
        return SamplingWarning, (
            f"the least precise slope keeps {detail['worst']:.2f} of its full precision and not "
            f"{detail['asked']:.2f}: the pilot was too hopeful, and the rate is raised by a "
            "quarter at most. Give a higher sampling_rate, or another random_state"
        )
    return None, (
        f"the fit stopped before it converged (Newton decrement {detail['decrement']:.1e}); raise "
        "max_iter, standardise the features, or give a ridge such as C=1"
    )
