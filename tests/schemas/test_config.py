"""schemas.config: every wrong setting is named by its field, in plain words, with its fix."""

import tomllib

import pytest

from schemas.config import ConfigError, parse_config
from schemas.config.decimation import decimation_of
from schemas.decimation import Bucket, Every, Reduction

GROUP = """
[[groups]]
name = "bpm"
count = 3
channels = [{ name = "x", unit = "mm" }]
"""
TIERS = (
    GROUP
    + """
[[tiers]]
name = "fast"
[[tiers]]
name = "slow"
tablespace = "slow"
after_days = 30
"""
)
ON_MARIADB = (
    TIERS.replace('tablespace = "slow"', 'directory = "/mnt/slow"')
    + '[database]\ndsn = "mysql://a@b"\npassword_env = "P"'
)
DSNS = (
    "write postgresql://user@host:port/name, mysql://user@host:port or mongodb://user@host:port, "
    "or leave it out for the embedded PostgreSQL"
)


def said(text: str) -> list[str]:
    """Parse a configuration that is wrong and return what is said of it, a line a problem."""
    with pytest.raises(ConfigError) as refused:
        parse_config(text)
    return [str(problem) for problem in refused.value.problems]


@pytest.mark.parametrize("policy", ["access", "both"])
def test_access_moves_partitions_where_the_server_counts_reads_and_where_our_readers_do(policy: str) -> None:
    tiering = f'\n[tiering]\npolicy = "{policy}"\n'
    for tiers in (TIERS, ON_MARIADB):
        text = tiers.replace('"fast"', '"fast"\nmax_gib = 9')
        text = text if policy == "both" else text.replace("after_days = 30", "")
        assert parse_config(text + tiering).tiering.policy == policy


def test_the_least_configuration_has_the_defaults_of_the_design() -> None:
    config = parse_config(GROUP)
    assert [(source.kind, source.port) for source in config.sources if source.kind != "simulated"] == [("tcp", 8122)]
    assert (config.api.host, config.api.port, config.dashboard.port) == ("127.0.0.1", 8120, 8121)
    assert (config.database.dsn, config.database.layout, config.database.durability) == (None, "rows", "sync")


def test_the_place_of_a_tier_is_a_tablespace_or_a_directory() -> None:
    for text, place in ((TIERS, "slow"), (ON_MARIADB, "/mnt/slow")):
        assert [tier.place for tier in parse_config(text).tiers] == [None, place]


@pytest.mark.parametrize("place", ["payloads", "../x", "/data", "file:///data", "http://host/x", "https://[::1]:8/x"])
def test_payloads_are_in_a_folder_or_at_an_address(place: str) -> None:
    assert parse_config(f'{GROUP}[conditions]\npayloads = "{place}"').conditions.payloads == place


@pytest.mark.parametrize(
    "place", ["s3://bucket/x", "file://elsewhere/x", "file:x", "ftp://x/y", "http:///x", "http://[x"]
)
def test_payloads_at_another_address_are_refused(place: str) -> None:
    assert said(f'{GROUP}[conditions]\npayloads = "{place}"') == [
        f"conditions.payloads: payloads cannot be read from {place!r};"
        " give a folder, or an address like file:///data/payloads or https://host/payloads"
    ]


BUTTONS = """
[[groups]]
name = "bpm"
count = 3
channels = [{ name = "top_in" }, { name = "bot_in" }, { name = "bot_out" }, { name = "top_out" }]
"""
BY_TAG = '[conditions]\npayloads = "payloads"\ntag = "summer"\n'


