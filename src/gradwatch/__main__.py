"""`python -m gradwatch` is the command `gradwatch`."""

from gradwatch.cli.main import main

if __name__ == "__main__":
    main(prog_name="gradwatch")
