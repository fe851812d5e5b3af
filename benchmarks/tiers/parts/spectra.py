"""Mass spectra by their spectral contrast angle: computed for all, after the number of peaks, and after their range.

The blog's aside ("Finding mass spectra with PostgreSQL: Indexing"). Its function is given the peaks that are looked for
as JSON, and looks up those of a spectrum by its number. Where both have the same peaks (m/z), the angle is that between
the intensities, and 1 where these are proportional.
"""

import time
from collections.abc import Iterator

import psycopg

from benchmarks.rounds.rounds import begin, print_line
from benchmarks.tiers.plan import FILTER, PEAKS, RANGE, Plan, Searched
from benchmarks.tiers.tiered import TieredServer

CACHE_MIB = 256
HITS = 71
"""Spectra that are alike the one that is looked for, as in the blog."""
TWO_PEAKS = 0.043
"""Part of the spectra with two peaks: in the blog that index made it 23 times as fast."""
WANTED = ((144.1150218, 0.908209840784744), (145.118459841064, 0.0841924148716925))
"""The peaks that are looked for: m/z and intensity."""
ROUNDS = {FILTER: 1, PEAKS: 3, RANGE: 9}
MAKE = """
    CREATE TABLE {s}.spectrum (id int PRIMARY KEY, num_peaks int NOT NULL, mzrange numrange);
    CREATE TABLE {s}.peak (spectrum int NOT NULL, mz numeric NOT NULL, intensity float8 NOT NULL);
    SELECT setseed(0.5);
    INSERT INTO {s}.spectrum (id, num_peaks)
        SELECT n, CASE WHEN n <= {hits} OR random() < {two} THEN 2 ELSE 3 + floor(15 * random())::int END
        FROM generate_series(1, {spectra}) AS n;
    INSERT INTO {s}.peak
        SELECT id, round((50 + 950 * random())::numeric, 7), random()
        FROM {s}.spectrum, generate_series(1, num_peaks) WHERE id > {hits};
    INSERT INTO {s}.peak
        SELECT id, mz, intensity * (1 + id) FROM {s}.spectrum, (VALUES {wanted}) AS peaks (mz, intensity)
        WHERE id <= {hits};
    CREATE INDEX ON {s}.peak (spectrum);
    UPDATE {s}.spectrum SET mzrange = ends.mzrange
        FROM (SELECT spectrum, numrange(min(mz), max(mz), '[]') AS mzrange FROM {s}.peak GROUP BY spectrum) AS ends
        WHERE id = spectrum;
    CREATE INDEX ON {s}.spectrum (num_peaks);
    CREATE INDEX ON {s}.spectrum USING gist (mzrange);
    CREATE FUNCTION {s}.spectral_contrast(wanted json, number int) RETURNS float8 LANGUAGE plpgsql STABLE AS $$
    DECLARE
        angle float8;
    BEGIN
        WITH a AS (SELECT mz, intensity FROM json_to_recordset(wanted) AS peaks (mz numeric, intensity float8)),
             b AS (SELECT mz, intensity FROM {s}.peak WHERE spectrum = number)
        SELECT CASE WHEN count(*) = (SELECT count(*) FROM a) AND count(*) = (SELECT count(*) FROM b)
               THEN sum(a.intensity * b.intensity) / sqrt(sum(a.intensity ^ 2) * sum(b.intensity ^ 2)) ELSE 0 END
        INTO angle FROM a JOIN b USING (mz);
        RETURN angle;
    END $$;
"""
VACUUM = ("VACUUM (ANALYZE) {s}.spectrum", "VACUUM (ANALYZE) {s}.peak")
SEARCH = """
    SELECT id FROM (
        SELECT id, round({s}.spectral_contrast('{wanted}'::json, id)::numeric, 2) AS angle
        FROM {s}.spectrum WHERE {where}
    ) AS searched WHERE angle = 1.0
"""
MZ = [mz for mz, _ in WANTED]
WHERE = {
    FILTER: "true",
    PEAKS: f"num_peaks = {len(WANTED)}",
    RANGE: f"mzrange = numrange({min(MZ)}, {max(MZ)}, '[]')",
}


class WrongHits(Exception):
    """A search does not find what is there."""


def spectra(found: TieredServer, plan: Plan) -> Iterator[Searched]:
    """All searches, the fastest last.

    Raises:
        WrongHits: one of them finds something else.
    """
    schema = found.server.new_name()
    begin("tiers", f"spectra, {plan.spectra:,} are generated")
    peaks = ", ".join(f"({mz}::numeric, {intensity})" for mz, intensity in WANTED)
    with psycopg.connect(found.server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        made = MAKE.format(s=schema, hits=HITS, two=TWO_PEAKS, spectra=plan.spectra, wanted=peaks)
        connection.execute(made.encode())
        for statement in VACUUM:
            connection.execute(statement.format(s=schema).encode())
        for way, where in WHERE.items():
            begin("tiers", f"spectra, {way}")
            yield _searched(connection, schema, way, where, plan)
    found.server.drop(schema)


def _searched(connection: psycopg.Connection, schema: str, way: str, where: str, plan: Plan) -> Searched:
    wanted = ", ".join(f'{{"mz": {mz}, "intensity": {intensity}}}' for mz, intensity in WANTED)
    text = SEARCH.format(s=schema, wanted=f"[{wanted}]", where=where).encode()
    seconds = []
    for _ in range(ROUNDS[way]):
        begun = time.perf_counter()
        hits = len(connection.execute(text).fetchall())
        seconds.append(time.perf_counter() - begun)
        if hits != HITS:
            raise WrongHits(f"{way} finds {hits} spectra, and there are {HITS}")
    print_line(f"  {way}: {1e3 * min(seconds):,.1f} ms, {HITS} hits")
    return Searched(way=way, spectra=plan.spectra, hits=HITS, seconds=tuple(seconds))