def test_a_group_of_buttons_is_calibrated_as_bpm_or_as_it_says_by_the_tag() -> None:
    config = parse_config(BUTTONS + GROUP.replace('"bpm"', '"toroid"') + BY_TAG)
    assert [group.calibrated_as for group in config.groups] == ["bpm", None]
    assert [config.calibrated_by(name) for name in ("bpm", "toroid", "none")] == ["summer", None, None]
    own = parse_config(BUTTONS.replace("count", 'payload_type = "linac bpm"\ncount'))
    assert (own.groups[0].calibrated_as, own.calibrated_by("bpm"), own.conditions.by) == ("linac bpm", None, "trigger")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            GROUP.replace("count", 'payload_type = "bpm"\ncount'),
            "groups[0].payload_type: its channels are not the four buttons that are calibrated; take it out, or give"
            " the channels `top_in`, `bot_in`, `bot_out`, `top_out`, and neither x_mm nor y_mm",
        ),
        (
            BUTTONS.replace("count", 'payload_type = ""\ncount'),
            "groups[0].payload_type: '' is out of range; use 1 to 255 letters",
        ),
        (
            GROUP + BY_TAG,
            "conditions.tag: no group gives the four buttons that are calibrated; take it out, or give a group the"
            " channels `top_in`, `bot_in`, `bot_out`, `top_out`",
        ),
        (
            BUTTONS + '[conditions]\ntag = "summer"',
            "conditions.payloads: missing, and `tag` is given; name the folder or address that the payloads of"
            " calibrations are below, or take `tag` out",
        ),
        (BUTTONS + BY_TAG + 'by = "run"', "conditions.by: 'run' is not known here; use one of `trigger`, `time`"),
        (
            BUTTONS + '[[readers.workloads]]\nname = "w"\nkind = "orbit"',
            "readers.workloads[0].kind: there is nothing to calibrate by; set `tag` in [conditions], and read a group"
            " with the channels `top_in`, `bot_in`, `bot_out`, `top_out`",
        ),
    ],
)
def test_calibrations_that_nothing_can_be_made_of_are_one_line(text: str, line: str) -> None:
    assert said(text) == [line]


FOLDER = """
[[groups]]
name = "current"
instruments = ["Q1", "Q2"]
channels = [{ name = "ampere" }]
folder = "/magnets/current"
"""


def test_a_group_with_a_folder_reports_into_it_and_has_no_triggers() -> None:
    config = parse_config(FOLDER + GROUP)
    assert [section.group().folder for section in config.groups] == ["/magnets/current", None]
    assert [section.name for section in config.trigger_groups] == ["bpm"]
    assert parse_config(FOLDER).trigger_groups == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            FOLDER.replace("/magnets/c", "magnets/c"),
            "groups[0].folder: 'magnets/current' is no path; write /SET/FOLDER",
        ),
        (FOLDER.replace('"ampere"', '"since"'), "groups[0].channels[0].name: 'since' cannot be the name of a column;"),
        (
            FOLDER + 'layout = "rows"',
            "groups[0].layout: the group reports into `folder`, which has a layout of its own",
        ),
        (
            FOLDER + 'durability = "async"',
            "groups[0].durability: the group reports into `folder`, where every insertion",
        ),
        (
            FOLDER + 'payload_type = "bpm"',
            "groups[0].payload_type: the group reports into `folder`, which is not calib",
        ),
        (
            FOLDER + "decimation = {after_days = 90}",
            "groups[0].decimation: the group reports into `folder`, of which nothing is reduced; take it out",
        ),
        (
            FOLDER + "retention = {keep_days = 90}",
            "groups[0].retention: the group reports into `folder`, of which nothing is dropped; take it out",
        ),
        (FOLDER + FOLDER.replace('"current"', '"other"'), "groups[1].folder: groups[0] reports into /magnets/current,"),
        (
            FOLDER + GROUP + '[[readers.workloads]]\nname = "a"\nkind = "newest"\ngroup = "current"\n',
            "readers.workloads[0].group: group 'current' has no triggers to read; name a group without `folder`",
        ),
        (
            FOLDER + '[[readers.workloads]]\nname = "a"\nkind = "newest"\n',
            "readers.workloads[0]: no group has triggers to read; take it out, or add a group without `folder`",
        ),
    ],
)
def test_what_a_group_with_a_folder_cannot_have_is_one_line(text: str, line: str) -> None:
    (problem,) = said(text)
    assert problem.startswith(line)


