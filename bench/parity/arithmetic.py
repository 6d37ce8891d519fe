"""Our rating and comparison arithmetic against the libraries that others use for it, on drawn data."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from umsicht.evaluate.labels import fisher
from umsicht.evaluate.tasks import mcnemar
from umsicht.ratings import agreement, intervals
from umsicht.ratings.bradley_terry import fit
from umsicht.ratings.correlation import spearman

Figures = dict[str, float]
ROUNDS = 50


def ratings(_: Path) -> Figures:
    """Largest difference over 50 drawn data sets each; data with gaps, ties and unequal numbers of raters."""
    return {**_agreement(), **_strengths(), **_shares()}


def _agreement() -> Figures:
    import krippendorff
    from sklearn.metrics import cohen_kappa_score

    worst = dict.fromkeys(("nominal", "ordinal", "interval", "kappa"), 0.0)
    for seed in range(ROUNDS):
        rng = np.random.default_rng(seed)
        truth = rng.integers(1, 6, 40)
        table = np.clip(truth + rng.integers(-1, 2, (4, 40)), 1, 5).astype(float)
        table[rng.random(table.shape) < 0.2] = np.nan
        units = [[v for v in column if not np.isnan(v)] for column in table.T]
        for level in ("nominal", "ordinal", "interval"):
            theirs = krippendorff.alpha(reliability_data=table, level_of_measurement=level)
            ours = agreement.alpha(units, level)  # type: ignore[arg-type]  # the levels are spelled so
            assert ours is not None
            worst[level] = max(worst[level], abs(ours - theirs))
        pair = [{i: int(v) for i, v in enumerate(row) if not np.isnan(v)} for row in table[:2]]
        shared = sorted(set(pair[0]) & set(pair[1]))
        theirs = cohen_kappa_score([pair[0][i] for i in shared], [pair[1][i] for i in shared])
        kappa = agreement.kappa(*pair)
        assert kappa is not None
        worst["kappa"] = max(worst["kappa"], abs(kappa - theirs))
    names = {level: f"krippendorff: {level} alpha" for level in ("nominal", "ordinal", "interval")}
    return {names.get(k, "scikit-learn: Cohen's kappa"): v for k, v in worst.items()}


def _strengths() -> Figures:
    import choix

    worst = 0.0
    for seed in range(ROUNDS):
        rng = random.Random(seed)
        size, true = 5, [rng.gauss(0, 0.7) for _ in range(5)]
        won = []
        for i in range(size):
            for j in range(i + 1, size):
                for _ in range(30):
                    better = rng.random() < 1 / (1 + np.exp(true[j] - true[i]))
                    won.append((i, j) if better else (j, i))
        table = np.zeros((size, size))
        for i, j in won:
            table[i, j] += 1
        theirs = choix.opt_pairwise(size, won, tol=1e-12)
        worst = max(worst, float(np.abs(fit(table) - (theirs - theirs.mean())).max()))
    return {"choix: Bradley-Terry log strengths": worst}


def _shares() -> Figures:
    from scipy import stats
    from statsmodels.stats.contingency_tables import mcnemar as their_mcnemar
    from statsmodels.stats.proportion import binom_test, proportion_confint

    names = (
        "statsmodels: Wilson's interval",
        "statsmodels: binomial test",
        "statsmodels: McNemar's exact test",
        "scipy: Fisher's exact test",
        "scipy: Spearman's rank correlation",
        "scipy: power of the sign test",
    )
    worst = dict.fromkeys(names, 0.0)
    for seed in range(ROUNDS):
        rng = random.Random(seed)
        n = rng.randint(1, 300)
        k, p = rng.randint(0, n), rng.choice([0.5, 0.2, 0.71])
        a, b, m = rng.randint(0, 40), rng.randint(0, 40), rng.randint(1, 60)
        x = [rng.randint(0, 6) for _ in range(12)]
        y = [v + rng.randint(0, 4) for v in x]
        yes = rng.randint(0, m)
        share = rng.uniform(0.55, 0.95)
        edge = int(stats.binom.ppf(0.025, n, 0.5))
        edge -= stats.binom.cdf(edge, n, 0.5) > 0.025
        power = stats.binom.cdf(edge, n, share) + stats.binom.sf(n - edge - 1, n, share) if edge >= 0 else 0.0
        low, high = intervals.wilson(k, n)
        theirs = proportion_confint(k, n, method="wilson")
        rho = spearman(x, y)
        pairs = (
            (max(abs(low - theirs[0]), abs(high - theirs[1])), 0.0),
            (intervals.binomial_test(k, n, p), binom_test(k, n, p)),
            (mcnemar(a, b), their_mcnemar([[5, a], [b, 5]], exact=True).pvalue),
            (
                fisher(k, n, yes, m),
                stats.fisher_exact([[k, n - k], [yes, m - yes]], alternative="greater")[1],
            ),
            (rho, stats.spearmanr(x, y).statistic),
            (intervals.power(n, share), power),
        )
        for name, (ours, other) in zip(names, pairs, strict=True):
            assert ours is not None
            worst[name] = max(worst[name], abs(float(ours) - float(other)))
    return worst
