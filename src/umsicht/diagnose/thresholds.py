"""Every threshold of the diagnosis in one place, with its reason. Frozen on the first half of `bench/curves`, scored on the other."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Thresholds:
    """Losses in nats, shares as fractions of 1, widths in logged points (not steps)."""

    # Too early to say.
    min_val_points: int = 4
    min_train_points: int = 20
    early_share: float = 0.05

    # Both stay high: a model that knows little more than how often each token occurs. The order-0 entropy of text is about
    # 0.56 ln V for bytes and 0.66-0.72 ln V for subword vocabularies; a third of the way up to it is still "high".
    high_ratio_bytes: float = 0.53
    high_ratio_tokens: float = 0.62
    bytes_initial_loss: float = 6.5
    no_learning_share: float = 0.03

    # Too good: below every published loss on fresh text, or near it long before anyone could be.
    too_good_ratio: float = 0.05
    too_good_fast_ratio: float = 0.12
    too_good_fast_steps: int = 2_000
    too_good_start_ratio: float = 0.5
    too_good_bpb: float = 0.15

    # Validation rises while training falls.
    rise_share: float = 0.01
    rise_floor: float = 0.02
    rise_sigma: float = 4.0
    rise_points: int = 2
    # Overfitting without a rise: validation stands still while like-for-like training loss falls on and the gap is large.
    # In healthy runs validation gains 0.8 to 1.3 of what training gains on like-for-like tokens; in overfitting ones at most 0.15.
    stall_from: float = 0.5
    stall_transfer: float = 0.25
    stall_train_fall: float = 0.02
    stall_gap_share: float = 0.10
    stall_gap_growth: float = 0.02
    # Less than half of the gain arrives while the gap opens by a twentieth of the loss: the same, earlier.
    stall_half: float = 0.5
    stall_half_growth: float = 0.05
    stall_sigma: float = 4.0
    domain_rise_share: float = 0.025
    domain_rise_floor: float = 0.03
    domain_rise_sigma: float = 2.5
    domain_share: float = 0.1

    # Spike: median + 6 robust sigma of the 64 points before (never below the floor); recovered within 20 points, lost after 50.
    spike_window: int = 64
    spike_sigma: float = 6.0
    sigma_floor: float = 0.01
    spike_floor: float = 0.1
    spike_recovered_points: int = 20
    spike_lost_points: int = 50

    # Level shift: the jump between the points before and those after, at three widths (the first, two and four times it).
    shift_width: int = 40
    shift_min_width: int = 12
    shift_sigma: float = 5.0
    shift_floor: float = 0.05
    shift_share: float = 0.02
    # A jump is nearly whole at half the width; a drift only half.
    shift_sudden: float = 0.7

    # Divergence: the training loss itself ends this much above its own best window.
    lost_share: float = 0.04
    lost_floor: float = 0.08
    lost_sigma: float = 4.0

    # Plateau: nothing gained over the last part of the run.
    plateau_share: float = 0.4
    plateau_gain: float = 0.002
    plateau_lr_share: float = 0.02
    frozen_share: float = 0.15

    # Saw-tooth: the residual repeats with the epoch.
    # Where the record holds no epochs the period is searched for, and chance finds weak ones.
    saw_correlation: float = 0.6
    saw_correlation_known: float = 0.3
    # Fisher's z of that correlation over about eight independent points a period.
    saw_z: float = 3.0
    saw_amplitude: float = 1.0
    saw_periods: int = 3

    # Learning-rate bump: the rate climbs again by this factor after it had stopped rising.
    lr_bump_factor: float = 1.2

    # Gap between training and validation, like for like.
    gap_large_share: float = 0.10
    gap_growth_share: float = 0.03

    # Still falling: gain of the last third, projected on a run twice as long.
    falling_share: float = 0.03

    def to_dict(self) -> dict[str, float]:
        """As plain JSON."""
        return asdict(self)


DEFAULT = Thresholds()