def test_a_group_by_count_names_its_instruments() -> None:
    group = parse_config(GROUP).groups[0].group()
    assert group.instruments == ("bpm_000", "bpm_001", "bpm_002")
    wide = parse_config(GROUP.replace("count = 3", "count = 1001")).groups[0].group()
    assert (wide.instruments[0], wide.instruments[-1]) == ("bpm_0000", "bpm_1000")


def test_a_group_by_names_keeps_their_order() -> None:
    group = parse_config(GROUP.replace("count = 3", 'instruments = ["west", "east"]')).groups[0].group()
    assert group.instruments == ("west", "east")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("groups = []", "groups: an array of 0 is out of range; use at least 1"),
        ('loger = "a"' + GROUP, "loger: unknown key; did you mean `logger`?"),
        (
            "",
            'groups: missing; give it: The instrument groups, for example groups = [{ name = "bpm", count = 120,'
            ' channels = [{ name = "x", unit = "mm" }] }]',
        ),
        (
            GROUP + '[api]\nstate_dir = "/var/lib/beam"',
            "api.state_dir: it is a key of no section; write it at the top of the file, before the first section",
        ),
        (
            "groups = [{ name = 'bpm', count = 3, channels = ['x'] }]",
            "groups[0].channels[0]: 'x' is not a table; write it as { name = \"x\" }",
        ),
        (
            GROUP + '[dashboard]\ntime_zone = "CEST"',
            "dashboard.time_zone: 'CEST' is no time zone; give a place by its IANA name, such as `Europe/Berlin`",
        ),
        (
            GROUP.replace("unit", "untis"),
            "groups[0].channels[0].untis: unknown key; did you mean `unit`?",
        ),
        (
            GROUP.replace('unit = "mm"', 'dtype = "flaot64"'),
            "groups[0].channels[0].dtype: unknown dtype 'flaot64'; did you mean `float64`?",
        ),
        (
            GROUP.replace('unit = "mm"', 'dtype = "complex"'),
            "groups[0].channels[0].dtype: unknown dtype 'complex'; use one of `int8`, `uint8`, `int16`, `uint16`, "
            "`int32`, `uint32`, `int64`, `float32`, `float64`",
        ),
        (
            GROUP.replace('"x"', '"Top in"'),
            "groups[0].channels[0].name: 'Top in' cannot be used here; use 1 to 32 lower-case letters, digits and "
            "underscores, a letter first",
        ),
        (
            GROUP.replace('"x"', '"trigger"'),
            "groups[0].channels[0].name: 'trigger' is a column of every table; give the channel another name",
        ),
        (
            GROUP.replace('"x"', '"xmin"'),
            "groups[0].channels[0].name: 'xmin' is a column of every table; give the channel another name",
        ),
        (
            GROUP.replace('"bpm"', '"positions"'),
            "groups[0].name: 'positions' is a table of triggerlog's own; give the group another name",
        ),
        (
            GROUP.replace('"bpm"', '"bpm_ledger"'),
            "groups[0].name: the endings _ledger, _readings and _reduced are for tables that go with a group; give the "
            "group another name",
        ),
        (GROUP.replace("3", "3.0"), "groups[0].count: 3.0 is not a whole number; use a whole number"),
        (GROUP.replace("3", "true"), "groups[0].count: true is not a whole number; use a whole number"),
        (GROUP.replace("3", '"3"'), "groups[0].count: '3' is not a whole number; write it without quotes"),
        (GROUP.replace("3", "0"), "groups[0].count: 0 is out of range; use 1 to 32767"),
        (GROUP.replace("count = 3", ""), "groups[0].count: missing; give `count`, or the names of the `instruments`"),
        (
            GROUP.replace("count = 3", 'count = 3\ninstruments = ["a"]'),
            "groups[0].count: `instruments` is given too; give one of them, not both",
        ),
        (
            GROUP.replace("count = 3", 'instruments = ["a", "b", "a"]'),
            "groups[0].instruments[2]: instrument 'a' is named by instruments[0] already; give it another name",
        ),
        (
            GROUP.replace("count = 3", 'instruments = ["a", "b c"]'),
            "groups[0].instruments[1]: 'b c' cannot be used here; use 1 to 64 letters, digits and signs without a "
            "space",
        ),
        (GROUP * 2, "groups[1].name: group 'bpm' is named by groups[0].name already; give it another name"),
        (
            GROUP.replace("[[groups]]", "[groups]"),
            "groups: a table is not an array of tables; write [[groups]] for each",
        ),
        (GROUP + "[[database]]", "database: an array of 1 is not a table; write it as a table: [database]"),
        (GROUP + "[api]\nhost = 5", "api.host: 5 is not a text; write it in quotes"),
        (
            GROUP + '[api]\ntrusted_proxies = ["10.1.2.0/16"]',
            "api.trusted_proxies[0]: '10.1.2.0/16' is no network; write `10.1.0.0/16` for the whole network",
        ),
        (GROUP + "[api]\nport = 70000", "api.port: 70000 is out of range; use 0 to 65535"),
        (
            GROUP + "[dashboard]\nport = 8120",
            "dashboard.port: api.port is 8120 on 127.0.0.1 too; give each its own port",
        ),
        (
            GROUP + '[dashboard]\ntabs = ["a/orbit.py", "b/orbit.py"]',
            "dashboard.tabs[1]: another tab has the name 'orbit', too; give each file its own name",
        ),
        (
            GROUP + '[dashboard]\ntabs = ["reads.py"]',
            "dashboard.tabs[0]: the page has a tab 'reads' of its own; give the file another name",
        ),
        (
            GROUP + '[dashboard]\ntabs = ["orbit.toml"]',
            "dashboard.tabs[0]: 'orbit.toml' is no Python file; name one that ends in .py",
        ),
        (
            GROUP + '[dashboard]\ntabs = ["orbit.fft.py"]',
            "dashboard.tabs[0]: a tab cannot have the name 'orbit.fft'; name it with 1 to 32 letters, digits, `_` and "
            "`-`, a letter first",
        ),
        (
            GROUP.replace('"mm"', r'"m\u001bm"'),
            r"groups[0].channels[0].unit: 'm\x1bm' cannot be used here; use at most 32 letters, digits and signs, "
            "all in one line",
        ),
        (
            GROUP.replace('"mm"', r'"m\u0000m"'),
            "groups[0].channels[0].unit: the text has a NUL character; take it out",
        ),
        (
            GROUP.replace('"mm"', f'"{"m" * 33}"'),
            f"groups[0].channels[0].unit: '{'m' * 33}' is out of range; use at most 32 letters",
        ),
        (r'state_dir = "a\u0000b"' + GROUP, "state_dir: the text has a NUL character; take it out"),
        (
            GROUP + '[[sources]]\nkind = "udp"\nhost = "a..b"',
            "sources[0].host: 'a..b' is neither an address nor a name; give an address of this machine, such as "
            "127.0.0.1, or 0.0.0.0 for all",
        ),
        (
            GROUP + '[api]\nhost = ""',
            "api.host: '' is neither an address nor a name; give an address of this machine, such as 127.0.0.1, or "
            "0.0.0.0 for all",
        ),
        (GROUP.replace("3", "9" * 4000), f"groups[0].count: {'9' * 60} is out of range; use 1 to 32767"),
        ("groups = [1]", "groups[0]: 1 is not a table; write it as a table: [[groups]]"),
        (
            r'"wi\ndth\u001b[31m" = 1' + GROUP,
            r'"wi\ndth\u001b[31m": unknown key; use one of `logger`, `state_dir`, `groups`, `sources`, `database`, '
            "`assembly`, `committer`, `journal`, `retention`, `decimation`, `tiers`, `tiering`, `alarms`, `readers`, "
            "`visits`, "
            "`conditions`, `folders`, `api`, `dashboard`",
        ),
        (
            GROUP + "[retention]\nkeep_days = 1.5",
            "retention.keep_days: the 2 newest partitions always stay, and each holds a day; use at least 2, or a "
            "shorter `database.partition`",
        ),
        (
            GROUP + "retention = { keep_days = 1 }",
            "groups[0].retention.keep_days: the 2 newest partitions always stay, and each holds a day; use at least 2, "
            "or a shorter `database.partition`",
        ),
        (
            GROUP + '[retention]\nmin_free_percent = 10\n[database]\ndsn = "postgresql://a@b/c"',
            "retention.min_free_percent: nothing tells which disk `database.dsn` is on; name a folder of that disk in "
            "`retention.disk`, or use `max_gib` where it is on another node",
        ),
        (
            GROUP + '[retention]\ndisk = "/var"',
            "retention.disk: no limit needs it; set `min_free_percent`, or take it out",
        ),
        (
            GROUP + '[retention]\nmin_free_percent = 10\ndisk = "/var"\n[database]\ndsn = "mongodb://a/b"',
            "retention.min_free_percent: MongoDB's files stay as large when documents are removed: no drop would make "
            "its disk freer; use `max_gib`",
        ),
        (
            TIERS.replace("after_days = 30", ""),
            "tiers[1].after_days: nothing would move to this tier; set it, or `max_gib` of tier 'fast'",
        ),
        (
            TIERS + "max_gib = 9",
            "tiers[1].max_gib: there is no tier after it to move to; take it out, or set `max_gib` in [retention]",
        ),
        (
            TIERS.replace('name = "fast"', 'name = "fast"\nafter_days = 3'),
            "tiers[0].after_days: readings are written into the first tier; give it to the next tier",
        ),
        (
            TIERS + '[[tiers]]\nname = "tape"\ntablespace = "tape"\nafter_days = 30',
            "tiers[2].after_days: partitions move to a tier before after 30 days; give each tier more days than those "
            "before",
        ),
        (
            TIERS.replace('"slow"\nt', '"fast"\nt'),
            "tiers[1].name: tier 'fast' is named by tiers[0].name already; give it another name",
        ),
        (
            TIERS.replace('tablespace = "slow"', ""),
            "tiers[1].tablespace: tiers[0] is the same place; give each its own tablespace",
        ),
        (
            TIERS.replace('tablespace = "slow"', 'tablespace = "pg_default"'),
            "tiers[1].tablespace: 'pg_default' is the server's; leave it out: without it, it is the database's own "
            "tablespace",
        ),
        (
            TIERS.replace("after_days = 30", "after_days = 1"),
            "tiers[1].after_days: the 2 newest partitions always stay, and each holds a day; use at least 2, or a "
            "shorter `database.partition`",
        ),
        (
            TIERS + '[retention]\nmin_free_percent = 10\ndisk = "/var"',
            "retention.min_free_percent: nothing tells which tier lies on that disk; name it in `retention.disk_tier`: "
            "fast, slow",
        ),
        (
            TIERS + '[retention]\nmin_free_percent = 10\ndisk = "/var"\ndisk_tier = "tape"',
            "retention.disk_tier: there is no tier 'tape'; name one of fast, slow",
        ),
        (
            GROUP + '[retention]\nmin_free_percent = 10\ndisk = "/var"\ndisk_tier = "slow"',
            "retention.disk_tier: there is no tier 'slow'; take it out: there are no `[[tiers]]`",
        ),
        (
            GROUP + '[retention]\ndisk_tier = "slow"',
            "retention.disk_tier: no limit needs it; set `min_free_percent`, or take it out",
        ),
        (
            GROUP + '[[tiers]]\nname = "fast"',
            "tiers: there is one tier, and nothing to move to; add another, or take it out",
        ),
        (
            GROUP + '[tiering]\npolicy = "both"',
            "tiering.policy: there are no tiers; add `[[tiers]]`, or take it out",
        ),
        (
            TIERS + '[tiering]\npolicy = "both"',
            "tiers[0].max_gib: by policy 'both' what is read most lies here, and nothing says how much of it; set it, "
            "or use policy 'age'",
        ),
        (
            TIERS.replace('"fast"', '"fast"\nmax_gib = 9') + '[tiering]\npolicy = "access"',
            "tiers[1].after_days: policy 'access' moves nothing by its age; take it out, or use policy 'both'",
        ),
        (TIERS + "[tiering]\nhalf_life_days = 0", "tiering.half_life_days: 0 is out of range; use 0.01 to 365"),
        (
            TIERS + '[database]\ndsn = "mongodb://a/b"',
            "tiers: triggerlog has no tiers in MongoDB; name a PostgreSQL, MariaDB or MySQL in `database.dsn`, or do "
            "without",
        ),
        (
            TIERS + '[database]\ndsn = "mysql://a@b"',
            "tiers[1].tablespace: MariaDB and MySQL have directories; use `directory` instead",
        ),
        (
            TIERS.replace("tablespace", "directory").replace('"slow"\na', '"/slow"\na'),
            "tiers[1].directory: PostgreSQL has tablespaces; use `tablespace` instead",
        ),
        (
            ON_MARIADB.replace('name = "fast"', 'name = "fast"\ndirectory = "/mnt/fast"'),
            "tiers[0].directory: MariaDB makes new partitions in its own folder: REORGANIZE ignores DATA DIRECTORY; "
            "leave it out",
        ),
        (
            ON_MARIADB.replace('directory = "/mnt/slow"', ""),
            "tiers[1].directory: tiers[0] is the same place; give each its own directory",
        ),
        (
            ON_MARIADB.replace("/mnt/slow", "/mnt/slow/"),
            "tiers[1].directory: '/mnt/slow/' cannot be used here; use an absolute path of letters, digits, `_`, `.` "
            "and `-`, without `/` at its end",
        ),
        (
            GROUP + "[decimation]\nafter_days = 9",
            "decimation: nothing says what old readings become; set `bucket_s`, or `keep_every`",
        ),
        (
            GROUP + "[decimation]\nbucket_s = 60",
            "decimation: nothing says when readings are old; set `after_days`, or take it out",
        ),
        (
            GROUP + "decimation = { keep_every = 5 }",
            "groups[0].decimation: nothing says when readings are old; set `after_days`",
        ),
        (
            GROUP + "decimation = { after_days = 5 }",
            "groups[0].decimation: nothing says what old readings become; set `bucket_s`, or `keep_every`",
        ),
        (
            GROUP + "[decimation]\nafter_days = 9\nbucket_s = 60\nkeep_every = 5",
            "decimation.keep_every: `bucket_s` is given too; give one of them, not both",
        ),
        (
            GROUP + "[decimation]\nafter_days = 9\nbucket_s = 7",
            "decimation.bucket_s: 7 s do not divide a day; use one that 86,400 s are a multiple of, such as 1, 10 or "
            "60: each partition begins with a bucket",
        ),
        (
            GROUP + "[decimation]\nafter_days = 9\nbucket_s = 1e-10",
            "decimation.bucket_s: 1e-10 s do not divide a day; use one that 86,400 s are a multiple of, such as 1, 10 "
            "or 60: each partition begins with a bucket",
        ),
        (
            GROUP + '[decimation]\nafter_days = 9\nbucket_s = 3500\n[database]\npartition = "hour"',
            "decimation.bucket_s: 3500 s do not divide an hour; use one that 3,600 s are a multiple of, such as 1, 10 "
            "or 60: each partition begins with a bucket",
        ),
        (
            GROUP + "[decimation]\nafter_days = 1\nbucket_s = 60",
            "decimation.after_days: the 2 newest partitions always stay, and each holds a day; use at least 2, or a "
            "shorter `database.partition`",
        ),
        (
            GROUP + "[decimation]\nafter_days = 9\nbucket_s = 60\n[retention]\nkeep_days = 9",
            "decimation.after_days: readings of groups[0] are dropped after 9 days (`keep_days`), and never reduced; "
            "use fewer days than `keep_days`",
        ),
        (
            GROUP + "retention = { keep_days = 5 }\ndecimation = { after_days = 7, keep_every = 2 }",
            "groups[0].decimation.after_days: readings of groups[0] are dropped after 5 days (`keep_days`), "
            "and never reduced; use fewer days than `keep_days`",
        ),
        (GROUP + "[retention]\nkeep_days = -1", "retention.keep_days: -1 is out of range; use 0 to 100000"),
        (GROUP + "[assembly]\nwindow = 100", "assembly.window: 100 is not a power of two; use 64 or 128"),
        (
            GROUP + "[conditions]\nserve = true\nport = 8120",
            "conditions.port: api.port is 8120 on 127.0.0.1 too; give each its own port",
        ),
        (
            GROUP + '[conditions]\nschema = "triggerlog"',
            "conditions.schema: database.schema is 'triggerlog', too; give conditions a schema of their own",
        ),
        (
            GROUP + '[folders]\nschema = "triggerlog_conditions"',
            "folders.schema: conditions.schema is 'triggerlog_conditions', too; give folders a schema of their own",
        ),
        (GROUP + "[alarms]\nstale_s = inf", "alarms.stale_s: inf is not a finite number; use a number above 0"),
        (GROUP + "[alarms]\nstale_s = 0", "alarms.stale_s: 0 is out of range; use a number above 0"),
        (
            GROUP + "[committer]\nretry_most_ms = 10",
            "committer.retry_most_ms: shorter than the first pause, `retry_first_ms`; use at least 50",
        ),
        (GROUP + '[database]\nlayout = "row"', "database.layout: 'row' is not known here; did you mean `rows`?"),
        (
            GROUP + '[database]\ndsn = "oracle://host/db"',
            f"database.dsn: 'oracle' is not a database this version knows; {DSNS}",
        ),
        (GROUP + '[database]\ndsn = "/run/mysqld"', f"database.dsn: names no database server; {DSNS}"),
        (
            GROUP + '[database]\ndsn = "mariadb://logger@host:3306/beam"',
            "database.dsn: names the database 'beam'; take it out: in MySQL and MariaDB a schema is a database, and "
            "`schema` names it",
        ),
        (
            GROUP + '[database]\ndsn = "mysql://logger@host?unix_sokcet=/run/mysqld.sock"',
            "database.dsn: unknown option 'unix_sokcet'; did you mean `unix_socket`?",
        ),
        (
            GROUP + '[database]\ndsn = "mysql://logger@host:port"',
            f"database.dsn: its host and port cannot be read; {DSNS}; in a password write / as %2F and @ as %40",
        ),
        (
            GROUP + '[database]\npassword_env = "P"',
            "database.password_env: a password without a `dsn`; add the `dsn` it is for, or take it out: the embedded "
            "PostgreSQL has no password",
        ),
    ],
)
def test_one_wrong_setting_is_one_line(text: str, line: str) -> None:
    assert said(text) == [line]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("", "sources[0].kind: missing; use one of `tcp`, `udp`, `simulated`"),
        ('kind = "tpc"', "sources[0].kind: unknown kind 'tpc'; did you mean `tcp`?"),
        ('kind = "tcp"\nport = -1', "sources[0].port: -1 is out of range; use 0 to 65535"),
        ('kind = "udp"\nprot = 1', "sources[0].prot: unknown key; did you mean `port`?"),
        (
            'kind = "udp"\nudp = 1',
            "sources[0].udp: unknown key; use one of `kind`, `host`, `port`, `allow`, `receive_buffer_kib`",
        ),
        ('kind = "simulated"', "sources[0].group: missing; give it: The group to simulate"),
        ('kind = "simulated"\ngroup = "bmp"', "sources[0].group: there is no group 'bmp'; did you mean `bpm`?"),
    ],
)
def test_a_sources_kind_is_no_step_of_its_path(source: str, line: str) -> None:
    assert said(f"{GROUP}[[sources]]\n{source}") == [line]


