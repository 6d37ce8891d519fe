"""The arithmetic of supervised, preference and reward training, each against a plain twin."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from bench.finetune.project import config, fresh
from hypothesis import given, settings
from hypothesis import strategies as st

from umsicht.finetune import grpo
from umsicht.finetune.grpo import GrpoObjective, GrpoSettings, Posed, ProblemSource, group_advantages, joined
from umsicht.finetune.preference import Pair, PairSource, PreferenceObjective, precompute
from umsicht.finetune.reference import Reference, apart, digest_of, drawn_logps_of, logps_of
from umsicht.finetune.reward import contains, exact, last_number, number
from umsicht.finetune.reward_model import Judged, RewardObjective, asked_pairs, scored, scores_of
from umsicht.finetune.supervised import Example, SupervisedSource, collate, pack, table
from umsicht.model import LoraConfig, build
from umsicht.model.lora import adapters, freeze_base, with_adapters
from umsicht.score import batch as batches
from umsicht.score import cross_entropy_sum, generate, generate_batch
from umsicht.tokens.batch import IGNORE

PAD = 1


def example(n: int, answer: int, seed: int) -> Example:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 400, (n,), generator=generator).tolist()
    return Example(f"{seed}", tuple(ids), tuple([False] * (n - answer) + [True] * answer))


def stirred(**changes: object):
    return fresh(1, **changes).eval()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(2, 33), min_size=1, max_size=30))
def test_packing_keeps_every_example_whole_and_once(lengths):
    examples = [example(n, 1, seed) for seed, n in enumerate(lengths)]
    packed = pack(examples, 32)
    assert sorted(e.id for row in packed for e in row) == sorted(e.id for e in examples)
    assert all(sum(len(e.ids) - 1 for e in row) <= 32 for row in packed)
    assert table(examples, packed, 32, 0).active == len(examples)


def test_packed_loss_is_the_loss_of_each_conversation_alone():
    model = stirred()
    examples = [example(n, 4, seed) for seed, n in enumerate((9, 20, 14, 7))]
    batch = collate(pack(examples, 64), 64, PAD, [0])
    assert batch.inputs.shape == (1, 64)
    hidden = model.hidden(batch.inputs, document_ids=batch.document_ids)
    packed, count = cross_entropy_sum(hidden, model.head_weight, batch.targets)
    alone = torch.zeros(())
    for one in examples:
        ids = torch.tensor([one.ids])
        alone = alone + F.cross_entropy(model(ids[:, :-1])[0, -4:], ids[0, -4:], reduction="sum")
    assert count == 16
    torch.testing.assert_close(packed, alone, rtol=1e-5, atol=1e-4)


def test_supervised_order_is_arithmetic_and_covers_each_epoch():
    packed = [[example(9, 2, seed)] for seed in range(10)]
    source = SupervisedSource(packed, seq_len=16, batch_rows=4, seed=0, pad_id=PAD)
    rows = [n for step in range(5) for n in source.rows_of(step)]
    assert sorted(rows[:10]) == sorted(rows[10:20]) == list(range(10)) and rows[:10] != rows[10:20]
    parts = list(source.micro_batches(2, 3))
    assert [p.inputs.shape[0] for p in parts] == [3, 1]
    assert torch.equal(torch.cat([p.inputs for p in parts]), source.batch(2).inputs)


def pairs(n: int = 5) -> list[Pair]:
    return [Pair(f"{i}", example(12 + i, 3, i), example(10 + i, 2, 50 + i)) for i in range(n)]


def test_preference_loss_is_ln_2_while_policy_and_reference_agree():
    model = stirred()
    source = PairSource(pairs(), batch_pairs=5, seed=0, pad_id=PAD)
    objective = PreferenceObjective(Reference(model), beta=0.1)
    loss = objective(model, source.batch(0)).objective / objective.units(source.batch(0))
    assert float(loss.detach()) == float(torch.tensor(math.log(2)))
    assert objective.figures() == {
        "dpo/margin": 0.0,
        "dpo/accuracy": 0.0,
        "dpo/reward_chosen": 0.0,
        "dpo/reward_rejected": 0.0,
    }


@pytest.mark.parametrize("how", ["live", "precomputed"])
def test_preference_loss_and_gradient_equal_the_formula(how):
    reference_model, model = stirred(), fresh(2)
    source = PairSource(pairs(), batch_pairs=5, seed=0, pad_id=PAD)
    reference = Reference(reference_model)
    answers = reference if how == "live" else precompute(reference, source, torch.device("cpu"))
    batch = source.batch(3)
    objective = PreferenceObjective(answers, beta=0.3)(model, batch).objective
    total = torch.zeros(())
    for place in source.numbers(3):
        logps = []
        for one in (source.pairs[place].chosen, source.pairs[place].rejected):
            ids, active = torch.tensor([one.ids]), torch.tensor(one.mask[1:])
            for net in (model, reference_model):
                full = net(ids[:, :-1])[0].log_softmax(-1).gather(1, ids[0, 1:, None]).squeeze(1)
                logps.append(full[active].sum())
        pi_c, ref_c, pi_r, ref_r = logps
        total = total - F.logsigmoid(0.3 * ((pi_c - ref_c) - (pi_r - ref_r)))
    torch.testing.assert_close(objective, total, rtol=1e-5, atol=1e-4)
    got = torch.autograd.grad(objective, list(model.parameters()))
    want = torch.autograd.grad(total, list(model.parameters()))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_pair_is_never_parted():
    source = PairSource(pairs(6), batch_pairs=6, seed=0, pad_id=PAD)
    for rows in (1, 3, 4, 100):
        parts = list(source.micro_batches(1, rows))
        assert all(p.inputs.shape[0] % 2 == 0 for p in parts)
        assert torch.equal(torch.cat([p.rows for p in parts]), source.batch(1).rows)


def test_a_reference_never_moves_with_the_policy():
    for lora in (None, LoraConfig(r=2)):
        model = stirred() if lora is None else build(with_adapters(config(), lora), 0)
        batch = PairSource(pairs(), batch_pairs=5, seed=0, pad_id=PAD).batch(0)
        reference = Reference(model)
        before, digest = reference.logps(batch), reference.digest
        with torch.no_grad():
            for layer in adapters(model).values():
                layer.lora_b.add_(0.1)
            if lora is None:
                model.embed.weight.add_(0.1)
        assert (logps_of(model, batch) - before).abs().max() > 1e-3
        assert torch.equal(reference.logps(batch), before) and reference.digest_now() == digest


def test_a_reference_that_is_the_policy_or_another_model_is_seen_before_the_first_step():
    for lora in (None, LoraConfig(r=2)):
        model = stirred() if lora is None else build(with_adapters(config(), lora), 0)
        reference = Reference(model)
        batch = PairSource(pairs(), batch_pairs=5, seed=0, pad_id=PAD).batch(0)
        if lora is not None:
            freeze_base(model)
        assert reference.shared_with(model) == [] and apart(model, reference, batch) == 0.0
    model = stirred()
    mistaken = Reference(model)
    mistaken._copy = model.requires_grad_(True)
    assert len(mistaken.shared_with(model)) == len(list(model.parameters()))
    assert (
        apart(model, Reference(fresh(7)), PairSource(pairs(), batch_pairs=5, seed=0, pad_id=PAD).batch(0))
        > 0.1
    )


def test_digest_tells_names_shapes_and_values_apart():
    one = {"a": torch.zeros(2, 3)}
    assert digest_of(one) == digest_of({"a": torch.zeros(2, 3)})
    others = [{"b": torch.zeros(2, 3)}, {"a": torch.zeros(3, 2)}, {"a": torch.ones(2, 3)}]
    assert len({digest_of(one), *map(digest_of, others)}) == 4


def test_advantages_are_standard_scores_within_a_group():
    advantages = group_advantages(torch.tensor([1.0, 0.0, 0.0, 1.0, 1.0, 1.0]), 3)
    assert advantages[3:].tolist() == [0.0, 0.0, 0.0]
    torch.testing.assert_close(
        advantages[:3], torch.tensor([2.0, -1.0, -1.0]) / math.sqrt(3), atol=1e-3, rtol=0
    )


def test_only_the_answer_is_a_target_of_a_reward():
    batch = joined([[5, 6, 7], [8]], [[9, 10], [11, 12, 13]], PAD)
    assert batch.inputs.tolist() == [[5, 6, 7, 9], [8, 11, 12, PAD]]
    assert batch.targets.tolist() == [[IGNORE, IGNORE, 9, 10], [11, 12, 13, IGNORE]]
    assert batch.document_ids.tolist() == [[0, 0, 0, 0], [0, 0, 0, -1]]


def test_problems_come_in_another_order_each_epoch():
    problems = [Posed(str(i), tuple(range(2, 4 + i % 3)), "1") for i in range(6)]
    source = ProblemSource(problems, batch_rows=3, seed=0, pad_id=PAD, group=4, room=5)
    drawn = [source.problem(row).id for row in range(12)]
    assert sorted(drawn[:6]) == sorted(drawn[6:]) and drawn[:6] != drawn[6:]
    batch = source.batch(0)
    assert [row[row != PAD].tolist() for row in batch.inputs] == [
        list(source.problem(n).prompt) for n in range(3)
    ]


def test_many_texts_at_once_equal_one_at_a_time():
    model = stirred()
    prompts = [[5, 6, 7, 8], [9], [10, 11]]
    together = generate_batch(model, prompts, max_new_tokens=6, temperature=0.0, pad_id=PAD)
    assert together == [list(generate(model, p, max_new_tokens=6, temperature=0.0)) for p in prompts]
    stop = together[0][2]
    stopped = generate_batch(model, prompts, max_new_tokens=6, temperature=0.0, pad_id=PAD, stop_ids=[stop])
    assert stopped[0] == together[0][: together[0].index(stop) + 1]


def test_rewards_check_what_they_say():
    assert last_number("so 1,234.0 it is.") == "1234" and last_number("none") is None
    assert number("The answer is 12.", "steps #### 12") == 1.0 and number("12 or 13", "12") == 0.0
    assert exact(" a ", "a") == 1.0 and exact("ab", "a") == 0.0
    assert contains("so Paris.", "Paris") == 1.0 and contains("Rome", "Paris") == 0.0


@pytest.mark.parametrize("stabilised", [False, True])
def test_adapters_start_as_the_base_and_merge_exactly(stabilised):
    base = stirred()
    lora = LoraConfig(r=4, alpha=12.0, rank_stabilised=stabilised)
    model = build(with_adapters(base.config, lora), 0)
    model.load_state_dict({**model.state_dict(), **base.state_dict()})
    ids = torch.randint(0, 400, (2, 20), generator=torch.Generator().manual_seed(0))
    assert torch.equal(model.eval()(ids), base(ids))
    freeze_base(model)
    learning = {name.rpartition(".")[2] for name, p in model.named_parameters() if p.requires_grad}
    assert learning == {"lora_a", "lora_b"}
    with torch.no_grad():
        for layer in adapters(model).values():
            layer.lora_b.normal_(0, 0.1)
            expected = layer.weight + (6.0 if stabilised else 3.0) * layer.lora_b @ layer.lora_a
            torch.testing.assert_close(layer.merged_weight(), expected)
    from umsicht.finetune import merged

    plain = merged(model)
    assert plain.config.lora is None
    assert (model(ids) - base(ids)).abs().max() > 0.1
    torch.testing.assert_close(plain(ids), model(ids), atol=1e-5, rtol=0)


def test_layers_that_do_not_exist_cannot_be_adapted():
    with pytest.raises(ValueError, match="nowhere"):
        with_adapters(config(), LoraConfig(targets=("nowhere",)))
    with pytest.raises(ValueError, match="alpha 0"):
        LoraConfig(alpha=0.0)


def test_a_score_is_the_padding_tokens_logit_behind_the_answer():
    model = stirred()
    rows = [[scored([5, 6, 7, 8], PAD)], [scored([9, 10], PAD)]]
    batch = collate(rows, 6, PAD, range(2))
    expected = [model(torch.tensor([ids]))[0, -1, PAD] for ids in ([5, 6, 7, 8], [9, 10])]
    torch.testing.assert_close(scores_of(model, batch), torch.stack(expected))
    judged = Judged(model, PAD, batch_rows=1)([[5, 6], [9]], [[7, 8], [10]], ["", ""])
    assert judged == pytest.approx([float(value) for value in expected], abs=1e-5)


def test_a_reward_pair_ends_with_the_answers_end_token():
    one = Example("x", (5, 6, 7, 8, 9), (False, False, True, True, False))
    (pair,) = asked_pairs([Pair("x", one, one)], PAD)
    assert pair.chosen.ids == (5, 6, 7, 8, PAD) and pair.chosen.mask == (False, False, False, False, True)


def test_reward_loss_is_the_likelihood_of_the_choices():
    model = stirred()
    source = PairSource(asked_pairs(pairs(), PAD), batch_pairs=5, seed=0, pad_id=PAD)
    objective = RewardObjective()
    loss = objective(model, source.batch(0)).objective
    scores = scores_of(model, source.batch(0)).view(-1, 2)
    torch.testing.assert_close(loss, -(scores[:, 0] - scores[:, 1]).sigmoid().log().sum())
    assert objective.units(source.batch(0)) == 5
    assert objective.figures()["reward/accuracy"] == float((scores[:, 0] > scores[:, 1]).float().mean())


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_a_drawn_token_has_the_log_probability_that_it_was_drawn_with(monkeypatch, temperature):
    model, prompts = fresh(1), [[5, 6, 7], [9, 8, 7, 6, 5], [20, 21]]
    drawn_with: list[torch.Tensor] = []
    draw = batches._draw

    def noted(logits, heat, generator):
        chosen = draw(logits, heat, generator)
        chances = (logits / heat).log_softmax(-1)
        drawn_with.append(chances.gather(1, chosen[:, None]).squeeze(1))
        return chosen

    monkeypatch.setattr(batches, "_draw", noted)
    answers = generate_batch(
        model, prompts, max_new_tokens=4, temperature=temperature, stop_ids=(3,), pad_id=PAD, seed=5
    )
    found = drawn_logps_of(model, joined(prompts, answers, PAD), temperature)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        first = len(prompt) - 1
        expected = torch.stack([drawn_with[place][row] for place in range(len(answer))])
        torch.testing.assert_close(found[row, first : first + len(answer)], expected, atol=1e-5, rtol=0)


def test_the_reward_gradient_points_where_the_expected_reward_rises(monkeypatch):
    """Answers of one token, whose expected reward can be summed exactly."""
    monkeypatch.setattr(grpo, "stop_ids", lambda tokenizer: (3,))
    model = fresh(1)
    problems = [Posed(str(i), tuple(range(10 + i, 16 + i)), "") for i in range(6)]
    source = ProblemSource(problems, batch_rows=6, seed=0, pad_id=PAD, group=256, room=1)

    def judge(prompts, answers, wanted):
        return [float(answer[0] % 2 == 0) for answer in answers]

    settings = GrpoSettings(0.0, 1, 1.0, 0)
    objective = GrpoObjective(source, Reference(model), judge, None, settings)
    batch = source.batch(0)
    loss = objective(model, batch).objective / objective.units(batch)
    prompts = torch.tensor([list(source.problem(int(row)).prompt) for row in batch.rows])
    chances = model(prompts)[:, -1, : model.config.n_tokens].softmax(-1)
    expected = chances[:, 0::2].sum(1).mean()

    def flat(value):
        found = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
        pairs = zip(found, model.parameters(), strict=True)
        return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])

    assert F.cosine_similarity(flat(-loss), flat(expected), dim=0) > 0.6
