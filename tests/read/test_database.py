"""A query can read the run, and do nothing else."""

import threading

import pytest
from numpy.testing import assert_array_equal

import gradwatch
from gradwatch.read import QueryError
from tests.store.recorded import Recorder

secret = {"password": ["hunter2"]}  # A global that a replacement scan would find.


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    for name in ("mine", "other"):
        Recorder(place / name).write(range(1, 20)).close()
    (place / "secret.csv").write_text("a,b\n1,2\n")
    return place


@pytest.fixture
def run(places):
    with gradwatch.open(places / "mine") as run:
        yield run


def files(places):
    return {path: path.read_bytes() for path in places.rglob("*") if path.is_file()}


ATTACKS = [
    "select * from read_csv('{secret}')",
    "select * from '{secret}'",
    "select * from read_text('{secret}')",
    "select * from read_blob('/etc/passwd')",
    "select * from glob('/etc/*')",
    "select * from sniff_csv('{secret}')",
    "select * from read_parquet('{other}')",
    "select * from '{other}'",
    "select * from read_text('{other}')",
    "select * from parquet_metadata('{other}')",
    "select * from read_parquet('{folder}/*.parquet')",
    "select * from read_parquet('http://localhost:1/x.parquet')",
    "select * from read_parquet('s3://bucket/x.parquet')",
    "select * from secret",
    "select getenv('HOME')",
    "select * from duckdb_secrets()",
    "select 1 where exists (select * from (from query('from duckdb_secrets()')))",
    "from which_secret('s3://bucket/x', 's3')",
    "copy (select 1) to '{new}'",
    "copy (select 1 as x) to '{mine}' (format parquet, use_tmp_file false)",
    "copy summaries to '{mine}'",
    "with x as (copy (select 1 as x) to '{new}') from x",
    "with x as (copy (select 1 as x) to '{mine}' (format parquet, use_tmp_file false)) from x",
    "with x as (copy (select 1 as x) to '{mine}' (format parquet, use_tmp_file false)) select 1",
    "from query('with x as (copy (select 1 as x) to ''{mine}'') from x')",
    "with x as (delete from sites returning *) from x",
    "with x as (insert into sites values (99, 'a', 'b', 'c') returning *) from x",
    "with x as (update sites set path = 'z' returning *) from x",
    "select 1) ; copy (select 1) to '{new}'; select * from (select 1",
    "select 1; select 2",
    "attach '{new}'",
    "attach '{other}' as other",
    "install httpfs",
    "load httpfs",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "reset lock_configuration",
    "set threads = 1",
    "pragma enable_profiling",
    "call force_checkpoint()",
    "export database '{new}'",
    "create table mine (a int)",
    "create or replace view summaries as select 1",
    "create macro f() as 1",
    "drop view summaries",
    "delete from sites",
    "insert into sites values (99, 'a', 'b', 'c')",
    "update sites set path = 'z'",
    "alter table sites rename to s",
    "begin",
    "vacuum",
    "explain analyze select 1",
    "prepare p as select 1",
    "execute p",
    "use other",
    "",
    ";",
    "-- nothing",
    "select * from nowhere",
    "selec 1",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_query_reads_nothing_else_and_writes_nothing(run, places, attack):
    mine, other = (next((places / name / "segments").iterdir()) for name in ("mine", "other"))
    query = attack.format(
        secret=places / "secret.csv", mine=mine, other=other, folder=mine.parent, new=places / "new"
    )
    before = files(places)
    sites = run.sql("select * from sites").fetchall()
    with pytest.raises(QueryError):
        run.sql(query).fetchall()
    assert files(places) == before
    assert run.sql("select * from sites").fetchall() == sites
    assert run.sql("select count(*) from summaries").fetchall() == [(run.rows,)]


def test_a_local_variable_is_not_a_table(run):
    table_ = {"a": [1, 2, 3]}
    with pytest.raises(QueryError, match="Table with name table_ does not exist"):
        run.sql("select * from table_")
    assert table_


def test_errors_say_what_is_wrong_with_the_query(run):
    with pytest.raises(QueryError, match=r"pathh[\s\S]*not found"):
        run.sql("select pathh from summaries")
    with pytest.raises(QueryError, match="one SELECT statement"):
        run.sql("drop table sites")


@pytest.mark.parametrize(
    "query",
    [
        "from summaries limit 1",
        "with a as (select * from sites) select count(*) from a;",
        "select 1 -- that is all",
        "describe summaries",
        "values (1), (2)",
        "select path, max(l2) from summaries group by path order by 2 desc",
        "select s.path from sites s join attempts a on true",
        "select 'copy; delete' as words",
    ],
)
def test_ordinary_questions_are_answered(run, query):
    assert len(run.sql(query).fetchall()) >= 1


def test_the_order_that_a_query_asks_for_is_kept(run):
    steps = [s for (s,) in run.sql("select distinct step from summaries order by step desc")]
    assert steps == list(range(19, 0, -1))


def test_parameters_are_values_and_not_sql(run):
    words = "x' or 'a' = 'a"
    assert run.sql("select * from sites where path = ?", [words]).fetchall() == []
    assert run.sql("select ?", [words]).fetchall() == [(words,)]


def test_a_result_shows_itself_without_the_escapes_that_are_in_it(run):
    shown = repr(
        run.sql("select chr(27) || '[31m' as a, 0.1234567891::double as b, range c from range(30)")
    )
    assert "\x1b" not in shown
    assert shown.splitlines()[1].split() == ["\\x1b[31m", "0.123457", "0"]
    assert shown.splitlines()[-2:] == ["...", "(30 rows)"]
    assert run.sql("select 1 as a").columns == ["a"]


def test_several_threads_ask_at_once_while_the_run_grows(tmp_path):
    recorder = Recorder(tmp_path, rows_a_journal=60).write([1])
    run = gradwatch.open(tmp_path)
    faults, stop = [], threading.Event()

    def ask():
        seen = 0
        try:
            while not stop.is_set():
                rows = run.sql("select count(*) from summaries").fetchall()[0][0]
                steps, _ = run.series("gradient", "net/conv1/kernel")
                run.heatmap("gradient", max_cells=50)
                assert rows >= seen
                assert_array_equal(steps, range(1, len(steps) + 1))
                seen = rows
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for step in range(2, 25):
        recorder.write([step])
        run.refresh()
    stop.set()
    for thread in threads:
        thread.join()
    recorder.close()
    assert not faults, faults
    run.refresh()
    assert run.last_step == 24


def test_a_path_with_quotes_does_not_escape_from_the_query(tmp_path):
    place = tmp_path / 'it\'s "a" run; drop table sites --'
    Recorder(place).write([1, 2]).close()
    run = gradwatch.open(place)
    assert run.last_step == 2
    assert list(tmp_path.iterdir()) == [place]
