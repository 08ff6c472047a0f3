"""The store of runs: `perfkit-runs/<UTC time>_<what>/`, one folder a run.

Everything in a run folder lands by rename and `run.json` last, so a run that was killed is a folder without
`run.json`: it is listed as incomplete, and never read as a result. Folders are named by the time they were
made, so their names sort by time; making the folder is what claims the name, so two runs never share one.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from perfkit.errors import CannotError, UsageError
from perfkit.model import GpuInfo, KernelRun, RunRecord, Verification
from perfkit.model.runs import SCHEMA_VERSION
from perfkit.user_file import read_text

RECORD = "run.json"
INCOMPLETE = "incomplete"
LISTING = "list"  # what a run is that only counted launches
_ENOUGH_BYTES = 64 * 2**20  # a ladder's reports take under 6 MB; a full-set capture of a program some tens


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A folder of the store. `record` is None where the run never finished, or `problem` says why not."""

    path: Path
    record: RunRecord | None
    problem: str = ""

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def status(self) -> str:
        return self.record.status if self.record else INCOMPLETE


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run being made. Files are written under `scratch` and move to `path` when they are whole."""

    path: Path
    scratch: Path

    @property
    def id(self) -> str:
        return self.path.name

    def keep(self, name: str) -> Path:
        """Move a whole file from the scratch folder into the run. Returns its new path."""
        target = self.path / name
        (self.scratch / name).replace(target)
        return target

    def finish(self, record: RunRecord) -> Path:
        """Write run.json, which makes the run count, and drop the scratch folder. Returns run.json's path."""
        target = self.path / RECORD
        _write_json(target, record_to_dict(record))
        shutil.rmtree(self.scratch, ignore_errors=True)
        return target


def default_root() -> Path:
    """$PERFKIT_RUNS, else ./perfkit-runs."""
    return Path(os.environ.get("PERFKIT_RUNS") or "perfkit-runs").absolute()


def recorded_root() -> Path:
    """The runs that ship with the package."""
    return Path(__file__).resolve().parent.parent / "data" / "recorded"


class RunStore:
    """The runs under `root`; the folder is made at the first `create`."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or default_root()

    def create(self, what: str) -> RunFolder:
        """Claim a new run folder. Raises CannotError when the store cannot be written or the disk is full."""
        check_writable(self.root)
        moment = datetime.now(UTC)
        while True:
            path = self.root / f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03}Z_{what}"
            try:
                path.mkdir()
                break
            except FileExistsError:
                moment += timedelta(milliseconds=1)
            except OSError as error:
                raise _unwritable(self.root, error) from error
        scratch = path / ".scratch"
        scratch.mkdir()
        return RunFolder(path, scratch)

    def list(self) -> list[StoredRun]:
        """Every run folder, oldest first, the incomplete ones among them."""
        return runs_under(self.root)

    def latest(self, what: str | None = None) -> Path:
        """The newest complete run of a kind; of any that measured, if None. Raises UsageError for none."""
        for run in reversed(self.list()):
            if run.record is None or run.record.status != "complete":
                continue
            if run.record.what == what or (what is None and run.record.what != LISTING):
                return run.path
        kind = f"{what} " if what else ""
        raise UsageError(
            f"there is no complete {kind}run in {self.root}",
            "Make one with `perfkit profile ...`, or use the one that ships with perfkit: `recorded`.",
        )


def check_writable(root: Path, needed: int = _ENOUGH_BYTES) -> None:
    """Find out before a long run that its results could not be kept.

    Raises CannotError when `root` cannot be made or written, or has less than `needed` bytes free.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=root, prefix=".perfkit-write-test-"):
            pass
        free = shutil.disk_usage(root).free
    except OSError as error:
        raise _unwritable(root, error) from error
    if free < needed:
        raise CannotError(
            f"{root}: only {free // 2**20} MiB are free on this disk, a run needs {needed // 2**20} MiB",
            "Free some space, or set PERFKIT_RUNS to a folder on another disk.",
        )


def _unwritable(root: Path, error: OSError) -> CannotError:
    why = "the disk is full" if error.errno == errno.ENOSPC else (error.strerror or str(error))
    return CannotError(
        f"{root}: the run cannot be stored there: {why}",
        "Work in a folder you can write to, or set PERFKIT_RUNS to one.",
    )


def runs_under(folder: Path) -> list[StoredRun]:
    """The runs in a folder of run folders, oldest first. Folders that are no runs are left out."""
    if not folder.is_dir():
        return []
    found = []
    for path in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
        if (path / RECORD).is_file():
            try:
                found.append(StoredRun(path, load_run(path)))
            except UsageError as error:
                found.append(StoredRun(path, None, error.message))
        elif (path / ".scratch").is_dir():
            found.append(StoredRun(path, None, "it was ended before it finished, or is still going on"))
    return found


