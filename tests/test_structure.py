"""What holds of the code as a whole: its layers, its sizes, its public names, its snippets."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "inferlab"

# What each part of the package may import, beside itself. Nothing stands above `cli`.
GROUND = {"errors", "files"}
BASE = GROUND | {"cost", "trace", "hardware"}
ENGINE = BASE | {"model", "kv_cache"}
MAY_IMPORT = {
    "errors": set(),
    "files": {"errors"},
    "cost": GROUND,
    "trace": GROUND,
    "hardware": GROUND,
    "model": BASE,
    "kv_cache": BASE | {"model"},
    "engine": ENGINE,
    "parallel": ENGINE | {"engine"},
    "server": ENGINE | {"engine"},
    "client": GROUND | {"trace"},
    "lab": GROUND | {"trace", "hardware"},
    "site": BASE | {"lab"},
}
CORE_DEPENDENCIES = {
    *("torch", "numpy", "safetensors", "tokenizers", "gguf"),
    *("requests", "typer", "rich", "matplotlib"),
}
MODULE_LINES, FUNCTION_LINES, MEDIAN_LINES, SNIPPET_LINES, COLUMNS = 300, 60, 15, 60, 100


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def snippets() -> list[Path]:
    return sorted(ROOT.glob("snippets/*/*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def part_of(module: str) -> str | None:
    """The part of the package that a dotted name lies in; None outside, "" for the package."""
    parts = module.split(".")
    return None if parts[0] != "inferlab" else (parts[1] if len(parts) > 1 else "")


def imported(node: ast.AST) -> Iterator[str]:
    """The dotted names that a piece of code imports when it runs, within functions too."""
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for other in node.orelse:
            yield from imported(other)
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from imported(child)


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_imports_go_down(path: Path) -> None:
    part = part_of(name_of(path))
    if part in ("", "__init__", "__main__", "cli"):
        pytest.skip("stands on top of everything")
    allowed = MAY_IMPORT[str(part)] | {part}
    for name in imported(tree(path)):
        below = part_of(name)
        assert below is None or below in allowed, f"{name_of(path)} must not import {name}"


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_a_module_fits_in_the_head(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= MODULE_LINES, f"{path} has {lines} lines"


def functions() -> dict[str, int]:
    """Each function of the package, with its number of lines."""
    return {
        f"{name_of(path)}.{node.name}:{node.lineno}": (node.end_lineno or 0) - node.lineno + 1
        for path in sources()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_functions_are_short() -> None:
    lengths = functions()
    assert {name: n for name, n in lengths.items() if n > FUNCTION_LINES} == {}
    assert median(lengths.values()) < MEDIAN_LINES


def test_lines_fit_side_by_side() -> None:
    files = [*sources(), *snippets(), *ROOT.glob("tests/**/*.py"), *ROOT.glob("scripts/*.py")]
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > COLUMNS
    ]
    assert wide == []


def declared_for_types(path: Path) -> set[str]:
    """The names that a module imports for type checkers only."""
    return {
        alias.asname or alias.name
        for node in tree(path).body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def test_the_public_names_are_what_is_exported() -> None:
    import inferlab

    assert len(set(inferlab.__all__)) == len(inferlab.__all__)
    assert set(inferlab.__all__) == set(dir(inferlab))
    assert set(inferlab.__all__) == declared_for_types(PACKAGE / "__init__.py")
    for name in inferlab.__all__:
        assert getattr(inferlab, name).__doc__, f"inferlab.{name} has no docstring"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = inferlab.nothing


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_every_name_in_all_exists(path: Path) -> None:
    if "\n__all__" not in path.read_text(encoding="utf-8"):
        return
    module = importlib.import_module(name_of(path).removesuffix(".__init__"))
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize("statement", ["import inferlab", "from inferlab import lab"])
def test_importing_loads_neither_torch_nor_matplotlib(statement: str) -> None:
    code = f"import sys\n{statement}\nprint({{'torch', 'matplotlib'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_core_depends_on_the_agreed_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=!~\[; ]", line)[0] for line in project["dependencies"]}
    assert names == CORE_DEPENDENCIES


def test_constraints_pin_every_direct_dependency_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    accepted = {needed.name: needed.specifier for needed in map(Requirement, lines)}
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pins = [Requirement(line) for line in text.splitlines() if not line.startswith("#")]
    assert set(accepted) <= {pin.name for pin in pins}
    for pin in pins:
        (exact,) = pin.specifier
        assert exact.operator == "=="
        if pin.name in accepted:
            assert exact.version in accepted[pin.name], f"{pin} is not in {accepted[pin.name]}"


def tracked_text() -> Iterator[tuple[str, str]]:
    """Path and text of each file that git tracks and that is text."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git clone")
    for name in filter(None, listed.stdout.split("\0")):
        try:
            yield name, (ROOT / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue


def test_no_tracked_file_points_outside_the_clone() -> None:
    # Folders of one person's machine, and siblings of the clone: no reader has them.
    outside = re.compile(r"(?<![\w.:/~-])/(?:work|root|tmp/w|opt/pypi|opt/wheels)/\w|\.\.[/]shared")
    found = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group()}"
        for name, text in tracked_text()
        if not name.startswith("docs/assets/vendor/")
        for match in outside.finditer(text)
    ]
    assert found == []


def test_no_tracked_file_still_waits_for_its_content() -> None:
    waiting = re.compile(r"real output goes her[e]|lorem ipsu[m]|\bTBD[:]")
    vendored = "docs/assets/vendor/"
    found = [n for n, text in tracked_text() if waiting.search(text) and vendored not in n]
    assert found == []


def pages() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("docs/**/*.md"))}


def snippet_name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def test_there_are_snippets() -> None:
    assert snippets()


@pytest.mark.parametrize("path", snippets(), ids=snippet_name)
def test_a_snippet_is_short_asks_a_question_and_is_shown(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= SNIPPET_LINES
    question = (ast.get_docstring(tree(path)) or "").partition("\n")[0]
    assert question.endswith("?"), f"its docstring begins {question!r}, which is no question"
    recorded = [
        node
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "lab.record"
    ]
    assert len(recorded) == 1, "it calls lab.record once"
    name = snippet_name(path)
    assert any(name in page for page in pages().values()), f"no page shows {name}"


class _AnyTag(yaml.SafeLoader):
    """mkdocs.yml names Python objects; here only its plain content matters."""


def _ignore_tag(loader: yaml.Loader, suffix: str, node: yaml.Node) -> None:
    return None


_AnyTag.add_multi_constructor("", _ignore_tag)


def nav_pages(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict):
        for value in entry.values():
            yield from nav_pages(value)
    else:
        for item in entry:
            yield from nav_pages(item)


def test_navigation_and_pages_agree() -> None:
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), Loader=_AnyTag)
    local = [page for page in nav_pages(settings["nav"]) if "://" not in page]
    assert [page for page in local if not (ROOT / "docs" / page).exists()] == []
    assert len(set(local)) == len(local), "a page stands twice in the navigation"
