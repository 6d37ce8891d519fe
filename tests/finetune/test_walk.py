"""One recipe from text to a rated, exported model, by the verbs alone; a base that was hardly trained is refused."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("walk")


@pytest.fixture(scope="module")
def runs(folder):
    from bench.finetune.walk import walked

    return walked(folder, "tiny", 60)


def test_base_and_stages_are_evaluated(runs):
    assert {"base", "sft", "dpo"} <= set(runs)
    assert all(any(run.evaluations.glob("step-*.json")) for run in runs.values())
    assert runs["dpo"].manifest["parent"] == runs["sft"].name


def test_a_known_preference_is_found_through_files(runs):
    from bench.finetune.walk import rated

    result = rated(runs["base"], runs["dpo"], "files")
    assert result["decision"] == "prefers" and result["better"].startswith(runs["dpo"].name)
    assert all(rater["controls_right"] == rater["controls"] > 0 for rater in result["raters"])


def test_exports_answer_the_same(runs, folder):
    pytest.importorskip("gguf", reason="the extra [gguf] is not installed")
    from bench.finetune.walk import exported

    assert max(exported(runs["dpo"], folder).values()) <= 1e-5


def test_a_poor_base_is_refused_and_told_what_it_lacks(runs, folder):
    from bench.finetune.walk import refused

    code, said = refused(folder, "tiny")
    assert code == 3 and "xz" in said and "Pretrain" in said
