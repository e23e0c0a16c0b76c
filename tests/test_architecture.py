"""The floor plan: which package may import which, who may know what, and a map of the files that is true."""

import ast
import graphlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# A package, or a file that lies beside them, imports only from rows above its own.
ROWS = [
    ["core.errors", "core.finding", "core.randomness", "core.status", "core.answers"],
    ["core.events"],
    ["core.config", "core.storage", "core.machine"],
    ["core.data"],
    ["core.model"],
    ["core.runs"],
    ["core.training", "core.drawing"],
    ["core.insight", "core.modes"],
    ["core.execution", "core.preflight"],
    ["core.transfer", "core.sweeps"],
    ["core.commands"],
    ["core.__main__"],
    ["dashboard.theme", "dashboard.wording"],
    ["dashboard.shell"],
    ["dashboard.charts"],
    ["dashboard.settings"],
    ["dashboard.models"],
    ["dashboard.train", "dashboard.draw", "dashboard.modes", "dashboard.runs", "dashboard.environment"],
    ["dashboard.app", "dashboard.__main__"],
]
ROW_OF = {name: row for row, names in enumerate(ROWS) for name in names}
WITHOUT_TORCH = [
    "core.config",
    "core.storage.atomic",
    "core.storage.archives",
    "core.storage.disk_use",
    "core.machine",
    "core.runs",
    "core.status",
    "core.events",
    "core.execution.process",
    "core.execution.readers",
    "core.execution.trainer",
    "core.execution.jobs",
    "dashboard.shell",
    "dashboard.settings",
    "dashboard.charts",
]
PATHS = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for folder in ("core", "dashboard")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
MODULES = {name: path for name, path in PATHS.items() if path.name != "__init__.py"}


def package_of(module: str) -> str:
    """What has a row: `core.runs.folder` lies in `core.runs`, `core.errors` stands for itself."""
    return ".".join(module.split(".")[:2])


def imported_names(path: Path) -> set[str]:
    """All that a file imports, at its top or later, as `package.module` and `package.module.name`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def imported_modules(path: Path) -> set[str]:
    """Those of the project's own modules that a file imports."""
    return {name for name in imported_names(path) if name in MODULES}


@pytest.mark.parametrize("module", MODULES)
def test_a_package_imports_only_from_rows_above(module: str):
    own = package_of(module)
    assert own in ROW_OF, f"give {own} a row"
    for other in imported_modules(MODULES[module]):
        package = package_of(other)
        assert package == own or ROW_OF[package] < ROW_OF[own], f"{module} imports {other} of the same or a lower row"


def test_no_circle_anywhere():
    graph = {module: imported_modules(path) - {module} for module, path in MODULES.items()}
    list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError with the circle


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("core.")])
def test_core_knows_no_user_interface(module: str):
    roots = {name.split(".")[0] for name in imported_names(MODULES[module])}
    assert not roots & {"streamlit", "plotly", "dashboard"}


def test_the_words_of_core_name_no_page():
    """A terminal and a server say them, too: what to do stands in the words, where to click is the page's."""
    for module, path in MODULES.items():
        if not module.startswith("core."):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                assert not re.search(r"\b(Train|Draw|Runs|Environment|Train/eval) page", node.value), f"{module}: {node.value}"


def test_only_the_execution_of_runs_and_jobs_knows_threads():
    threaded = [module for module, path in MODULES.items() if {"threading", "concurrent.futures"} & imported_names(path)]
    makers = [f"core.execution.{name}" for name in ("jobs", "process", "readers", "trainer")]
    assert threaded == [*makers, "core.machine.contention"]
    text = MODULES["core.machine.contention"].read_text(encoding="utf-8")
    assert {line for line in text.split() if line.startswith("threading.")} <= {
        "threading.get_native_id()",
        "threading.enumerate()}",
    }


def test_only_the_sessions_touch_streamlits_state_and_caches():
    for path in MODULES.values():
        text = path.read_text(encoding="utf-8")
        if not path.name.endswith("session.py"):
            assert not any(word in text for word in ("session_state", "cache_resource", "cache_data", "query_params[")), path


STREAMLIT_FREE = [
    path
    for pattern in ("*charts.py", "*figures.py", "pictures.py", "code.py", "theme.py", "wording.py", "policy.py")
    for path in sorted((ROOT / "dashboard").rglob(pattern))
]


@pytest.mark.parametrize("path", STREAMLIT_FREE, ids=lambda path: str(path.relative_to(ROOT)))
def test_figures_and_words_do_not_import_streamlit(path: Path):
    assert not any(name.startswith("streamlit") for name in imported_names(path))


def test_each_page_is_in_the_navigation():
    app = (ROOT / "dashboard" / "app.py").read_text(encoding="utf-8")
    named = re.findall(r'st\.Page\("(\w+/page\.py)"', app)
    assert sorted(named) == sorted(
        path.relative_to(ROOT / "dashboard").as_posix() for path in (ROOT / "dashboard").glob("*/page.py")
    )


def test_pages_begin_without_numbers():
    pages = sorted((ROOT / "dashboard").glob("*/page.py"))
    assert pages
    for path in pages:
        assert not {"torch", "numpy"} & imported_names(path), path


@pytest.mark.parametrize("package", WITHOUT_TORCH)
def test_what_the_first_page_needs_does_not_wait_for_torch(package: str):
    modules = [name for name in MODULES if name == package or name.startswith(f"{package}.")]
    assert modules
    script = f"import sys, {', '.join(modules)}; print([name for name in ('torch', 'torchvision') if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"


PACKAGES = {name.removesuffix(".__init__"): path for name, path in PATHS.items() if path.name == "__init__.py"}


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_maps_its_files(package: str):
    """Its docstring has a line for each file and folder in it, and no line for anything else."""
    folder = PACKAGES[package].parent
    docstring = ast.get_docstring(ast.parse(PACKAGES[package].read_text(encoding="utf-8"))) or ""
    listed = [line.split()[0].rstrip("/") for line in docstring.partition("\n\n")[2].splitlines()]
    there = {path.name for path in folder.iterdir() if path.suffix in (".py", ".js", ".npz") and path.name != "__init__.py"}
    there |= {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}
    assert sorted(listed) == sorted(there)