def test_every_problem_is_told_at_once() -> None:
    wrong = GROUP.replace('"mm"', "5") + "[api]\nport = 70000\n[database]\nlayout = 'row'\n"
    assert [line.partition(":")[0] for line in said(wrong)] == [
        "groups[0].channels[0].unit",
        "database.layout",
        "api.port",
    ]


def test_two_listeners_may_share_a_port_where_their_protocols_differ() -> None:
    both = '[[sources]]\nkind = "tcp"\n[[sources]]\nkind = "udp"\n'
    assert len(parse_config(GROUP + both).sources) == 2
    twice = '[[sources]]\nkind = "tcp"\n[[sources]]\nkind = "tcp"\n'
    assert said(GROUP + twice) == ["sources[1].port: sources[0].port is 8122 on 127.0.0.1 too; give each its own port"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\nb = \n", "(line 2): not valid TOML: Invalid value; fix this line: b ="),
        ("a = 1\na = 2\n", "(line 2): not valid TOML: Cannot overwrite a value; fix this line: a = 2"),
        ("[groups", "(line 1): not valid TOML: "),
        ('a = "\x1b[31m"', r"(line 1): not valid TOML: Illegal character '\x1b'; fix this line: a = "),
    ],
)
def test_a_syntax_error_is_told_with_its_line(text: str, line: str) -> None:
    (only,) = said(text)
    assert only.startswith(line)
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"a = {'[' * 3000}{']' * 3000}",
            "(file): arrays or tables lie in each other too deeply; write them side by side",
        ),
        (f"a = 1\nb = {'9' * 5000}\n", "(line 2): a number has too many digits; write a smaller one"),
    ],
)
def test_what_no_parser_takes_is_told_in_one_line(text: str, line: str) -> None:
    assert said(text) == [line]


