"""Job files for other engines: their own directives, read strictly; and by each tool's own validator where it is installed."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from umsicht.cli.launch import launch
from umsicht.findings import UserError
from umsicht.survive.elsewhere import TARGETS, Job

ONE = Job("small", "small.yaml", "/shared/small")
MANY = Job(
    "large",
    "large.yaml",
    "/shared/large",
    nodes=4,
    least_nodes=2,
    ranks=8,
    cpus=96,
    memory_gb=512,
    gpus=8,
    gpu="H100",
    hours=30.5,
    arguments=("--set", "train.budget.steps=500"),
)
# Value grammars from sbatch's manual page.
SBATCH = {
    "job-name": r"[\w.-]+",
    "nodes": r"\d+(-\d+)?",
    "ntasks-per-node": r"\d+",
    "cpus-per-task": r"\d+",
    "mem": r"\d+[KMGT]?",
    "gpus-per-node": r"([A-Za-z0-9_-]+:)?\d+",
    "time": r"(\d+-)?\d{1,2}:\d{2}:\d{2}",
    "signal": r"([RB]+:)?(USR1|USR2|TERM|\d+)(@\d+)?",
    "requeue": "",
    "open-mode": r"append|truncate",
    "output": r"\S+",
}


@pytest.mark.parametrize("job", [ONE, MANY])
def test_every_sbatch_directive_is_known_and_its_value_well_formed(job: Job, tmp_path: Path) -> None:
    text = TARGETS["slurm"].render(job)
    lines = text.splitlines()
    assert lines[0] == "#!/bin/bash"
    directives = [line.removeprefix("#SBATCH --") for line in lines if line.startswith("#SBATCH")]
    first_command = next(n for n, line in enumerate(lines) if line and not line.startswith("#"))
    assert all(not line.startswith("#SBATCH") for line in lines[first_command:]), "ignored after a command"
    names = [directive.partition("=")[0] for directive in directives]
    assert len(set(names)) == len(names)
    for directive in directives:
        name, _, value = directive.partition("=")
        assert re.fullmatch(SBATCH[name], value), directive
    script = tmp_path / "job.sh"
    script.write_text(text)
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_the_script_asks_for_another_turn_only_where_the_run_was_saved(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, body in (
        ("srun", 'shift; echo "$SRUN_CPUS_PER_TASK" > "$LOG/srun"; "$@"'),
        ("umsicht", 'echo "$@" > "$LOG/umsicht"; exit "$CODE"'),
        ("scontrol", 'echo "$@" > "$LOG/scontrol"'),
    ):
        tool = folder / name
        tool.write_text(f"#!/bin/bash\n{body}\n")
        tool.chmod(0o755)
    (tmp_path / "job.sh").write_text(TARGETS["slurm"].render(MANY))
    for code, again in ((75, True), (0, False), (1, False), (3, False)):
        (tmp_path / "scontrol").unlink(missing_ok=True)
        environment = {
            "PATH": f"{folder}:/usr/bin:/bin",
            "LOG": str(tmp_path),
            "CODE": str(code),
            "SLURM_JOB_ID": "17",
            "SLURM_CPUS_PER_TASK": "96",
        }
        done = subprocess.run(["bash", str(tmp_path / "job.sh")], env=environment, check=False)
        assert done.returncode == code
        assert (tmp_path / "scontrol").exists() is again
    assert (tmp_path / "srun").read_text() == "96\n"
    called = (tmp_path / "umsicht").read_text().split()
    assert called[:3] == ["train", "large.yaml", "--out"] and "--nnodes" in called and "2:4" in called
    assert re.fullmatch(r"[0-9a-f.:]+", called[called.index("--address") + 1])


def test_the_kubernetes_job_starts_again_what_was_evicted_or_saved_and_gives_up_what_a_person_must_see() -> (
    None
):
    plain = YAML(typ="safe").load(TARGETS["kubernetes"].render(MANY))
    spec = plain["spec"]
    assert (plain["apiVersion"], plain["kind"]) == ("batch/v1", "Job")
    assert spec["completions"] == spec["parallelism"] == 4 and spec["completionMode"] == "Indexed"
    actions = [
        (rule["action"], rule.get("onExitCodes", {}).get("values"))
        for rule in spec["podFailurePolicy"]["rules"]
    ]
    assert actions == [("Ignore", None), ("Ignore", [75]), ("FailJob", [2, 3])]
    container = spec["template"]["spec"]["containers"][0]
    assert container["command"][-2:] == ["--address", "$(POD_IP)"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"


def test_a_skypilot_task_recovers_and_finds_each_nodes_address() -> None:
    plain = YAML(typ="safe").load(TARGETS["skypilot"].render(MANY))
    assert plain["num_nodes"] == 4 and plain["resources"]["accelerators"] == "H100:8"
    assert plain["resources"]["job_recovery"]["recover_on_exit_codes"] == [75]
    words = plain["run"].split("--address ")[1]
    environment = {
        "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2\n10.0.0.3",
        "SKYPILOT_NODE_RANK": "1",
        "PATH": "/usr/bin:/bin",
    }
    shown = subprocess.run(
        ["bash", "-c", f"echo {words}"], env=environment, capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "10.0.0.2"


def test_a_ray_script_is_python_and_calls_the_same_training() -> None:
    tree = ast.parse(TARGETS["ray"].render(MANY))
    (arguments,) = [n.value for n in tree.body if isinstance(n, ast.Assign)]
    assert ast.literal_eval(arguments)[:2] == ["train", "large.yaml"]


def test_one_machine_needs_no_agreement_between_hosts() -> None:
    for name, target in TARGETS.items():
        assert "nnodes" not in target.render(ONE), name


def test_the_verb_writes_the_file_and_says_how_to_hand_it_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = tmp_path / "small.yaml"
    recipe.write_text("name: small\npreset: tiny\n")
    assert launch(recipe, to="slurm", nodes="1:2", gpus="H100:4") == 0
    assert "sbatch small.slurm.sh" in capsys.readouterr().out
    assert "--nproc-per-node 4" in (tmp_path / "small.slurm.sh").read_text()
    for wrong in ({"nodes": "0"}, {"nodes": "3:2"}, {"gpus": "many"}, {"hours": 0.0}):
        with pytest.raises(UserError):
            launch(recipe, to="slurm", **wrong)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("engine", ["kubernetes", "skypilot", "ray"])
@pytest.mark.parametrize("job", [ONE, MANY])
def test_each_tools_own_validator_takes_the_file(engine: str, job: Job, tmp_path: Path) -> None:
    from bench.peers.environment import peer_python

    python = peer_python("launch")
    if python is None:
        pytest.skip(
            "the environment of the launching tools cannot be made here (bench/peers/launch-requirements.txt)"
        )
    target = TARGETS[engine]  # type: ignore[index]
    file = tmp_path / f"job{target.suffix}"
    file.write_text(target.render(job))
    script = Path(__file__).with_name("validate_elsewhere.py")
    done = subprocess.run(
        [str(python), str(script), engine, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def slurm_answers() -> bool:
    """True where a Slurm controller can be asked."""
    if shutil.which("scontrol") is None:
        return False
    done = subprocess.run(["scontrol", "ping"], capture_output=True, check=False)
    return done.returncode == 0 and b"UP" in done.stdout


@pytest.mark.skipif(
    not slurm_answers(), reason="no Slurm controller here: directives are parsed strictly instead"
)
def test_sbatch_itself_takes_the_script(tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(TARGETS["slurm"].render(ONE))
    subprocess.run(["sbatch", "--test-only", str(tmp_path / "job.sh")], check=True)