def load_run(path: Path) -> RunRecord:
    """Read `run.json` of a run folder.

    Raises UsageError when it is not there, damaged, or of a newer perfkit.
    """
    file = path / RECORD
    try:
        raw = json.loads(read_text(file))
    except FileNotFoundError as error:
        raise UsageError(
            f"{path} is no complete run: it has no {RECORD}",
            "The run was ended before it finished, or is still going on. `perfkit runs` lists the store.",
        ) from error
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file} cannot be read: {error}", "The file is damaged: make the run again."
        ) from error
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if not isinstance(version, int) or version > SCHEMA_VERSION:
        raise UsageError(
            f"{file}: schema version {version}, this perfkit reads up to {SCHEMA_VERSION}",
            "Read it with the perfkit that wrote it, or a newer one.",
        )
    try:
        return dataclasses.replace(record_from_dict(raw), path=str(path))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{file} is no run record: {type(error).__name__}: {error}",
            "The file is damaged: make the run again.",
        ) from error


def resolve_run(text: str, root: Path | None = None) -> Path:
    """The folder that `text` means: a path, `latest`, `recorded`, a run id, or the start of just one id.

    The folder is a run (it has run.json) or a collection (a folder of run folders). Raises UsageError
    otherwise.
    """
    store = RunStore(root)
    if text == "latest":
        return store.latest()
    if text == "recorded":
        return _recorded()
    path = Path(text)
    if path.is_dir():
        if (path / RECORD).is_file() or runs_under(path):
            return path.absolute()
        raise UsageError(
            f"{text} is no run: it has no {RECORD}, and no run folders in it",
            "Give a run folder, an id that `perfkit runs` lists, `latest` or `recorded`.",
        )
    runs = [*runs_under(recorded_root()), *store.list()]
    matches = [run for run in runs if run.id == text] or [run for run in runs if run.id.startswith(text)]
    if len(matches) == 1:
        return matches[0].path
    if matches:
        listed = ", ".join(run.id for run in matches[:4])
        raise UsageError(f"{text!r} is the start of {len(matches)} runs: {listed}", "Give more of the id.")
    raise UsageError(
        f"there is no run {text!r} in {store.root}",
        "Give a run folder, an id that `perfkit runs` lists, `latest` or `recorded`.",
    )


def _recorded() -> Path:
    """One recorded run stands for itself, several are a collection."""
    runs = runs_under(recorded_root())
    if not runs:
        raise UsageError(
            "this perfkit was installed without its recorded runs", "Reinstall it, or name a run."
        )
    return runs[0].path if len(runs) == 1 else recorded_root()


def run_folders(path: Path) -> list[Path]:
    """The complete runs that `path` stands for: itself, or those in a collection."""
    if (path / RECORD).is_file():
        return [path]
    return [run.path for run in runs_under(path) if run.record]


def run_reports(path: Path) -> list[Path]:
    """The .ncu-rep files of a run folder, as its record lists them; of all its runs for a collection."""
    return [run / name for run in run_folders(path) for name in load_run(run).reports]


def record_to_dict(record: RunRecord) -> dict[str, Any]:
    """As `run.json` holds it. The folder's own path is left out: a run can be moved."""
    raw: dict[str, Any] = _plain(record)
    del raw["path"]
    return raw


def _plain(value: Any) -> Any:
    # dataclasses.asdict deep-copies, and read-only mappings cannot be copied.
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def record_from_dict(raw: Mapping[str, Any]) -> RunRecord:
    """The inverse of `record_to_dict`; fields this version does not know are kept in `extra`."""
    known = {field.name for field in dataclasses.fields(RunRecord)}
    fields = {name: value for name, value in raw.items() if name in known}
    unknown = {name: value for name, value in raw.items() if name not in known}
    fields["kernels"] = tuple(_kernel(entry) for entry in raw["kernels"])
    if fields.get("gpu"):
        gpu = dict(fields["gpu"])
        gpu["compute_capability"] = tuple(gpu["compute_capability"])
        fields["gpu"] = GpuInfo(**_only(GpuInfo, gpu))
    for name in ("command", "reports", "samples", "results", "messages"):
        if name in fields:
            fields[name] = tuple(fields[name])
    fields["extra"] = {**fields.get("extra", {}), **unknown}
    return RunRecord(**fields)


def _kernel(raw: Mapping[str, Any]) -> KernelRun:
    fields = _only(KernelRun, raw)
    if fields.get("verification"):
        fields["verification"] = Verification(**_only(Verification, fields["verification"]))
    return KernelRun(**fields)


def _only(kind: type, raw: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.name for field in dataclasses.fields(kind)}
    return {name: value for name, value in raw.items() if name in known}


def _write_json(target: Path, value: Mapping[str, Any]) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as stream:
            json.dump(value, stream, indent=1, ensure_ascii=False)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _unwritable(target.parent, error) from error
