"""The game as a loss of PyTorch, for networks and whatever else makes scores."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from imbfit.adversarial.classifier import AdversarialMetricClassifier
from imbfit.adversarial.players import Play, Players, Rows
from imbfit.adversarial.settings import read_settings

try:
    import torch
except ImportError as error:
    raise ImportError(
        "imbfit.adversarial.torch needs PyTorch: pip install 'imbfit[torch]'"
    ) from error

__all__ = ["MetricLoss"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# Rows of all batches whose games are kept; a row takes 40 bytes.
_KEPT_ROWS = 1_000_000
_KEPT_GAMES = 256


class MetricLoss(torch.nn.Module):
    r"""Loss that trains a network straight for a metric, by a solved game.

    On each batch a predictor is set against an adversary that chooses the labels, and is paid the
    logits of the rows that it labels positive. With n rows and :math:`\rho` the distance of the
    metric's best and worst value at the batch's number of positives, the loss of logits z and
    labels y is

    .. math::

        L(z, y) = -\frac{V(\psi) + \psi^T y}{\rho}, \qquad
        \psi = \frac{\rho z}{n}, \qquad
        V(\psi) = \min_q \max_p \; E[\text{metric}] - \psi^T q, \qquad
        \frac{\partial L}{\partial z_i} = \frac{q_i - y_i}{n}

    where q is the adversary's answer; with weights all sums are weighted, n is their sum, and a
    derivative has its row's weight as a factor. It is convex in z, and scaled as the loss of
    :class:`imbfit.AdversarialMetricClassifier`: neither the number of rows nor the metric's unit
    changes what a learning rate means, and the gradient is the mean one of log loss with q in the
    place of the predicted probabilities.

    Parameters
    ----------
    metric : Expr, str or callable, default="f1"
        What to train for, as in :class:`imbfit.AdversarialMetricClassifier`.
    greater_is_better : bool, default=None
        Direction of the metric; needed unless it is a named one or a cost.
    constraints : constraint, str, or list of them, default=()
        What must hold, such as ``["recall >= 0.8"]``: in each batch, on average over the
        predictor's mixed strategy against the observed labels.
    count : {"observed", "expected"}, default="observed"
        How many positives the adversary's labels have: exactly as many as the batch (without
        constraints this takes one sort), or any number, as in the published game.
    solver : {"auto", "closed", "exact", "lp", "admm"}, default="auto"
        Of the game: the closed form where there is one and else the exact solver; "lp" and "admm"
        are the published ones, for small batches.
    tol : float, default=1e-6
        Gap of a game, relative to :math:`\rho`, where it is not solved in closed form. Games of
        more than 400 rows are then solved on blocks of rows, to a gap of 1e-4, or of 2e-3 with the
        expected count, at best.

    Raises
    ------
    UnsupportedMetric
        If the metric reads per-row amounts, or a constraint does or holds per segment.
    TypeError, ValueError
        For a parameter that is not allowed.

    See Also
    --------
    imbfit.AdversarialMetricClassifier : The same for linear scores, with a certificate.
    imbfit.search_thresholds : Sets the cut afterwards.

    Notes
    -----
    **The cut.** The loss trains a ranking; where its logits are cut is chosen afterwards, by
    :func:`imbfit.search_thresholds` on held-out logits, for the same metric and constraints. With
    the observed count adding a constant to all logits changes nothing, so the bias of a last layer
    gets the gradient 0 (to rounding) and the sign of a logit means nothing; the cut takes its
    place. With the expected count the bias is trained, and the sign of a logit is the published
    rule, though a tuned cut may be better. Logits are no log-odds.

    **Batches.** Any size works, but a batch has its own metric: with few positives in each the mean
    of the batches' metrics is another goal than the metric of all rows, so take large batches, or
    all rows. In a batch without positives, or with positives only, the observed count leaves the
    adversary no choice. The gradient is 0 there, and the loss is the negative of the metric's best
    value on such labels, divided by :math:`\rho` where that is not 0. The expected count has its
    usual gradient.

    **Rivals.** Log loss with a tuned cut is a strong one, so compare the two on held-out rows.
    Losses may be weighted and added, such as this one and log loss.

    **Precision and devices.** Games are solved in float64 on the CPU. Logits of another device are
    copied there, which waits for it, and the gradient goes back. The loss has the logits' dtype and
    device, except that within autocast it is float32 for logits of half precision, as torch's own
    losses are: so scaled gradients do not overflow. It can be differentiated once.

    A module holds no state but prepared games, may be called from several threads, and gives equal
    answers to equal calls.

    Examples
    --------
    >>> import torch
    >>> from imbfit import search_thresholds
    >>> from imbfit.adversarial.torch import MetricLoss
    >>> from imbfit.datasets import make_rare_events
    >>> cards = make_rare_events(4_000, prevalence=0.05, random_state=0)
    >>> X, y = torch.tensor(cards.X).float(), torch.tensor(cards.y)
    >>> _ = torch.manual_seed(0)
    >>> network = torch.nn.Sequential(
    ...     torch.nn.Linear(X.shape[1], 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    ... )
    >>> loss = MetricLoss("f1")
    >>> loss
    MetricLoss(metric='f1')
    >>> optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    >>> for _ in range(50):
    ...     optimizer.zero_grad()
    ...     value = loss(network(X[:2_000]), y[:2_000])
    ...     value.backward()
    ...     optimizer.step()

    The cut, on rows that were not trained on:

    >>> with torch.no_grad():
    ...     held_out = network(X[2_000:]).squeeze(1)
    >>> found = search_thresholds(y[2_000:].numpy(), held_out.numpy(), objective="f1")
    >>> found.objective_value > 0.5
    True
    >>> flagged = held_out > found.threshold
    """

    def __init__(
        self,
        metric: Any = "f1",
        *,
        greater_is_better: bool | None = None,
        constraints: Any = (),
        count: str = "observed",
        solver: str = "auto",
        tol: float = 1e-6,
    ) -> None:
        super().__init__()
        # the classifier of the same parameters reads them, so that both read them alike
        settings = read_settings(
            AdversarialMetricClassifier(
                metric,
                greater_is_better=greater_is_better,
                constraints=constraints,
                count=count,
                solver=solver,
                tol=tol,
            )
        )
        self._players = Players(settings.payoff, settings.requirements, count, solver, float(tol))
        self._prepared = _Prepared()

    def extra_repr(self) -> str:
        """Describe the game.

        Returns
        -------
        str
            What differs from the defaults, after the metric.
        """
        players = self._players
        parts = [f"metric={players.payoff.name!r}"]
        if not players.payoff.greater_is_better:
            parts.append("greater_is_better=False")
        if players.requirements:
            parts.append(f"constraints={[each.name for each in players.requirements]}")
        usual = {"count": "observed", "solver": "auto", "tol": 1e-6}
        given = ((name, getattr(players, name)) for name in usual)
        parts += [f"{name}={value!r}" for name, value in given if value != usual[name]]
        return ", ".join(parts)

    def forward(
        self, logits: torch.Tensor, y: torch.Tensor, sample_weight: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Solve the game of a batch.

        Parameters
        ----------
        logits : Tensor of shape (n_rows,) or (n_rows, 1)
            Scores, higher for positive rows.
        y : Tensor of shape (n_rows,) or (n_rows, 1)
            Labels 0 and 1, of any dtype.
        sample_weight : Tensor of shape (n_rows,) or (n_rows, 1), default=None
            How often each row counts, at least 0.

        Returns
        -------
        Tensor of shape ()
            The loss: below 0 as long as the predictor can secure something.

        Raises
        ------
        UnsupportedMetric
            If the metric or a constraint is not affine in the true positives.
        InfeasibleConstraints
            If no prediction meets the constraints on these labels.
        TypeError, ValueError
            For bad input; the message names the row.
        """
        scores = _read_logits(logits)
        positive = _read_labels(y, len(scores))
        weight = None if sample_weight is None else _read_weight(sample_weight, len(scores))
        value, slope = self._solved(scores, positive, weight)
        kind = logits.device.type
        if logits.dtype in _HALF and torch.is_autocast_enabled(kind):
            logits = logits.float()
        precise = torch.float64 if logits.dtype == torch.float64 else torch.float32
        return _Solved.apply(
            logits,
            torch.tensor(value, dtype=logits.dtype, device=logits.device),
            torch.from_numpy(slope).to(dtype=precise, device=logits.device),
        )

    def _solved(
        self, scores: Floats, positive: Bools, weight: Floats | None
    ) -> tuple[float, Floats]:
        """Return the loss and its derivative in each score."""
        if weight is not None and not weight.all():
            # the game knows rows of a weight above 0 only
            counted = weight > 0.0
            slope = np.zeros(len(scores))
            value, slope[counted] = self._solved(
                scores[counted], positive[counted], weight[counted]
            )
            return value, slope
        rows = Rows(None, positive, weight)
        total, play, scale = rows.total, *self._game(rows)
        psi = scores * (scale / total)
        _, high, q = play(psi)
        label = positive.astype(np.float64)
        paid, slope = psi * label, (q - label) / total
        if weight is not None:
            paid, slope = paid * weight, slope * weight
        return -(high + float(paid.sum())) / scale, slope

    def _game(self, rows: Rows) -> tuple[Play, float]:
        """Return what solves the game, and the metric's range."""
        players = self._players

        def prepare() -> tuple[Play, float]:
            return players.on(rows), players.payoff.range(rows.positives, rows.total) or 1.0

        # with weights or constraints each batch has its own game; one that is solved in rounds may
        # start from the last call's answer, so it is made anew, that equal calls get equal answers
        if rows.weight is not None:
            return prepare()
        return self._prepared.get(len(rows.positive), int(rows.positives), prepare)


class _Prepared:
    """Games of the last batches, by their rows and positives; a copy of it starts empty."""

    def __init__(self) -> None:
        self._games: OrderedDict[tuple[int, int], tuple[Play, float]] = OrderedDict()
        self._rows = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[_Prepared], tuple[()]]:
        return _Prepared, ()

    def get(
        self, n_rows: int, positives: int, prepare: Callable[[], tuple[Play, float]]
    ) -> tuple[Play, float]:
        """Return a game, prepared if it is new."""
        key = n_rows, positives
        with self._lock:
            if key in self._games:
                self._games.move_to_end(key)
                return self._games[key]
        game = prepare()
        if not game[0].exact:
            return game
        with self._lock:
            if key not in self._games:
                self._games[key] = game
                self._rows += n_rows
            while len(self._games) > 1 and (
                len(self._games) > _KEPT_GAMES or self._rows > _KEPT_ROWS
            ):
                (dropped, _), _ = self._games.popitem(last=False)
                self._rows -= dropped
        return game