@pytest.mark.parametrize("host", ["localhost", "0.0.0.0", "::", "fe80::1%eth0", "crate-07.example.org.", "büro.local"])
def test_an_address_or_a_name_is_taken_as_host(host: str) -> None:
    assert parse_config(GROUP + f'[dashboard]\npassword_file = "p"\nhost = "{host}"').dashboard.host == host


@pytest.mark.parametrize(
    "text",
    [
        GROUP + '[database]\ndsn = "postgresql://logger:s3cret/x@host:5432/db"',
        GROUP + '[database]\ndsn = "mysql://logger:s3cret@host/db"',
        GROUP + '[database]\ndsn = "postgresql://logger:s3cret@host:port/db"',
        GROUP + '[database]\npassword = "s3cret"',
        GROUP + r'[database]\ndsn = "postgresql://logger:s3cret@host/d\u0000b"'.replace(r"\n", "\n"),
        GROUP + '[api]\nport = "postgresql://logger:s3cret@host/db"',
        GROUP + '[database]\ndsn = "postgresql://logger:s3cret@host/db',
        GROUP + '[database]\npassword = "s3cret',
        GROUP + '[database]\ndsn = ["postgresql://logger:s3cret@host/db"]',
    ],
)
def test_no_message_holds_a_password(text: str) -> None:
    assert "s3cret" not in "\n".join(said(text))


