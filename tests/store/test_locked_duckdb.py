"""A process may fork at any moment, also while a background thread imports DuckDB."""


def test_a_fork_waits_until_duckdb_is_imported(run_script):
    code = """
        import os, sys, threading, time
        from gradwatch.store.locked_duckdb import duckdb

        is_under_way = threading.Event()

        class Slow:
            def find_spec(self, name, path=None, target=None):
                if name in ("_duckdb", "duckdb.duckdb"):  # In old versions.
                    is_under_way.set()
                    time.sleep(0.5)

        sys.meta_path.insert(0, Slow())
        importing = threading.Thread(target=duckdb)
        importing.start()
        assert is_under_way.wait(60)
        child = os.fork()
        if child == 0:
            is_whole = hasattr(sys.modules.get("duckdb"), "connect")
            is_usable = duckdb() is sys.modules["duckdb"]
            sys.exit(7 if is_whole and is_usable else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        importing.join()
        again = os.fork()
        if again == 0:
            sys.exit(8)
        assert os.waitstatus_to_exitcode(os.waitpid(again, 0)[1]) == 8
    """
    done = run_script(code)
    assert done.returncode == 0, done.stderr
