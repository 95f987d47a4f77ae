"""Mutation testing of the modules that decide: `make mutate`.

mutmut changes one thing of a module at a time and runs the tests that reach it. A mutant that no test notices survives.
Each module has a folder of its own below out/mutation, in which mutmut keeps what it found. So a run that was stopped
goes on where it was, and a module that did not change costs a few runs of its tests. Survivors are tried again when a
test has changed; what was killed stays killed. Remove out/mutation to begin anew.

mutmut names a mutant by the path of its file. It therefore works in that folder, where each package of the repository
stands at the top.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from mutmut.mutation.diff_apply import get_diff_for_mutant

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out" / "mutation"
READ_BY_TESTS = ("charts", "crds", "examples")
# All mutants of a class stand in it side by side. Each `__init__` among them defines the attributes anew, which is no
# mistake of a mutant; nor is the comment with which a line that was mutated silences the checker.
TYPE_CHECK = (
    "mypy",
    f"--config-file={ROOT / 'pyproject.toml'}",
    f"--cache-dir={OUT / 'mypy'}",
    "--output=json",
    "--disable-error-code=unused-ignore",
    "--disable-error-code=no-redef",
)
PROGRAMS = Path(sys.executable).parent


class Verdict(StrEnum):
    KILLED = "killed"
    TIMEOUT = "timeout"
    SURVIVED = "survived"
    WORDING = "wording"
    """Survived, and changes a sentence that somebody reads."""
    REFUSED = "refused by types"
    NO_TESTS = "no tests"
    UNCHECKED = "not checked"


NOTICED = (Verdict.KILLED, Verdict.TIMEOUT, Verdict.REFUSED)
# mutmut's exit codes that mean something else than a mutant nobody has tried.
VERDICTS = {
    0: Verdict.SURVIVED,
    **dict.fromkeys((1, 3), Verdict.KILLED),
    **dict.fromkeys((5, 33), Verdict.NO_TESTS),
    **dict.fromkeys((-24, 24, 36, 152, 255), Verdict.TIMEOUT),
    37: Verdict.REFUSED,
}


@dataclass(frozen=True)
class Module:
    """A module of the repository, and the tests that are to notice a change of it."""

    path: Path
    tests: tuple[str, ...]

    @property
    def source(self) -> Path:
        """The path below its wing: justitia_operator/decide/serving.py."""
        return self.path.relative_to(self.path.parts[0])

    @property
    def folder(self) -> Path:
        return OUT / ".".join(self.source.with_suffix("").parts)

    @property
    def results(self) -> Path:
        return self.folder / "mutants" / f"{self.source}.meta"


def read_modules() -> list[Module]:
    """Return the modules of tools/mutate.toml, in its order."""
    groups = settings()["groups"]
    return [Module(Path(path), tuple(group["tests"])) for group in groups for path in group["modules"]]


def wings() -> list[str]:
    return list(project()["hatch"]["build"]["dev-mode-dirs"])


def project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"])


def settings() -> dict[str, Any]:
    return tomllib.loads((ROOT / "tools" / "mutate.toml").read_text())


def choose(modules: Sequence[Module], wanted: str) -> list[Module]:
    """Return the modules below a path, all where it is empty."""
    chosen = [module for module in modules if module.path.is_relative_to(wanted)] if wanted else list(modules)
    if not chosen:
        raise SystemExit(f"mutate: no module of tools/mutate.toml is {wanted}, or below it")
    return chosen


def link(path: Path, target: Path) -> None:
    if not path.is_symlink():
        path.symlink_to(target)


def prepare(module: Module) -> None:
    """Make the folder that mutmut works in. The tests of an earlier run go, or a deleted one would stay; so does what
    mutmut knows of which test reaches which function, or a new function would have none.
    """
    package = module.source.parts[0]
    (module.folder / "mutants").mkdir(parents=True, exist_ok=True)
    for folder in READ_BY_TESTS:
        link(module.folder / "mutants" / folder, ROOT / folder)
    link(module.folder / package, ROOT / module.path.parts[0] / package)
    link(module.folder / "tests", ROOT / "tests")
    shutil.rmtree(module.folder / "mutants" / "tests", ignore_errors=True)
    (module.folder / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    sections = {
        "pytest.ini_options": project()["pytest"]["ini_options"],
        "mutmut": {
            **settings()["mutmut"],
            "source_paths": [package],
            "only_mutate": [str(module.source)],
            "pytest_add_cli_args_test_selection": list(module.tests),
            "type_check_command": [*TYPE_CHECK, str(module.source)],
        },
    }
    (module.folder / "pyproject.toml").write_text("\n".join(toml(name, values) for name, values in sections.items()))


def toml(name: str, values: Mapping[str, object]) -> str:
    """Write a section of TOML: JSON's strings, numbers, lists and booleans are TOML's."""
    return f"[tool.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


def fingerprint(tests: Sequence[str]) -> str:
    """Return what differs when a test has changed."""
    paths = [ROOT / test for test in tests]
    files = sorted({file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))})
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def forget_survivors(module: Module) -> None:
    """Have what is not killed tried again if tests have changed since."""
    seen = module.folder / "tests.sha256"
    found = fingerprint(module.tests)
    if module.results.exists() and seen.exists() and seen.read_text() != found:
        kept = json.loads(module.results.read_text())
        kept["exit_code_by_key"] = {
            name: None if verdict(code) in (Verdict.SURVIVED, Verdict.NO_TESTS) else code
            for name, code in kept["exit_code_by_key"].items()
        }
        module.results.write_text(json.dumps(kept))
    seen.write_text(found)


def verdict(code: int | None) -> Verdict:
    return Verdict.UNCHECKED if code is None else VERDICTS.get(code, Verdict.UNCHECKED)


def verdicts(module: Module) -> dict[str, Verdict]:
    """Return the mutants by name; none where mutmut has not been."""
    if not module.results.exists():
        return {}
    found = {name: verdict(code) for name, code in json.loads(module.results.read_text())["exit_code_by_key"].items()}
    return {
        name: Verdict.WORDING if each is Verdict.SURVIVED and is_wording(diff(module, name)) else each
        for name, each in found.items()
    }


def is_wording(changed: Sequence[str]) -> bool:
    """Tell whether a diff changes only how a sentence is spelt: mutmut puts XX around it, or changes its case."""
    lines = [line[1:].split('"') for line in changed if line.startswith(("-", "+")) and line[:3] not in ("---", "+++")]
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        return False
    differing = [(old, new) for old, new in zip(*lines, strict=True) if old != new]
    return all(" " in old and new.replace("XX", "").casefold() == old.casefold() for old, new in differing)


def run(module: Module) -> None:
    print(f"\n{module.path}", flush=True)
    prepare(module)
    forget_survivors(module)
    environment = os.environ | {
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
        "MYPYPATH": os.pathsep.join([".", *(str(ROOT / wing) for wing in wings() if wing != module.path.parts[0])]),
    }
    outcome = subprocess.run([PROGRAMS / "mutmut", "run"], cwd=module.folder, check=False, env=environment)
    if outcome.returncode:
        raise SystemExit(f"mutate: mutmut failed for {module.path} with exit status {outcome.returncode}; see above")


def diff(module: Module, mutant: str) -> list[str]:
    with chdir(module.folder):
        return get_diff_for_mutant(mutant, path=module.source).splitlines()


def score(counts: Mapping[Verdict, int]) -> str:
    """Return the part that was noticed, of all but wording."""
    judged = sum(counts.values()) - counts.get(Verdict.WORDING, 0)
    return f"{sum(counts.get(each, 0) for each in NOTICED) / judged:.1%}" if judged else ""


def scores(found: Mapping[Module, Mapping[str, Verdict]]) -> list[str]:
    """Return a table of the modules in Markdown."""
    lines = [
        f"| module | mutants | {' | '.join(Verdict)} | score |",
        f"|---|{'---:|' * (len(Verdict) + 2)}",
    ]
    for module, by_name in found.items():
        counts = Counter(by_name.values())
        columns = " | ".join(str(counts[each]) for each in Verdict)
        lines.append(f"| `{module.path}` | {len(by_name)} | {columns} | {score(counts)} |")
    return lines


def summary(found: Mapping[Module, Mapping[str, Verdict]], path: Path) -> str:
    """Return a line with the score of all modules together, what is left, and where that is shown."""
    counts = Counter(each for by_name in found.values() for each in by_name.values())
    if not counts:
        return "mutate: nothing was tried yet"
    left = [
        f"{counts[each]} {each}" for each in (Verdict.SURVIVED, Verdict.NO_TESTS, Verdict.UNCHECKED) if counts[each]
    ]
    of_all = f"of {counts.total()} mutants {score(counts)} were noticed, {counts[Verdict.WORDING]} of wording left out"
    return f"mutate: {of_all}; {', '.join(left) or 'none survived'}: see {path.relative_to(ROOT)}"


def report(found: Mapping[Module, Mapping[str, Verdict]]) -> str:
    lines = ["# Mutation testing", "", *scores(found)]
    for module, by_name in found.items():
        for name, how in by_name.items():
            if how in (Verdict.SURVIVED, Verdict.NO_TESTS):
                lines += ["", f"## {name}: {how}", "", "```diff", *diff(module, name), "```"]
    return "\n".join(lines) + "\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description="Mutation testing of the modules that decide")
    arguments.add_argument("module", nargs="?", default="", help="a module, or a folder of modules; all without it")
    arguments.add_argument("--report", action="store_true", help="only report what was found so far")
    asked = arguments.parse_args()
    modules = choose(read_modules(), asked.module)
    for module in () if asked.report else modules:
        run(module)
    found, path = {module: verdicts(module) for module in modules}, OUT / "report.md"
    OUT.mkdir(parents=True, exist_ok=True)
    path.write_text(report(found))
    print("", *scores(found), "", summary(found, path), sep="\n")


if __name__ == "__main__":
    main()