def test_a_password_in_the_file_is_told_where_it_belongs() -> None:
    assert said(GROUP + '[database]\npassword = "s3cret"') == [
        "database.password: unknown key; a password does not belong into this file: use `password_env` or "
        "`password_file`"
    ]


def test_many_instruments_are_checked_in_a_moment() -> None:
    names = ", ".join(f'"i{number}"' for number in range(32_767))
    assert parse_config(GROUP.replace("count = 3", f"instruments = [{names}]")).groups[0].group().size == 32_767


def test_decimation_of_a_group_is_its_own_where_it_differs() -> None:
    config = parse_config(
        GROUP
        + GROUP.replace('"bpm"', '"ict"')
        + "decimation = { keep_every = 5, window_s = 0 }\n"
        + GROUP.replace('"bpm"', '"blm"')
        + "decimation = { after_days = 0 }\n"
        + "[decimation]\nafter_days = 2.5\nbucket_s = 0.1\n"
    )
    found = [decimation_of(config.decimation, group.decimation) for group in config.groups]
    day_ns = 86_400_000_000_000
    assert found == [
        Reduction(after_ns=5 * day_ns // 2, how=Bucket(100_000_000), window_ns=60_000_000_000),
        Reduction(after_ns=5 * day_ns // 2, how=Every(5), window_ns=0),
        None,
    ]
