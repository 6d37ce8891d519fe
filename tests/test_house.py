"""A package imports only from packages above it; no circles; user-facing words exist in both languages."""

from __future__ import annotations

import ast
import graphlib
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest

from umsicht.words import areas, catalogue

SOURCE = Path(__file__).resolve().parent.parent / "src" / "umsicht"
ORDER = [
    "words",
    "record",
    "findings",
    "survive",
    "recipe",
    "tokenizer",
    "corpus",
    "tokens",
    "model",
    "score",
    "train",
    "plan",
    "guard",
    "diagnose",
    "evaluate",
    "ratings",
    "finetune",
    "dashboard",
    "pipeline",
    "cli",
]
TORCH_FREE = (
    "words",
    "record",
    "findings",
    "survive",
    "recipe",
    "tokenizer",
    "corpus",
    "diagnose",
    "ratings",
    "dashboard",
)
ALLOWED_UPWARD: dict[str, set[str]] = {}


def imports(path: Path) -> set[tuple[str, bool]]:
    """Names of modules imported by a file, and whether the import stands at the top level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(alias.name, id(node) in top) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names]
                if node.module == "umsicht"
                else [node.module]
            )
            found |= {(name, id(node) in top) for name in names}
    return found


@pytest.mark.parametrize("package", ORDER)
def test_a_package_imports_only_from_packages_above_it(package: str) -> None:
    allowed = set(ORDER[: ORDER.index(package) + 1]) | ALLOWED_UPWARD.get(package, set())
    wrong = []
    for path in (SOURCE / package).rglob("*.py"):
        for name, _ in imports(path):
            parts = name.split(".")
            if parts[0] == "umsicht" and len(parts) > 1 and parts[1] in ORDER and parts[1] not in allowed:
                wrong.append(f"{path.relative_to(SOURCE)} imports {name}")
    assert not wrong


def module_file(name: str) -> Path | None:
    """The file of a module of ours; None for other people's and for names inside a module."""
    path = SOURCE.parent.joinpath(*name.split("."))
    found = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in found if name.partition(".")[0] == "umsicht" and file.is_file()), None)


def imported_files(path: Path) -> set[Path]:
    """Files of ours that a file imports from, wherever in it the import stands, for types only included."""
    files = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            files |= {module_file(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                files.add(module_file(f"{node.module}.{alias.name}") or module_file(node.module))
    return {file for file in files if file is not None}


def test_no_files_import_each_other_in_a_circle() -> None:
    graph = {path: imported_files(path) for path in SOURCE.rglob("*.py")}
    assert sum(map(len, graph.values())) > 1000
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as circle:
        pytest.fail(" imports ".join(str(path.relative_to(SOURCE)) for path in reversed(circle.args[1])))


@pytest.mark.parametrize("package", TORCH_FREE)
def test_a_torch_free_package_imports_no_torch(package: str) -> None:
    wrong = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in (SOURCE / package).rglob("*.py")
        for name, _ in imports(path)
        if name.partition(".")[0] == "torch"
    ]
    assert not wrong


def test_every_package_of_the_house_exists() -> None:
    assert {path.name for path in SOURCE.iterdir() if (path / "__init__.py").is_file()} == set(ORDER)


def test_help_needs_no_torch() -> None:
    code = "import sys; sys.argv = ['umsicht', '--help']\nfrom umsicht.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass\nprint('torch' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "False"


def placeholders(text: object) -> set[str]:
    """Named placeholders in a sentence, or in all strings of a finding's entry."""
    if isinstance(text, dict):
        return set().union(*(placeholders(value) for value in text.values())) if text else set()
    if isinstance(text, list):
        return set().union(*(placeholders(value) for value in text)) if text else set()
    return {name for _, name, _, _ in string.Formatter().parse(str(text)) if name}


@pytest.mark.parametrize("area", [*areas(), *areas(findings=True)])
def test_english_and_german_have_the_same_keys_and_placeholders(area: str) -> None:
    english, german = catalogue("en", area), catalogue("de", area)
    assert sorted(english) == sorted(german)
    unequal = {key for key in english if placeholders(english[key]) != placeholders(german[key])}
    assert not unequal


def test_every_word_that_the_code_asks_for_is_in_the_catalogue() -> None:
    asked = re.compile(r"""\bt\(\s*"([a-z_]+)\.([A-Za-z0-9_.-]+)"\s*(,\s*count=)?""")
    missing = []
    for path in SOURCE.rglob("*.py"):
        for match in asked.finditer(path.read_text(encoding="utf-8")):
            area, name = match.group(1), match.group(2)
            known = catalogue("en", area)
            if name not in known and f"{name}.one" not in known:
                missing.append(f"{path.relative_to(SOURCE)}: {area}.{name}")
    assert not missing
