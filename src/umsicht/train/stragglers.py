"""Where the time of a step goes on each rank, and which rank, if any, keeps the others waiting.

In a step every rank waits for the slowest one inside an exchange. So a straggler is known by its own seconds (step less exchanges and waiting
for data), never by the seconds of the whole step, which are the same everywhere. A slow network shows the other way round: nobody's own
seconds are long, everybody's exchanges are.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import TYPE_CHECKING, Literal

from torch import Tensor

from umsicht.findings import Finding
from umsicht.train.ranks import Ranks

if TYPE_CHECKING:
    from umsicht.train.hooks import View

Verdict = Literal["none", "straggler", "data", "network"]
WINDOW = 10
FACTOR = 2.0
"""A rank is a straggler where the median of its own seconds is this many times that of the others."""
GROWN = 3.0
"""Exchanges, or waits for data, are slow where they are this many times what they were in the run's best window."""
SHARE = {"data": 0.3, "network": 0.5}
"""and where they take at least this share of the step. On a busy machine ranks wait for the processor inside an exchange as well: a clean run of
200 steps showed exchanges of 0.33 of the step twice, at four times its best window."""
LOG_EVERY = 10


class Stragglers:
    """Looks at the last steps of all ranks; says each verdict once until it passes."""

    def __init__(self, ranks: Ranks, flops_per_token: float = 0.0, peak_flops_per_s: float = 0.0) -> None:
        self._ranks = ranks
        self._flops_per_token = flops_per_token
        self._peaks = ranks.gather(peak_flops_per_s) if flops_per_token else []
        self._hosts: list[str] = []
        self._rows: deque[list[list[float]]] = deque(maxlen=WINDOW)
        self._least: dict[str, float] = {}
        self._said: tuple[Verdict, int] = ("none", -1)

    def log(self, view: View, table: Tensor, tokens_per_step: int) -> None:
        """Take one step's seconds, `[world, 3]`: own work, exchanges, waiting for data. Adds figures to the row, a finding where one is due."""
        rows: list[list[float]] = table.tolist()
        if self._peaks and self._peaks[0]:
            done = self._flops_per_token * tokens_per_step / max(1e-9, max(sum(row) for row in rows))
            view.log({"train/mfu": done / sum(self._peaks)})
        if self._ranks.world == 1:
            return
        if not self._hosts:
            self._hosts = self._ranks.gather(self._ranks.host)
        self._rows.append(rows)
        shares = [exchanged / max(1e-9, sum(row)) for row in rows for exchanged in (row[1],)]
        view.log({"train/communication_share": sum(shares) / len(shares)})
        if view.step % LOG_EVERY == 0:
            part = tokens_per_step / self._ranks.world
            for rank, (row, share) in enumerate(zip(rows, shares, strict=True)):
                figures = {
                    f"rank/{rank}/tokens_per_s": part / max(1e-9, row[0]),
                    f"rank/{rank}/communication_share": share,
                    f"rank/{rank}/own_s": row[0],
                }
                if self._peaks and self._peaks[rank]:
                    done = self._flops_per_token * part / max(1e-9, sum(row))
                    figures[f"rank/{rank}/mfu"] = done / self._peaks[rank]
                view.log(figures)
        if len(self._rows) == WINDOW:
            self._judge(view)

    def _judge(self, view: View) -> None:
        verdict, rank = self.verdict()
        if (verdict, rank) == self._said:
            return
        self._said = (verdict, rank)
        if verdict == "none":
            return
        medians = self._medians()
        worst = max(rank, 0)
        others = [m for r, m in enumerate(medians) if r != worst]
        view.run.add_finding(
            {
                **Finding(
                    f"RANK/{'straggler' if verdict == 'straggler' else 'slow-' + verdict}",
                    "warn",
                    "train",
                    f"ranks: rank {rank} on {self._hosts[worst]}" if verdict == "straggler" else "ranks: all",
                    {
                        "rank": worst,
                        "host": self._hosts[worst],
                        "own_s": medians[worst][0],
                        "others_s": statistics.median(m[0] for m in others),
                        "exchange_s": statistics.median(m[1] for m in medians),
                        "data_s": max(m[2] for m in medians),
                        "steps": WINDOW,
                    },
                ).to_dict(),
                "step": view.step,
            }
        )

    def _medians(self) -> list[list[float]]:
        """Of each rank: median seconds of own work, exchanges, waiting for data over the window."""
        return [
            [statistics.median(rows[rank][kind] for rows in self._rows) for kind in range(3)]
            for rank in range(self._ranks.world)
        ]

    def verdict(self) -> tuple[Verdict, int]:
        """What slows the last steps down, and the rank it is about (-1: all)."""
        medians = self._medians()
        own = [m[0] for m in medians]
        worst = max(range(len(own)), key=own.__getitem__)
        others = statistics.median(v for r, v in enumerate(own) if r != worst)
        step = statistics.median(sum(m) for m in medians)
        # The fastest rank waits for nobody, so its exchanges are the network's own time.
        exchange, data = min(m[1] for m in medians), max(m[2] for m in medians)
        slow_data, slow_network = self._grown("data", data, step), self._grown("network", exchange, step)
        if own[worst] > FACTOR * others and own[worst] - others > 0.2 * step:
            return "straggler", worst
        if slow_data:
            return "data", -1
        if slow_network:
            return "network", -1
        return "none", -1

    def _grown(self, name: str, seconds: float, step: float) -> bool:
        least = self._least[name] = min(self._least.get(name, seconds), seconds)
        return seconds > GROWN * least and seconds > SHARE[name] * step
