"""The import rows of core, and who may know what."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROWS = [
    {"errors", "files", "records", "answers", "anomaly", "model_fit"},
    {"config", "events", "hardware", "randomness", "run_notes", "disk_use", "archives", "drawing_limits", "installation"},
    {"presets", "data", "models", "metrics", "schedule", "drawing", "segments", "jobs", "safe_load", "touching", "gpu_check"},
    {"batches", "download", "paper_lines", "sheet", "pins", "measures"},
    {"evaluation", "picture"},
    {"train_loop", "checkpoints", "digit_image", "lesson"},
    {"run_store", "predictor"},
    {"saved_state", "weight_files", "run_reader", "preflight", "snapshots", "findings", "modes", "insight"},
    {"fork", "run_script", "run_index", "run_bin", "run_files", "run_zip", "disagreement", "time_left"},
    {"run_search"},
    {"mode_scores", "shift", "batch_statistics", "dropout_passes", "mode_gap"},
    {"mode_costs", "twin_trainings"},
    {"recorded_run", "imported", "proofs"},
    {"trainer"},
    {"sweep"},
    {"__main__"},
]
# Within a row a module may use the ones named here, which use nothing of that row themselves.
WITHIN_ROW = {("hardware", "events")}
ROW_OF = {name: row for row, names in enumerate(ROWS) for name in names}
CORE = sorted((ROOT / "core").glob("*.py"))
SOURCES = [*CORE, *sorted((ROOT / "dashboard").rglob("*.py"))]


def imported_modules(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@pytest.mark.parametrize("path", [path for path in CORE if path.stem != "__init__"], ids=lambda path: path.stem)
def test_core_imports_only_lower_rows_and_no_user_interface(path: Path):
    assert path.stem in ROW_OF, f"give core/{path.name} a row"
    for module in imported_modules(path):
        parts = module.split(".")
        assert parts[0] not in ("streamlit", "plotly", "dashboard"), f"core/{path.name} imports {module}"
        if parts[0] == "core" and len(parts) > 1 and parts[1] in ROW_OF and parts[1] != path.stem:
            lower = ROW_OF[parts[1]] < ROW_OF[path.stem] or (path.stem, parts[1]) in WITHIN_ROW
            assert lower, f"core/{path.name} imports {module} of the same or a higher row"


def test_only_the_trainer_and_its_jobs_know_threads():
    assert [path.name for path in SOURCES if {"threading", "concurrent.futures"} & imported_modules(path)] == [
        "jobs.py", "trainer.py",
    ]  # fmt: skip


def test_only_the_sessions_touch_streamlits_state_and_caches():
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        if not path.name.endswith("session.py"):
            assert not any(word in text for word in ("session_state", "cache_resource", "cache_data", "query_params[")), path


def test_charts_and_theme_do_not_import_streamlit():
    for name in ("charts", "draw_charts", "modes_charts", "modes_code", "pictures", "runs_charts", "theme"):
        assert not any(module.startswith("streamlit") for module in imported_modules(ROOT / "dashboard" / f"{name}.py"))


def test_views_do_no_tensor_arithmetic():
    for path in (ROOT / "dashboard" / "views").glob("*.py"):
        assert not {"torch", "numpy"} & imported_modules(path), path


@pytest.mark.parametrize("module", ["core.trainer", "core.config", "core.run_store", "core.run_reader", "core.preflight"])
def test_what_the_first_page_needs_does_not_wait_for_torch(module: str):
    script = f"import sys, {module}; print([name for name in ('torch', 'torchvision', 'streamlit') if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
