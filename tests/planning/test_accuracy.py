"""The accuracy command: what it predicts, how it scores, and what it says of a file that it cannot use."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fastmode.cli import main
from planning.accuracy import read, score
from service.closed_loop import tpot
from service.roofline import Deployment, fold
from service.tiers import load

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "silicon_tpot.csv"
CATALOG = load()
COLUMNS = ",".join(
    (
        "model,chip,precision,engine,tensor_parallel,batch,input_tokens,output_tokens",
        "dense_bytes,expert_bytes,kv_bytes,tpot_ms",
    )
)
ROW = "llama-70b,h100,fp8,vllm,4,{batch},1000,500,1,1,1,{tpot}"


def predicted(batch: float) -> float:
    """Milliseconds per token of the rows that ROW makes."""
    step = fold(CATALOG.accelerators["h100"], CATALOG.architectures["llama-70b"], Deployment(tensor_parallel=4))
    return 1e3 * tpot(step, batch, 1000, 500)


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def accuracy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """The command as its entry point runs it, in this process: importing a plotting library takes a second."""

    def run(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["fastmode", "accuracy", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        return Done(int(left.value.code or 0), *capsys.readouterr())

    return run


def file(directory: Path, *rows: str, columns: str = COLUMNS) -> Path:
    path = directory / "measured.csv"
    path.write_text("\n".join((columns, *rows)) + "\n")
    return path


def test_the_error_is_that_of_the_speed_and_its_sign_says_too_fast_or_too_slow(tmp_path: Path) -> None:
    rows = [ROW.format(batch=8, tpot=1.2 * predicted(8)), ROW.format(batch=64, tpot=0.9 * predicted(64))]
    scores = score(read(file(tmp_path, *rows), CATALOG).points)
    assert scores.overall.n == 2
    assert scores.overall.mape == pytest.approx(0.15)
    assert scores.overall.bias == pytest.approx(0.05)
    assert scores.overall.mape_time == pytest.approx((1 - 1 / 1.2 + 1 / 0.9 - 1) / 2)
    assert set(scores.by["batch"]) == {"8-15", "64-127"}
    assert scores.by["model"]["llama-70b"][0] == scores.overall


def test_a_calibrated_curve_is_scored_on_the_points_that_did_not_calibrate_it(tmp_path: Path) -> None:
    """The factor of batch 16 is 2; batch 32 then errs by a tenth, and a curve without batch 16 is not scored."""
    rows = [
        ROW.format(batch=16, tpot=2 * predicted(16)),
        ROW.format(batch=32, tpot=2.2 * predicted(32)),
        ROW.replace("vllm", "sglang").format(batch=8, tpot=7 * predicted(8)),
    ]
    scores = score(read(file(tmp_path, *rows), CATALOG).points)
    assert scores.calibrated is not None
    assert (scores.calibrated.n, scores.calibrated_curves, scores.curves) == (1, 1, 2)
    assert scores.calibrated.mape == pytest.approx(0.1)
    assert scores.by["engine"]["sglang"][1] is None


def test_a_point_beyond_the_cache_is_predicted_with_what_fits(tmp_path: Path) -> None:
    rows = [ROW.format(batch=batch, tpot=10) for batch in (1e5, 2e5)]
    points = read(file(tmp_path, *rows), CATALOG).points
    assert points[0].predicted == points[1].predicted


def test_columns_may_stand_in_any_order_among_others_and_the_optional_ones_may_lack(tmp_path: Path) -> None:
    columns = "note,tpot_ms,kv_bytes,dense_bytes,output_tokens,input_tokens,batch,chip,model"
    path = file(tmp_path, "x,20,1,1,500,1000,4,b200,llama-8b", columns=columns)
    (point,) = read(path, CATALOG).points
    assert (point.architecture.name, point.deployment) == ("llama-8b", Deployment())


def test_rows_that_the_catalog_does_not_know_are_left_out_and_counted(
    accuracy: Callable[..., Done], tmp_path: Path
) -> None:
    rows = [ROW.format(batch=4, tpot=10), ROW.replace("llama-70b", "llama-9").format(batch=4, tpot=10)]
    done = accuracy(file(tmp_path, *rows))
    assert done.returncode == 0
    assert "the catalog has no architecture 'llama-9'" in done.stdout
    assert "Not predicted" in done.stdout


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (ROW.format(batch="many", tpot=10), "line 3, batch is 'many'; it must be a number above 0"),
        (ROW.format(batch=4, tpot=-1), "line 3, tpot_ms is '-1'"),
        (ROW.format(batch=4, tpot="nan"), "line 3, tpot_ms is 'nan'"),
        (ROW.replace("vllm,4", "vllm,4.5").format(batch=4, tpot=10), "line 3, tensor_parallel is 4.5"),
    ],
)
def test_a_wrong_value_is_named_with_its_line_and_column(
    accuracy: Callable[..., Done], tmp_path: Path, row: str, complaint: str
) -> None:
    done = accuracy(file(tmp_path, ROW.format(batch=4, tpot=10), row))
    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("columns", "rows", "complaint"),
    [
        (COLUMNS.replace("batch,", ""), [], "the header lacks batch"),
        (COLUMNS, [], "no row can be predicted, of 0"),
        (COLUMNS, [ROW.replace("h100", "abacus").format(batch=4, tpot=1)], "the catalog has no accelerator 'abacus'"),
    ],
)
def test_a_file_of_which_nothing_can_be_predicted_is_refused(
    accuracy: Callable[..., Done], tmp_path: Path, columns: str, rows: list[str], complaint: str
) -> None:
    done = accuracy(file(tmp_path, *rows, columns=columns))
    assert done.returncode == 2
    assert complaint in done.stderr


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_a_plot_is_saved_as_its_ending_says_and_the_same_each_time(
    accuracy: Callable[..., Done], tmp_path: Path, ending: str
) -> None:
    measured = file(tmp_path, *(ROW.format(batch=batch, tpot=10) for batch in (4, 16, 64)))
    first, second = (tmp_path / f"{name}.{ending}" for name in ("first", "second"))
    for path in (first, second):
        assert accuracy(measured, "--plot", path).returncode == 0
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size > 5000


def test_a_plot_that_cannot_be_saved_is_refused_before_the_work(accuracy: Callable[..., Done], tmp_path: Path) -> None:
    measured = file(tmp_path, ROW.format(batch=4, tpot=10))
    for plot, complaint in ((tmp_path / "plot.bmp", "svg, png, pdf"), (tmp_path / "no" / "plot.svg", "no directory")):
        done = accuracy(measured, "--plot", plot)
        assert (done.returncode, done.stdout) == (2, "")
        assert complaint in done.stderr


def test_published_measurements_are_met_with_the_errors_that_the_readme_states(accuracy: Callable[..., Done]) -> None:
    if not SHARED.exists():
        pytest.skip(f"{SHARED} is not here: the measurements do not ship with the repository")
    done = accuracy(SHARED, "--json")
    scores = json.loads(done.stdout)
    overall, calibrated = scores["overall"], scores["calibrated"]
    assert (overall["n"], calibrated["n"], scores["skipped"]) == (1719, 1251, [])
    assert overall["mape"] == pytest.approx(0.153, abs=5e-4)
    assert overall["median"] == pytest.approx(0.113, abs=5e-4)
    assert calibrated["mape"] == pytest.approx(0.080, abs=5e-4)
    assert calibrated["median"] == pytest.approx(0.052, abs=5e-4)
    assert scores["active_bytes"]["mape_time"] == pytest.approx(0.877, abs=5e-4)
    assert scores["per_layer"]["mape_time"] == pytest.approx(0.514, abs=1e-3)
