"""`inferlab site`: what it prints, and its exit status."""

import pytest
from site_project import Project

from inferlab.cli import site as command
from inferlab.errors import InferlabError


def test_build_then_verify(project: Project) -> None:
    done = project.run("-m", "inferlab", "site", "build", "--execute", "never", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "site: 2 pages with 2 records of this machine, all checks passed" in done.stdout
    assert "WARNING" not in done.stderr
    assert project.run("-m", "inferlab", "site", "verify").returncode == 0


def test_a_build_that_fails_says_so_without_a_traceback(project: Project) -> None:
    project.page("index.md", '# x\n\n{{ value("no/such", "x") }}\n')
    done = project.run("-m", "inferlab", "site", "build", "--site-dir", "elsewhere")
    assert done.returncode == 1
    assert "index.md: {{ value(" in done.stderr
    assert done.stderr.rstrip().endswith("error: the site was not built; see above")
    assert "Traceback" not in done.stderr


def test_no_strict_lets_warnings_pass(project: Project) -> None:
    config = project.root / "mkdocs.yml"
    text = config.read_text().replace("omitted_files: info", "omitted_files: warn")
    config.write_text(text + "\nnav:\n  - Home: index.md\n")
    project.page("omitted.md", "# Omitted\n")
    assert project.run("-m", "inferlab", "site", "build").returncode == 1
    assert project.run("-m", "inferlab", "site", "build", "--no-strict").returncode == 0


def test_a_damaged_configuration_is_one_line(project: Project) -> None:
    (project.root / "mkdocs.yml").write_text("theme: {name: nosuch}\nsite_name: x\n")
    done = project.run("-m", "inferlab", "site", "build")
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr


def test_verify_names_each_problem(project: Project) -> None:
    project.build().check_returncode()
    page = project.site / "index.html"
    page.write_text(page.read_text().replace("</article>", '<a href="gone">x</a></article>'))
    done = project.run("-m", "inferlab", "site", "verify", str(project.site))
    assert done.returncode == 1
    assert "index.html: the link gone leads to nothing in the site" in done.stderr
    assert f"error: 1 problem(s) in {project.site}" in done.stderr


def test_outside_a_clone_or_without_mkdocs_it_says_what_to_do(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project.root)
    (project.root / "mkdocs.yml").rename(project.root / "pyproject.toml")
    with pytest.raises(InferlabError, match="the site is built from a clone"):
        command._prepare(None, None, None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InferlabError, match=r"pip install -e '.\[docs\]'"):
        command._prepare(None, None, None)