class _Solved(torch.autograd.Function):
    """A value with a known derivative."""

    @staticmethod
    def forward(
        ctx: Any, logits: torch.Tensor, value: torch.Tensor, slope: torch.Tensor
    ) -> torch.Tensor:
        """Return the value."""
        ctx.save_for_backward(slope)
        ctx.shape, ctx.dtype = logits.shape, logits.dtype
        return value

    @staticmethod
    def backward(ctx: Any, incoming: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Return the derivative times the incoming one, rounded once."""
        # torch's once_differentiable lets a second derivative pass as 0 where incoming is constant
        if torch.is_grad_enabled():
            raise RuntimeError(
                "MetricLoss can be differentiated once: it is piecewise linear in the logits, and "
                "its second derivative is 0 or does not exist; leave out create_graph=True, and "
                "gradient penalties"
            )
        (slope,) = ctx.saved_tensors
        return (incoming.to(slope.dtype) * slope).to(ctx.dtype).reshape(ctx.shape), None, None


# --------------------------------------------------------------------------------------------
# Input

_HALF = (torch.float16, torch.bfloat16)
_FLOATS = (torch.float64, torch.float32, *_HALF)


def _read_logits(logits: Any) -> Floats:
    _check_tensor("logits", logits)
    if logits.dtype not in _FLOATS:
        raise TypeError(
            f"logits are {logits.dtype}: give floats of 16, 32 or 64 bits, as networks return them"
        )
    score = _to_numpy("logits", logits)
    if not len(score):
        raise ValueError("the batch is empty: leave out batches without rows")
    odd = ~np.isfinite(score)
    if odd.any():
        raise ValueError(
            f"logits[{np.argmax(odd)}] is {score[np.argmax(odd)]:g} ({np.count_nonzero(odd)} of "
            f"{len(score)} are not finite); look for a learning rate that is too large, or missing "
            "features, and clip gradients"
        )
    return score


def _read_labels(y: Any, n_rows: int) -> Bools:
    _check_tensor("y", y)
    _check_constant("y", y)
    label = _to_numpy("y", y)
    _check_length("y", label, n_rows)
    positive: Bools = label == 1.0
    odd = ~positive & (label != 0.0)
    if odd.any():
        raise ValueError(
            f"y[{np.argmax(odd)}] is {label[np.argmax(odd)]:g}: labels are 0 and 1, or False and "
            "True; write (y > 0) for -1 and 1, and (y == positive) for others"
        )
    return positive


def _read_weight(sample_weight: Any, n_rows: int) -> Floats:
    _check_tensor("sample_weight", sample_weight)
    _check_constant("sample_weight", sample_weight)
    weight = _to_numpy("sample_weight", sample_weight)
    _check_length("sample_weight", weight, n_rows)
    odd = ~(np.isfinite(weight) & (weight >= 0.0))
    if odd.any():
        raise ValueError(
            f"sample_weight[{np.argmax(odd)}] is {weight[np.argmax(odd)]:g}: weights are finite "
            "and at least 0"
        )
    if not weight.any():
        raise ValueError("sample_weight is 0 in each row: leave out batches without rows")
    return weight


def _check_tensor(name: str, given: Any) -> None:
    if not isinstance(given, torch.Tensor):
        raise TypeError(f"{name} is a {type(given).__name__}: write torch.as_tensor({name})")
    if given.is_complex():
        raise TypeError(f"{name} is {given.dtype}: give real numbers")
    if given.device.type == "meta":
        raise ValueError(
            f"{name} is on the device 'meta', which holds shapes and no numbers; the game needs "
            "numbers, so move the model to 'cpu' or an accelerator"
        )


def _check_constant(name: str, given: torch.Tensor) -> None:
    if given.requires_grad:
        raise ValueError(
            f"{name} requires a gradient, and the loss has one for logits only; the arguments are "
            f"(logits, y, sample_weight), and {name}.detach() is a constant"
        )


def _check_length(name: str, given: NDArray[Any], n_rows: int) -> None:
    if len(given) != n_rows:
        raise ValueError(f"{name} has {len(given)} rows and logits have {n_rows}")


def _to_numpy(name: str, given: torch.Tensor) -> Floats:
    shape = tuple(given.shape)
    if len(shape) not in {1, 2} or (len(shape) == 2 and shape[1] != 1):
        two = len(shape) == 2 and shape[1] == 2
        hint = f"; of two columns give {name}[:, 1] - {name}[:, 0]" if name == "logits" else ""
        raise ValueError(
            f"{name} has the shape {shape}: give (n_rows,) or (n_rows, 1){hint if two else ''}"
        )
    found: Floats = given.detach().to(device="cpu", dtype=torch.float64).reshape(-1).numpy()
    return found
