"""What other tools call Umsicht's metrics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from umsicht.diagnose.curves import EPOCH, GRAD, LR, TRAIN, TRAIN_EVAL, VAL

STEP, TOKENS, TIME, RUN = "step", "tokens", "time", "run"
VAL_BPB, VAL_PPL, TRAIN_PPL = "val/all/bpb", "val/all/perplexity", "train/perplexity"

_ALIASES: dict[str, str] = {
    STEP: (
        "step steps global_step train_global_step trainer_global_step iteration iterations iter iters it num_updates "
        "update updates s schritt schritte iteration_step train_step optimizer_step batch_idx"
    ),
    TRAIN: (
        "loss train_loss training_loss loss_train trl lm_loss train_lm_loss lm_loss_training train_total_loss total_loss "
        "train_loss_step train_cross_entropy train_crossentropyloss cross_entropy metrics_train_languagecrossentropy "
        "train_ce_loss ce_loss verlust trainingsverlust trainverlust train_train_loss losses_train loss_train_total "
        "lm_loss_training_lm_loss batch_loss train_batch_loss loss_step end_loss"
    ),
    VAL: (
        "val_loss valid_loss validation_loss eval_loss loss_val loss_valid loss_validation loss_eval test_loss dev_loss tel "
        "val_all_loss val_lm_loss lm_loss_validation lm_loss_value eval_lm_loss validierungsverlust valverlust "
        "val_loss_epoch val_cross_entropy heldout_loss eval_cross_entropy losses_val loss_test"
    ),
    TRAIN_EVAL: "train_eval_loss train_loss_eval",
    VAL_BPB: "val_bpb validation_bpb eval_bpb val_bits_per_byte eval_bits_per_byte val_all_bpb",
    VAL_PPL: "val_ppl eval_ppl val_perplexity eval_perplexity validation_perplexity valid_ppl lm_loss_ppl",
    TRAIN_PPL: "ppl perplexity train_ppl train_perplexity",
    LR: (
        "lr learning_rate train_lr train_learning_rate lernrate lr_adamw lr_adam lr_group_0 lr_group0 lr_pg1 "
        "optim_lr learningrate train_optim_lr lr_adamw_pg1 lr_0"
    ),
    GRAD: (
        "grad_norm gradient_norm train_grad_norm norm gnorm grad_norm_total global_grad_norm total_grad_norm gradientennorm "
        "train_gradient_norm optim_total_grad_norm grad_2_norm_total train_gnorm"
    ),
    EPOCH: "epoch epochs train_epoch epoche num_epochs",
    TOKENS: "tokens consumed_tokens num_tokens tokens_seen train_tokens total_tokens num_input_tokens_seen",
    TIME: "time timestamp wall_time walltime relative_time_process runtime zeit",
    RUN: "run run_name run_id experiment lauf",
    "tune/accuracy": "rewards_accuracies reward_accuracy reward_accuracies",
    "tune/chosen": "rewards_chosen reward_chosen",
    "tune/rejected": "rewards_rejected reward_rejected",
    "tune/likes": "logps_chosen",
    "tune/dislikes": "logps_rejected",
    "tune/reward": "reward rewards_mean reward_mean mean_reward critic_rewards_mean",
    "tune/reward_std": "reward_std rewards_std",
    "tune/flat_groups": "frac_reward_zero_std",
    "tune/kl": "kl mean_kl objective_kl approx_kl actor_kl_loss",
    "tune/clip_share": "clip_ratio clip_ratio_region_mean clipfrac clip_fraction actor_pg_clipfrac",
    "tune/entropy": "entropy policy_entropy actor_entropy",
    "tune/cut": "completions_clipped_ratio response_length_clip_ratio",
}
_KNOWN = {alias: name for name, aliases in _ALIASES.items() for alias in aliases.split()}


def plain(name: str) -> str:
    """Lower case, every run of other characters one underscore: `lm-loss-training/lm loss` → `lm_loss_training_lm_loss`."""
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


def canonical(name: str) -> str | None:
    """Umsicht's name for a foreign one, or None."""
    if name in _ALIASES:
        return name
    if re.fullmatch(r"(train|val|train_eval)/\S+", name) and plain(name) not in _KNOWN:
        return name
    key = plain(name)
    if key in _KNOWN:
        return _KNOWN[key]
    for suffix in ("_step", "_interval", "_mean", "_avg"):
        if key.endswith(suffix) and key.removesuffix(suffix) in _KNOWN:
            return _KNOWN[key.removesuffix(suffix)]
    return None


def mapping(names: Iterable[str], columns: Mapping[str, str] | None = None) -> dict[str, str]:
    """Foreign column → Umsicht's name. What the user mapped wins; of two columns with one meaning the first does."""
    chosen = {column: name for name, column in (columns or {}).items() if name != RUN}
    taken = set(chosen.values())
    for name in names:
        if name in chosen:
            continue
        ours = canonical(name)
        if ours is not None and ours not in taken:
            chosen[name] = ours
            taken.add(ours)
    return chosen
