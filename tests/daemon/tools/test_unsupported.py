"""Features that a database has no store for: one clear error, from the configuration and from each command."""

import subprocess
from pathlib import Path

import httpx
import pytest

from schemas.checking.dsn import DSN_FORMS, Feature
from tests.support.processes import Daemon, here, running, triggerlog

MONGODB = '[database]\ndsn = "mongodb://127.0.0.1:1"\n'
"""Nobody listens there: what is refused is refused before anything is asked."""
BUTTONS = "channels = [{ name = 'top_in' }, { name = 'bot_in' }, { name = 'bot_out' }, { name = 'top_out' }]\n"
GROUP = "[[groups]]\nname = 'bpm'\ncount = 3\n" + BUTTONS
FIX = "name a PostgreSQL, MariaDB or MySQL in `database.dsn`, or do without"
ASKING = {
    "conditions": ("conditions", "[conditions]\nserve = true\n"),
    "a place of conditions": ("conditions", "[conditions]\nport = 9000\n"),
    "a tag": ("conditions", "[conditions]\ntag = 'A'\npayloads = 'payloads'\n"),
    "folders": ("folders", "[folders]\nserve = true\n"),
    "decimation": ("decimation", "[decimation]\nafter_days = 9\nbucket_s = 10\n"),
    "tiers": ("tiers", "[[tiers]]\nname = 'fast'\nmax_gib = 1\n[[tiers]]\nname = 'slow'\ntablespace = 'slow'\n"),
}
OF_A_GROUP = {
    "folder": ("folders", "groups[0].folder", "folder = '/magnets'\n"),
    "decimation": ("decimation", "groups[0].decimation", "decimation = { after_days = 9, bucket_s = 10 }\n"),
    "payload_type": ("conditions", "groups[0].payload_type", "payload_type = 'bpm'\n"),
}
COMMANDS = {
    "conditions serve FILE": "conditions",
    "conditions tags FILE": "conditions",
    "conditions add-tag A FILE": "conditions",
    "export FILE --group bpm --output OUT --calibrated A": "conditions",
    "decimation plan FILE": "decimation",
    "decimation list FILE": "decimation",
    "tiers plan FILE": "tiers",
    "tiers list FILE": "tiers",
    "tiers move FILE bpm 20260101 slow": "tiers",
    "folders list FILE": "folders",
    "folders add /magnets --column x:float64 FILE": "folders",
    "export FILE --folder /magnets --output OUT": "folders",
    "snapshots run FILE": "folders",
    "bench --only conditions --backend mongodb --output OUT.html": "conditions",
    "snapshots run --dsn mongodb://127.0.0.1:1 --folder OUT": "folders",
}


def words(feature: str, field: str) -> str:
    return f"{field}: triggerlog has no {feature} in MongoDB; {FIX}"


def written(folder: Path, text: str) -> str:
    file = folder / "beam.toml"
    file.write_text(text)
    return str(file)


def failure(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr.strip().removeprefix("triggerlog: ")


@pytest.mark.parametrize("case", ASKING)
def test_check_config_names_the_section_and_the_databases_that_have_it(case: str, tmp_path: Path) -> None:
    feature, section = ASKING[case]
    file = written(tmp_path, GROUP + MONGODB + section)
    assert failure(here("check-config", file)) == words(feature, feature)


@pytest.mark.parametrize("case", OF_A_GROUP)
def test_check_config_names_the_field_of_a_group(case: str, tmp_path: Path) -> None:
    feature, field, text = OF_A_GROUP[case]
    file = written(tmp_path, GROUP + text + MONGODB)
    assert failure(here("check-config", file)) == words(feature, field)


def test_check_config_names_all_that_is_asked_for_at_once(tmp_path: Path) -> None:
    text = GROUP + MONGODB + "".join(section for name, (_, section) in ASKING.items() if name in set(Feature))
    said = failure(here("check-config", written(tmp_path, text)))
    assert sorted(said.splitlines()) == sorted(words(feature, feature) for feature in Feature)


@pytest.mark.parametrize("case", ASKING)
def test_a_daemon_does_not_start(case: str, tmp_path: Path) -> None:
    feature, section = ASKING[case]
    file = written(tmp_path, GROUP + MONGODB + section)
    assert failure(triggerlog("run", file)) == words(feature, feature)
    assert not (tmp_path / "state").exists()


def test_sections_that_ask_for_nothing_are_taken(tmp_path: Path) -> None:
    text = GROUP + MONGODB + "[conditions]\nserve = false\n[folders]\n[decimation]\n"
    done = here("check-config", "--offline", written(tmp_path, text))
    assert done.returncode == 0, done


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_which_databases_have_it(command: str, tmp_path: Path) -> None:
    file = written(tmp_path, GROUP + MONGODB)
    out = str(tmp_path / "out.h5")
    # A process of its own for what waits for signals, and for what becomes another program.
    run = triggerlog if command.startswith(("export", "bench")) else here
    done = run(*(word.replace("FILE", file).replace("OUT", out) for word in command.split()))
    assert failure(done) == words(COMMANDS[command], COMMANDS[command])


def test_a_daemon_answers_as_if_it_was_not_configured(tmp_path: Path, mongodb_dsn: str, schema: str) -> None:
    group = GROUP.replace("count = 3", "count = 3\nlayout = 'arrays'")
    listeners = "[[sources]]\nkind = 'tcp'\nport = 0\n[api]\nport = 0\n"
    file = written(tmp_path, f"{group}{listeners}[database]\ndsn = '{mongodb_dsn}'\nschema = '{schema}'\n")
    with running("run", file) as run:
        daemon = Daemon(run, Path(file))
        status = daemon.status()
        assert [status[name] for name in ("conditions", "decimation", "snapshots")] == [None] * 3
        refused = f"{daemon.api} answers"
        said = failure(here("folders", "list", "--daemon", daemon.api))
        assert said.startswith(f"{refused} 409: folders.serve: the daemon serves no folders; ")
        token = str(tmp_path / "state" / "api-token")
        said = failure(here("snapshots", "start", "--daemon", daemon.api, "--token-file", token))
        assert said == f"{refused} 422: {words('folders', 'folders')}"
        params = {"instrument": 0, "calibrated": True}
        calibrated = httpx.get(f"{daemon.api}/api/v1/groups/bpm/readings", params=params, trust_env=False)
        assert (calibrated.status_code, calibrated.json()["field"]) == (409, "conditions.payloads")
        assert run.end() == 0, run.said


def test_every_feature_is_a_section_that_some_databases_have() -> None:
    for feature in Feature:
        assert [form.title for form in DSN_FORMS.values() if feature not in form.lacks] == [
            "PostgreSQL",
            "MariaDB or MySQL",
        ]
